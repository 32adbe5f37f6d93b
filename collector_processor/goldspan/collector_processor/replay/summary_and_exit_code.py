"""What a run adds up to: counts, means, the exit code and every reason for it, and all of that in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import chain

from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.pages import LABEL_WORDS, counted, listed, number_text, printable, score_text, shorten
from goldspan.scoring.result_words import finding_name, judged_calls, mistake_name, reason_words
from goldspan.scoring.results import CallResult, SessionResult, TurnResult
from goldspan.scoring.run import ScoringResult
from goldspan.scoring.verdict import (
    HARMLESS_REASONS,
    REASON_TEXT,
    Label,
    MetricCall,
    MetricResult,
    MetricVerdict,
    Reason,
)


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts over all sessions of a result."""

    sessions: Mapping[Label, int]
    """Sessions that have a golden."""
    without_golden: tuple[str, ...]
    judged_without_golden: Mapping[Label, int]
    """Sessions without golden, by what the metrics with a threshold say of them; not evaluated if none has a score."""
    calls: Mapping[str, int]
    """Expected calls, by what became of them."""
    other_calls: Mapping[str, int]
    """Calls that nothing expected, and requests that were refused."""
    mean: Fraction | None
    """Mean session score; none where nothing was evaluated, or where goldens used different criteria."""
    lowest_mean: Fraction | None
    """The lowest of the means of sessions that share a criterion."""
    not_evaluated: Mapping[Reason, int]
    """Why expected calls or whole turns and sessions were not evaluated, and how many."""
    mistakes: tuple[tuple[str, int], ...]
    """Wrong arguments, as in `get_weather.days`, and other differences that lower a score; most often first."""
    findings: tuple[tuple[str, int], ...]
    """What metrics that need no golden found wrong, as in `get_weather.days (no origin)`, and in how many calls."""
    seen: tuple[str, ...]
    never_seen: tuple[str, ...]
    with_findings: int
    """Sessions without golden that have a rare finding."""
    informs: bool
    """There are no goldens, and no metric has a threshold: what is found fails nothing."""


def totals(result: ScoringResult) -> Totals:
    """Sum up a result."""
    scored = [session for session in result.sessions if session.has_golden]
    others = [session for session in result.sessions if not session.has_golden]
    turns = list(chain.from_iterable(session.turns for session in scored))
    means = _means(scored)
    return Totals(
        sessions=Counter(session.verdict.label for session in scored),
        without_golden=tuple(printable(one.session.id) for one in others if one.session),
        judged_without_golden=Counter(one.label_of_metrics for one in others if one.metrics),
        calls=Counter(map(_standing, chain.from_iterable(turn.calls for turn in turns))),
        other_calls=_other_calls(turns),
        mean=means[0] if len(means) == 1 else None,
        lowest_mean=min(means, default=None),
        not_evaluated=_not_evaluated(scored),
        mistakes=_mistakes(turns),
        findings=_findings(result),
        seen=_names(one.golden for one in scored if one.golden),
        never_seen=_names(unseen_goldens(result)),
        with_findings=len(result.findings.sessions),
        informs=_only_informs(result),
    )


def _only_informs(result: ScoringResult) -> bool:
    """Whether there are no goldens, and metrics of which none can fail a session."""
    if result.golden_sets or any(session.has_golden for session in result.sessions):
        return False
    metrics = [metric for session in result.sessions for metric in session.metrics]
    return bool(metrics) and all(one.threshold is None and one.label is not Label.FAIL for one in metrics)


def _names(goldens: Iterable[Golden]) -> tuple[str, ...]:
    """Return the keys of goldens; of what a user said, the beginning."""
    names = (shorten(printable(one.key), 60) if one.first_user_text else printable(one.key) for one in goldens)
    return tuple(dict.fromkeys(names))


