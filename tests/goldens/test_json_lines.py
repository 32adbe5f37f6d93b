"""Golden sets in JSON lines: one golden a line, and a line for the set where it has more than a name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goldspan.scoring.errors import GoldenFileError, Mistake
from goldspan.scoring.goldens import GoldenIndex, load_goldens

ONE: dict[str, Any] = {"session": "s-1", "calls": [{"name": "f", "args": {"x": 1}}]}
TWO: dict[str, Any] = {"session": "s-2", "turns": [{"user": "Hi", "calls": [{"name": "g"}]}]}
HEADER: dict[str, Any] = {"golden_set": "weather", "version": "3", "criterion": {"ordered": False}}


def lines(*values: object) -> str:
    return "".join((value if isinstance(value, str) else json.dumps(value)) + "\n" for value in values)


def load(folder: Path, text: str) -> GoldenIndex:
    (folder / "nightly.jsonl").write_text(text, "utf-8")
    return load_goldens(folder / "nightly.jsonl")


def mistakes_in(folder: Path, text: str) -> list[Mistake]:
    with pytest.raises(GoldenFileError) as caught:
        load(folder, text)
    return list(caught.value.mistakes)


def test_each_line_is_a_golden_of_a_set_named_like_the_file(tmp_path: Path) -> None:
    index = load(tmp_path, lines(ONE, "", TWO))
    assert [golden.key for golden in index.goldens] == ["s-1", "s-2"]
    assert [golden.golden_set for golden in index.goldens] == ["nightly", "nightly"]
    assert [golden.source.rpartition(":")[2] for golden in index.goldens] == ["1", "3"]


def test_a_line_for_the_set_comes_first(tmp_path: Path) -> None:
    [golden_set] = load(tmp_path, lines(HEADER, ONE, TWO)).sets
    assert golden_set.label == "weather@3"
    assert not golden_set.criterion.ordered
    assert len(golden_set.goldens) == 2


def test_the_content_is_the_same_in_json_lines_and_json(tmp_path: Path) -> None:
    [in_lines] = load(tmp_path, lines(HEADER, ONE, TWO)).sets
    [in_json] = load_goldens({**HEADER, "goldens": [ONE, TWO]}).sets
    assert in_lines.digest == in_json.digest


def test_files_of_a_directory_are_found(tmp_path: Path) -> None:
    (tmp_path / "nightly.jsonl").write_text(lines(ONE), "utf-8")
    assert [golden.key for golden in load_goldens(tmp_path).goldens] == ["s-1"]


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_no_line_is_no_golden(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text).goldens == ()


def test_every_wrong_line_is_named_and_hides_no_other(tmp_path: Path) -> None:
    text = lines(ONE, '{"session": ', {**TWO, "turn": []}, '{"session": "a", "session": "b", "calls": []}', 7)
    assert [(mistake.line, mistake.path) for mistake in mistakes_in(tmp_path, text)] == [
        (2, "goldens[1]"),
        (3, "goldens[1].turn"),
        (4, "goldens[2].session"),
        (5, "goldens[3]"),
    ]


def test_a_wrong_line_for_the_set_has_its_line(tmp_path: Path) -> None:
    text = "\n" + lines({**HEADER, "version": 3}, ONE)
    [mistake] = mistakes_in(tmp_path, text)
    assert (mistake.line, mistake.path) == (2, "version")


def test_a_second_line_for_the_set_is_a_mistake(tmp_path: Path) -> None:
    found = mistakes_in(tmp_path, lines(HEADER, ONE, HEADER))
    assert {mistake.line for mistake in found} == {3}
