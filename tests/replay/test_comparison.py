"""`goldspan compare`: two scored runs side by side, and how sure the difference is."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.collector_processor.replay.comparison_of_runs import Comparison, Movement, Side, compare
from goldspan.collector_processor.replay.intervals import (
    chance_of,
    corrected,
    difference_interval,
    fewer_by_chance,
    rate_interval,
    unpaired_chance,
)
from goldspan.collector_processor.replay.scored_runs import NamedRun, ScoredSession
from rigs.command_line import Run, runner
from rigs.repository import ROOT

MODELS = ROOT / "examples/models"
OLD, NEW, GOLDENS = MODELS / "model-2026-05.jsonl", MODELS / "model-2026-11.jsonl", MODELS / "goldens.yaml"
DIFFERENCES = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), max_size=9)


@pytest.fixture
def compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(tmp_path, monkeypatch, "compare")


@pytest.fixture
def scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(tmp_path, monkeypatch, "score")


def covered(draw: Callable[[Random], Sequence[float]], truth: float, times: int = 1_000) -> float:
    """The share of simulated comparisons whose interval holds the true difference."""
    random = Random(7)
    intervals = [difference_interval(draw(random)) for _ in range(times)]
    return fmean(one is not None and one.low - 1e-9 <= truth <= one.high + 1e-9 for one in intervals)


def test_an_interval_of_a_rate_covers_what_it_says() -> None:
    def draw(random: Random) -> list[float]:
        return random.choices((1.0, -1.0, 0.0), (0.2, 0.1, 0.7), k=24)

    assert 0.93 <= covered(draw, 0.1) <= 0.97


def test_an_interval_of_a_mean_covers_what_it_says() -> None:
    def draw(random: Random) -> list[float]:
        return [random.choice((0.0, 0.0, 0.5, 1.0)) - random.choice((0.0, 0.25, 1.0)) for _ in range(24)]

    assert 0.93 <= covered(draw, 0.375 - 1.25 / 3, 300) <= 0.97


@given(DIFFERENCES)
def test_the_chance_of_a_difference_is_that_of_all_signs(differences: list[float]) -> None:
    least = abs(sum(differences)) - 1e-9
    signs = list(product((1, -1), repeat=len(differences)))
    hits = sum(abs(sum(s * one for s, one in zip(way, differences, strict=True))) >= least for way in signs)
    assert math.isclose(chance_of(differences), hits / len(signs))


def test_no_argument_regresses_by_chance_in_more_than_one_run_of_twenty() -> None:
    random = Random(3)

    def regressed() -> bool:
        rows = [[random.choice((1.0, -1.0, 0.0)) for _ in range(20)] for _ in range(10)]
        return min(corrected([chance_of(row) for row in rows])) < 0.05

    assert sum(regressed() for _ in range(400)) <= 28  # 20 expected at most; 28 by chance in 1 of 30 such tests


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [((5, 1, 24), -0.042, 0.377), ((0, 0, 30), -0.114, 0.114)],
    ids=["Tango", "nothing changed"],
)
def test_the_interval_of_a_rate(counts: tuple[int, int, int], low: float, high: float) -> None:
    assert rate_interval(*counts) == pytest.approx((low, high), abs=1e-3)


def test_fewer_passes_by_chance() -> None:
    assert fewer_by_chance(5, 5, 2, 5) == pytest.approx(21 / 252)
    assert fewer_by_chance(1, 2, 1, 2) == pytest.approx(5 / 6)


def test_two_samples_that_are_alike_differ_by_chance() -> None:
    assert unpaired_chance([1.0, 0.0, 1.0], [0.0, 1.0, 1.0]) > 0.9
    assert unpaired_chance([1.0] * 20, [0.0] * 20) < 0.01
    assert unpaired_chance([], [1.0]) == 1


def run_of(**outcomes: str) -> list[ScoredSession]:
    """Sessions by golden, with one call and one argument of these outcomes."""
    documents = [
        {
            "id": name,
            "golden": name.partition("_")[0],
            "golden_set": "shop@1",
            "metric": "tool_parameter_match",
            "criterion": "c",
            "score": float(outcome == "matched"),
            "label": "pass" if outcome == "matched" else "fail",
            "reason": None,
            "turns": [
                {
                    "expected_index": 0,
                    "calls": [
                        {
                            "tool": "pay",
                            "expected_index": 0,
                            "expected_arguments": {},
                            "score": float(outcome == "matched"),
                            "label": "pass",
                            "reason": None,
                            "arguments": [{"name": "currency", "outcome": outcome, "actual": outcome}],
                        }
                    ],
                }
            ],
        }
        for name, outcome in outcomes.items()
    ]
    return list(NamedRun.of("x.json", {"sessions": documents, "never_seen": []}).run.sessions)


def compared_runs(before: list[ScoredSession], after: list[ScoredSession]) -> Comparison:
    return compare(Side("before", before), Side("after", after))


def test_sessions_are_paired_by_id_else_by_golden() -> None:
    found = compared_runs(
        run_of(a="matched", b_1="matched", c="matched"), run_of(a="mismatched", b_2="matched", d="matched")
    )
    assert [str(task) for task in found.newly_failing] == ["a"]
    assert ([str(task) for task in found.only_before], [str(task) for task in found.only_after]) == (["c"], ["d"])
    assert found.overall[0].tasks == 2


def test_runs_of_one_task_are_one_number() -> None:
    before = run_of(a_1="matched", a_2="matched", b_1="matched")
    [passes, _] = compared_runs(before, run_of(a_3="matched", a_4="mismatched", b_9="matched")).overall
    assert (passes.tasks, passes.before, passes.after) == (2, 1.0, 0.75)


def test_a_value_that_changed_is_counted() -> None:
    found = compared_runs(run_of(a="matched", b="matched"), run_of(a="mismatched", b="mismatched"))
    assert [tuple(one) for one in found.values] == [("pay.currency", '"matched"', '"mismatched"', 2, False)]


def test_an_argument_that_fell_everywhere_regressed() -> None:
    names = [f"g{number}" for number in range(12)]
    before = run_of(**dict.fromkeys(names, "matched"))
    [row] = compared_runs(before, run_of(**dict.fromkeys(names, "mismatched"))).arguments
    assert (row.name, row.change, row.broke, row.difference) == ("pay.currency", Movement.REGRESSED, 12, -1.0)
    [row] = compared_runs(before, before).arguments
    assert row.change is Movement.SAME


def test_without_a_common_task_sides_are_samples() -> None:
    found = compared_runs(run_of(a="matched", b="matched"), run_of(c="mismatched", d="mismatched"))
    assert not found.paired
    assert (found.overall[0].before, found.overall[0].after, found.overall[0].tasks) == (1.0, 0.0, 4)


def test_the_models_of_the_example(compared: Run) -> None:
    document = json.loads(compared(OLD, NEW, "--goldens", GOLDENS, "--format", "json").stdout)
    assert [task["session"] for task in document["newly_failing"]] == ["case-14", "case-18", "case-22"]
    assert len(document["fixed"]), len(document["still_failing"]) == (9, 4)
    changes = {row["name"]: row["change"] for row in document["arguments"] if "regressed" in row["change"]}
    assert changes == {"refund.currency": "perhaps regressed"}
    assert {("refund.currency", '"EUR"', '"USD"', 3), ("refund.currency", '"GBP"', '"USD"', 2)} <= {
        (one["argument"], one["before"], one["after"], one["times"]) for one in document["values"]
    }


def test_a_document_a_table_and_traces_say_the_same(compared: Run, scored: Run, tmp_path: Path) -> None:
    table = tmp_path / "old.parquet"
    pytest.importorskip("pyarrow", reason="needs pyarrow, the extra `parquet`")
    scored(OLD, "--goldens", GOLDENS, "--output", table, "--include-values")
    document = tmp_path / "new.json"
    document.write_text(scored(NEW, "--goldens", GOLDENS, "--format", "json").stdout, "utf-8")
    of_files = json.loads(compared(table, document, "--format", "json").stdout)
    of_traces = json.loads(compared(OLD, NEW, "--goldens", GOLDENS, "--format", "json").stdout)
    assert {**of_files, "before": "", "after": ""} == {**of_traces, "before": "", "after": ""}


def test_one_source_is_compared_by_an_attribute(compared: Run, tmp_path: Path) -> None:
    both = tmp_path / "both.jsonl"
    newer = NEW.read_text("utf-8").replace('"case-', '"next-')
    both.write_text(OLD.read_text("utf-8") + newer, "utf-8")
    page = compared(both, "--by", "model").stdout
    assert page.startswith("model-2026-11, compared with model-2026-05: no task is on both sides")
    named = compared(both, "--by", "gen_ai.request.model").stdout
    assert named == page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((OLD,), "expected two sources, or one with --by"),
        ((OLD, NEW, OLD), "expected two sources"),
        ((OLD, "--by", "nobody.has.it"), "no session has nobody.has.it"),
        ((OLD, "--by", "model"), "all sessions have model-2026-05"),
        ((OLD, NEW, "--report", "pdf=x"), "expected KIND=FILE"),
        ((OLD, NEW, "--report", "html=none/x.html"), "none/x.html: cannot be written"),
    ],
)
def test_what_cannot_be_compared_is_said(compared: Run, arguments: tuple[object, ...], message: str) -> None:
    result = compared(*arguments)
    assert (result.exit_code, message in " ".join(result.stderr.split())) == (2, True), result.stderr


def test_reports_are_written(compared: Run, tmp_path: Path) -> None:
    markdown, page = tmp_path / "c.md", tmp_path / "c.html"
    compared(OLD, NEW, "--goldens", GOLDENS, "--report", f"markdown={markdown}", "--report", f"html={page}")
    over = compared(OLD, markdown, "--report", f"html={markdown}")
    assert (over.exit_code, "is one of the files that are read" in over.stderr) == (2, True)
    assert "| ? | <code>refund.currency</code> | 100 % | 54.5 % | -45.5 |" in markdown.read_text("utf-8")
    assert "script" not in (html := page.read_text("utf-8"))
    assert '<th scope="row">refund.currency</th>' in html
