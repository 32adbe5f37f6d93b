"""The workflows for GitHub that the pages show, executed step by step by a scripted runner."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from markdown_pages import blocks

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "examples/traces/strands.otlp.json"
RIGHT, WRONG = "days: 1", "days: 2"
"""What the golden expects of the last call, which passed 1."""


def workflow(page: str) -> dict[str, Any]:
    """The workflow that a page shows."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    [found] = [block.text for block in blocks(text) if block.text.startswith("# .github/workflows/")]
    document: dict[str, Any] = yaml.load(found, yaml.BaseLoader)
    return document


@dataclass
class Runner:
    """Executes the job of a workflow as GitHub does: `run` by bash, which ends at the first error, and few actions."""

    folder: Path
    cache: Path
    environment: dict[str, str]
    summary: str = ""
    artifacts: dict[str, str] = field(default_factory=dict[str, str])
    output: str = ""

    def run(self, page: str, *, ref: str = "refs/pull/1/merge") -> bool:
        """Whether the job is green."""
        [job] = workflow(page)["jobs"].values()
        summary = self.folder / ".summary"
        summary.write_text("", "utf-8")
        green = True
        for step in job["steps"]:
            if not self._applies(step.get("if", "success()"), ref, green=green):
                continue
            if "run" in step:
                done = self._bash(step, summary)
                green = green and (done or step.get("continue-on-error") == "true")
            else:
                self._use(step["uses"].partition("@")[0], step.get("with", {}))
        self.summary = summary.read_text("utf-8")
        return green

    def _applies(self, condition: str, ref: str, *, green: bool) -> bool:
        if condition.startswith("${{ !cancelled()"):
            return ref == "refs/heads/main" or "refs/heads/main" not in condition
        assert condition == "success()"
        return green

    def _bash(self, step: dict[str, Any], summary: Path) -> bool:
        script = self.folder / ".step.sh"
        script.write_text(re.sub(r"\$\{\{ github.event.number \}\}", "1", step["run"]), "utf-8")
        done = subprocess.run(
            ["bash", "-e", str(script)],
            cwd=self.folder,
            env={**self.environment, **step.get("env", {}), "GITHUB_STEP_SUMMARY": str(summary)},
            check=False,
            capture_output=True,
            text=True,
        )
        self.output += done.stdout + done.stderr
        return done.returncode == 0

    def _use(self, action: str, inputs: dict[str, str]) -> None:
        if action == "actions/cache/restore":
            if (kept := self.cache / inputs["path"]).exists():
                shutil.copy(kept, self.folder)
        elif action == "actions/cache/save":
            if (made := self.folder / inputs["path"]).exists():  # the action only warns otherwise
                shutil.copy(made, self.cache)
        elif action == "actions/upload-artifact":
            self.artifacts = {one.name: one.read_text("utf-8") for one in self.folder.glob(inputs["path"])}
        else:
            assert action in {"actions/checkout", "actions/setup-python"}


def command(folder: Path, name: str, text: str) -> None:
    (path := folder / name).write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def goldens(tmp_path: Path) -> str:
    """A golden set that the recording passes."""
    made = [sys.executable, "-m", "goldspan.collector_processor.cli", "goldens", "record", str(TRACES), "--name", "w"]
    return subprocess.run(made, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A runner in a new repository, whose commands are those of this environment."""
    commands, cache, folder = (tmp_path / name for name in ("bin", "cache", "work"))
    for one in (commands, cache, folder):
        one.mkdir()
    command(commands, "goldspan", f'exec {sys.executable} -m goldspan.collector_processor.cli "$@"')
    command(commands, "pip", "exit 0")
    command(commands, "gh", 'echo "$@" > commented')
    command(folder, "run-agent-tests.sh", f"cp {TRACES} traces.jsonl")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "before")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    environment = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}", "GITHUB_BASE_REF": "main"}
    return Runner(folder, cache, environment)


def test_the_first_pull_request_is_green_without_a_baseline(runner: Runner, goldens: str) -> None:
    (runner.folder / "goldens.yaml").write_text(goldens, "utf-8")
    assert runner.run("replay.md"), runner.output
    assert "goldspan: passed" in runner.summary
    assert set(runner.artifacts) == {"report.html", "report.md", "report.xml"}
    assert list(runner.cache.iterdir()) == []


def test_a_red_pull_request_has_its_summary_and_report(runner: Runner, goldens: str) -> None:
    (runner.folder / "goldens.yaml").write_text(goldens.replace(RIGHT, WRONG), "utf-8")
    assert not runner.run("replay.md")
    assert "get_weather.days" in runner.summary
    assert "get_weather.days" in runner.artifacts["report.html"]
    assert "<failure" in runner.artifacts["report.xml"]


@pytest.mark.parametrize(("main", "pull_request"), [(RIGHT, False), (WRONG, True)], ids=["regressed", "no worse"])
def test_a_pull_request_is_compared_with_main(runner: Runner, goldens: str, main: str, pull_request: bool) -> None:
    (runner.folder / "goldens.yaml").write_text(goldens.replace(RIGHT, main), "utf-8")
    assert runner.run("replay.md", ref="refs/heads/main") is (main == RIGHT)
    traces = TRACES.read_text("utf-8")
    changed = traces if pull_request else traces.replace("Lyon", "Rome")
    assert (changed == traces) is pull_request
    (runner.folder / "changed.json").write_text(changed, "utf-8")
    command(runner.folder, "run-agent-tests.sh", "cp changed.json traces.jsonl")
    assert runner.run("replay.md") is pull_request, runner.output
    assert ("Regressed" in runner.summary) is not pull_request


def test_main_keeps_its_baseline_if_nothing_could_be_scored(runner: Runner, goldens: str) -> None:
    (runner.folder / "goldens.yaml").write_text(goldens, "utf-8")
    assert runner.run("replay.md", ref="refs/heads/main")
    baseline = (runner.cache / "baseline.json").read_bytes()
    command(runner.folder, "run-agent-tests.sh", "exit 1")
    (runner.folder / "traces.jsonl").unlink()
    assert not runner.run("replay.md", ref="refs/heads/main")
    assert (runner.cache / "baseline.json").read_bytes() == baseline


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
    assert "pr comment 1" in (runner.folder / "commented").read_text("utf-8")


def test_a_pull_request_of_a_fork_is_green_though_it_may_not_comment(runner: Runner, goldens: str) -> None:
    (runner.folder / "goldens.yaml").write_text(goldens, "utf-8")
    command(runner.folder.parent / "bin", "gh", "exit 1")
    assert runner.run("golden-tools.md"), runner.output


def test_goldens_that_cannot_be_read_are_red(runner: Runner) -> None:
    (runner.folder / "goldens.yaml").write_text("goldens: 1", "utf-8")
    assert not runner.run("golden-tools.md")
    assert not runner.run("replay.md")
