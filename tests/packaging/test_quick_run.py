"""A quick run of the tests leaves out what it says it does, and says how much that is."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from quick_run import FIXTURES, quick_recordings
from rigs.repository import ROOT

TEST = "tests/mappers/test_outline.py"
RECORDINGS = {path.name.removesuffix(".otlp.json") for path in (FIXTURES / "recordings").glob("*.otlp.json")}


def collected(*arguments: str) -> tuple[set[str], str]:
    """Return the recordings that the cases of a test name, and all that pytest says."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    said = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"test_outline\.py::\w+\[(.+)\]$", said, re.MULTILINE)), said


def test_a_quick_run_has_one_recording_a_dialect() -> None:
    assert len(quick_recordings()) == len(list((FIXTURES / "dialects").iterdir()))
    assert quick_recordings() < RECORDINGS


def test_a_quick_run_says_how_many_tests_it_leaves_out() -> None:
    cases, said = collected(TEST)
    assert cases == quick_recordings()
    tests = (ROOT / TEST).read_text("utf-8").count("@pytest.mark.every_recording\n")
    assert f"quick run: {tests * len(RECORDINGS - cases)} tests left out" in said


def test_a_whole_run_leaves_nothing_out() -> None:
    cases, said = collected("--all", TEST)
    assert cases == RECORDINGS
    assert "left out" not in said


def test_a_whole_run_with_few_examples_tries_a_part_of_what_is_costly() -> None:
    _, said = collected("--all", "--examples=50", "tests/gateway/test_pipeline.py")
    assert f"few examples: {len(RECORDINGS) // 2} tests left out" in said
    _, said = collected("--all", "--examples=51", "tests/gateway/test_pipeline.py")
    assert "left out" not in said


def test_a_case_that_is_named_is_run() -> None:
    [one, *_] = sorted(RECORDINGS - quick_recordings())
    assert one in collected(f"{TEST}::test_an_outline_says_what_reading_says[{one}]")[0]
