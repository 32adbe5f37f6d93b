"""The jobs for GitHub and GitLab that the pages show, and the GitHub Action, executed by a scripted runner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rigs.local_http import Quiet, serving
from rigs.repository import ROOT
from rigs.scripted_ci import Comments, Runner, command, comments_served, recipe
from rigs.trace_requests import turn_request

TRACES = ROOT / "examples/traces/strands.otlp.json"
RIGHT, WRONG = "days: 1", "days: 2"
"""What the golden expects of the last call, which passed 1."""
COUNTS = {"old": 12, "right": 4, "fixed": 5, "new": 3}
"""Sessions of a pull request that failed on main too, passed on both, are fixed, and are newly wrong."""
MARKER = "<!-- goldspan: goldspan -->\n"


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def goldens() -> str:
    """A golden set that the recording passes."""
    made = [sys.executable, "-m", "goldspan.collector_processor.cli", "goldens", "record", str(TRACES), "--name", "w"]
    return subprocess.run(made, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A runner in a new repository, whose commands are those of this environment."""
    commands, venv, folder = (tmp_path / name for name in ("bin", "venv", "work"))
    for one in (commands, venv, folder):
        one.mkdir()
    for place in (commands, venv):
        command(place, "goldspan", f'exec {sys.executable} -m goldspan.collector_processor.cli "$@"')
    command(commands, "python3", f'mkdir -p "$3/bin" && cp {venv}/* "$3/bin"')  # -m venv FOLDER
    command(venv, "python", f'[ "$2" != pip ] || exec echo "$@" > {tmp_path}/installed; exec {sys.executable} "$@"')
    command(commands, "pip", "exit 0")
    command(commands, "gh", 'echo "$@" > commented')
    command(folder, "run-agent-tests.sh", f"cp {TRACES} traces.jsonl")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "before")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    environment = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    return Runner(folder, tmp_path / "temporary", {}, environment)


@pytest.fixture
def comments(runner: Runner) -> Iterator[Comments]:
    """A pull request on which many have commented."""
    with comments_served([f"comment {number}" for number in range(101)]) as served:
        runner.api = served.api
        yield served


def test_the_first_pull_request_is_green_without_a_baseline(runner: Runner, comments: Comments, goldens: str) -> None:
    (runner.folder / "goldens.yaml").write_text(goldens, "utf-8")
    assert runner.run("ci.md"), runner.output
    assert "goldspan: passed" in runner.summary
    assert set(runner.artifacts) == {"report.html", "report.md", "report.xml", "scores.json"}
    assert runner.outputs == {
        "passed": "true",
        "score": "1",
        "reports": f"{runner.temporary}/goldspan/goldspan/reports",
    }
    assert (runner.folder.parent / "installed").read_text("utf-8").split()[-1] == f"{ROOT}[all]"
    assert runner.cache == {}
    assert "::error" not in runner.output


def test_a_red_pull_request_says_everywhere_what_is_wrong(runner: Runner, comments: Comments, goldens: str) -> None:
    before = len(comments.bodies)
    wrong = goldens.replace(RIGHT, WRONG).replace("unit: celsius, days: 3", 'unit: "::add-mask::a", days: 3')
    (runner.folder / "goldens.yaml").write_text(wrong, "utf-8")
    assert not runner.run("ci.md", inputs={"comment": "true", "metrics": "trajectory_f1=0.5\n", "args": "--jobs 1"})
    assert "get_weather.days" in runner.summary
    assert "get_weather.unit" in runner.artifacts["report.html"]
    assert "<failure" in runner.artifacts["report.xml"]
    assert "trajectory_f1" in runner.artifacts["scores.json"]
    assert runner.outputs["passed"] == "false"
    assert 0.8 < float(runner.outputs["score"]) < 1
    assert comments.bodies[before].startswith(f"{MARKER}### ✗ goldspan: failed")
    assert "[All reports](https://github.com/someone/agent/actions/runs/1/artifacts/2)" in comments.bodies[before]

    _, _, rest = runner.output.partition("::stop-commands::")
    end, _, rest = rest.partition("\n")
    shown, _, commands = rest.partition(f"::{end}::\n")
    assert "::add-mask::" in shown  # what traces hold is no command to the runner
    assert len(end) >= 32
    [annotation] = commands.splitlines()
    said = "turn 1: get_weather.days (expected 2, found 1)"
    assert annotation.startswith("::error file=goldens.yaml,line=4,title=weather-strands%3A failed 0.")
    assert said in annotation.split("::", 2)[2].split("%0A")

    (runner.folder / "goldens.yaml").write_text(goldens.replace("session:", "sesion:"), "utf-8")
    assert not runner.run("ci.md")
    assert "\n::error file=goldens.yaml,line=4,title=goldspan::goldens[0]" in runner.output
    [updated] = comments.bodies[before:]
    assert updated.startswith(f"{MARKER}### ✗ goldspan: nothing was scored\n\n    goldspan: goldens.yaml:4")
    assert comments.requests[-1] == f"PATCH /repos/someone/agent/issues/comments/{before}"