def _other_calls(turns: Sequence[TurnResult]) -> Mapping[str, int]:
    return {
        "not expected": sum(len(turn.unpaired_calls) for turn in turns),
        "requested but never executed": sum(len(turn.rejected) for turn in turns),
    }


def _means(sessions: Iterable[SessionResult]) -> list[Fraction]:
    """Return the mean scores, one for each criterion: scores of different ones are never averaged."""
    groups: dict[str, list[Fraction]] = {}
    for session in sessions:
        if session.verdict.exact is not None:
            groups.setdefault(session.criterion, []).append(session.verdict.exact)
    return [sum(scores, Fraction(0)) / len(scores) for scores in groups.values()]


RIGHT_CALLS = "right"
_STANDINGS = (RIGHT_CALLS, "with wrong arguments", "out of order", "never made", "not evaluated")


def _standing(call: CallResult) -> str:
    """Return what became of an expected call, aligned or not."""
    right, wrong, out_of_order, never_made, not_evaluated = _STANDINGS
    if call.verdict.exact is None or call.verdict.exact == 1:
        return not_evaluated if call.verdict.exact is None else right
    if call.has_wrong_arguments or (call.actual and call.extra_arguments and call.extra_arguments_count):
        return wrong
    return out_of_order if call.out_of_order else never_made


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


def _mistakes(turns: Iterable[TurnResult]) -> tuple[tuple[str, int], ...]:
    found = Counter(mistake_name(one) for turn in turns for one in turn.differences if one.lowers_score)
    return tuple(found.most_common())


def gaps(session: SessionResult) -> list[Reason]:
    """Return why the session, or parts of it, could not be evaluated though they should have been."""
    calls = (call.verdict for turn in session.turns for call in turn.calls)
    verdicts = (session.verdict, *(turn.verdict for turn in session.turns), *calls)
    doubted = [Reason.READING_DOUBTFUL] if any(turn.doubts for turn in session.turns) else []
    return [v.reason for v in verdicts if v.reason is not None and v.reason not in HARMLESS_REASONS] + doubted


def is_gap(verdict: MetricVerdict) -> bool:
    """Whether a metric has no score though it should have one."""
    return verdict.reason is not None and verdict.reason not in HARMLESS_REASONS


def unseen_goldens(result: ScoringResult) -> list[Golden]:
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


# The exit code of `goldspan score`: 0 or 1, and every reason for a 1 in words. The command itself decides on 2.


class CoverageMode(StrEnum):
    """Whether what could not be evaluated is a failure."""

    STRICT = "strict"
    LENIENT = "lenient"


@dataclass(frozen=True, slots=True)
class ExitDecision:
    """The exit code, 0 or 1, and each reason for it in words."""

    exit_code: int
    reasons: tuple[str, ...]
    """None where the exit code is 0."""
    regressions: tuple[str, ...] | None = None
    """What got worse since an earlier run, a sentence each; None where there was no run to compare with."""
    fixed: tuple[str, ...] = ()
    """The names of sessions that failed in the earlier run and pass now."""
    known_failures: frozenset[str] = frozenset()
    """The names of sessions that fail as they did in the earlier run."""


def decide_exit_code(
    result: ScoringResult, *, recognised: int, coverage: CoverageMode, fail_under: Fraction | None = None
) -> ExitDecision:
    """Decide whether the result fails a build, as `ScoringResult.passes` does, and say why.

    Beyond that it fails if no span was recognised, and if the mean score (of any criterion, where goldens use several)
    is below `fail_under`.
    """
    sums = totals(result)
    strict = coverage is CoverageMode.STRICT
    reasons = list(nothing_found(result, recognised))
    failed = sum(session.verdict.label is Label.FAIL for session in result.sessions if not session.repeated)
    if failed:
        reasons.append(f"{failed} of {counted(sum(sums.sessions.values()), 'session')} failed")
    reasons += _metrics(result, strict=strict)
    reasons += _repeats(result, strict=strict)
    if strict:
        reasons += _gaps(result)
        if sums.never_seen:
            count = counted(len(sums.never_seen), "golden was", "goldens were")
            reasons.append(f"{count} never seen ({listed(sums.never_seen)})")
    reasons += too_low(sums, fail_under)
    return ExitDecision(1 if reasons else 0, tuple(reasons))


