"""A metric from another distribution, installed beside goldspan: known by its name, and imported when that is said."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from rigs.other_distributions import goldspan, installed

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
GOLDENS = """
format: 1
golden_set: weather
metrics: {brevity: 6}
goldens:
  - session: weather-google-adk
    turns:
      - calls: [{name: get_weather, args: {city: Paris}}]
      - calls: [{name: book_table, args: {people: 2}}]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(HERE / "brevity", tmp_path_factory)


def score(site: Path | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    return goldspan(
        "score", str(EXAMPLES / "traces" / "google-adk.otlp.json"), "--format", "json", *arguments, site=site
    )


@pytest.fixture
def goldens(tmp_path: Path) -> str:
    path = tmp_path / "goldens.yaml"
    path.write_text(GOLDENS, "utf-8")
    return str(path)


def test_a_golden_set_may_name_it(site: Path, goldens: str) -> None:
    ran = score(site, "--goldens", goldens)
    assert ran.returncode == 1, ran.stderr
    (session,) = json.loads(ran.stdout)["sessions"]
    (metric,) = session["metrics"]
    assert session["label"] == "pass"
    assert metric["name"] == "brevity"
    assert metric["description"] == "10 for a session without calls, one less for each call."
    assert (metric["range"], metric["threshold"]) == ([0, 10], 6)
    assert (metric["score"], metric["label"], metric["explanation"]) == (5, "fail", "5 calls in 2 turns")
    assert [(turn["index"], turn["score"], turn["label"]) for turn in metric["turns"]] == [
        (0, 7, "pass"),
        (1, 8, "pass"),
    ]


def test_the_command_line_may_name_it(site: Path) -> None:
    ran = score(site, "--goldens", str(EXAMPLES / "goldens.yaml"), "--metric", "brevity", "--coverage", "lenient")
    assert ran.returncode == 0, ran.stderr
    names = {metric["name"] for session in json.loads(ran.stdout)["sessions"] for metric in session["metrics"]}
    assert names == {"brevity"}


def test_where_it_is_not_installed_its_name_is_a_mistake_in_the_golden_set(goldens: str) -> None:
    ran = score(None, "--goldens", goldens)
    assert ran.returncode == 2
    assert "goldens.yaml:4: metrics.brevity: no metric is called brevity; known are" in ran.stderr


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("brevity = nobody_has_this_module:METRIC", "cannot be loaded"),
        ("brevity = json:__doc__", "expected a metric or a function"),
        ("other = goldspan_metric_brevity:brevity", "is called `brevity`"),
    ],
)
def test_a_registration_that_is_wrong_is_said(site: Path, tmp_path: Path, entry: str, says: str) -> None:
    folder = shutil.copytree(site, tmp_path / "site")
    (about,) = folder.glob("*.dist-info")
    (about / "entry_points.txt").write_text(f"[goldspan.metrics]\n{entry}\n", "utf-8")
    name = entry.partition(" ")[0]
    ran = score(folder, "--goldens", str(EXAMPLES / "goldens.yaml"), "--metric", name)
    assert ran.returncode == 2
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr
