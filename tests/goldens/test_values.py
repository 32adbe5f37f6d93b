"""What a value in a golden file means: JSON's types and no others, in YAML and in JSON."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from goldspan.scoring.errors import GoldenFileError
from goldspan.scoring.goldens import load_goldens

YAML_VALUES = {
    "a date": ("2026-12-01", "2026-12-01"),
    "a time": ("2026-12-01T19:30:00Z", "2026-12-01T19:30:00Z"),
    "hours and minutes": ("12:30", "12:30"),
    "sixty": ("1:30:00", "1:30:00"),
    "Norway": ("NO", "NO"),
    "no": ("no", "no"),
    "yes": ("yes", "yes"),
    "on": ("on", "on"),
    "off": ("Off", "Off"),
    "y": ("y", "y"),
    "true": ("true", True),
    "False": ("False", False),
    "null": ("null", None),
    "tilde": ("~", None),
    "nothing": ("", None),
    "integer": ("-3", -3),
    "plus": ("+3", 3),
    "leading zero": ("012", 12),
    "octal": ("0o14", 12),
    "hexadecimal": ("0x1F", 31),
    "binary of YAML 1.1": ("0b11", "0b11"),
    "underscores": ("1_000", "1_000"),
    "float": ("1.50", 1.5),
    "exponent": ("1e3", 1000.0),
    "dots": ("1.2.3", "1.2.3"),
    "point first": (".5", 0.5),
    "a plain point": (".", "."),
    "value key": ("=", "="),
    "quoted number": ("'3'", "3"),
    "quoted null": ('"null"', "null"),
    "quoted merge key": ('{"<<": 1}', {"<<": 1}),
    "block": ("|\n          two\n          lines\n", "two\nlines\n"),
    "flow over lines": ("[1,\n          2]", [1, 2]),
    "two escapes of one character": (r'"\ud83d\ude00"', "😀"),
    "dollar inside a key": ("{a$: 1, b: 2}", {"a$": 1, "b": 2}),
    "dollar text": ("$any_of", "$any_of"),
}


@pytest.fixture(scope="module")
def args_in(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Any]:
    folder = tmp_path_factory.mktemp("goldens")

    def read(name: str, text: str) -> Any:
        (folder / name).write_text(text, "utf-8")
        [golden] = load_goldens(folder / name).goldens
        assert golden.calls is not None
        return golden.calls[0].args

    return read


@pytest.mark.parametrize(("text", "value"), YAML_VALUES.values(), ids=YAML_VALUES)
def test_yaml_means_what_its_core_schema_says(args_in: Callable[[str, str], Any], text: str, value: object) -> None:
    document = f"""\
golden_set: x
goldens:
  - session: s
    calls:
      - name: f
        args:
         a: {text}
"""
    found = args_in("goldens.yaml", document)["a"]
    assert found == value
    assert type(found) is type(value)


def test_names_of_arguments_are_text_as_written(args_in: Callable[[str, str], Any]) -> None:
    text = "golden_set: x\ngoldens: [{session: s, calls: [{name: f, args: {no: 1, on: 2, 1_0: 3, $filter: 4}}]}]"
    assert args_in("goldens.yaml", text) == {"no": 1, "on": 2, "1_0": 3, "$filter": 4}


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_a_byte_order_mark_is_no_content(args_in: Callable[[str, str], Any], suffix: str) -> None:
    document = {"golden_set": "x", "goldens": [{"session": "s", "calls": [{"name": "f", "args": {"é": 1}}]}]}
    assert args_in(f"marked.{suffix}", "\ufeff" + json.dumps(document, ensure_ascii=False)) == {"é": 1}


def test_aliases_repeat_what_they_name(args_in: Callable[[str, str], Any]) -> None:
    text = "golden_set: x\ngoldens: [{session: s, calls: [{name: f, args: {a: &p {x: [1]}, b: *p}}]}]"
    assert args_in("goldens.yaml", text) == {"a": {"x": [1]}, "b": {"x": [1]}}


def no_matcher(value: dict[str, Any]) -> bool:
    return not any(key.startswith("$") for key in value)


CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\x85\u2028\u2029")
TEXT = st.text(CHARACTERS)
KEYS = st.text(CHARACTERS, max_size=60)  # YAML takes no more than 1024 characters, escapes counted, for a key
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4).filter(no_matcher),
    max_leaves=12,
)
ARGUMENTS = st.dictionaries(KEYS, VALUES, max_size=5)


def in_yaml(document: object) -> str:
    stream = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = 1_000_000  # the emitter breaks long keys into lines that no parser takes for keys
    yaml.dump(document, stream)
    return stream.getvalue()


@given(args=ARGUMENTS)
def test_any_arguments_survive_being_written_and_read(args_in: Callable[[str, str], Any], args: dict[str, Any]) -> None:
    document = {"golden_set": "x", "goldens": [{"session": "s", "calls": [{"name": "f", "args": args}]}]}
    for name, text in (
        ("ascii.json", json.dumps(document)),
        ("lines.json", json.dumps(document, indent=1, ensure_ascii=False)),
        ("json.yaml", json.dumps(document)),
        ("goldens.yaml", in_yaml(document)),
    ):
        found = args_in(name, text)
        # Compared as text: in Python 1, 1.0 and true are equal.
        assert json.dumps(found, sort_keys=True) == json.dumps(args, sort_keys=True), name


@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029"])
def test_line_breaks_of_old_yaml_are_never_changed(args_in: Callable[[str, str], Any], character: str) -> None:
    document = {"golden_set": "x", "goldens": [{"session": "s", "calls": [{"name": "f", "args": {"a": character}}]}]}
    assert args_in("escaped.yaml", json.dumps(document)) == {"a": character}
    assert args_in("raw.json", json.dumps(document, ensure_ascii=False)) == {"a": character}
    with pytest.raises(GoldenFileError, match=f"found the character U.{ord(character):04X}.* write"):
        args_in("raw.yaml", json.dumps(document, ensure_ascii=False))


def test_the_digest_tells_content_from_formatting(tmp_path: Path) -> None:
    document = {"golden_set": "x", "goldens": [{"session": "s", "calls": [{"name": "f", "args": {"a": 1, "b": 2}}]}]}
    backwards = {"goldens": [{"calls": [{"args": {"b": 2, "a": 1}, "name": "f"}], "session": "s"}], "golden_set": "x"}
    (tmp_path / "a.json").write_text(json.dumps(document, indent=3), "utf-8")
    (tmp_path / "a.yaml").write_text("# a comment\n" + in_yaml(backwards), "utf-8")
    digests = {load_goldens(source).sets[0].digest for source in (document, tmp_path / "a.json", tmp_path / "a.yaml")}
    assert len(digests) == 1
    assert len(digests.pop()) == 16
    changed = json.loads(json.dumps(document).replace("2", "3"))
    assert load_goldens(changed).sets[0].digest != load_goldens(document).sets[0].digest
    [golden] = load_goldens(document).goldens
    assert golden.digest == load_goldens(document).sets[0].digest


def test_no_yaml_is_imported_before_a_file_is_read() -> None:
    code = "import sys, goldspan.scoring.goldens as g; g.load_goldens({'golden_set': 'x', 'goldens': []}); "
    found = subprocess.run(
        [sys.executable, "-c", code + "print(sorted(m for m in sys.modules if m.startswith(('ruamel', 'yaml'))))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "[]"
