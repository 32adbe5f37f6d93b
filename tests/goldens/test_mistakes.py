"""Golden files with mistakes: each is named with its line, its field and what to do, and all of them at once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring.errors import GoldenFileError, Mistake
from goldspan.scoring.goldens import load_goldens

GOOD = """\
format: 1
golden_set: weather
version: "3"
criterion: {threshold: 0.8}
goldens:
  - session: s-1
    turns:
      - user: Hello
        calls:
          - name: get_weather
            args:
              city: Paris
              days: 3
  - session: s-2
    calls: []
"""


def mistakes_in(path: Path, text: str) -> list[Mistake]:
    path.write_text(text, "utf-8")
    with pytest.raises(GoldenFileError) as caught:
        load_goldens(path)
    return list(caught.value.mistakes)


def test_the_text_the_mistakes_are_made_in_is_right(tmp_path: Path) -> None:
    (path := tmp_path / "goldens.yaml").write_text(GOOD, "utf-8")
    assert [golden.key for golden in load_goldens(path).goldens] == ["s-1", "s-2"]


G0, T0 = "goldens[0]", "goldens[0].turns[0]"
C0 = f"{T0}.calls[0]"
ONE_MISTAKE = {
    "unknown field of a set": ("version:", "verzion:", 3, "verzion", "did you mean `version`?"),
    "unknown field like no other": ("version:", "zzz:", 3, "zzz", "a golden set has format, golden_set, version"),
    "camelCase": ("golden_set:", "goldenSet:", 2, "goldenSet", "did you mean `golden_set`?"),
    "misspelled needed field": ("- name:", "- nane:", 10, f"{C0}.nane", "did you mean `name`?"),
    "misspelled choice": ("    turns:", "    turn:", 7, f"{G0}.turn", "did you mean `turns`?"),
    "no name": ("golden_set: weather\n", "", 1, "", "`golden_set` is missing"),
    "number for text": ('"3"', "1.10", 3, "version", "found 1.1, expected text: put it in quotes"),
    "null for text": ('"3"', "", 3, "version", "found null, expected text"),
    "blank text": ("session: s-1", 'session: " "', 6, f"{G0}.session", "expected text that is not blank"),
    "another format": ("format: 1", "format: 2", 1, "format", "found 2, expected 1: a newer goldspan"),
    "format as text": ("format: 1", 'format: "1"', 1, "format", 'found "1", expected 1'),
    "format as a truth": ("format: 1", "format: true", 1, "format", "found true, expected 1"),
    "object for a list": (
        "    calls: []",
        "    calls: {}",
        15,
        "goldens[1].calls",
        "expected a list of calls",
    ),
    "text for an object": ("  - session: s-1", "  - s-0\n  - session: s-1", 6, G0, 'found "s-0", expected a golden'),
    "turns and calls": ("    turns:", "    calls: []\n    turns:", 6, G0, "found both `turns` and `calls`"),
    "neither turns nor calls": (
        "    calls: []\n",
        "",
        14,
        "goldens[1]",
        "`turns` or `calls` or `any_of`, and none of them is there",
    ),
    "two keys": (
        "session: s-2",
        "session: s-2\n    session_pattern: s-*",
        14,
        "goldens[1]",
        "found both `session`",
    ),
    "no key": ("  - session: s-2\n    calls", "  - calls", 14, "goldens[1]", "a golden has `session` or"),
    "nameless call": ("- name: get_weather\n            args", "- args", 10, C0, "`name` is missing: the tool's name"),
    "arguments as a list": (
        "args:\n              city: Paris\n              days: 3",
        "args: [Paris]",
        11,
        f"{C0}.args",
        'found ["Paris"], expected an object of arguments by name',
    ),
    "args and arguments": (
        "- name: get_weather",
        "- name: get_weather\n            arguments: {}",
        10,
        C0,
        "found both `args` and `arguments`",
    ),
    "matcher in arguments": (
        "args:\n              city: Paris",
        "arguments:\n              city: {$any_of: a}",
        12,
        f'{C0}.arguments.city["$any_of"]',
        "expected a list",
    ),
    "no arguments given": ("\n              city: Paris\n              days: 3", "", 11, f"{C0}.args", "found null"),
    "not a number": ("days: 3", "days: .nan", 13, f"{C0}.args.days", "expected a JSON value: quote it if it is text"),
    "infinite": ("days: 3", "days: [1, 1e999]", 13, f"{C0}.args.days[1]", "found"),
    "matcher": ("city: Paris", "city: {$any_of: a}", 12, f'{C0}.args.city["$any_of"]', "expected a list"),
    "matcher deep inside": (
        "days: 3",
        "days: [{a: {$x: 1}}]",
        13,
        f'{C0}.args.days[0].a["$x"]',
        "unknown matcher",
    ),
    "duplicate key": ("days: 3", "city: Nice", 13, f"{C0}.args.city", "appears twice in one object (first on line 12)"),
    "key that is a number": ("days: 3", "3: 1", 13, f"{C0}.args", "found the key 3, expected text: put it in quotes"),
    "key that is null": ("days: 3", "~: 1", 13, f"{C0}.args", "found the key null"),
    "key that is a list": ("days: 3", "? [a]\n              : 1", 13, f"{C0}.args", 'found the key ["a"]'),
    "merge key": ("days: 3", "<<: {a: 1}", 13, f"{C0}.args", "YAML 1.2 does not have: write the fields out"),
    "tag": ("city: Paris", "city: !!python/name:x Paris", 12, f"{C0}.args.city", "found the tag"),
    "core tag": ("days: 3", "days: !!str 3", 13, f"{C0}.args.days", "leave it out; quote what is text"),
    "unknown alias": ("days: 3", "days: *x", 13, f"{C0}.args.days", "the alias *x names no anchor above"),
    "alias of itself": (
        "days: 3",
        "days: &x [*x]",
        13,
        f"{C0}.args.days[0]",
        "the alias *x is inside the value it",
    ),
    "huge integer": ("days: 3", f"days: {'9' * 5000}", 13, f"{C0}.args.days", "found a number that cannot be used"),
    "optional as text": (
        "- name: get_weather",
        '- name: x\n            optional: "yes"',
        11,
        f"{C0}.optional",
        'found "yes", expected true or false',
    ),
    "optional and forbidden": (
        "- name: get_weather",
        "- name: x\n            optional: true\n            forbidden: true",
        10,
        C0,
        "found both `optional` and `forbidden`",
    ),
    "any tool that is not forbidden": ("name: get_weather", 'name: "*"', 10, f"{C0}.name", "`*` means any tool"),
    "result of null": ("- name: get_weather", "- name: x\n            result:", 11, f"{C0}.result", "found null"),
    "misspelled group": (
        "    calls: []",
        "    calls:\n      - paralel: []",
        16,
        "goldens[1].calls[0].paralel",
        "did you mean `parallel`?",
    ),
    "call in a group": (
        "    calls: []",
        "    calls:\n      - parallel:\n          - nane: f",
        17,
        "goldens[1].calls[0].parallel[0].nane",
        "did you mean `name`?",
    ),
    "one alternative": ("    calls: []", "    any_of: [[]]", 15, "goldens[1].any_of", "at least two lists of calls"),
    "alternative that is no list": (
        "    calls: []",
        "    any_of:\n      - - name: f\n      - name: g",
        17,
        "goldens[1].any_of[1]",
        "expected a list of calls",
    ),
    "alternative that everything satisfies": (
        "    calls: []",
        "    any_of:\n      - - name: f\n      - - {name: g, optional: true}",
        17,
        "goldens[1].any_of[1]",
        "is always right",
    ),
    "calls and alternatives": (
        "calls:\n          - name",
        "any_of: [[{name: f}], [{name: g}]]\n        calls:\n          - name",
        8,
        T0,
        "found both `calls` and `any_of`",
    ),
    "repeat without runs": (
        "    calls: []",
        "    calls: []\n    repeat: {}",
        16,
        "goldens[1].repeat",
        "`runs` is missing",
    ),
    "no runs": ("    calls: []", "    calls: []\n    repeat: {runs: 0}", 16, "goldens[1].repeat.runs", "from 1"),
    "more passes than runs": (
        "    calls: []",
        "    calls: []\n    repeat: {runs: 2, passes: 3}",
        16,
        "goldens[1].repeat.passes",
        "found 3, expected at most 2",
    ),
    "count in words": (
        "    calls: []",
        "    calls: []\n    call_counts: {f: twice}",
        16,
        "goldens[1].call_counts.f",
        'found "twice", expected a number of calls',
    ),
    "attribute as text": (
        "session: s-2",
        "attribute: test.case.name",
        14,
        "goldens[1].attribute",
        "expected an object such as {test.case.name:",
    ),
    "attribute of null": (
        "session: s-2",
        "attribute: {a: }",
        14,
        "goldens[1].attribute.a",
        "found null, expected text, a number, true or false",
    ),
    "two joins": (
        "session: s-2",
        "first_user_text: Hi\n    attribute: {a: b}",
        14,
        "goldens[1]",
        "found both `attribute` and `first_user_text`",
    ),
    "alias of two tools": (
        "format: 1",
        "format: 1\naliases: {f: [x], g: x}",
        2,
        "aliases.g",
        "found x, which is an alias of f already",
    ),
    "alias that is a tool": (
        "format: 1",
        "format: 1\naliases: {f: g, g: h}",
        2,
        "aliases.f",
        "which has aliases itself",
    ),
    "unknown field of a criterion": (
        "{threshold: 0.8}",
        "{orderd: 1}",
        4,
        "criterion.orderd",
        "did you mean `ordered`",
    ),
    "wrong value in a criterion": ("0.8", "8", 4, "criterion.threshold", "found 8, expected a number from 0 to 1"),
    "criterion as text": ("{threshold: 0.8}", "strict", 4, "criterion", 'found "strict", expected an object such as'),
    "camelCase in a criterion": (
        "{threshold: 0.8}",
        "{perArgStrategies:\n  {x: near}}",
        5,
        "criterion.perArgStrategies.x",
        'found "near", expected `exact`',
    ),
    "both spellings": (
        "{threshold: 0.8}",
        "{match_mode: name_only, matchMode: name_only}",
        4,
        "criterion",
        "`match_mode` is given twice",
    ),
    "criterion of a call": (
        "- name: get_weather",
        "- name: x\n            criterion: {ordered: true}",
        11,
        f"{C0}.criterion.ordered",
        "does not apply to a call: set it for the golden",
    ),
    "criterion of a turn": (
        "- user: Hello",
        "- user: Hello\n        criterion: {turnJoin: key}",
        9,
        f"{T0}.criterion.turnJoin",
        "does not apply to a turn",
    ),
    "criterion of a turn of a whole session": (
        "turns:\n      - user: Hello",
        "criterion: {scope: session}\n    turns:\n      - criterion: {call_score: all, turnScore: all}",
        9,
        f"{T0}.criterion.turnScore",
        "does not apply to a turn with `scope: session`",
    ),
    "not YAML": ("{threshold: 0.8}", "{threshold: 0.8", 5, "", "not YAML: "),
    "escape of no character": ("city: Paris", 'city: "\\UFFFFFFFF"', None, "", "not YAML: "),
    "tab": ("              days", "\t\tdays", 13, "", "not YAML: "),
    "two documents": ("format: 1", "format: 1\n---\nformat: 1", 2, "", "found a second document"),
    "YAML 1.1": ("format: 1", "%YAML 1.1\n---\nformat: 1", 2, "", "expected YAML 1.2"),
    "too deep": ("days: 3", f"days: {'[' * 101}{']' * 101}", 13, "", "nested more than 100 levels deep"),
    "too deep keys": ("days: 3", f"{'? ' * 3000}a", 13, "", "nested more than 100 levels deep"),
    "duplicate session": ("s-2", "s-1", 14, "", "a second golden for the session s-1, the first is"),
}


@pytest.mark.parametrize("example", ONE_MISTAKE.values(), ids=ONE_MISTAKE)
def test_one_mistake_is_reported_once_where_it_stands(
    tmp_path: Path, example: tuple[str, str, int | None, str, str]
) -> None:
    right, wrong, line, field, words = example
    assert right in GOOD
    mistakes = mistakes_in(tmp_path / "goldens.yaml", GOOD.replace(right, wrong, 1))
    assert [(mistake.line, mistake.path) for mistake in mistakes] == [(line, field)]
    assert words in mistakes[0].message
    assert str(mistakes[0]).startswith(f"{tmp_path / 'goldens.yaml'}:{line or ''}")


def test_eleven_mistakes_are_eleven(tmp_path: Path) -> None:
    text = """\
    format: 7
    golden_set: 12
    verzion: x
    criterion: {ordred: true}
    goldens:
      - session: a
        calls:
          - {nam: f}
          - {name: f, args: [1]}
          - {name: f, args: {x: {$regex: 1}, z: .inf}}
      - session: a
        turns: []
        calls: []
      - 3
    """
    mistakes = mistakes_in(tmp_path / "goldens.yaml", dedent(text))
    assert [(mistake.line, mistake.path) for mistake in mistakes] == [
        (1, "format"),
        (2, "golden_set"),
        (3, "verzion"),
        (4, "criterion.ordred"),
        (8, "goldens[0].calls[0].nam"),
        (9, "goldens[0].calls[1].args"),
        (10, 'goldens[0].calls[2].args.x["$regex"]'),
        (10, "goldens[0].calls[2].args.z"),
        (11, "goldens[1]"),
        (11, ""),
        (14, "goldens[2]"),
    ]


def test_an_inherited_mistake_is_named_once_where_it_was_made(tmp_path: Path) -> None:
    own = "session: s-1\n    criterion: {ordered: false}"
    text = GOOD.replace("0.8", "8").replace("session: s-1", own)
    mistakes = mistakes_in(tmp_path / "goldens.yaml", text)
    assert [mistake.path for mistake in mistakes] == ["criterion.threshold"]


def test_mistakes_of_every_file_come_together(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("golden_set: a\ngoldens: [1]\n", "utf-8")
    (tmp_path / "b.json").write_text('{"golden_set": "b",\n "goldens": 2}\n', "utf-8")
    (tmp_path / "c.yaml").write_text("{", "utf-8")
    with pytest.raises(GoldenFileError) as caught:
        load_goldens(tmp_path)
    assert [(Path(one.file).name, one.line, one.path) for one in caught.value.mistakes] == [
        ("a.yaml", 2, "goldens[0]"),
        ("b.json", 2, "goldens"),
        ("c.yaml", 1, ""),
    ]


JSON_MISTAKES = {
    "not JSON": ('{"golden_set": "x",\n oops', 2, "", "not JSON: "),
    "cut": ('{"golden_set": "x", "goldens": [', 1, "", "not JSON: "),
    "duplicate key": (
        '{"golden_set": "x",\n "goldens": [{"session": "a", "calls": [\n'
        '  {"name": "f", "args": {"a{": "}",\n "a{": 1}}]}]}',
        4,
        'goldens[0].calls[0].args["a{"]',
        "first on line 3",
    ),
    "NaN": (
        '{"golden_set": "x", "goldens": [{"session": "a",\n"calls": [{"name": "f", "args": {"x":\nNaN}}]}]}',
        2,
        "goldens[0].calls[0].args.x",
        "expected a JSON value",
    ),
    "too deep": ('{"a":\n' + "[" * 200 + "]" * 200 + "}", 2, "", "nested more than 100"),
    "far too deep": ("[" * 100_000 + "]" * 100_000, None, "", "nested more than 100"),
    "huge integer": ("9" * 5000, None, "", "not usable"),
    "not an object": ("[]", 1, "", "found [], expected a golden set: an object with golden_set, goldens"),
    "blank": ("  ", 1, "", "not JSON"),
}


@pytest.mark.parametrize(("text", "line", "field", "words"), JSON_MISTAKES.values(), ids=JSON_MISTAKES)
def test_mistakes_in_json_have_lines_too(tmp_path: Path, text: str, line: int | None, field: str, words: str) -> None:
    [mistake] = mistakes_in(tmp_path / "goldens.json", text)
    assert (mistake.line, mistake.path) == (line, field)
    assert words in mistake.message


def test_duplicates_name_both_places(tmp_path: Path) -> None:
    text = "golden_set: {}\ngoldens:\n- session: s\n  calls: []\n- session_pattern: 'x*'\n  calls: []\n"
    (tmp_path / "a.yaml").write_text(text.format("a"), "utf-8")
    (tmp_path / "b.yaml").write_text(text.format("b"), "utf-8")
    with pytest.raises(GoldenFileError) as caught:
        load_goldens(tmp_path / "a.yaml", tmp_path / "b.yaml")
    first, second = caught.value.mistakes
    assert (Path(first.file).name, first.line) == ("b.yaml", 3)
    assert f"session s, the first is {tmp_path / 'a.yaml'}:3" in first.message
    assert f"session pattern x*, the first is {tmp_path / 'a.yaml'}:5" in second.message


def test_two_sets_of_one_name_and_version_are_refused() -> None:
    with pytest.raises(GoldenFileError, match="a second golden set w@1"):
        load_goldens(*({"golden_set": "w", "version": "1", "goldens": []} for _ in range(2)))
    assert len(load_goldens(*({"golden_set": "w", "version": v, "goldens": []} for v in "12")).sets) == 2


UNREADABLE = {
    "absent": ("none.yaml", None, "there is no such file"),
    "unknown kind": ("goldens.txt", b"golden_set: x", "ends in .json, .jsonl, .yaml, .yml"),
    "not text": ("goldens.yaml", b"golden_set: x\nversion: \xff\xfe", "not UTF-8 text"),
    "control characters": ("goldens.yaml", b"golden_set: \x00", "not YAML: "),
    "empty": ("goldens.yaml", b"", "found null, expected a golden set"),
}


@pytest.mark.parametrize(("name", "content", "words"), UNREADABLE.values(), ids=UNREADABLE)
def test_files_that_cannot_be_read_are_named(tmp_path: Path, name: str, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(GoldenFileError) as caught:
        load_goldens(tmp_path / name)
    [mistake] = caught.value.mistakes
    assert mistake.file == str(tmp_path / name)
    assert words in mistake.message


def test_a_directory_without_goldens_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("x", "utf-8")
    with pytest.raises(GoldenFileError, match="holds no golden files"):
        load_goldens(tmp_path)


ODD: dict[str, Callable[[Path], object]] = {
    "regular file": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "there is no such file": lambda path: path.symlink_to("nowhere.yaml"),
    "Too many levels": lambda path: path.symlink_to(path),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in the file system")
@pytest.mark.parametrize("inside_a_folder", [True, False])
@pytest.mark.parametrize("words", ODD)
def test_what_is_no_regular_file_is_a_mistake_and_never_waited_for(
    tmp_path: Path, words: str, inside_a_folder: bool
) -> None:
    (tmp_path / "good.yaml").write_text(GOOD, "utf-8")
    odd = tmp_path / "odd.yaml"
    ODD[words](odd)
    with pytest.raises(GoldenFileError) as caught:
        load_goldens(tmp_path if inside_a_folder else odd)
    [mistake] = caught.value.mistakes
    assert mistake.file == str(odd)
    assert words in mistake.message


def test_the_root_of_the_file_system_is_a_mistake() -> None:
    with pytest.raises(GoldenFileError) as caught:
        load_goldens(Path("/proc"))
    assert caught.value.mistakes


def test_a_folder_that_cannot_be_read_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(GoldenFileError, match="cannot be read: Permission denied"):
        load_goldens(tmp_path)


def test_aliases_cannot_grow_without_bound(tmp_path: Path) -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    mistakes = mistakes_in(tmp_path / "goldens.yaml", "\n".join(levels))
    assert [(one.line, one.message) for one in mistakes] == [
        (6, "holds more than 1000000 values, aliases counted: split the file")
    ]


PIECES = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    "- ",
    "? ",
    "&a",
    "*a",
    "!t ",
    "|",
    ">",
    "'",
    '"',
    "\\U",
    "#",
    "%",
    "---",
    "\t",
    "<<",
    "\n ",
]


@given(pieces=st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12), at=st.integers(0, len(GOOD)))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, pieces: list[str], at: int) -> None:
    text = GOOD[:at] + "".join(pieces) + GOOD[at:]
    for suffix in ("yaml", "json"):
        path = tmp_path_factory.getbasetemp() / f"any.{suffix}"
        path.write_text(text, "utf-8")
        with suppress(GoldenFileError):
            assert load_goldens(path).sets


def test_values_given_in_code_are_checked_too() -> None:
    def goldens(args: object) -> dict[str, object]:
        return {"golden_set": "x", "goldens": ({"session": "s", "calls": [{"name": "f", "args": args}]},)}

    assert load_goldens(goldens({"a": (1, 2)})).goldens[0].calls[0].args == {"a": [1, 2]}  # type: ignore[index]
    for wrong, words in (
        ({"a": {1, 2}}, "found a set, expected a JSON value"),
        ({1: 2}, "found the key 1, expected text"),
        ({"a": json.loads("[" * 200 + "]" * 200)}, "nested more than 100 levels deep"),
    ):
        with pytest.raises(GoldenFileError) as caught:
            load_goldens(goldens(wrong))
        [mistake] = caught.value.mistakes
        assert words in mistake.message
        assert mistake.line is None
        assert mistake.file == "<in code>"


SECRET = '{"password": "hunter2"}'


def test_a_link_out_of_its_folder_quotes_nothing_of_what_it_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, folder, linked = tmp_path / "secret.txt", tmp_path / "goldens", tmp_path / "linked"
    secret.write_text(SECRET)
    folder.mkdir()
    (folder / "g.json").symlink_to(secret)
    linked.symlink_to(folder)
    for source in (folder, folder / "g.json", linked):
        with pytest.raises(GoldenFileError) as caught:
            load_goldens(source)
        [mistake] = caught.value.mistakes
        assert "is a link that leads out of its folder" in mistake.message
        assert "password" not in str(caught.value)
    monkeypatch.chdir(tmp_path / "goldens")
    (folder / "proc.yaml").symlink_to("/proc/self/status")
    with pytest.raises(GoldenFileError, match="is a link that leads out"):
        load_goldens("proc.yaml")


def test_a_link_is_read_where_it_leads_to_goldens_and_quoted_inside_its_folder(tmp_path: Path) -> None:
    outside, folder = tmp_path / "shared.yaml", tmp_path / "goldens"
    outside.write_text(GOOD)
    (folder / "..data").mkdir(parents=True)
    (folder / "g.yaml").symlink_to(outside)
    assert len(load_goldens(folder).goldens) == 2
    (folder / "g.yaml").unlink()
    (folder / "..data" / "g.yaml").write_text(GOOD.replace("format", "fromat"))
    (folder / "g.yaml").symlink_to("..data/g.yaml")  # as Kubernetes mounts a ConfigMap
    with pytest.raises(GoldenFileError, match="fromat"):
        load_goldens(folder)
