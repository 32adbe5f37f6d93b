"""A dialect from another distribution, installed beside goldspan: it is read, and nothing of goldspan is touched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rigs.other_distributions import goldspan, installed

HERE = Path(__file__).parent
TRACES = HERE / "ferry.otlp.json"
SPANS = 5
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(HERE / "ferry", tmp_path_factory)


def inspected(site: Path | None = None) -> dict[str, Any]:
    return json.loads(goldspan("inspect", str(TRACES), "--format", "json", site=site).stdout)


def test_without_it_only_calls_are_read_by_the_shape_of_their_spans() -> None:
    (session,) = inspected()["sessions"]
    assert session["id_source"] == "trace_id"
    (turn,) = session["turns"]
    assert [(call["name"], call["arguments"], call["call_id"]) for call in turn["calls"]] == [
        ("book_cabin", {"cabin": "Chez Léa", "people": 2}, "c1"),
        ("load_car", None, "c2"),
        ("sound_horn", None, None),
    ]
    assert {call["dialect"] for call in turn["calls"]} == {"shape"}


def test_its_spans_are_recognised(site: Path) -> None:
    (session,) = inspected(site)["sessions"]
    assert (session["id"], session["id_source"]) == ("voyage-7", "ferry.voyage")
    (turn,) = session["turns"]
    assert turn["user_text"] == "Take us across."
    assert [(call["name"], call["arguments"], call["call_id"], call["error"]) for call in turn["calls"]] == [
        ("book_cabin", {"cabin": "Chez Léa", "people": 2}, "c1", None),
        ("load_car", {"plate": "AB-123"}, "c2", "error"),
        ("sound_horn", None, None, None),
    ]
    assert {call["dialect"] for call in turn["calls"]} == {"ferry"}
    assert [len(call["spans"]) for call in turn["calls"]] == [1, 2, 1], "the car's plate was only in the model's output"


def test_a_proposed_dialect_reads_them_once_it_is_installed(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("proposed") / "ferry"
    done = goldspan("dialects", "propose", str(TRACES), "--output", str(folder), site=None)
    assert done.returncode == 0, done.stderr
    (session,) = inspected(installed(folder, tmp_path_factory))["sessions"]
    assert session["id_source"] == "trace_id", "no word says that ferry.voyage is a session"
    calls = [(call["name"], call["arguments"], call["call_id"]) for call in session["turns"][0]["calls"]]
    assert calls[0] == ("book_cabin", {"cabin": "Chez Léa", "people": 2}, "c1")


def test_its_advice_is_given(site: Path) -> None:
    assert "FERRY_WRITE_INPUT=1" in goldspan("inspect", str(TRACES), site=site).stdout
    known = json.loads(goldspan("dialects", "--format", "json", site=site).stdout)["dialects"]
    assert known[0]["name"] == "ferry", "other packages' dialects come first"
    assert known[0]["advice"]["session"] == 'Call ferry.sail(voyage="...").'


def test_goldspan_is_not_touched(site: Path) -> None:
    installed = {path.name for path in site.iterdir() if path.name != "__pycache__"}
    assert installed == {"goldspan_dialect_ferry.py", "goldspan_dialect_ferry-1.0.dist-info"}
    rooms = [ROOT / room for room in ("scoring", "mappers", "collector_processor")]
    sources = [path for room in rooms for path in room.rglob("*.py")]
    assert sources
    assert [path for path in sources if "ferry" in path.read_text("utf-8").lower()] == []


@pytest.mark.parametrize("first", ["goldspan.mappers.dialects.ferry", "goldspan.mappers"])
def test_the_same_file_is_a_built_in_dialect(first: str, tmp_path: Path) -> None:
    """Copied into `dialects/` and listed in `installed_dialects.py`, it reads the same spans."""
    mappers = Path(shutil.copytree(ROOT / "mappers", tmp_path / "mappers")) / "goldspan" / "mappers"
    shutil.copy(HERE / "ferry" / "goldspan_dialect_ferry.py", mappers / "dialects" / "ferry.py")
    listing = mappers / "installed_dialects.py"
    text = listing.read_text("utf-8")
    first_import, first_entry = "from goldspan.mappers.dialects.autogen", "    return (\n"
    assert first_import in text
    assert first_entry in text
    text = text.replace(first_import, f"from goldspan.mappers.dialects.ferry import FERRY\n{first_import}", 1)
    listing.write_text(text.replace(first_entry, f"{first_entry}    FERRY,\n"), "utf-8")
    code = (
        f"import {first}; from goldspan.mappers import read_sessions; [session] = read_sessions({str(TRACES)!r}); "
        "print(session.id, *(call.name for call in session.turns[0].calls))"
    )
    roots = [tmp_path / "mappers", ROOT / "scoring"]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, roots))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["voyage-7", "book_cabin", "load_car", "sound_horn"]


BROKEN = {
    "missing": "nobody_has_this_module:DIALECT",
    "raises_on_import": "broken_dialects_raising:DIALECT",
    "no_dialect": "broken_dialects:NO_DIALECT",
    "raises_on_read": "broken_dialects:RAISES",
    "returns_nonsense": "broken_dialects:NONSENSE",
}
MODULE = """
class Raises:
    name = "raises"
    markers = frozenset({"ferry.step"})

    def read(self, span):
        raise RuntimeError("the sea is rough")


class Nonsense(Raises):
    name = "nonsense"

    def read(self, span):
        return 42


NO_DIALECT, RAISES, NONSENSE = dict, Raises(), Nonsense()
"""


@pytest.fixture
def with_broken_ones(site: Path, tmp_path: Path) -> Path:
    """The example distribution, and one whose registrations are all broken."""
    folder = tmp_path / "site"
    shutil.copytree(site, folder)
    about = folder / "broken_dialects-1.0.dist-info"
    about.mkdir()
    lines = [f"{name} = {value}" for name, value in BROKEN.items()]
    (about / "entry_points.txt").write_text("\n".join(["[goldspan.dialects]", *lines, ""]), "utf-8")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-dialects\nVersion: 1.0\n", "utf-8")
    (folder / "broken_dialects.py").write_text(MODULE, "utf-8")
    (folder / "broken_dialects_raising.py").write_text("raise RuntimeError('no')\n", "utf-8")
    return folder


def test_broken_ones_are_counted_problems_and_stop_nobody(site: Path, with_broken_ones: Path) -> None:
    found = inspected(with_broken_ones)
    assert found["sessions"] == inspected(site)["sessions"]
    counted = Counter(problem["code"] for problem in found["problems"])
    assert counted == {"bad_dialect": 3, "dialect_failed": 2 * SPANS}
    told = "\n".join(problem["message"] for problem in found["problems"])
    for words in (
        "the dialect 'missing' (nobody_has_this_module:DIALECT) does not load: No module named",
        "the dialect 'raises_on_import' (broken_dialects_raising:DIALECT) does not load: no",
        "broken_dialects:NO_DIALECT makes a dict; a dialect has a name, markers and read(span)",
        "the dialect 'raises' raised RuntimeError: the sea is rough",
        "the dialect 'nonsense' raised DialectError: read() returned a int; expected a Reading or none",
    ):
        assert words in told
