"""What a report of `goldspan score` says beside the results themselves: sums, hints, and why the run passed or failed.

Renderers read the results: `scoring/result_words.py` has the phrases, `scoring/result_lines.py` the lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from msgspec import Struct

from goldspan.collector_processor.replay.hints import ArgumentAdvice, Hint, hints_for_run
from goldspan.collector_processor.replay.summary_and_exit_code import (
    CoverageMode,
    ExitDecision,
    MetricTotals,
    Totals,
    because,
    metric_totals,
    run_numbers,
    session_names,
    summary_rows,
    totals,
    unseen_goldens,
)
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.pages import RIGHT, WORST_FIRST, WRONG, printable
from goldspan.scoring.ranked_findings import RankedFindings
from goldspan.scoring.result_words import SessionWords
from goldspan.scoring.results import SessionResult
from goldspan.scoring.run import RepeatResult, ScoringResult
from goldspan.scoring.verdict import Label


class Report(Struct, frozen=True, gc=False):
    """Everything that any report of one run says."""

    failed: bool
    because: str
    """The sentence after `passed` or `failed` that ends every report."""
    strict: bool
    golden_sets: Mapping[str, str]
    totals: Totals
    summary: tuple[tuple[str, str], ...]
    sessions: tuple[SessionWords, ...]
    """Those that have a golden."""
    without_golden: tuple[SessionWords, ...]
    """Those without golden that metrics judged."""
    findings: RankedFindings
    """What metrics found in sessions without golden."""
    metrics: tuple[MetricTotals, ...]
    """The metrics that need no golden, over all sessions."""
    repeats: tuple[RepeatResult, ...]
    regressions: tuple[str, ...]
    fixed: tuple[str, ...]
    """Sessions that failed in the run that this one is compared with, and pass."""
    known_failures: frozenset[str]
    """Sessions that fail as they did in that run."""
    hints: tuple[Hint, ...]
    problems: tuple[tuple[str, str], ...]
    never_seen: tuple[Golden, ...]

    @property
    def first_difference(self) -> str:
        """The first difference of the worst session, after the session's name; empty where nothing failed."""
        worst = next((one for one in self.worst_first() if one.failed and one.mistakes), None)
        return "" if worst is None else f"{worst.name}, {worst.first_line}"

    @property
    def first_head(self) -> str:
        """What `first_difference` is: without goldens nothing differs from anything."""
        return "First difference" if self.sessions else "First finding"

    @property
    def word(self) -> str:
        """`passed` or `failed`."""
        return "failed" if self.failed else "passed"

    @property
    def mark(self) -> str:
        """The mark of the whole run."""
        return WRONG if self.failed else RIGHT

    def worst_first(self) -> list[SessionWords]:
        """Return the sessions, failed ones first, each label by its score; those without golden last of a label.

        Those that failed in the run before as they do now come after those that are new.
        """

        def order(session: SessionWords) -> tuple[int, bool, bool, Fraction]:
            label = Label.FAIL if session.failed else session.label
            known = session.name in self.known_failures
            return WORST_FIRST.index(label), known, session.score is None, session.score or Fraction(0)

        return sorted((*self.sessions, *self.without_golden), key=order)


def build_report(
    result: ScoringResult,
    decision: ExitDecision,
    *,
    coverage: CoverageMode = CoverageMode.STRICT,
    advice: ArgumentAdvice = lambda _: None,
) -> Report:
    """Put a result in words. `advice` says by dialect what must be switched on to have arguments captured."""
    sums = totals(result)
    numbered = zip(result.sessions, session_names(result.sessions), run_numbers(result.sessions), strict=True)
    sessions = [
        SessionWords.of(one, name, run, _helps(one, advice))
        for one, name, run in numbered
        if one.has_golden or one.metrics
    ]
    return Report(
        failed=bool(decision.exit_code),
        because=because(decision, sums),
        strict=coverage is CoverageMode.STRICT,
        golden_sets={printable(name): digest for name, digest in result.golden_sets.items()},
        totals=sums,
        summary=tuple(summary_rows(result, sums)),
        sessions=tuple(one for one in sessions if one.has_golden),
        without_golden=tuple(one for one in sessions if not one.has_golden),
        findings=result.findings,
        metrics=metric_totals(result),
        repeats=result.repeats,
        regressions=decision.regressions or (),
        fixed=decision.fixed,
        known_failures=decision.known_failures,
        hints=tuple(hints_for_run(result, sums, advice)),
        problems=problem_texts(result.problems),
        # Each once that a report can tell from the others.
        never_seen=tuple({(one.key, one.golden_set, one.source): one for one in unseen_goldens(result)}.values()),
    )


def _helps(session: SessionResult, advice: ArgumentAdvice) -> str:
    """Return what may help a session that was not evaluated though it has a golden."""
    if session.reason is None or not session.has_golden:
        return ""
    alone = ScoringResult((session,))
    return "; ".join(text for _, text in hints_for_run(alone, totals(alone), advice))


def problem_texts(problems: Sequence[Problem]) -> tuple[tuple[str, str], ...]:
    """Return code and message of each problem."""
    return tuple((printable(problem.code), printable(str(problem))) for problem in problems)
