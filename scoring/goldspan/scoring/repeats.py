"""Goldens that are judged over several runs of their session: so many must be seen, and so many of them must pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from goldspan.scoring.goldens.models import Golden, Repeat
from goldspan.scoring.results import Label, Reason, SessionResult, Verdict


@dataclass(frozen=True, slots=True)
class RepeatResult:
    """A golden with `repeat` and every run of its session that was seen."""

    golden: Golden
    repeat: Repeat
    runs: tuple[SessionResult, ...]
    """In the order of the result; each is judged on its own too."""
    verdict: Verdict
    """The score is the share of the runs seen that passed.

    It fails once too many runs failed, whatever is still to come; it passes when enough passed of as many runs as were
    asked for, or of more the same share; else it is not evaluated: `input_missing` while there are too few runs.
    """

    @property
    def passed(self) -> int:
        """How many runs passed."""
        return sum(map(_passed, self.runs))

    def __str__(self) -> str:
        runs = "run" if len(self.runs) == 1 else "runs"
        text = f"{self.passed} of {len(self.runs)} {runs} passed, {self.repeat.passes} of {self.repeat.runs} must"
        few = len(self.runs) < self.repeat.runs and self.verdict.label is Label.NOT_EVALUATED
        return f"{text}: too few were seen" if few else text


def repeats_of(sessions: Iterable[SessionResult]) -> tuple[RepeatResult, ...]:
    """Judge every golden that has `repeat` over its runs, in the order in which they were first seen."""
    runs: dict[tuple[str, str], list[SessionResult]] = {}
    for session in sessions:
        if session.repeated and session.session is not None and session.golden is not None:
            runs.setdefault((session.golden.golden_set, session.golden.key), []).append(session)
    return tuple(result for some in runs.values() if (result := _result(some)) is not None)


def _result(runs: list[SessionResult]) -> RepeatResult | None:
    golden = runs[0].golden
    if golden is None or golden.repeat is None:
        return None
    return RepeatResult(golden, golden.repeat, tuple(runs), _verdict(runs, golden.repeat))


def _verdict(runs: list[SessionResult], repeat: Repeat) -> Verdict:
    seen, passed = len(runs), sum(map(_passed, runs))
    unknown = sum(run.verdict.label is Label.NOT_EVALUATED and not run.failed for run in runs)
    share = Fraction(passed, seen)
    at_most = Fraction(passed + unknown + max(repeat.runs - seen, 0), max(seen, repeat.runs))
    needed = Fraction(repeat.passes, repeat.runs)
    if at_most < needed:
        return Verdict(share, Label.FAIL)
    if seen < repeat.runs:
        return Verdict(share, Label.NOT_EVALUATED, Reason.INPUT_MISSING)
    if share >= needed:
        return Verdict(share, Label.PASS)
    reasons = (run.verdict.reason for run in runs)
    return Verdict(share, Label.NOT_EVALUATED, next((one for one in reasons if one is not None), Reason.INPUT_MISSING))


def _passed(run: SessionResult) -> bool:
    return run.verdict.label is Label.PASS and not run.failed
