"""The sums of a scoring, and what they mean for the exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from goldspan.collector_processor.replay.hints import WORDS
from goldspan.collector_processor.report.layout import counted, listed
from goldspan.collector_processor.report.metric_lines import metric_failures
from goldspan.collector_processor.report.session_names import has_golden, unseen_goldens
from goldspan.collector_processor.report.values import printable
from goldspan.scoring.results import CallResult, Label, Outcome, Reason, RunResult, SessionResult

_NOTHING_LOST = frozenset({Reason.NOTHING_EXPECTED, Reason.NO_GOLDEN})


class Coverage(StrEnum):
    """Whether what could not be evaluated is a failure."""

    STRICT = "strict"
    LENIENT = "lenient"


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
    unknown: Mapping[Reason, int]
    """Why expected calls or whole turns and sessions were not evaluated, and how many."""
    wrong: tuple[tuple[str, int], ...]
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
        calls_unexpected=sum(len(turn.unexpected) for turn in turns),
        calls_rejected=sum(len(turn.rejected) for turn in turns),
        mean=means[0] if len(means) == 1 else None,
        lowest_mean=min(means, default=None),
        unknown=_unknown(scored),
        wrong=_wrong(calls),
        seen=tuple(dict.fromkeys(printable(s.golden.key) for s in scored if s.golden)),
        never_seen=tuple(dict.fromkeys(printable(golden.key) for golden in unseen_goldens(result))),
    )


def _unknown(sessions: list[SessionResult]) -> Counter[Reason]:
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


def _wrong(calls: list[CallResult]) -> tuple[tuple[str, int], ...]:
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


@dataclass(frozen=True, slots=True)
class Judgement:
    """The exit code, 0 or 1, and each reason for it in words."""

    exit_code: int
    because: tuple[str, ...]
    regressions: tuple[str, ...] | None = None
    """What got worse since an earlier run, a sentence each; none where there was no run to compare with."""


def judge(result: RunResult, *, recognised: int, coverage: Coverage, fail_under: Fraction | None = None) -> Judgement:
    """Decide what the result means for a build, as `RunResult.passes` does, and say why.

    Beyond that it fails if no span was recognised, and if the mean score (of any criterion, where goldens use several)
    is below `fail_under`.
    """
    sums = totals(result)
    because = list(nothing_found(result, recognised))
    failed = sum(session.verdict.label is Label.FAIL for session in result.sessions if not session.repeated)
    if failed:
        because.append(f"{failed} of {counted(sum(sums.sessions.values()), 'session')} failed")
    alone = replace(result, sessions=tuple(session for session in result.sessions if not session.repeated))
    because += metric_failures(alone, strict=coverage is Coverage.STRICT)
    because += _repeats(result, coverage)
    if coverage is Coverage.STRICT:
        because += _lost(result)
        if sums.never_seen:
            count = counted(len(sums.never_seen), "golden was", "goldens were")
            because.append(f"{count} never seen ({listed(sums.never_seen)})")
    because += too_low(sums, fail_under)
    return Judgement(1 if because else 0, tuple(because))


def _repeats(result: RunResult, coverage: Coverage) -> Iterator[str]:
    """Say which goldens had too few runs that passed, or that were seen."""
    for repeat in result.repeats:
        label = repeat.verdict.label
        if label is Label.FAIL or (label is Label.NOT_EVALUATED and coverage is Coverage.STRICT):
            yield f"golden {printable(repeat.golden.key)}: {repeat}"


def nothing_found(result: RunResult, recognised: int) -> Iterator[str]:
    """Say that there was nothing to judge, if so: a failure whatever else was asked for."""
    if not recognised:
        yield "no span was recognised as an agent's, a model's or a tool's: see `goldspan inspect`"
    elif not result.sessions:
        yield "no turn of an agent was found: see `goldspan inspect`"


def too_low(sums: Totals, fail_under: Fraction | None) -> Iterator[str]:
    """Say that the mean score is below what is asked for, if so."""
    if fail_under is not None and (sums.lowest_mean is None or sums.lowest_mean < fail_under):
        mean = "no mean score" if sums.lowest_mean is None else f"a mean score of {float(sums.lowest_mean):.4g}"
        yield f"{mean}, where at least {float(fail_under):.4g} is asked for"


def lost_reasons(session: SessionResult) -> list[Reason]:
    """Return why the session, or parts of it, could not be evaluated though they should have been."""
    calls = (call.verdict for turn in session.turns for call in turn.calls)
    verdicts = (session.verdict, *(turn.verdict for turn in session.turns), *calls)
    return [v.reason for v in verdicts if v.reason is not None and v.reason not in _NOTHING_LOST]


def _lost(result: RunResult) -> Iterator[str]:
    """Say what could not be evaluated though it should have been: whole sessions, and parts of others."""
    whole: list[list[Reason]] = []
    partly: list[list[Reason]] = []
    for session in result.sessions:
        reasons = lost_reasons(session)
        if reasons and session.session is not None and session.verdict.label is not Label.FAIL:
            (whole if session.verdict.label is Label.NOT_EVALUATED else partly).append(reasons)
    for what, lost in (("", whole), ("parts of ", partly)):
        if lost:
            words = ", ".join(dict.fromkeys(WORDS[reason] for reasons in lost for reason in reasons))
            yield f"{what}{counted(len(lost), 'session')} could not be evaluated ({words})"
