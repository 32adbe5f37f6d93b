"""Golden files of a server: one that is wrong costs itself, also after a restart."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.collector_processor.serving.golden_files import GoldenFiles
from goldspan.scoring.errors import CriterionFileError, GoldenFileError
from goldspan.scoring.goldens import GoldenIndex

TEAMS = ("a", "b", "c")


def write(folder: Path, team: str, *sessions: str, name: str | None = None) -> Path:
    goldens = "".join(f"  - {{session: {one}, calls: [{{name: f}}]}}\n" for one in sessions)
    path = folder / f"{team}.yaml"
    path.write_text(f"golden_set: {name or team}\ngoldens:\n{goldens}", "utf-8")
    return path


def sessions_of(goldens: GoldenIndex) -> list[str]:
    return sorted(golden.session or "" for golden in goldens.goldens)


@pytest.fixture
def teams(tmp_path: Path) -> Path:
    folder = tmp_path / "teams"
    folder.mkdir()
    for team in TEAMS:
        write(folder, team, f"{team}-1")
    return folder


@pytest.fixture
def start(tmp_path: Path, teams: Path) -> Callable[[], GoldenFiles]:
    """Begins anew, as a process does, with the same folder of last good states."""
    return lambda: GoldenFiles([teams], None, tmp_path / "kept")


BREAKS: dict[str, Callable[[Path], object]] = {
    "a misspelt field": lambda path: path.write_text("golden_set: b\ngoldens: [{session: b-1, turn: []}]\n"),
    "no YAML": lambda path: path.write_text("golden_set: [\n"),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "empty": lambda path: path.write_text(""),
    "a golden that another file has": lambda path: write(path.parent, "b", "b-1", "c-1"),
    "a name that another file has": lambda path: write(path.parent, "b", "b-1", name="a"),
}


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("kind", BREAKS)
def test_a_file_that_is_wrong_costs_itself(
    teams: Path, start: Callable[[], GoldenFiles], kind: str, restarts: bool
) -> None:
    files = start()
    assert sessions_of(files.load_each()) == ["a-1", "b-1", "c-1"]
    BREAKS[kind](teams / "b.yaml")
    write(teams, "a", "a-1", "a-2")
    files = start() if restarts else files
    assert sessions_of(files.load_each()) == ["a-1", "a-2", "b-1", "c-1"]
    [refused] = files.refused
    assert refused.file == str(teams / "b.yaml")
    assert refused.mistakes
    assert refused.in_use
    assert {labels["state"]: value for _, labels, value in files.samples()} == {"in_use": 3, "refused": 1}
    with pytest.raises(GoldenFileError):
        files.load()

    write(teams, "b", "b-2")
    assert sessions_of(files.load_each()) == ["a-1", "a-2", "b-2", "c-1"]
    assert not files.refused
    assert files.warning() is None


def test_a_file_that_never_was_good_is_left_out(teams: Path, start: Callable[[], GoldenFiles]) -> None:
    BREAKS["no YAML"](teams / "b.yaml")
    files = start()
    assert sessions_of(files.load_each()) == ["a-1", "c-1"]
    [refused] = files.refused
    assert refused.in_use is None


def test_nothing_good_at_all_is_refused_with_every_mistake(teams: Path, start: Callable[[], GoldenFiles]) -> None:
    for team in TEAMS:
        BREAKS["a misspelt field"](teams / f"{team}.yaml")
    with pytest.raises(GoldenFileError) as refusal:
        start().load_each()
    assert len({mistake.file for mistake in refusal.value.mistakes}) == 3


def test_a_file_that_is_gone_is_forgotten(teams: Path, start: Callable[[], GoldenFiles]) -> None:
    start().load_each()
    (teams / "b.yaml").unlink()
    assert sessions_of(start().load_each()) == ["a-1", "c-1"]
    BREAKS["no YAML"](teams / "b.yaml")
    assert sessions_of(start().load_each()) == ["a-1", "c-1"]


def test_a_folder_that_is_not_there_leaves_what_it_held(
    teams: Path, start: Callable[[], GoldenFiles], tmp_path: Path
) -> None:
    start().load_each()
    for file in teams.iterdir():
        file.rename(tmp_path / file.name)
    files = start()
    assert sessions_of(files.load_each()) == ["a-1", "b-1", "c-1"]
    assert str(teams) in [one.file for one in files.refused]


def test_what_is_kept_is_private_and_trusted_only_with_its_digest(
    teams: Path, start: Callable[[], GoldenFiles], tmp_path: Path
) -> None:
    start().load_each()
    kept = sorted((tmp_path / "kept").iterdir())
    assert [one.stat().st_mode & 0o777 for one in kept] == [0o600] * 3
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o700
    for one in kept:
        one.write_text(one.read_text().replace("b-1", "b-9"))
    BREAKS["no YAML"](teams / "b.yaml")
    files = start()
    assert sessions_of(files.load_each()) == ["a-1", "c-1"]
    for one in kept:
        one.write_bytes(b"\x00")
    assert sessions_of(start().load_each()) == ["a-1", "c-1"]


def test_a_state_folder_that_cannot_be_written_costs_only_the_memory_of_a_restart(
    teams: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kept").write_text("a file")
    files = GoldenFiles([teams], None, tmp_path / "kept")
    assert len(files.load_each().goldens) == 3
    assert "a restart will not know" in caplog.text
    BREAKS["no YAML"](teams / "b.yaml")
    assert len(files.load_each().goldens) == 3


def test_a_criterion_that_is_wrong_stays_as_it_was(teams: Path, tmp_path: Path) -> None:
    criterion = tmp_path / "criterion.yaml"
    criterion.write_text("threshold: 0.5\n")
    first = GoldenFiles([teams], criterion, tmp_path / "kept").load_each()
    criterion.write_text("treshold: 0.5\n")
    files = GoldenFiles([teams], criterion, tmp_path / "kept")
    assert {one.digest for one in files.load_each().goldens} == {one.digest for one in first.goldens}
    assert [one.file for one in files.refused] == [str(criterion)]
    with pytest.raises(CriterionFileError):
        GoldenFiles([teams], criterion, tmp_path / "other").load_each()


def test_what_is_refused_is_logged_once_with_every_mistake(
    teams: Path, start: Callable[[], GoldenFiles], caplog: pytest.LogCaptureFixture
) -> None:
    files = start()
    files.load_each()
    BREAKS["a misspelt field"](teams / "b.yaml")
    files.load_each()
    files.load_each()
    [line] = [record for record in caplog.records if "is refused" in record.message]
    assert "did you mean `turns`?" in str(vars(line)["mistakes"])
    assert json.dumps(files.document())


Change = tuple[str, str]
CHANGES = st.lists(st.tuples(st.sampled_from(TEAMS), st.sampled_from(["good", "bad", "gone", "restart"])), max_size=8)


@given(CHANGES)
def test_what_is_in_use_is_what_each_file_last_said_when_it_was_good(
    tmp_path_factory: pytest.TempPathFactory, changes: Sequence[Change]
) -> None:
    folder = tmp_path_factory.mktemp("teams")
    for team in TEAMS:
        write(folder, team, f"{team}-0")
    kept = folder / ".kept"
    files = GoldenFiles([folder], None, kept)
    files.load_each()
    expected = {team: f"{team}-0" for team in TEAMS}
    for number, (team, what) in enumerate(changes, 1):
        path = folder / f"{team}.yaml"
        if what == "good":
            write(folder, team, f"{team}-{number}")
            expected[team] = f"{team}-{number}"
        elif what == "bad":
            path.write_text("golden_set: [\n")
        elif what == "gone" and len(expected) > 1 and team in expected:
            path.unlink(missing_ok=True)
            del expected[team]
        elif what == "restart":
            files = GoldenFiles([folder], None, kept)
        assert sessions_of(files.load_each()) == sorted(expected.values())