@pytest.mark.parametrize(
    ("token", "status", "says"),
    [
        ("t-1", 403, "HTTP Error 403: Forbidden. The job needs `permissions: {pull-requests: write}`"),
        ("t-1", 502, "HTTP Error 502: Bad Gateway. The summary of the run has the same text."),
        ("", 200, "there is no token. The job needs"),
    ],
)
def test_a_comment_that_cannot_be_written_is_a_warning(
    runner: Runner, comments: Comments, token: str, status: int, says: str
) -> None:
    command(runner.folder.parent / "venv", "goldspan", "exit 0")
    runner.token, comments.status = token, status
    assert runner.run("ci.md"), runner.output
    assert f"\n::warning title=goldspan::The comment was not written: {says}" in runner.output


@pytest.mark.parametrize(("main", "pull_request"), [(RIGHT, False), (WRONG, True)], ids=["regressed", "no worse"])
def test_a_pull_request_is_compared_with_main(runner: Runner, goldens: str, main: str, pull_request: bool) -> None:
    (runner.folder / "goldens.yaml").write_text(goldens.replace(RIGHT, main), "utf-8")
    assert runner.run("ci.md", branch="main") is (main == RIGHT), runner.output
    assert "comment" not in runner.output
    traces = TRACES.read_text("utf-8")
    changed = traces if pull_request else traces.replace("Lyon", "Rome")
    assert (changed == traces) is pull_request
    (runner.folder / "changed.json").write_text(changed, "utf-8")
    command(runner.folder, "run-agent-tests.sh", "cp changed.json traces.jsonl")
    assert runner.run("ci.md", inputs={"comment": "false"}) is pull_request, runner.output
    assert ("Regressed" in runner.summary) is not pull_request
    assert ("since the scores of main" in runner.summary) is not pull_request
    assert ("::error " in runner.output) is not pull_request
    assert "comment" not in runner.output


def test_the_comment_says_what_is_new_before_what_failed_already(runner: Runner, comments: Comments) -> None:
    days = {"new": (1, 2), "fixed": (2, 1), "old": (2, 2), "right": (1, 1)}
    names = {name: [f"{name}-{number}" for number in range(count)] for name, count in COUNTS.items()}

    def traces(now: int) -> str:
        sessions = [(one, days[name][now]) for name, of_name in names.items() for one in of_name]
        requests = [turn_request(one, ("get_weather", {"city": "Lyon", "days": passed})) for one, passed in sessions]
        return "".join(f"{json.dumps(one)}\n" for one in requests)

    wanted = [{"name": "get_weather", "args": {"city": "Lyon", "days": 1}}]
    goldens = [{"session": one, "calls": wanted} for of_name in names.values() for one in of_name]
    (runner.folder / "goldens.yaml").write_text(json.dumps({"golden_set": "w", "goldens": goldens}), "utf-8")
    for now in (0, 1):
        (runner.folder / f"runs{now}.json").write_text(traces(now), "utf-8")
        command(runner.folder, "run-agent-tests.sh", f"cp runs{now}.json traces.jsonl")
        inputs = {"comment": "true"} if now else {}
        assert not runner.run("ci.md", inputs=inputs, **({} if now else {"branch": "main"})), runner.output
    report = comments.bodies[-1]
    (runner.folder.parent / "comment.md").write_text(report, "utf-8")
    assert "3 regressions since the scores of main" in report.splitlines()[3]
    regressed, _, rest = report.partition("**Fixed**")
    assert all(regressed.count(f"- {one}: passed with 1.00 before, now failed") == 1 for one in names["new"])
    fixed, _, rest = rest.partition("| first difference |")
    assert all(one in fixed for one in names["fixed"])
    table, _, folded = rest.partition("<summary>12 sessions that failed before, too</summary>")
    assert "get_weather.days" in table
    assert all(one in table for one in names["new"])
    assert all(one in folded and one not in regressed + fixed + table for one in names["old"])
    annotations = [line for line in runner.output.splitlines() if line.startswith("::error ")]
    assert [line.count("title=new-") for line in annotations] == [1, 1, 1]
    assert all("get_weather.days (expected 1, found 2)" in line for line in annotations)


