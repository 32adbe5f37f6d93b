"""What a release is made of: workflows, actions named by commit, locks that have what the project asks for."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

from rigs.repository import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
WORKFLOWS = ROOT / ".github/workflows"
RELEASE: Any = YAML(typ="safe").load(WORKFLOWS / "release.yml")
LOCKS = ROOT / "config/locks"
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


def locked(name: str) -> dict[str, tuple[str, int]]:
    """Version and number of hashes of each distribution in a lock; one that depends on the platform has its last."""
    text = (LOCKS / f"{name}.txt").read_text("utf-8").replace("\\\n", " ")
    found: dict[str, tuple[str, int]] = {}
    for line in text.splitlines():
        pinned, *hashes = line.split("--hash=sha256:")
        distribution, _, version = pinned.partition(";")[0].strip().partition("==")
        found[canonicalize_name(distribution)] = version, len(hashes)
    return found


def asked_for(extra: str) -> list[Requirement]:
    """What the project and an extra ask for, with the extras that it brings."""
    wanted = [Requirement(one) for one in (*PROJECT["project"]["dependencies"], *EXTRAS[extra])]
    brought = [inner for one in wanted if one.name == "goldspan" for name in one.extras for inner in asked_for(name)]
    return [one for one in wanted if one.name != "goldspan"] + brought


def test_workflows_can_run() -> None:
    if (actionlint := shutil.which("actionlint")) is None:
        pytest.skip("no actionlint on the PATH: go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12")
    files = sorted(WORKFLOWS.glob("*.yml"))
    ran = subprocess.run([actionlint, "-no-color", *files], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "")


def test_a_release_runs_actions_by_their_commit_and_has_no_rights_that_it_does_not_name() -> None:
    used = [step["uses"] for job in RELEASE["jobs"].values() for step in job["steps"] if "uses" in step]
    assert len(used) > 10
    assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one)] == []
    assert RELEASE["permissions"] == {}
    assert "secrets." not in (WORKFLOWS / "release.yml").read_text("utf-8")


def test_nothing_is_published_that_was_not_built_and_nobody_approved() -> None:
    jobs = RELEASE["jobs"]
    assert jobs["publish"]["needs"] == jobs["image"]["needs"] == "build"
    assert jobs["publish"]["environment"] == jobs["image"]["environment"] == "release"
    assert set(jobs["tag"]["needs"]) == {"publish", "image"}


@pytest.mark.parametrize("extra", ["gateway", "kafka"])
def test_a_lock_has_all_that_an_extra_asks_for(extra: str) -> None:
    found = locked(extra)
    for wanted in asked_for(extra):
        version, _ = found[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(version, prereleases=True), wanted
    assert all(hashes for _, hashes in found.values())


def test_the_image_installs_what_is_locked_on_a_base_named_by_digest() -> None:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert bases == ["${BASE}", "${BASE}"]
    assert re.search(r"^ARG BASE=python:3\.13\.\d+-slim-\w+@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE)
    [extra] = re.findall(r"^ARG EXTRAS=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert (LOCKS / f"{extra}.txt").exists()
    installs = re.findall(r"pip install ([^&\n]+)", DOCKERFILE)
    assert installs
    assert all("--require-hashes" in one or "--no-index" in one for one in installs)
    assert {canonicalize_name(one) for one in ("hatchling",)} <= locked("build").keys()


def test_each_extra_gets_a_bill_of_materials() -> None:
    printed = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "sbom"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    [named] = re.findall(r"for extra in ([a-z -]+);", printed.stdout)
    assert set(named.split()) == set(EXTRAS)


def test_the_policy_names_a_contact() -> None:
    text = Path(ROOT / "SECURITY.md").read_text("utf-8")
    assert "/security/advisories/new" in text
