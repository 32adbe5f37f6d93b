"""What sessions are called in a report, which of them have something to be judged by, and which goldens never came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from goldspan.collector_processor.report.values import printable
from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.results import Reason, RunResult, SessionResult


def has_golden(session: SessionResult) -> bool:
    """Whether the session was seen and some golden wanted it."""
    return session.session is not None and session.verdict.reason is not Reason.NO_GOLDEN


def sessions_with_golden(sessions: Sequence[SessionResult]) -> list[tuple[str, SessionResult]]:
    """Return those that have a golden, each with its name."""
    return [pair for pair in zip(session_names(sessions), sessions, strict=True) if has_golden(pair[1])]


def unseen_goldens(result: RunResult) -> list[Golden]:
    """Return the goldens that no session was seen of."""
    judged_unseen = (one.golden for one in result.sessions if one.session is None and one.golden is not None)
    return [*result.never_seen, *judged_unseen]


def run_numbers(sessions: Sequence[SessionResult]) -> list[tuple[int, int]]:
    """Return for each session which run of its id it is, from 1, and how many there are; by metric."""
    keys = [(result.session.id, result.metric) if result.session else None for result in sessions]
    totals = Counter(keys)
    seen: Counter[tuple[str, str] | None] = Counter()
    numbers: list[tuple[int, int]] = []
    for key in keys:
        seen[key] += 1
        numbers.append((seen[key], totals[key]))
    return numbers


def session_names(sessions: Sequence[SessionResult]) -> list[str]:
    """Session ids as they can be told apart: a second run of one id says so."""
    return [
        printable(result.session.id) + (f" (run {number} of {total})" if total > 1 else "") if result.session else ""
        for result, (number, total) in zip(sessions, run_numbers(sessions), strict=True)
    ]
