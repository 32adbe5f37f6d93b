"""What a run adds up to: counts, means, and the names of sessions and goldens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from goldspan.collector_processor.replay.wording import printable
from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.metric_results import MetricVerdict
from goldspan.scoring.results import CallResult, Outcome, SessionResult
from goldspan.scoring.run import RunResult
from goldspan.scoring.verdict import Label, Reason

_HARMLESS = frozenset({Reason.NOTHING_EXPECTED, Reason.NO_GOLDEN})
"""Reasons for having no score that are no gap: there was nothing to evaluate."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts over all sessions of a result."""

    sessions: Mapping[Label, int]
    """Sessions that have a golden."""
    without_golden: tuple[str, ...]
    calls_expected: int
    calls_matched: int
    calls_missing: int
    calls_evaluated: int
    calls_unexpected: int
    calls_rejected: int
    mean: Fraction | None
    """Mean session score; none where nothing was evaluated, or where goldens used different criteria."""
    lowest_mean: Fraction | None
    """The lowest of the means of sessions that share a criterion."""
    not_evaluated: Mapping[Reason, int]
    """Why expected calls or whole turns and sessions were not evaluated, and how many."""
    mistakes: tuple[tuple[str, int], ...]
    """Arguments, as in `get_weather.days`, and calls never made, by how often they were wrong; most often first."""
    seen: tuple[str, ...]
    never_seen: tuple[str, ...]


def totals(result: RunResult) -> Totals:
    """Sum up a result."""
    scored = [session for session in result.sessions if has_golden(session)]
    turns = [turn for session in scored for turn in session.turns]
    calls = [call for turn in turns for call in turn.calls]
    groups: dict[str, list[Fraction]] = {}
    for session in scored:
        if session.verdict.exact is not None:
            groups.setdefault(session.criterion, []).append(session.verdict.exact)
    means = [sum(scores, Fraction(0)) / len(scores) for scores in groups.values()]
    return Totals(
        sessions=Counter(session.verdict.label for session in scored),
        without_golden=tuple(
            printable(s.session.id) for s in result.sessions if s.session and s.verdict.reason is Reason.NO_GOLDEN
        ),
        calls_expected=len(calls),
        calls_matched=sum(call.verdict.exact == 1 for call in calls),
        calls_missing=sum(call.missing for call in calls),
        calls_evaluated=sum(call.verdict.exact is not None for call in calls),
        calls_unexpected=sum(len(turn.unexpected_calls) for turn in turns),
        calls_rejected=sum(len(turn.rejected) for turn in turns),
        mean=means[0] if len(means) == 1 else None,
        lowest_mean=min(means, default=None),
        not_evaluated=_not_evaluated(scored),
        mistakes=_mistakes(calls),
        seen=tuple(dict.fromkeys(printable(s.golden.key) for s in scored if s.golden)),
        never_seen=tuple(dict.fromkeys(printable(golden.key) for golden in unseen_goldens(result))),
    )


def _not_evaluated(sessions: list[SessionResult]) -> Counter[Reason]:
    found: Counter[Reason] = Counter()
    for session in sessions:
        reasons = [call.verdict.reason for turn in session.turns for call in turn.calls if call.verdict.reason]
        # A turn or a session repeats the reason of its calls; only one that has no such call adds something.
        for turn in session.turns:
            if turn.verdict.reason and turn.verdict.reason not in reasons:
                found[turn.verdict.reason] += 1
        found.update(reasons)
        if session.verdict.reason and session.verdict.reason not in found:
            found[session.verdict.reason] += 1
    return found


def _mistakes(calls: list[CallResult]) -> tuple[tuple[str, int], ...]:
    found: Counter[str] = Counter()
    for call in calls:
        if call.expected is None:
            continue
        if call.missing:
            found[f"{printable(call.expected.name)} (not called)"] += 1
        else:
            for outcome in (Outcome.MISMATCHED, Outcome.MISSING):
                found.update(printable(f"{call.expected.name}.{name}") for name in call.arguments_with(outcome))
    return tuple(found.most_common())


def gaps(session: SessionResult) -> list[Reason]:
    """Return why the session, or parts of it, could not be evaluated though they should have been."""
    calls = (call.verdict for turn in session.turns for call in turn.calls)
    verdicts = (session.verdict, *(turn.verdict for turn in session.turns), *calls)
    return [v.reason for v in verdicts if v.reason is not None and v.reason not in _HARMLESS]


def is_gap(verdict: MetricVerdict) -> bool:
    """Whether a metric has no score though it should have one."""
    return verdict.reason is not None and verdict.reason not in _HARMLESS


def has_golden(session: SessionResult) -> bool:
    """Whether the session was seen and some golden is for it."""
    return session.session is not None and session.verdict.reason is not Reason.NO_GOLDEN


def unseen_goldens(result: RunResult) -> list[Golden]:
    """Return the goldens of which no session was seen."""
    scored_unseen = (one.golden for one in result.sessions if one.session is None and one.golden is not None)
    return [*result.never_seen, *scored_unseen]


def run_numbers(sessions: Sequence[SessionResult]) -> list[tuple[int, int]]:
    """Return for each session which run of its id it is, from 1, and how many there are; by metric."""
    keys = [(result.session.id, result.metric) if result.session else None for result in sessions]
    counts = Counter(keys)
    seen: Counter[tuple[str, str] | None] = Counter()
    numbers: list[tuple[int, int]] = []
    for key in keys:
        seen[key] += 1
        numbers.append((seen[key], counts[key]))
    return numbers


def session_names(sessions: Sequence[SessionResult]) -> list[str]:
    """Return the session ids; where an id has several runs, with the number of the run."""
    return [
        printable(result.session.id) + (f" (run {number} of {count})" if count > 1 else "") if result.session else ""
        for result, (number, count) in zip(sessions, run_numbers(sessions), strict=True)
    ]
