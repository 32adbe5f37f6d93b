"""Scores of single calls put together to the score of a session, for metrics that judge one call after another.

A live session is scored again after each turn. So a run's scores are kept turn by turn, and only those of turns that
are new, or that later turns change, are made again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from goldspan.scoring.comparison import share
from goldspan.scoring.json_values import counted, pointer_name
from goldspan.scoring.sessions import Session, ToolCall, Turn, unchanged_start
from goldspan.scoring.verdict import REASON_TEXT, Finding, MetricScore, Range, Reason

SHOWN = 3
"""So many findings are in an explanation."""


class CallScore(Struct, frozen=True, gc=False):
    """How a metric judges one call: so many of its parts are right, of so many judged."""

    call: ToolCall
    right: int = 0
    judged: int = 0
    findings: tuple[Finding, ...] = ()
    reason: Reason | None = None
    """Why nothing was judged."""


class Judgement(Struct, frozen=True, gc=False):
    """What some calls, or answers, come to: so many of their parts are right, of so many judged."""

    right: int = 0
    judged: int = 0
    reason: Reason | None = None
    """The first reason why a call was not judged, other than that there is nothing to judge."""
    wrong: int = 0
    """Findings that lower the score."""
    shown: tuple[tuple[str, str], ...] = ()
    """The first of them as sentences, without and with values."""


class RunningScore(ABC):
    """The score of one run: right parts / judged parts, over all calls. It is called with more and more turns."""

    def __init__(self, unit: str) -> None:
        """Name a part by `unit`: `argument`."""
        self._unit = unit
        self._turns: Sequence[Turn] = ()
        self._scores: list[MetricScore] = []
        self._sums: list[Judgement] = []  # what the calls of the first so many turns come to

    def __call__(self, session: Session) -> MetricScore:
        """Score the turns of a session; those that are the same objects as before, and that nothing new concerns, once.

        The sessions differ in their turns only.
        """
        turns, same = session.turns, unchanged_start(self._turns, session.turns)
        self._turns = ()  # until all is done: a failure leaves nothing half done
        kept = min(self._begin(session, same), same)
        scores, sums = self._scores, self._sums
        del scores[kept:], sums[kept:]
        for index in range(kept, len(turns)):
            turn = turns[index]
            in_doubt = turn.doubts and turn.has_doubtful_calls
            doubted = [CallScore(one, reason=Reason.READING_DOUBTFUL) for one in turn.calls] if in_doubt else None
            judged = self._judged(index, turn) if doubted is None else doubted
            score, total = _scored_turn(judged, self._unit)
            scores.append(score)
            sums.append(total_of([sums[-1], total]) if sums else total)
        self._turns = turns
        return replace(score_of(sums[-1] if sums else Judgement(), self._unit), turns=list(scores))

    @abstractmethod
    def _begin(self, session: Session, same: int) -> int:
        """Take in the turns; the first `same` are those of the last call. Return how many of their scores stand."""

    @abstractmethod
    def _judged(self, index: int, turn: Turn) -> Sequence[CallScore]:
        """Judge the calls of a turn; the turns come in order."""


class CallMetric(Struct, frozen=True):
    """Base class of metrics that judge one call after another."""

    range: Range = Range(0.0, 1.0)
    by_turn: bool = True

    def __call__(self, session: Session, _golden: object = None, /) -> MetricScore:
        """Judge every call of a session, rejected requests aside."""
        return self.running()(session)

    def running(self, beside: Mapping[str, RunningScore] | None = None) -> RunningScore:
        """Return what judges one run while it grows; `beside` are what other metrics have for the run, by name."""
        raise NotImplementedError


def _scored_turn(calls: Sequence[CallScore], unit: str) -> tuple[MetricScore, Judgement]:
    sums = list(map(_sum, calls))
    total = total_of(sums)
    of_calls = [score_of(one, unit, call.findings) for call, one in zip(calls, sums, strict=True)]
    return replace(score_of(total, unit), calls=of_calls), total


def _sum(call: CallScore) -> Judgement:
    wrong = [finding for finding in call.findings if finding.failed]
    reason = None if call.reason is Reason.NOTHING_EXPECTED else call.reason
    return Judgement(call.right, call.judged, reason, len(wrong), tuple(_said(call.call, one) for one in wrong[:SHOWN]))


def _said(call: ToolCall, finding: Finding) -> tuple[str, str]:
    place = f"{call.name}.{pointer_name(finding.path)}" if finding.path else call.name
    return f"{place}: {finding.words(include_values=False)}", f"{place}: {finding.words(include_values=True)}"


def total_of(sums: Sequence[Judgement]) -> Judgement:
    """Return what several judgements come to together."""
    shown = [said for one in sums if one.wrong for said in one.shown]
    return Judgement(
        sum([one.right for one in sums]),
        sum([one.judged for one in sums]),
        next((one.reason for one in sums if one.reason is not None), None),
        sum([one.wrong for one in sums]),
        tuple(shown[:SHOWN]),
    )


def score_of(total: Judgement, unit: str, findings: tuple[Finding, ...] = ()) -> MetricScore:
    """Return the share of right parts, each of which is called a `unit`, and says so in words."""
    if not total.judged:
        reason = total.reason or Reason.NOTHING_EXPECTED
        return MetricScore(None, REASON_TEXT[total.reason] if total.reason else "", reason, findings=findings)
    words = detailed = f"{total.right} of {counted(total.judged, unit)}"
    if total.shown:
        more = f"; and {total.wrong - SHOWN} more" if total.wrong > SHOWN else ""
        words, detailed = (f"{words}; {'; '.join(one)}{more}" for one in zip(*total.shown, strict=True))
    return MetricScore(share(total.right, total.judged), words, findings=findings, detailed=detailed)
