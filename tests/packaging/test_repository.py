"""What the repository offers beside its code agrees with it: hooks, versions, the targets that CI calls."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from goldspan.collector_processor.cli import main
from rigs.repository import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def yaml(path: str | Path) -> Any:
    return YAML(typ="safe").load((ROOT / path).read_text("utf-8"))


def test_ruff_is_the_same_before_a_commit_and_in_the_check() -> None:
    [pinned] = PROJECT["dependency-groups"]["lint"]
    hooks = [hook for repo in yaml(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert [hook["additional_dependencies"] for hook in hooks] == [[pinned]] * len(hooks)


def test_ci_runs_every_python_that_is_declared() -> None:
    declared = [line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", line)]
    [matrix] = [job["strategy"]["matrix"] for job in yaml(WORKFLOWS[0])["jobs"].values() if "strategy" in job]
    assert matrix["python"] == declared
    assert PROJECT["project"]["requires-python"] == f">={declared[0]}"


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / ".ci/run"], ids=lambda path: path.name)
def test_ci_calls_targets_that_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    text = path.read_text("utf-8")
    steps = re.findall(r"^step ([^#\n]+)", text, re.MULTILINE)
    listed = [word for step in steps for word in step.split() if "=" not in word]
    called = {*re.findall(r"\bmake ([a-z-]+)", text), *listed}
    assert called
    assert called <= targets


@pytest.mark.parametrize(("text", "code"), [("golden_set: g\ngoldens: []\n", 0), ("golden_set: g\ngolden: []\n", 2)])
def test_the_hook_for_users_checks_golden_sets(text: str, code: int, tmp_path: Path) -> None:
    [hook] = yaml(".pre-commit-hooks.yaml")
    program, *arguments = shlex.split(hook["entry"])
    assert program in PROJECT["project"]["scripts"]
    path = tmp_path / "goldens.yaml"
    path.write_text(text)
    assert re.search(hook["files"], str(path))
    assert CliRunner().invoke(main, [*arguments, str(path)]).exit_code == code


def test_the_changelog_has_the_version() -> None:
    assert f"\n## [{PROJECT['project']['version']}]\n" in (ROOT / "CHANGELOG.md").read_text("utf-8")
