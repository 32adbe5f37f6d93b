"""What a build sees of `goldspan score`: an exit code, and the sentence that explains it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from rigs.command_line import Run
from rigs.trace_requests import plain_request, turn_request, write_lines

RIGHT = {"city": "Paris", "days": 3}
GOOD = turn_request("sess-1", ("get_weather", RIGHT))
WRONG = turn_request("sess-1", ("get_weather", {"city": "Paris", "days": 5}))
HALF = turn_request("sess-1", ("get_weather", {"city": "Paris", "days": 5}))
UNKNOWN = turn_request("sess-1", ("get_weather", None))
OTHER = turn_request("sess-x", ("get_weather", RIGHT))
TORN = json.dumps(WRONG)[:300]
NO_GOLDENS_FILE = "no-such-goldens.yaml"


class Case(NamedTuple):
    lines: tuple[object, ...] | None
    options: tuple[str, ...]
    exit_code: int
    says: str


CASES = {
    "all passed": Case((GOOD,), (), 0, "✓ passed: 1 session of 1."),
    "other sessions do not matter": Case((GOOD, OTHER), (), 0, "1 without a golden (sess-x)"),
    "a session failed": Case((WRONG,), (), 1, "days  expected 3, found 5"),
    "failed, whatever the coverage": Case((WRONG,), ("--coverage", "lenient"), 1, "✗ failed: 1 of 1 session failed."),
    "below the mean asked for": Case((GOOD,), ("--criterion", "half.yaml", "--fail-under", "1"), 0, "passed"),
    "mean": Case(
        (HALF,), ("--criterion", "half.yaml", "--fail-under", "0.6"), 1, "the mean score 0.5 is below --fail-under 0.6"
    ),
    "mean reached": Case((HALF,), ("--criterion", "half.yaml", "--fail-under", "0.5"), 0, "passed"),
    "not captured": Case((UNKNOWN,), (), 1, "1 session could not be evaluated (arguments not captured)"),
    "not captured, lenient": Case((UNKNOWN,), ("--coverage", "lenient"), 0, "but nothing was evaluated"),
    "never seen": Case((OTHER,), (), 1, "1 golden was never seen (sess-1)"),
    "never seen, lenient": Case((OTHER,), ("--coverage", "lenient"), 0, "never seen: sess-1"),
    "nothing recognised": Case(
        (plain_request(),), (), 1, "no span was recognised as an agent's, a model's or a tool's"
    ),
    "nothing recognised, lenient": Case((plain_request(),), ("--coverage", "lenient"), 1, "no span was recognised"),
    "no such file": Case(None, (), 2, "goldspan: traces.jsonl: no such file or directory"),
    "an empty file": Case((), (), 2, "goldspan: traces.jsonl: is empty"),
    "not JSON": Case(("time,name", "1,get_weather"), (), 2, "found text that starts with 'time,name'"),
    "JSON without spans": Case(({"name of": "something"},), (), 2, "goldspan: traces.jsonl: "),
    "a torn line beside good ones": Case((GOOD, TORN, OTHER), (), 0, "traces.jsonl:2: is not whole JSON"),
    "a truncated file": Case((json.dumps(GOOD)[:-3],), (), 0, "is not whole JSON"),
    "an unknown field in a criterion": Case((GOOD,), ("--criterion", "unknown.yaml"), 2, "unknown.yaml:1: treshold: "),
    "no such criterion": Case((GOOD,), ("--criterion", "none.yaml"), 2, "goldspan: none.yaml: there is no such file"),
    "a bad golden": Case((GOOD,), ("--goldens", "bad.yaml"), 2, "bad.yaml:3: goldens[0].calls: "),
    "no such goldens": Case(
        (GOOD,), ("--goldens", NO_GOLDENS_FILE), 2, f"goldspan: {NO_GOLDENS_FILE}: there is no such"
    ),
    "a golden twice": Case((GOOD,), ("--goldens", "again.yaml"), 2, "sess-1"),
    "threshold reached": Case((HALF,), ("--threshold", "0.5"), 0, "✓ passed: 1 session of 1."),
    "threshold before that of a file": Case(
        (HALF,), ("--criterion", "half.yaml", "--threshold", "0.51"), 1, "1 of 1 session failed"
    ),
    "threshold too large": Case((GOOD,), ("--threshold", "80"), 2, "'80' is not a number from 0 to 1, such as 0.8"),
    "threshold below 0": Case((GOOD,), ("--threshold", "-0.1"), 2, "'-0.1' is not a number from 0 to 1"),
    "threshold in words": Case((GOOD,), ("--threshold", "nan"), 2, "'nan' is not a number from 0 to 1"),
    "threshold of a preset": Case(
        (GOOD,), ("--preset", "axion", "--threshold", "0.5"), 2, "--threshold is for goldspan's own score"
    ),
    "no number": Case((GOOD,), ("--fail-under", "80%"), 2, "'80%' is not a number from 0 to 1"),
    "metrics to nowhere": Case((GOOD,), ("--otlp-metrics",), 2, "--otlp-metrics needs --otlp-endpoint"),
    "an unknown platform": Case(None, ("pheonix://default",), 2, "URLs of stored traces begin with phoenix://"),
    "no URL": Case((GOOD,), ("--otlp-endpoint", "localhost:4318"), 2, "expected a URL such as"),
    "half a URL": Case((GOOD,), ("--otlp-endpoint", "http://[::1"), 2, "expected a URL such as"),
    "a secret in a URL": Case((GOOD,), ("--otlp-endpoint", "http://a:b@c"), 2, "no user name and no password"),
    "a secret behind a URL": Case(
        (GOOD,), ("--otlp-endpoint", "http://c?key=b"), 2, "found `?`: a URL may hold nothing"
    ),
    "a sink without URL": Case((GOOD,), ("--sink", "phoenix=http://localhost:99999"), 2, "expected KIND=URL, as in"),
    "an unknown option": Case((GOOD,), ("--nope",), 2, "No such option"),
    "a report to nowhere": Case(
        (GOOD,), ("--report", "junit=none/a.xml", "--report", "junit=b.xml"), 2, "none/a.xml: cannot be written"
    ),
    "an unknown kind of report": Case((GOOD,), ("--report", "pdf=a.pdf"), 2, "'pdf' is not a kind of report"),
    "a report without a file": Case((GOOD,), ("--report", "junit"), 2, "'junit' names no file"),
    "a report over input": Case((GOOD,), ("--report", "junit=traces.jsonl"), 2, "is one of the files that are read"),
    "a report over a criterion": Case(
        (GOOD,), ("--criterion", "half.yaml", "--report", "html=./half.yaml"), 2, "is one of the files that are read"
    ),
    "output over input": Case((GOOD,), ("--enriched", "traces.jsonl"), 2, "is one of the files that are read"),
    "an output twice": Case((GOOD,), ("--report", "html=a", "--enriched", "./a"), 2, "is named for another output too"),
    "a device twice": Case(
        (GOOD,), ("--report", "html=/dev/null", "--enriched", "/dev/null"), 0, "✓ passed: 1 session of 1."
    ),
    "output to nowhere": Case(
        (GOOD,), ("--enriched", "none/enriched.jsonl"), 2, "none/enriched.jsonl: cannot be written"
    ),
}


@pytest.fixture
def files(tmp_path: Path, goldens: Path) -> None:
    (tmp_path / "half.yaml").write_text("threshold: 0.5\n")
    (tmp_path / "unknown.yaml").write_text("treshold: 0.5\n")
    (tmp_path / "bad.yaml").write_text("format: 1\ngolden_set: bad\ngoldens: [{session: s, calls: 5}]\n")
    (tmp_path / "again.yaml").write_text(goldens.read_text().replace("golden_set: weather", "golden_set: again"))


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_score_exits_as_promised_and_says_why(case: Case, run: Run, goldens: Path, tmp_path: Path) -> None:
    if case.lines is not None:
        write_lines(tmp_path / "traces.jsonl", *case.lines)  # type: ignore[arg-type]
    result = run("score", "traces.jsonl", "--goldens", goldens, *case.options)
    assert case.says in result.output, result.output
    assert result.exit_code == case.exit_code
    assert "Traceback" not in result.output


def test_mistakes_of_several_files_are_named_at_once(run: Run, goldens: Path) -> None:
    result = run("score", "one.jsonl", "two.jsonl", "--goldens", goldens)
    assert result.exit_code == 2
    assert [line.split(": ")[1] for line in result.stderr.splitlines()] == ["one.jsonl", "two.jsonl"]


def test_what_is_good_beside_a_file_without_records_is_still_scored(run: Run, goldens: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "good.jsonl", GOOD)
    write_lines(tmp_path / "empty.jsonl")
    result = run("score", "good.jsonl", "empty.jsonl", "--goldens", goldens)
    assert result.exit_code == 2
    assert "1.00  sess-1" in result.stdout
    assert result.stderr.startswith("goldspan: empty.jsonl: is empty")


def test_a_file_without_records_in_a_directory_is_only_a_problem(run: Run, goldens: Path, tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    write_lines(tmp_path / "traces" / "good.jsonl", GOOD)
    write_lines(tmp_path / "traces" / "notes.json", '"nothing"')
    result = run("score", "traces", "--goldens", goldens)
    assert result.exit_code == 0
    assert "no_record 1" in result.stdout


def test_a_directory_without_traces_is_wrong_usage(run: Run, goldens: Path, tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    result = run("score", "traces", "--goldens", goldens)
    assert result.exit_code == 2
    assert "traces: holds no trace file" in result.stderr


def test_standard_input_is_named_as_such(run: Run, goldens: Path) -> None:
    line = json.dumps(GOOD).encode()
    good = run("score", "-", "--goldens", goldens, stdin=line + b"\n" + line[:200] + b"\n")
    assert good.exit_code == 0
    assert "standard input:2: is not whole JSON" in good.stdout
    empty = run("score", "-", "--goldens", goldens, stdin=b"")
    assert empty.exit_code == 2
    assert empty.stderr.startswith("goldspan: standard input: is empty")


@pytest.mark.parametrize(("line", "code"), [(GOOD, 0), (WRONG, 1), (None, 2)])
def test_the_installed_command_gives_the_process_its_exit_code(
    line: dict[str, object] | None, code: int, goldens: Path, tmp_path: Path
) -> None:
    if line is not None:
        write_lines(tmp_path / "traces.jsonl", line)
    command = [Path(sys.executable).with_name("goldspan"), "score", "traces.jsonl", "--goldens", goldens]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, encoding="utf-8")
    assert ended.returncode == code
    assert "Traceback" not in ended.stderr
    assert (ended.stdout == "") == (code == 2)


def test_one_argument_that_is_always_wrong_fails_thirty_sessions(run: Run, tmp_path: Path) -> None:
    """Four of five arguments are right in each: no mean may hide the fifth."""
    expected = {"value": 21.5, "from_unit": "C", "to_unit": "F", "digits": 1, "locale": "en"}
    names = [f"s-{number}" for number in range(30)]
    goldens = [{"session": name, "turns": [{"calls": [{"name": "convert", "args": expected}]}]} for name in names]
    (tmp_path / "convert.json").write_text(json.dumps({"golden_set": "convert", "goldens": goldens}))
    wrong = {**expected, "to_unit": "K"}
    write_lines(tmp_path / "traces.jsonl", *(turn_request(name, ("convert", wrong)) for name in names))
    result = run("score", "traces.jsonl", "--goldens", "convert.json")
    assert result.exit_code == 1
    assert "✗ failed: 30 of 30 sessions failed." in result.output
    assert "mistakes    convert.to_unit x30" in result.output
    allowed = run("score", "traces.jsonl", "--goldens", "convert.json", "--threshold", "0.8")
    assert allowed.exit_code == 0
    assert "mistakes    convert.to_unit x30" in allowed.output


def test_the_page_hints_at_what_seems_to_mean_the_same(run: Run, tmp_path: Path) -> None:
    expected = [
        {"name": "book", "args": {"when": "2026-03-01T09:00:00Z", "price": 0.3}},
        {"name": "get_weather", "args": {"city": "Paris"}},
    ]
    document = {"golden_set": "g", "goldens": [{"session": "s", "turns": [{"calls": expected}]}]}
    (tmp_path / "goldens.json").write_text(json.dumps(document))
    made = ("book", {"when": "2026-03-01T10:00:00+01:00", "price": 0.1 + 0.2}), ("fetch_weather", {"city": "Paris"})
    write_lines(tmp_path / "traces.jsonl", turn_request("s", *made))
    shown = run("score", "traces.jsonl", "--goldens", "goldens.json", "--report", "html=a.html").output
    hints = (
        "when: the same instant: use $datetime",
        "price: differ by 4e-17: use a tolerance ($approx)",
        "same arguments as `fetch_weather`: renamed? then add `aliases: {get_weather: [fetch_weather]}` to the golden",
    )
    words = " ".join(shown.split())
    assert [hint for hint in hints if hint not in words] == []
    assert max(map(len, shown.splitlines())) <= 100
    html = (tmp_path / "a.html").read_text("utf-8")
    assert [hint for hint in hints if hint.partition(": ")[2].split("`")[0] not in html] == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
@pytest.mark.parametrize("arguments", [("score", "traces.jsonl", "--format", "json"), ("inspect", "traces.jsonl")])
def test_standard_output_that_takes_nothing_more_is_said(arguments: tuple[str, ...], tmp_path: Path) -> None:
    write_lines(tmp_path / "traces.jsonl", GOOD)
    command = [Path(sys.executable).with_name("goldspan"), *arguments]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "goldspan: the output cannot be written: No space left on device\n"
