"""An earlier run to compare with: what got worse since, and nothing else, is a failure.

A session is found again by golden set (whatever its version), golden, metric, session id and run; where a golden names
its sessions by pattern and their ids are new, in the order of time. A call is found again by its place in the golden,
if the golden still expects the same tool and arguments there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path

from goldspan.collector_processor.replay import summary_and_exit_code
from goldspan.collector_processor.replay.intervals import LEVEL, fewer_by_chance
from goldspan.collector_processor.replay.scored_runs import (
    NamedRun,
    ScoredCall,
    ScoredMetric,
    ScoredPart,
    ScoredRun,
    ScoredSession,
    set_name,
)
from goldspan.scoring.json_values import plain
from goldspan.scoring.pages import counted, printable, score_text
from goldspan.scoring.results import CallResult, SessionResult
from goldspan.scoring.run import ScoringResult
from goldspan.scoring.verdict import REASON_TEXT, Label, MetricResult, MetricVerdict, Reason, Verdict

_MOST_PARTS = 3
_GoldenKey = tuple[str, str, str]  # golden set without version, golden, metric


def decide_against(
    baseline: NamedRun,
    result: ScoringResult,
    *,
    recognised: int,
    coverage: summary_and_exit_code.CoverageMode,
    fail_under: Fraction | None = None,
) -> summary_and_exit_code.ExitDecision:
    """Decide what the result means for a build that only what got worse may break.

    It still fails if nothing was recognised, or below `fail_under`, where that is asked for as well.
    """
    regressions = tuple(regressions_since(baseline, result, coverage))
    reasons = list(summary_and_exit_code.nothing_found(result, recognised))
    if regressions:
        reasons.append(f"{counted(len(regressions), 'regression')} since {printable(Path(baseline.name).name)}")
    reasons += summary_and_exit_code.too_low(summary_and_exit_code.totals(result), fail_under)
    pairs = [(name, now, before) for name, now, before in _pairs(baseline.run, result) if before is not None]
    failed = [(name, now) for name, now, before in pairs if before.label == Label.FAIL]
    fixed = tuple(name for name, now in failed if now.verdict.label is Label.PASS)
    worse = {name for name, now, before in pairs if _is_worse(before, now, coverage)}
    known = frozenset(name for name, now in failed if now.verdict.label is Label.FAIL and name not in worse)
    return summary_and_exit_code.ExitDecision(1 if reasons else 0, tuple(reasons), regressions, fixed, known)


def _is_worse(before: ScoredSession, now: SessionResult, coverage: summary_and_exit_code.CoverageMode) -> bool:
    return any(_since(before, now, strict=coverage is summary_and_exit_code.CoverageMode.STRICT))


def regressions_since(
    baseline: NamedRun, result: ScoringResult, coverage: summary_and_exit_code.CoverageMode
) -> Iterator[str]:
    """Say what got worse, a sentence for each session or golden.

    That is a session or a call that passed, or scored higher by the same criterion, or was evaluated where it no longer
    is; a new session that fails; and a golden that is not seen any more, or is new and not seen. What could not be
    evaluated or seen only counts with strict coverage. A golden with `repeat` counts as a whole, not its single runs;
    so do the runs of a session of which some failed before: they are worse where chance explains that in fewer than
    5 of 100 cases.
    """
    strict = coverage is summary_and_exit_code.CoverageMode.STRICT
    flaky = _flaky(baseline.run)
    for name, now, before in _pairs(baseline.run, result):
        if now.repeated or (_key(now), _id(now)) in flaky:
            continue
        worse = list(_new(now, strict=strict) if before is None else _since(before, now, strict=strict))
        if worse:
            more = [f"and {len(worse) - _MOST_PARTS} more"] if len(worse) > _MOST_PARTS else []
            yield f"{name}: {'; '.join([*worse[:_MOST_PARTS], *more])}"
    yield from _flaky_and_worse(flaky, result)
    yield from _repeats(baseline.run, result, strict=strict)
    if strict:
        yield from _gone(baseline.run, result)


def _new(now: SessionResult, *, strict: bool) -> Iterator[str]:
    """Say what is wrong with a session that was not there before."""
    if now.verdict.label is Label.FAIL or (strict and summary_and_exit_code.gaps(now)):
        yield f"new, {_worst_words(now)}"
    yield from _metrics((), now, strict=strict)


def _since(before: ScoredSession, now: SessionResult, *, strict: bool) -> Iterator[str]:
    """Say what of a session is worse: the whole, calls, metrics."""
    comparable = before.criterion == now.criterion
    if worse := _worse(before, now.verdict, comparable=comparable, strict=strict):
        yield worse
    yield from _calls(before, now, comparable=comparable, strict=strict)
    yield from _metrics(before.metrics, now, strict=strict)


_Runs = Mapping[tuple[_GoldenKey, str], tuple[int, int]]
"""How many runs of a session passed, and how many were judged, by golden and session id."""


def _flaky(document: ScoredRun) -> _Runs:
    """Return the sessions of which some runs passed before, and some failed."""
    labels: defaultdict[tuple[_GoldenKey, str], list[str]] = defaultdict(list)
    for one in document.sessions:
        if one.id is not None and one.golden is not None and one.label != Label.NOT_EVALUATED:
            labels[(set_name(one.golden_set), one.golden, one.metric), one.id].append(one.label)
    counts = {key: (found.count(Label.PASS), len(found)) for key, found in labels.items()}
    return {key: (passed, runs) for key, (passed, runs) in counts.items() if 0 < passed < runs}


def _flaky_and_worse(flaky: _Runs, result: ScoringResult) -> Iterator[str]:
    for key, (passed_before, runs_before) in flaky.items():
        now = [one for one in result.sessions if (_key(one), _id(one)) == key and not one.repeated]
        labels = [one.verdict.label for one in now if one.verdict.label is not Label.NOT_EVALUATED]
        passed, runs = labels.count(Label.PASS), len(labels)
        if runs and fewer_by_chance(passed_before, runs_before, passed, runs) < 1 - LEVEL:
            before = f"{passed_before} of {counted(runs_before, 'run')} passed before"
            yield f"{printable(key[1])}: {before}, now {passed} of {runs}"


def _pairs(document: ScoredRun, result: ScoringResult) -> Iterator[tuple[str, SessionResult, ScoredSession | None]]:
    """Pair each session of now with its own of before."""
    by_golden, by_run = _found_again(document)
    numbers = summary_and_exit_code.run_numbers(result.sessions)
    found = [by_run.get((_key(now), _id(now), run)) for now, (run, _) in zip(result.sessions, numbers, strict=True)]
    taken = {id(one) for one in found}
    others = {key: iter([one for one in group if id(one) not in taken]) for key, group in by_golden.items()}
    for name, now, before in zip(
        summary_and_exit_code.session_names(result.sessions), result.sessions, found, strict=True
    ):
        if not now.has_golden and not now.metrics:
            continue
        by_pattern = now.golden is not None and now.golden.session is None
        yield name, now, before or (next(others.get(_key(now), iter(())), None) if by_pattern else None)


def _found_again(
    document: ScoredRun,
) -> tuple[Mapping[_GoldenKey, list[ScoredSession]], Mapping[tuple[_GoldenKey, str, int], ScoredSession]]:
    by_golden: defaultdict[_GoldenKey, list[ScoredSession]] = defaultdict(list)
    by_run: dict[tuple[_GoldenKey, str, int], ScoredSession] = {}
    runs: Counter[tuple[_GoldenKey, str]] = Counter()
    for one in document.sessions:
        if one.id is not None:
            key = (set_name(one.golden_set or ""), one.golden or "", one.metric)
            runs[key, one.id] += 1
            by_golden[key].append(one)
            by_run[key, one.id, runs[key, one.id]] = one
    return by_golden, by_run


def _calls(before: ScoredSession, now: SessionResult, *, comparable: bool, strict: bool) -> Iterator[str]:
    known = {(turn.expected_index, call.expected_index): call for turn in before.turns for call in turn.calls}
    for turn in now.turns:
        for call in turn.calls:
            was = known.get((turn.expected_index, call.expected_index))
            if was is None or call.expected is None or not _same_call(was, call):
                continue
            if worse := _worse(was, call.verdict, comparable=comparable, strict=strict):
                place = "" if turn.expected_index is None else f"turn {turn.expected_index + 1}, "
                yield f"{place}{printable(call.expected.name)}: {worse}"


def _repeats(document: ScoredRun, result: ScoringResult, *, strict: bool) -> Iterator[str]:
    """Say which goldens with `repeat` passed and no longer do; the number of their runs that passed may differ."""
    known = {(set_name(one.golden_set), one.golden): one for one in document.repeats}
    for now in result.repeats:
        was = known.get((set_name(now.golden.golden_set), str(plain(now.golden.key))))
        if was is None:
            unknown = now.label is not Label.PASS or any(map(summary_and_exit_code.gaps, now.runs))
            worse = now.label is Label.FAIL or (strict and unknown)
        else:
            worse = bool(_worse(was, now.verdict, comparable=False, strict=strict))
        if worse:
            before = "new," if was is None else f"{_words(was)} before, now"
            yield f"golden {printable(now.golden.key)}: {before} {now}"


def _metrics(before: Iterable[ScoredMetric], now: SessionResult, *, strict: bool) -> Iterator[str]:
    """Say which metrics with a threshold got worse; one that only informs breaks no build."""
    known = {one.name: one for one in before if one.threshold is not None}
    for one in now.metrics:
        if one.threshold is not None and (worse := _metric_worse(known.get(one.name), one, strict=strict)):
            yield f"{one.name}: {worse}"


def _metric_worse(was: ScoredMetric | None, now: MetricResult, *, strict: bool) -> str:
    """Say how a metric with a threshold is worse than before, if it was there; nothing if it is not."""
    verdict = now.verdict
    lost = strict and now.needs_golden and summary_and_exit_code.is_gap(verdict)
    failed = verdict.label is Label.FAIL
    if was is None:
        return f"new, {_words(verdict)}" if failed or lost else ""
    lower = was.threshold == float(now.threshold or 0) and _is_lower(verdict.score, was.score)
    worse = (failed and was.label != Label.FAIL) or lower or (lost and was.label != Label.NOT_EVALUATED)
    return f"{_words(was)} before, now {_words(verdict)}" if worse else ""


def _is_lower(now: float | None, before: float | None) -> bool:
    return before is not None and now is not None and now < before


def _same_call(was: ScoredCall, call: CallResult) -> bool:
    return (
        call.expected is not None
        and was.tool == plain(call.expected.name)
        and was.expected_arguments == plain(dict(call.expected.args))
    )


def _worse(before: ScoredPart, now: Verdict, *, comparable: bool, strict: bool) -> str:
    """Say how it is worse than before; nothing if it is not."""
    if now.reason is Reason.NOTHING_EXPECTED or now.reason is Reason.NO_GOLDEN:
        return ""
    unknown = now.label is Label.NOT_EVALUATED
    passed = before.label == Label.PASS and now.label is not Label.PASS and (strict or not unknown)
    lost = strict and unknown and before.label != Label.NOT_EVALUATED
    lower = comparable and _is_lower(now.score, before.score)
    if passed or lost or lower:
        return f"{_words(before)} before, now {_words(now)}"
    return ""


def _gone(document: ScoredRun, result: ScoringResult) -> Iterator[str]:
    unseen = {(set_name(one.golden_set), one.golden) for one in document.never_seen}
    seen = {(set_name(one.golden_set or ""), one.golden) for one in document.sessions if one.id is not None}
    goldens = summary_and_exit_code.unseen_goldens(result)
    for key, name in dict.fromkeys(((set_name(g.golden_set), plain(g.key)), printable(g.key)) for g in goldens):
        if key not in unseen:
            yield f"{name}: {'seen before' if key in seen else 'new'}, now {REASON_TEXT[Reason.GOLDEN_NEVER_SEEN]}"


def _worst_words(now: SessionResult) -> str:
    if now.verdict.label is Label.PASS:
        reasons: Iterable[Reason] = dict.fromkeys(summary_and_exit_code.gaps(now))
        return f"parts of it not evaluated ({', '.join(REASON_TEXT[reason] for reason in reasons)})"
    return _words(now.verdict)


def _words(one: ScoredPart | ScoredMetric | Verdict | MetricVerdict) -> str:
    if one.label == Label.NOT_EVALUATED:
        known: Mapping[str, str] = {reason.value: words for reason, words in REASON_TEXT.items()}
        return f"not evaluated ({known.get(one.reason or '', one.reason or 'no reason')})"
    word = "passed" if one.label == Label.PASS else "failed"
    if one.score is None:
        return word
    short = score_text(one.score)  # two decimals, or as many as it takes to tell what differs
    return f"{word} with {short if float(short) == one.score else f'{one.score:.6g}'}"


def _key(result: SessionResult) -> _GoldenKey:
    golden = result.golden
    if golden is None:
        return "", "", result.metric
    return set_name(golden.golden_set), str(plain(golden.key)), result.metric


def _id(result: SessionResult) -> str:
    return "" if result.session is None else str(plain(result.session.id))