def nothing_found(result: ScoringResult, recognised: int) -> Iterator[str]:
    """Say that there was nothing to score, if so: that fails whatever else was asked for."""
    if not recognised:
        yield "no span was recognised as an agent's, a model's or a tool's: see `goldspan inspect`"
    elif not result.sessions:
        yield "no turn of an agent was found: see `goldspan inspect`"


def too_low(sums: Totals, fail_under: Fraction | None) -> Iterator[str]:
    """Say that the mean score is below `fail_under`, if so."""
    if fail_under is not None and (sums.lowest_mean is None or sums.lowest_mean < fail_under):
        least = f"{float(fail_under):.4g}"
        if sums.lowest_mean is None:
            yield f"there is no mean score, and --fail-under asks for {least}"
        else:
            yield f"the mean score {float(sums.lowest_mean):.4g} is below --fail-under {least}"


def _metrics(result: ScoringResult, *, strict: bool) -> Iterator[str]:
    """Say which metrics with a threshold scored below it or, if strict, have no score."""
    failed: Counter[tuple[str, bool]] = Counter()
    without_score: dict[str, list[MetricVerdict]] = {}
    for session in result.sessions:
        for metric in session.metrics if not session.repeated else ():
            if metric.verdict.label is Label.FAIL:
                failed[metric.name, metric.threshold is None] += 1
            elif metric.threshold is not None and metric.needs_golden and is_gap(metric.verdict):
                without_score.setdefault(metric.name, []).append(metric.verdict)
    for (name, rare), count in failed.items():
        yield f"{name} {'found something rare' if rare else 'is too low'} in {counted(count, 'session')}"
    for name, verdicts in without_score.items() if strict else ():
        errors = _errors(verdicts)
        why = f" ({_error_text(errors)})" if errors else ""
        yield f"{name} could not be evaluated in {counted(len(verdicts), 'session')}{why}"


def _repeats(result: ScoringResult, *, strict: bool) -> Iterator[str]:
    """Say which goldens have too few runs that passed, or that were seen."""
    for repeat in result.repeats:
        label = repeat.verdict.label
        if label is Label.FAIL or (label is Label.NOT_EVALUATED and strict):
            yield f"golden {printable(repeat.golden.key)}: {repeat}"


def _gaps(result: ScoringResult) -> Iterator[str]:
    """Say what could not be evaluated though it should have been: whole sessions, and parts of others."""
    whole: list[list[Reason]] = []
    partly: list[list[Reason]] = []
    for session in result.sessions:
        reasons = gaps(session)
        if reasons and session.session is not None and session.verdict.label is not Label.FAIL:
            (whole if session.verdict.label is Label.NOT_EVALUATED else partly).append(reasons)
    for what, found in (("", whole), ("parts of ", partly)):
        if found:
            words = ", ".join(dict.fromkeys(REASON_TEXT[reason] for reasons in found for reason in reasons))
            yield f"{what}{counted(len(found), 'session')} could not be evaluated ({words})"


# The end of every report: the sums in words, what to do, and why the run passed.


def because(decision: ExitDecision, sums: Totals) -> str:
    """Return the sentence that says why the run passed or failed."""
    nothing_worse = "nothing regressed" if decision.regressions is not None else _passed(sums)
    return f"{'; '.join(decision.reasons) or nothing_worse}."


