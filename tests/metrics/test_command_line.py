"""`goldspan score` with metrics and presets: what it shows, writes and exits with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from goldspan.collector_processor.cli import main
from rigs.published_schemas import SCORE_SCHEMA
from rigs.repository import ROOT

TRACE = ROOT / "examples" / "traces" / "strands.otlp.json"
GOLDENS = ROOT / "examples" / "goldens.yaml"
NEVER_MIND = ("--coverage", "lenient")
PASSING = (*NEVER_MIND, "--threshold", "0.8")


def score(*options: object, goldens: Path = GOLDENS) -> Result:
    arguments = ["score", TRACE, "--goldens", goldens, *options]
    return CliRunner().invoke(main, [str(one) for one in arguments], catch_exceptions=False)


def document(*options: object) -> dict[str, Any]:
    ran = score("--format", "json", *options)
    found: dict[str, Any] = json.loads(ran.stdout)
    SCORE_SCHEMA.validate(found)
    return found


def test_a_metric_stands_beside_the_score() -> None:
    (alone,) = document()["sessions"]
    (session,) = document("--metric", "trajectory_f1=0.9", "--metric", "trajectory_recall")["sessions"]
    assert {**session, "metrics": []} == alone
    assert [(one["name"], one["label"]) for one in session["metrics"]] == [
        ("trajectory_f1", "fail"),
        ("trajectory_recall", None),
    ]


@pytest.mark.parametrize(
    ("metric", "exit_code"),
    [("trajectory_f1", 0), ("trajectory_f1=0.8", 0), ("trajectory_f1=0.9", 1), ("trajectory_exact_match=1", 1)],
)
def test_only_a_threshold_fails(metric: str, exit_code: int) -> None:
    ran = score(*PASSING, "--metric", metric)
    assert ran.exit_code == exit_code
    assert ("is too low in 1 session" in ran.output) is bool(exit_code)


def test_the_table_shows_a_metric_that_failed_though_the_session_passed() -> None:
    shown = score(*PASSING, "--metric", "trajectory_f1=0.9").output
    assert "✓ 0.94  weather-strands\n  ✗ 0.83  trajectory_f1  needs 0.90; mean of 2 turns" in shown
    assert "metrics     trajectory_f1 0.83, 1 below 0.90" in shown


def test_a_metric_of_one_s_own_lies_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "async def calls_made(session, golden):\n    return bool(session.turns[0].calls)\n"
    (tmp_path / "metrics_of_mine.py").write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    (session,) = document("--metric", "metrics_of_mine:calls_made=1")["sessions"]
    assert [(one["name"], one["score"], one["label"]) for one in session["metrics"]] == [("calls_made", 1, "pass")]


def test_a_metric_that_breaks_leaves_the_rest_and_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_of_mine.py").write_text("def broken(session, golden):\n    return 1 / 0\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    only_informs = score(*PASSING, "--metric", "broken_of_mine:broken", "-v")
    assert only_informs.exit_code == 0
    assert "broken  the metric raised an error; ZeroDivisionError: division by zero" in only_informs.output
    error = "ZeroDivisionError: division by zero"
    assert f"metrics     broken without a score, 1 raised {error}\n" in only_informs.output
    strict = score("--metric", "broken_of_mine:broken=1")
    assert f"broken could not be evaluated in 1 session ({error})" in " ".join(strict.output.split())


def test_several_errors_of_a_metric_are_counted_and_the_most_frequent_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "def flaky(session, golden):\n"
        "    if session.id < 'weather-l':\n        raise KeyError('city')\n"
        "    raise ConnectionError(f'refused\\nfor {session.id}')\n"
    )
    (tmp_path / "flaky_of_mine.py").write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    options = ("score", TRACE.parent, "--goldens", GOLDENS, "--metric", "flaky_of_mine:flaky=1")
    ran = CliRunner().invoke(main, [str(one) for one in options], catch_exceptions=False)
    words = " ".join(ran.output.split())
    assert "metrics flaky without a score, 4 raised KeyError: 'city' and 2 other errors" in words
    assert "flaky could not be evaluated in 4 sessions (KeyError: 'city' and 2 other errors)" in words


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--metric", "trajectory_f2"), "did you mean `trajectory_f1`?"),
        (("--metric", "trajectory_f1=much"), "found the threshold 'much', expected a number"),
        (("--metric", "nowhere_at_all:f"), "nowhere_at_all cannot be imported"),
        (("--metric", "tool_parameter_match"), "is always scored"),
        (("--preset", "axiom"), "did you mean 'axion'?"),
        (("--preset", "axion", "--option", "strict=true"), "has no option 'strict'"),
        (("--preset", "axion", "--option", "strict_order"), "expected NAME=VALUE"),
        (("--option", "strict_order=true"), "--option sets an option of a preset"),
        (("--preset", "axion", "--criterion", "x.yaml"), "use one"),
    ],
)
def test_wrong_usage_says_what_to_do(options: tuple[str, ...], says: str) -> None:
    ran = score(*options)
    assert ran.exit_code == 2
    assert says in " ".join(ran.output.split())


def test_a_preset_scores_instead_and_its_options_are_values() -> None:
    (session,) = document("--preset", "axion")["sessions"]
    assert (session["preset"], session["score"], session["criterion"]) == ("axion", 1, "axion")
    (session,) = document("--preset", "axion", "--option", "check_parameters=true")["sessions"]
    assert session["score"] == 0.4
    assert session["criterion"].startswith("axion:")
    shown = score("--preset", "axion", "--option", "check_parameters=true", *NEVER_MIND)
    assert shown.exit_code == 1
    assert "weather-strands  scored by axion" in shown.output
    assert "[recall] Correctly called: ['get_weather', 'convert']" in shown.output
    assert "preset axion" in shown.output


def test_what_a_preset_needs_and_is_not_there_is_said() -> None:
    ran = score("--preset", "langchain")
    assert ran.exit_code == 1
    assert "this preset needs messages with their roles" in ran.output


@pytest.mark.parametrize("coverage", ["strict", "lenient"])
def test_the_document_and_the_exit_code_agree(coverage: str) -> None:
    found = document("--metric", "trajectory_f1=0.9")
    assert not found["passed"]
    assert score("--metric", "trajectory_f1=0.9", "--coverage", coverage).exit_code == 1


def test_adk_s_criteria_choose_metrics_too(tmp_path: Path) -> None:
    criteria = {"tool_parameter_match": 0.5, "trajectory_f1": {"threshold": 0.9}, "response_match_score": 0.8}
    path = tmp_path / "test_config.json"
    path.write_text(json.dumps({"criteria": criteria}), "utf-8")
    (session,) = document("--criterion", path)["sessions"]
    assert [(one["name"], one["threshold"]) for one in session["metrics"]] == [("trajectory_f1", 0.9)]
    path.write_text(json.dumps({"criteria": {"tool_parameter_match": 0.5, "trajectory_f1": 9}}), "utf-8")
    ran = score("--criterion", path)
    assert ran.exit_code == 2
    assert "criteria.trajectory_f1: trajectory_f1: found the threshold 9, expected 0 to 1" in ran.output


def test_a_criterion_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says of the criterion, of metrics and of names is of one moment, even while another process writes it."""
    (path := tmp_path / "criterion.json").write_text('{"criteria": {"tool_parameter_match": 0.5}}', "utf-8")
    read: list[Path] = []
    read_bytes = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda one: [read.append(one), read_bytes(one)][1])
    document("--criterion", path)
    assert read.count(path) == 1


