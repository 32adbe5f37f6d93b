"""Golden sets written as YAML: whatever the values, they are read back as they were, by goldspan and by others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from goldspan.collector_processor.golden_tools.writing import WIDTH, yaml_text
from goldspan.scoring.goldens import load_goldens
from goldspan.scoring.goldens.documents import MistakeCollector, read_yaml

TRAPS = [
    *("2026-12-01", "2026-12-01T19:30:00Z", "NO", "no", "y", "on", "Off", "012", "0o14", "0x1F", "12:30", "1:30:00"),
    *("1e3", "1_000", "~", "null", "Null", "", " ", "true", "3", "-3", "+3", "3.14", ".5", ".inf", "nan", "NaN", "="),
    *("- a", "a: b", "a #b", "#", "a,b", "[a]", "{a}", "&a", "*a", "!a", "|", ">", "%a", "@a", "`a`", "'", '"', "\\"),
    *("<<", "? a", "a:", ":a", "---", "...", "a\tb", "\t", "a\n", "\na", "a\nb", "a\nb\n", "a\n\n\nb", "a\nb\n\n"),
    *(" a\nb", "a \nb", "a\n b", "a\n# b\nc", "a\r\nb", "a\n---\nb", "\x00", "\x7f", "\x85", "\u2028", "\ufeff", "é"),
    *("Chez Léa", "日本語", "😀", "a\u00a0b", "\ud83d", "\U000e0001", "9" * 400, "x" * 3000, "key" * 500, "$regex"),
    *("1e10", "deadbeef", "12345678901234567890", "1.2.3", "0b11", "+1 555 0100", "a  b", "None", "infinity", "@x"),
]
NUMBERS = [0, -1, 10**18, 10**30, 0.1, -0.0, 1e16, 1e-7, 1.5e300, 5e-324, 1.0, True, False, None]


def as_golden_set(args: dict[str, Any]) -> dict[str, Any]:
    return {"golden_set": "x", "goldens": [{"session": "s", "calls": [{"name": "f", "args": args}]}]}


def read(text: str) -> Any:
    notes = MistakeCollector("written.yaml")
    document = read_yaml(text.encode("utf-8").decode("utf-8"), notes)
    assert notes.mistakes == []
    return document


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and repr(one) == repr(other)


@pytest.mark.parametrize("value", [*TRAPS, *NUMBERS], ids=lambda value: ascii(value)[:30])
def test_a_trap_is_read_as_it_was(value: object) -> None:
    args: dict[str, Any] = {"plain": value, "list": [value, {"in": value}], "deep": {"er": {"est": [value]}}}
    if isinstance(value, str):
        args[value] = {value: value}
    document = as_golden_set(args)
    assert same(read(yaml_text(document)), document)


TEXT = st.text() | st.sampled_from(TRAPS) | st.text("ab \n#:-'\"0", max_size=12)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=20
)


@given(args=st.dictionaries(TEXT, VALUES, max_size=6))
def test_any_arguments_are_read_as_they_were(args: dict[str, Any]) -> None:
    document = as_golden_set(args)
    assert same(read(yaml_text(document)), document)


@given(text=TEXT.filter(lambda text: not any("\ud800" <= character <= "\udfff" for character in text)))
@pytest.mark.parametrize("version", [(1, 1), (1, 2)])
def test_text_is_text_for_readers_of_either_version(version: tuple[int, int], text: str) -> None:
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.version = version
    written = yaml_text({"args": {"a": text, "b": [text]}})
    assert yaml.load(written) == {"args": {"a": text, "b": [text]}}


def test_it_looks_as_people_write_it() -> None:
    document = {
        "golden_set": "weather-agent",
        "version": "3",
        "goldens": [
            {
                "session": "sess-1",
                "turns": [
                    {
                        "user": "Weather in Paris?",
                        "calls": [
                            {"name": "get_weather", "args": {"city": "Paris", "days": 3}},
                            {"parallel": [{"name": "a", "args": {"when": "2026-12-01"}}, {"name": "b"}]},
                        ],
                    },
                    {"user": "Thanks"},
                ],
            },
            {"session": "sess-2", "calls": [{"name": "write", "args": {"text": "one\ntwo\n", "to": "NO"}}]},
        ],
    }
    comments = {("goldens", 0, "turns", 0, "calls", 0): ["checked by hand"]}
    assert (
        yaml_text(document, comments, ["A set."])
        == """\
# A set.
golden_set: weather-agent
version: "3"
goldens:
  - session: sess-1
    turns:
      - user: "Weather in Paris?"
        calls:
          # checked by hand
          - {name: get_weather, args: {city: Paris, days: 3}}
          - parallel:
              - {name: a, args: {when: "2026-12-01"}}
              - {name: b}
      - {user: Thanks}

  - session: sess-2
    calls:
      - name: write
        args:
          text: |
            one
            two
          to: "NO"
"""
    )


def test_long_calls_are_broken_into_lines() -> None:
    text = yaml_text(as_golden_set({f"argument_{number}": "value " * 3 for number in range(8)}))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "        args:\n          argument_0: " in text


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    path: Path = tmp_path_factory.mktemp("written") / "goldens.yaml"

    def load(text: str) -> Any:
        path.write_text(text, "utf-8")
        return load_goldens(path).goldens[0].calls

    return load


def test_a_set_loads(loaded: Callable[[str], Any]) -> None:
    args = {trap: trap for trap in TRAPS if "$" not in trap}
    assert loaded(yaml_text(as_golden_set(args)))[0].args == args
