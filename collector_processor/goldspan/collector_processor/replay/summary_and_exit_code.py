"""What a run adds up to: counts, means, the exit code and every reason for it, and all of that in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.metric_results import MetricResult, MetricVerdict
from goldspan.scoring.result_words import finding_name, judged_calls, mistake_name, reason_words
from goldspan.scoring.results import CallResult, SessionResult, TurnResult
from goldspan.scoring.run import ScoringResult
from goldspan.scoring.verdict import HARMLESS_REASONS, REASON_TEXT, Label, Reason
from goldspan.scoring.wording import counted, listed, number_text, printable, score_text


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts over all sessions of a result."""

    sessions: Mapping[Label, int]
    """Sessions that have a golden."""
    without_golden: tuple[str, ...]
    judged_without_golden: Mapping[Label, int]
    """Sessions without golden, by what the metrics with a threshold say of them; not evaluated if none has a score."""
    calls_expected: int
    calls_matched: int
    calls_wrong: int
    """Calls with wrong arguments, aligned or not."""
    calls_out_of_order: int
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
    """Wrong arguments, as in `get_weather.days`, and other differences that lower a score; most often first."""
    findings: tuple[tuple[str, int], ...]
    """What metrics that need no golden found wrong, as in `get_weather.days (no origin)`, and in how many calls."""
    seen: tuple[str, ...]
    never_seen: tuple[str, ...]


def totals(result: ScoringResult) -> Totals:
    """Sum up a result."""
    scored = [session for session in result.sessions if session.has_golden]
    turns = [turn for session in scored for turn in session.turns]
    calls = [call for turn in turns for call in turn.calls]
    faults = Counter(_fault(call) for call in calls if call.verdict.exact not in (None, 1))
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
        judged_without_golden=Counter(
            session.label_of_metrics for session in result.sessions if session.metrics and not session.has_golden
        ),
        calls_expected=len(calls),
        calls_matched=sum(call.verdict.exact == 1 for call in calls),
        calls_wrong=faults[_WRONG],
        calls_out_of_order=faults[_OUT_OF_ORDER],
        calls_missing=faults[_NEVER_MADE],
        calls_evaluated=sum(call.verdict.exact is not None for call in calls),
        calls_unexpected=sum(len(turn.unpaired_calls) for turn in turns),
        calls_rejected=sum(len(turn.rejected) for turn in turns),
        mean=means[0] if len(means) == 1 else None,
        lowest_mean=min(means, default=None),
        not_evaluated=_not_evaluated(scored),
        mistakes=_mistakes(turns),
        findings=_findings(result),
        seen=tuple(dict.fromkeys(printable(s.golden.key) for s in scored if s.golden)),
        never_seen=tuple(dict.fromkeys(printable(golden.key) for golden in unseen_goldens(result))),
    )


_WRONG, _OUT_OF_ORDER, _NEVER_MADE = "with wrong arguments", "out of order", "never made"


def _fault(call: CallResult) -> str:
    """Return what is wrong with a call that is not right."""
    if call.has_wrong_arguments or (call.actual and call.extra_arguments and call.extra_arguments_count):
        return _WRONG
    return _OUT_OF_ORDER if call.out_of_order else _NEVER_MADE


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
    found: Counter[str] = Counter()
    for turn in turns:
        for one in turn.differences:
            if one.lowers_score:
                found[mistake_name(one)] += 1
    return tuple(found.most_common())


def gaps(session: SessionResult) -> list[Reason]:
    """Return why the session, or parts of it, could not be evaluated though they should have been."""
    calls = (call.verdict for turn in session.turns for call in turn.calls)
    verdicts = (session.verdict, *(turn.verdict for turn in session.turns), *calls)
    return [v.reason for v in verdicts if v.reason is not None and v.reason not in HARMLESS_REASONS]


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
    failed: Counter[str] = Counter()
    without_score: dict[str, list[MetricVerdict]] = {}
    for session in result.sessions:
        for metric in session.metrics if not session.repeated else ():
            if metric.verdict.label is Label.FAIL:
                failed[metric.name] += 1
            elif metric.threshold is not None and metric.needs_golden and is_gap(metric.verdict):
                without_score.setdefault(metric.name, []).append(metric.verdict)
    for name, count in failed.items():
        yield f"{name} is too low in {counted(count, 'session')}"
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
    return "; ".join(texts) or "nothing failed, but nothing was evaluated"


def summary_rows(result: ScoringResult, sums: Totals) -> Iterator[tuple[str, str]]:
    """Yield the rows of the summary: what is summed up, and the sum in words."""
    yield "sessions", _sessions(result, sums)
    presets = dict.fromkeys(one.preset for one in result.sessions if one.preset is not None and one.golden is not None)
    if presets:
        yield "scored by", f"preset {', '.join(presets)}, by another system's rules"
    if sums.calls_expected:
        yield "calls", _calls(sums)
    if metrics := _metric_sums(result):
        yield "metrics", metrics
    if sums.mistakes:
        yield "mistakes", listed((name for name, times in sums.mistakes for _ in range(times)), 4)
    if sums.findings:
        yield "findings", listed((name for name, times in sums.findings for _ in range(times)), 4)
    if sums.seen or sums.never_seen:
        yield "goldens", _goldens(result, sums)