def _passed(sums: Totals) -> str:
    texts = [
        f"{counted(counts[Label.PASS], 'session')} of {sum(counts.values()):,}{words}"
        for counts, words in ((sums.sessions, ""), (sums.judged_without_golden, " without a golden"))
        if counts.get(Label.PASS)
    ]
    if sums.informs:
        return "findings inform and fail nothing; `--fail-on rare`, `any` or `METRIC=SCORE` lets them fail a run"
    return "; ".join(texts) or "nothing failed, but nothing was evaluated"


def summary_rows(result: ScoringResult, sums: Totals) -> Iterator[tuple[str, str]]:
    """Yield the rows of the summary: what is summed up, and the sum in words."""
    yield "sessions", _sessions(result, sums)
    presets = dict.fromkeys(one.preset for one in result.sessions if one.preset is not None and one.golden is not None)
    if presets:
        yield "scored by", f"preset {', '.join(presets)}, by another system's rules"
    if sums.calls:
        yield "calls", _calls(sums)
    # Those that need no golden have a table of their own.
    if metrics := "; ".join(map(_metric_sum, metric_totals(result, needs_golden=True))):
        yield "metrics", metrics
    if sums.mistakes:
        yield "mistakes", listed_counts(sums.mistakes, 4)
    if sums.findings and not sums.informs:
        yield "findings", listed_counts(sums.findings, 4)
    if sums.seen or sums.never_seen:
        yield "goldens", _goldens(result, sums)


def listed_counts(counts: Iterable[tuple[str, int]], most: int) -> str:
    """Write names as `listed` does, each with how often it was found."""
    return listed((name for name, times in counts for _ in range(times)), most)


def _sessions(result: ScoringResult, sums: Totals) -> str:
    judged = _labels(sums.judged_without_golden)
    if judged and not sums.sessions and not result.golden_sets:
        left_out = len(sums.without_golden) - sum(sums.judged_without_golden.values())
        if sums.informs:
            judged = f"{sums.with_findings:,} of {sum(sums.judged_without_golden.values()):,} with rare findings"
        return f"{judged}, judged without goldens" + (f"; {left_out:,} not in the sample" if left_out else "")
    text = _labels(sums.sessions) or "none has a golden"
    if sums.mean is not None:
        text += f"; mean score {score_text(sums.mean)}"
    if sums.without_golden:
        text += f"; {len(sums.without_golden):,} without a golden ({judged or listed(sums.without_golden, 3)})"
    return text


def _labels(counts: Mapping[Label, int]) -> str:
    return _nonzero({words: counts.get(label, 0) for label, words in LABEL_WORDS.items()})


def _calls(sums: Totals) -> str:
    expected, others = _nonzero({what: sums.calls.get(what, 0) for what in _STANDINGS}), _nonzero(sums.other_calls)
    return f"{sum(sums.calls.values()):,} expected: {expected}" + (f"; also {others}" if others else "")


def _nonzero(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count > 0)


def _metric_sum(one: MetricTotals) -> str:
    text = f"{one.name} {'without a score' if one.score is None else number_text(one.score)}"
    if one.threshold is not None and one.score is not None:
        text += f", {f'{one.sessions_failed:,}' if one.sessions_failed else 'none'} below {number_text(one.threshold)}"
    errors = _errors(one.of_sessions)
    broken = sum(map(is_gap, one.of_sessions)) - errors.total()
    text += f", {broken:,} not evaluated" if broken else ""
    return text + (f", {errors.total():,} raised {_error_text(errors)}" if errors else "")


def _errors(verdicts: Iterable[MetricVerdict]) -> Counter[str]:
    """Count what a metric raised, type and message."""
    return Counter(one.explanation for one in verdicts if one.reason is Reason.EVALUATOR_ERROR)


def _error_text(errors: Counter[str]) -> str:
    """Return the most frequent error, and how many others there are."""
    [(first, times)] = errors.most_common(1)
    others = errors.total() - times
    return printable(first) + (
        f" and {others:,} other errors" if others > 1 else " and another error" if others else ""
    )


# Metrics over all sessions: means of one metric and one threshold, never of several.