def test_main_keeps_its_scores_if_nothing_could_be_scored(runner: Runner) -> None:
    venv = runner.folder.parent / "venv"
    keep = """for one; do case "$one" in json=*) echo '{"sessions": []}' > "${one#json=}"; esac; done"""
    command(venv, "goldspan", f"{keep}; exit 1")
    assert not runner.run("ci.md", branch="main")
    [key] = kept = dict(runner.cache)
    assert key.startswith("goldspan:goldspan:main:")
    command(venv, "goldspan", "exit 2")
    assert not runner.run("ci.md", branch="main")
    assert runner.cache == kept


@pytest.mark.parametrize(("main", "green"), [(WRONG, True), (None, False)], ids=["no worse", "no baseline"])
def test_a_merge_request_on_gitlab(runner: Runner, goldens: str, main: str | None, green: bool) -> None:
    served = b""

    class Handler(Quiet):
        def do_GET(self) -> None:
            asked = "/api/v4/projects/5/jobs/artifacts/main/raw/scores.json?job=tool-calls"
            assert (self.path, self.headers["PRIVATE-TOKEN"]) == (asked, "r-1")
            self.send_response(200 if served else 404)
            self.end_headers()
            self.wfile.write(served)

    job = recipe("ci.md", ".gitlab-ci.yml")["tool-calls"]
    branch = {
        "CI_PROJECT_ID": "5",
        "CI_JOB_NAME": "tool-calls",
        "CI_API_V4_URL": "http://127.0.0.1:9",
        "READ_TOKEN": "r-1",
    }

    def runs(golden: str, more: dict[str, str]) -> bool:
        (runner.folder / "goldens.yaml").write_text(golden, "utf-8")
        script = ["bash", "-eo", "pipefail", "-c", "\n".join(job["script"])]
        environment = {**runner.environment, **branch, **more}
        done = subprocess.run(script, cwd=runner.folder, env=environment, check=False, capture_output=True, text=True)
        runner.output = done.stdout + done.stderr
        reports = job["artifacts"]["reports"].values()
        assert all((runner.folder / name).exists() for name in (*reports, *job["artifacts"]["paths"])), runner.output
        return done.returncode == 0

    if main is not None:
        assert runs(goldens.replace(RIGHT, main), {}) is (main == RIGHT)
        served = (runner.folder / "scores.json").read_bytes()
    with serving(Handler) as url:
        merge_request = {"CI_MERGE_REQUEST_IID": "3", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}
        golden = goldens.replace(RIGHT, WRONG)
        assert runs(golden, merge_request | {"CI_API_V4_URL": f"{url}/api/v4"}) is green, runner.output
    assert '"path": "goldens.yaml"' in (runner.folder / "quality.json").read_text("utf-8")


@pytest.mark.parametrize("before", [None, RIGHT], ids=["a new file", "a changed file"])
def test_changes_of_goldens_are_shown_on_the_pull_request(runner: Runner, goldens: str, before: str | None) -> None:
    if before is not None:
        (runner.folder / "goldens.yaml").write_text(goldens, "utf-8")
        git(runner.folder, "add", "goldens.yaml")
        git(runner.folder, "commit", "-q", "-m", "goldens")
        git(runner.folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    (runner.folder / "goldens.yaml").write_text(goldens.replace(RIGHT, WRONG), "utf-8")
    assert runner.run("golden-tools.md"), runner.output
    assert ("1 difference" if before else "golden of 2 turns") in runner.summary
    assert "pr comment 7" in (runner.folder / "commented").read_text("utf-8")


def test_a_pull_request_of_a_fork_is_green_though_it_may_not_comment(runner: Runner, goldens: str) -> None:
    (runner.folder / "goldens.yaml").write_text(goldens, "utf-8")
    command(runner.folder.parent / "bin", "gh", "exit 1")
    assert runner.run("golden-tools.md"), runner.output