def test_a_baseline_holds_metrics_too(tmp_path: Path) -> None:
    before = document("--metric", "trajectory_f1=0.9")
    path = tmp_path / "before.json"

    def against(score_before: float, *metrics: str) -> Result:
        changed = json.loads(json.dumps(before))
        changed["sessions"][0]["metrics"][0] |= {
            "score": score_before,
            "label": "pass" if score_before > 0.9 else "fail",
        }
        path.write_text(json.dumps(changed), "utf-8")
        return score("--baseline", path, *NEVER_MIND, *[part for one in metrics for part in ("--metric", one)])

    same = before["sessions"][0]["metrics"][0]["score"]
    assert against(same, "trajectory_f1=0.9").exit_code == 0
    worse = against(1.0, "trajectory_f1=0.9")
    assert worse.exit_code == 1
    assert "weather-strands: trajectory_f1: passed with 1.00 before, now failed with 0.83" in " ".join(
        worse.output.split()
    )
    assert against(1.0, "trajectory_f1").exit_code == 0, "one that only informs breaks nothing"
    new = against(same, "trajectory_exact_match=1")
    assert "trajectory_exact_match: new, failed with 0.50" in new.output


def test_every_report_shows_metrics_and_presets(tmp_path: Path) -> None:
    files = {kind: tmp_path / f"report.{kind}" for kind in ("junit", "html", "markdown")}
    reports = [part for kind, path in files.items() for part in ("--report", f"{kind}={path}")]
    score(*PASSING, "--metric", "trajectory_f1=0.9", "--metric", "trajectory_recall", *reports)
    text = {kind: path.read_text("utf-8") for kind, path in files.items()}
    assert 'name="weather-strands [trajectory_f1]"' in text["junit"]
    assert 'name="trajectory_recall.score[weather-strands]"' in text["junit"]
    assert "trajectory_recall" in text["html"]
    assert '<span class="badge fail">✗ trajectory_f1 0.83</span></summary>' in text["html"], "seen while it is closed"
    assert "✗ trajectory_f1 0.83" in text["markdown"]
    score(*NEVER_MIND, "--preset", "adk_parameter_match", *reports)
    text = {kind: path.read_text("utf-8") for kind, path in files.items()}
    for kind, words in text.items():
        assert "adk_parameter_match" in words, kind