def _sessions(result: ScoringResult, sums: Totals) -> str:
    judged = _labels(sums.judged_without_golden)
    if judged and not sums.sessions and not result.golden_sets:
        left_out = len(sums.without_golden) - sum(sums.judged_without_golden.values())
        return f"{judged}, judged without goldens" + (f"; {left_out:,} not in the sample" if left_out else "")
    text = _labels(sums.sessions) or "none has a golden"
    if sums.mean is not None:
        text += f"; mean score {score_text(sums.mean)}"
    if sums.without_golden:
        text += f"; {len(sums.without_golden):,} without a golden ({judged or listed(sums.without_golden, 3)})"
    return text


def _labels(counts: Mapping[Label, int]) -> str:
    words = ((Label.PASS, "passed"), (Label.FAIL, "failed"), (Label.NOT_EVALUATED, "not evaluated"))
    return _nonzero(*((counts.get(label, 0), word) for label, word in words))


def _calls(sums: Totals) -> str:
    expected = _nonzero(
        (sums.calls_matched, "right"),
        (sums.calls_wrong, _WRONG),
        (sums.calls_out_of_order, _OUT_OF_ORDER),
        (sums.calls_missing, _NEVER_MADE),
        (sums.calls_expected - sums.calls_evaluated, "not evaluated"),
    )
    others = _nonzero((sums.calls_unexpected, "not expected"), (sums.calls_rejected, "requested but never executed"))
    return f"{sums.calls_expected:,} expected: {expected}" + (f"; also {others}" if others else "")


def _nonzero(*counts: tuple[int, str]) -> str:
    return ", ".join(f"{count:,} {what}" for count, what in counts if count > 0)


def _metric_sums(result: ScoringResult) -> str:
    """Sum up each metric over the sessions: means of one metric and one threshold, never of several."""
    groups: dict[tuple[str, Fraction | None], list[MetricVerdict]] = {}
    for session in result.sessions:
        for one in session.metrics:
            if not one.needs_golden:
                continue  # has a table of its own
            groups.setdefault((printable(one.name), one.threshold), []).append(one.verdict)
    return "; ".join(_metric_sum(name, threshold, verdicts) for (name, threshold), verdicts in groups.items())


def _metric_sum(name: str, threshold: Fraction | None, verdicts: list[MetricVerdict]) -> str:
    scores = [verdict.exact for verdict in verdicts if verdict.exact is not None]
    text = f"{name} {number_text(sum(scores, Fraction(0)) / len(scores)) if scores else 'without a score'}"
    if threshold is not None and scores:
        below = sum(verdict.label is Label.FAIL for verdict in verdicts)
        text += f", {below:,} below {number_text(threshold)}" if below else f", none below {number_text(threshold)}"
    errors = _errors(verdicts)
    broken = sum(map(is_gap, verdicts)) - errors.total()
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


# Metrics that need no golden: a row for each, and what fails most.


@dataclass(frozen=True, slots=True)
class MetricTotals:
    """What a metric that needs no golden says of all sessions."""

    name: str
    threshold: Fraction | None
    score: Fraction | None
    """Mean over the sessions that have a score."""
    unit: str
    """What is counted: `call`, or `session` for a metric that judges no single calls."""
    passed: int
    failed: int
    """Below the threshold; without a threshold, those of which the metric found something wrong."""
    not_evaluated: Mapping[Reason, int]
    sessions_failed: int
    errors: str
    """What the metric raised most often."""

    @property
    def label(self) -> Label | None:
        """None without a threshold."""
        if self.threshold is None:
            return None
        return Label.FAIL if self.sessions_failed else Label.NOT_EVALUATED if self.score is None else Label.PASS

    @property
    def gaps(self) -> int:
        """How many were not evaluated."""
        return sum(self.not_evaluated.values())

    @property
    def reasons(self) -> str:
        """Why some were not evaluated, with counts."""
        most_first = sorted(self.not_evaluated.items(), key=lambda item: -item[1])
        texts = [f"{reason_words(self.name, reason)} {count:,}" for reason, count in most_first]
        if len(most_first) == 1:
            texts = [reason_words(self.name, most_first[0][0])]
        return "; ".join(filter(None, (", ".join(texts), self.errors)))


def metric_totals(result: ScoringResult) -> tuple[MetricTotals, ...]:
    """Sum up each metric that needs no golden."""
    groups: dict[tuple[str, Fraction | None], list[MetricResult]] = {}
    for one in (metric for session in result.sessions for metric in session.metrics if not metric.needs_golden):
        groups.setdefault((one.name, one.threshold), []).append(one)
    return tuple(_metric_totals(printable(name), found) for (name, _), found in groups.items())


def _metric_totals(name: str, found: Sequence[MetricResult]) -> MetricTotals:
    own = [one.verdict for one in found]
    calls = [call for one in found for turn in one.turns for call in turn.calls]
    verdicts = [call.verdict for call in calls] or own
    failed = sum(call.label is Label.FAIL or (call.label is None and bool(call.failures)) for call in calls)
    if not calls:
        failed = sum(verdict.label is Label.FAIL for verdict in verdicts)
    scores = [verdict.exact for verdict in own if verdict.exact is not None]
    errors = _errors(own)
    return MetricTotals(
        name=name,
        threshold=found[0].threshold,
        score=sum(scores, Fraction(0)) / len(scores) if scores else None,
        unit="call" if calls else "session",
        passed=sum(verdict.exact is not None for verdict in verdicts) - failed,
        failed=failed,
        not_evaluated=Counter(one.reason for one in verdicts if one.reason is not None),
        sessions_failed=sum(verdict.label is Label.FAIL for verdict in own),
        errors=_error_text(errors) if errors else "",
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