@dataclass(frozen=True, slots=True)
class MetricTotals:
    """What a metric says of all sessions."""

    name: str
    threshold: Fraction | None
    of_sessions: tuple[MetricVerdict, ...]
    of_calls: tuple[MetricCall, ...]
    """None where it judges no single calls."""

    @property
    def score(self) -> Fraction | None:
        """Mean over the sessions that have a score."""
        scores = [verdict.exact for verdict in self.of_sessions if verdict.exact is not None]
        return sum(scores, Fraction(0)) / len(scores) if scores else None

    @property
    def label(self) -> Label | None:
        """None without a threshold."""
        if self.threshold is None:
            return None
        return Label.FAIL if self.sessions_failed else Label.NOT_EVALUATED if self.score is None else Label.PASS

    @property
    def sessions_failed(self) -> int:
        """How many sessions are below the threshold."""
        return sum(verdict.label is Label.FAIL for verdict in self.of_sessions)

    @property
    def unit(self) -> str:
        """What is counted below: `call`, or `session` for a metric that judges no single calls."""
        return "call" if self.of_calls else "session"

    @property
    def failed(self) -> int:
        """Below the threshold; without a threshold, those of which the metric found something wrong."""
        if not self.of_calls:
            return self.sessions_failed
        return sum(one.label is Label.FAIL or (one.label is None and bool(one.failures)) for one in self.of_calls)

    @property
    def passed(self) -> int:
        """Those that have a score and did not fail."""
        return sum(verdict.exact is not None for verdict in self._counted) - self.failed

    @property
    def not_evaluated(self) -> Counter[Reason]:
        """Why some have no score."""
        return Counter(one.reason for one in self._counted if one.reason is not None)

    @property
    def gaps(self) -> int:
        """How many have no score."""
        return self.not_evaluated.total()

    @property
    def reasons(self) -> str:
        """Why some have no score, with counts, and what the metric raised most often."""
        counts = [(reason_words(self.name, reason), count) for reason, count in self.not_evaluated.most_common()]
        words = [text if len(counts) == 1 else f"{text} {count:,}" for text, count in counts]
        errors = _errors(self.of_sessions)
        return "; ".join(filter(None, (", ".join(words), _error_text(errors) if errors else "")))

    @property
    def _counted(self) -> Sequence[MetricVerdict]:
        return [call.verdict for call in self.of_calls] or self.of_sessions


def metric_totals(result: ScoringResult, *, needs_golden: bool = False) -> tuple[MetricTotals, ...]:
    """Sum up each metric that needs a golden, or that needs none."""
    groups: dict[tuple[str, Fraction | None], list[MetricResult]] = {}
    for one in (metric for session in result.sessions for metric in session.metrics):
        if one.needs_golden is needs_golden:
            groups.setdefault((printable(one.name), one.threshold), []).append(one)
    return tuple(
        MetricTotals(
            name,
            threshold,
            tuple(one.verdict for one in found),
            tuple(call for one in found for turn in one.turns for call in turn.calls),
        )
        for (name, threshold), found in groups.items()
    )


def _findings(result: ScoringResult) -> tuple[tuple[str, int], ...]:
    """Count by tool and argument what metrics that need no golden found wrong, most often first."""
    found = Counter(
        name
        for session in result.sessions
        for metric in session.metrics
        for _, call in judged_calls(metric)
        for name in dict.fromkeys(finding_name(call, one) for one in call.failures)
    )
    return tuple(found.most_common())


def _goldens(result: ScoringResult, sums: Totals) -> str:
    total = len(sums.seen) + len(sums.never_seen)
    names = listed(printable(label) for label in result.golden_sets)
    text = f"{len(sums.seen):,} of {total:,} seen" + (f" ({names})" if names else "")
    return text + (f"; never seen: {listed(sums.never_seen, 8)}" if sums.never_seen else "")
