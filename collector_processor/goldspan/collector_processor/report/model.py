"""What a report of `goldspan score` says: one tree of values for all renderers, which only lay it out.

Every text in it can be printed and is uncut; wrapping, cutting, escaping and colour are the renderers'. Values of
arguments are JSON as recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from msgspec import Struct
from msgspec.structs import replace

from goldspan.collector_processor.replay.hints import CAPTURE_WORDS, Hint, hints_for_run, reason_words
from goldspan.collector_processor.replay.summary_and_exit_code import (
    CoverageMode,
    ExitDecision,
    MetricTotals,
    Totals,
    because,
    calls_judged,
    finding_name,
    has_golden,
    kind_words,
    label_of_metrics,
    metric_totals,
    mistake_name,
    run_numbers,
    session_names,
    summary_rows,
    totals,
    unseen_goldens,
)
from goldspan.collector_processor.replay.wording import counted, listed, number_text, printable, score_text
from goldspan.collector_processor.report.shown_values import shorten
from goldspan.scoring.differences import DifferenceKind, value_differences
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens.golden import ExpectedCall
from goldspan.scoring.json_values import pointer_name, shown_name
from goldspan.scoring.matchers.matcher import ABSENT, Absence
from goldspan.scoring.metric_results import Finding, MetricCall, MetricResult, MetricVerdict, PresetResult
from goldspan.scoring.results import ArgumentOutcome, ArgumentResult, CallResult, SessionResult, TurnResult, explain
from goldspan.scoring.run import ScoringResult
from goldspan.scoring.sessions import Capture, JsonValue, ToolCall
from goldspan.scoring.verdict import REASON_TEXT, Label, Reason

WORST_FIRST = (Label.FAIL, Label.NOT_EVALUATED, Label.PASS)
LABEL_WORDS = {Label.PASS: "passed", Label.FAIL: "failed", Label.NOT_EVALUATED: "not evaluated"}

RIGHT, WRONG, UNKNOWN, UNEXPECTED, REJECTED, INFORMS = "✓", "✗", "?", "+", "!", "·"
MARKS = {Label.PASS: RIGHT, Label.FAIL: WRONG, Label.NOT_EVALUATED: UNKNOWN, None: INFORMS}
"""The mark of a label; a metric without a threshold has no label, and only informs."""

_LONGEST_ERROR = 40
"""Cells of an error in the note of a call; its facts have all of it."""
_NOT_EXPECTED, _FORBIDDEN, _REJECTED = "not expected", "forbidden, but called", "requested, never executed"
_OUTCOMES = {
    ArgumentOutcome.MATCHED: "✓ right",
    ArgumentOutcome.MISMATCHED: "✗ differs",
    ArgumentOutcome.MISSING: "✗ not passed",
    ArgumentOutcome.UNKNOWN: "? unknown",
    ArgumentOutcome.IGNORED: "ignored",
}


class ArgumentReport(Struct, frozen=True, gc=False):
    """One argument of an expected call."""

    name: str
    outcome: str
    """An `ArgumentOutcome`, `never_called` without a call to compare with, or `extra` for an unexpected argument."""
    words: str
    expected: JsonValue | Absence
    actual: JsonValue | Absence
    unknown: str = ""
    strategy: str = "exact"
    score: Fraction | None = None
    hint: str = ""
    """How the golden could accept a value that differs but seems to mean the same."""


class ActualCall(Struct, frozen=True, gc=False):
    """A call as it was made."""

    tool: str
    arguments: tuple[tuple[str, JsonValue | Absence, str], ...]
    """Name, value, and why the value is not known."""
    hidden: str
    facts: tuple[str, ...]


class CallReport(Struct, frozen=True, gc=False):
    """One expected call, with the call that was made for it (`aligned`), the nearest one, or none."""

    tool: str
    label: Label
    score: Fraction | None
    note: str
    """What is special about it, in a few words; ends with a colon where the arguments say the rest."""
    reason: str
    arguments: tuple[ArgumentReport, ...]
    actual: ActualCall | None
    aligned: bool
    missing: bool
    only_unknown: bool
    """Whether all there is to say is that its arguments are not known."""
    hint: str = ""
    """What may be the cause, if something suggests it."""


class MistakeReport(Struct, frozen=True, gc=False):
    """One way in which a session differs from its golden, which lowers its score."""

    name: str
    """Without values, as in the summary: `get_weather.days`, `send_email.to (not passed)`."""
    tool: str
    """Empty where a whole turn is meant."""
    argument: str
    """Empty where a whole call or turn is meant."""
    words: str
    """`not passed`, `not called`; empty for an argument with another value."""
    detail: str
    """What was expected and found, or what may be the cause."""
    turn: str
    place: str = ""
    """Tool and place in the arguments, where a metric that needs no golden found it; `detail` is then a sentence."""

    def __str__(self) -> str:
        """Write it with its values: `convert.unit (expected "F", found "K")`."""
        if self.place:
            return f"{self.place}: {self.detail}"
        name = ".".join(filter(None, (self.tool, self.argument))) or self.turn
        return f"{name} ({'; '.join(filter(None, (self.words, self.detail)))})"

    @property
    def line(self) -> str:
        """The same, after the name of its turn."""
        return f"{self.turn}: {self}" if self.tool else str(self)


class OtherCall(Struct, frozen=True, gc=False):
    """A call that no expected one stands for, or a request that was refused."""

    mark: str
    words: str
    call: ActualCall
    judged: bool = True


class PresetAnswer(Struct, frozen=True, gc=False):
    """What a preset answered about a turn, and the calls it was asked about."""

    preset: str
    lines: tuple[str, ...]
    expected: tuple[tuple[str, Mapping[str, JsonValue]], ...]
    made: tuple[ActualCall, ...]


class TurnReport(Struct, frozen=True, gc=False):
    """One turn."""

    title: str
    whole: bool
    """It stands for the whole session, and needs no headline."""
    label: Label
    score: Fraction | None
    reason: str
    happened: bool
    in_golden: bool
    only_headline: bool
    """Whether its calls cannot be compared one by one."""
    nothing_expected: bool
    approximate: bool
    user_text: str
    made_tools: tuple[str, ...]
    calls: tuple[CallReport, ...]
    others: tuple[OtherCall, ...]
    preset: PresetAnswer | None


class MetricReport(Struct, frozen=True, gc=False):
    """What a metric beside the main one says of a session."""

    name: str
    description: str
    label: Label | None
    score: float | None
    score_text: str
    threshold_text: str
    reason: str
    reason_code: str
    explanation: str
    broken: bool
    """Whether it failed, or has a threshold and no score though it should."""
    needs_golden: bool
    first: str
    """The first thing that it found wrong, with values, after its turn; for metrics that need no golden."""

    @property
    def note(self) -> str:
        """What the score is held against, or why there is none."""
        needs = f"needs {self.threshold_text}" if self.threshold_text and self.label is not Label.PASS else ""
        return "; ".join(filter(None, (self.reason, needs, self.explanation)))


class FindingReport(Struct, frozen=True, gc=False):
    """What a metric found wrong with an argument of a call, or with the whole call."""

    argument: str
    """Its place in the arguments, as in `items[0].id`; empty for the whole call."""
    words: str
    """The kind of finding: `no origin`, `wrong type`."""
    sentence: str


class JudgedCall(Struct, frozen=True, gc=False):
    """A call in which a metric that needs no golden found something wrong."""

    metric: str
    place: str
    """`turn 1, call 2`."""
    label: Label | None
    score: Fraction | None
    findings: tuple[FindingReport, ...]
    call: ActualCall


class SessionReport(Struct, frozen=True, gc=False):
    """One run of a session that has a golden, or that metrics judged without one."""

    id: str
    run: int
    runs: int
    """Which run of the session id this is, from 1, and how many there are."""
    name: str
    """The id and, where there are several runs, which one it is."""
    golden_set: str
    source: str
    """File and line of the golden; empty without one."""
    metric: str
    preset: str
    label: Label
    score: Fraction | None
    failed: bool
    """Whether it failed, or one of its metrics did."""
    repeated: bool
    """Whether it is one of several runs of a golden, and decides nothing alone."""
    reason: str
    reason_code: str
    helps: str
    explanation: str
    notes: tuple[str, ...]
    facts: tuple[str, ...]
    mistakes: tuple[MistakeReport, ...]
    """Each one once, the one that explains most first."""
    forbidden_tools: tuple[str, ...]
    calls_right: int
    start_ns: int
    end_ns: int
    """Unix time in nanoseconds; 0 where it is not known."""
    turns: tuple[TurnReport, ...]
    metrics: tuple[MetricReport, ...]
    judged: tuple[JudgedCall, ...]
    """Calls in which metrics that need no golden found something wrong."""
    has_golden: bool

    @property
    def first_difference(self) -> str:
        """The mistake that explains most, with its values, on one line; empty where there is none."""
        return str(self.mistakes[0]) if self.mistakes else ""

    @property
    def first_line(self) -> str:
        """The same, after the name of its turn."""
        return self.mistakes[0].line if self.mistakes else ""


class MetricRow(Struct, frozen=True, gc=False):
    """What a metric that needs no golden says over all sessions."""

    name: str
    label: Label | None
    """Failed if a session failed; None without a threshold."""
    score_text: str
    threshold_text: str
    unit: str
    """What is counted: `call`, or `session` for a metric that judges no single calls."""
    passed: int
    failed: int
    not_evaluated: int
    reasons: str
    """Why, with counts."""
    sessions_failed: int


class RepeatReport(Struct, frozen=True, gc=False):
    """A golden that is judged over several runs."""

    golden: str
    golden_set: str
    source: str
    runs: int
    label: Label
    score: Fraction | None
    reason_code: str
    words: str


class UnseenGolden(Struct, frozen=True, gc=False):
    """A golden of which no session was seen."""

    name: str
    golden_set: str
    source: str


class Report(Struct, frozen=True, gc=False):
    """Everything that any report of one run says."""

    failed: bool
    because: str
    """The sentence after `passed` or `failed` that ends every report."""
    strict: bool
    golden_sets: Mapping[str, str]
    totals: Totals
    summary: tuple[tuple[str, str], ...]
    sessions: tuple[SessionReport, ...]
    """Those that have a golden."""
    without_golden: tuple[SessionReport, ...]
    """Those without golden that metrics judged."""
    metrics: tuple[MetricRow, ...]
    """The metrics that need no golden, over all sessions."""
    repeats: tuple[RepeatReport, ...]
    regressions: tuple[str, ...]
    hints: tuple[Hint, ...]
    problems: tuple[tuple[str, str], ...]
    never_seen: tuple[UnseenGolden, ...]

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

    def worst_first(self) -> list[SessionReport]:
        """Return the sessions, failed ones first, each label by its score; those without golden last of a label."""

        def order(session: SessionReport) -> tuple[int, bool, Fraction]:
            label = Label.FAIL if session.failed else session.label
            return WORST_FIRST.index(label), session.score is None, session.score or Fraction(0)

        return sorted((*self.sessions, *self.without_golden), key=order)


def build_report(
    result: ScoringResult,
    decision: ExitDecision,
    *,
    coverage: CoverageMode = CoverageMode.STRICT,
    advice: Mapping[str, str] | None = None,
) -> Report:
    """Put a result in words. `advice` says by dialect what must be switched on to have arguments captured."""
    sums, advice = totals(result), advice or {}
    named = list(zip(result.sessions, session_names(result.sessions), run_numbers(result.sessions), strict=True))
    return Report(
        failed=bool(decision.exit_code),
        because=because(decision, sums),
        strict=coverage is CoverageMode.STRICT,
        golden_sets={printable(name): digest for name, digest in result.golden_sets.items()},
        totals=sums,
        summary=tuple(summary_rows(result, sums)),
        sessions=tuple(_session(one, name, run, advice) for one, name, run in named if has_golden(one)),
        without_golden=tuple(
            _without_golden(one, name, run) for one, name, run in named if one.metrics and not has_golden(one)
        ),
        metrics=tuple(map(_metric_row, metric_totals(result))),
        repeats=tuple(
            RepeatReport(
                printable(one.golden.key),
                printable(one.golden.golden_set),
                printable(one.golden.source),
                one.repeat.runs,
                one.verdict.label,
                one.verdict.exact,
                one.verdict.reason or "",
                str(one),
            )
            for one in result.repeats
        ),
        regressions=decision.regressions or (),
        hints=tuple(hints_for_run(result, sums, advice)),
        problems=problem_texts(result.problems),
        never_seen=tuple(
            dict.fromkeys(
                UnseenGolden(printable(one.key), printable(one.golden_set), printable(one.source))
                for one in unseen_goldens(result)
            )
        ),
    )


def problem_texts(problems: Sequence[Problem]) -> tuple[tuple[str, str], ...]:
    """Return code and message of each problem."""
    return tuple((printable(problem.code), printable(str(problem))) for problem in problems)


# Sessions, turns and calls.


def _session(
    result: SessionResult, name: str, run: tuple[int, int], by_dialect: Mapping[str, str] | None
) -> SessionReport:
    """Return the report of a session; without what is known of dialects it says nothing of what may help."""
    session, golden, verdict = result.session, result.golden, result.verdict
    helps = ""
    if verdict.reason is not None and by_dialect is not None:
        alone = ScoringResult((result,))
        helps = "; ".join(text for _, text in hints_for_run(alone, totals(alone), by_dialect))
    calls = [call for turn in result.turns for call in turn.calls]
    violations = [call.actual for turn in result.turns for call in turn.violations if call.actual]
    turns = () if session is None else session.turns
    start = min((turn.start for turn in turns if turn.start), default=0)
    return SessionReport(
        id="" if session is None else printable(session.id),
        run=run[0],
        runs=run[1],
        name=name,
        golden_set="" if golden is None else printable(golden.golden_set),
        source="" if golden is None else printable(golden.source),
        metric=printable(result.metric),
        preset=printable(result.preset or ""),
        label=verdict.label,
        score=verdict.exact,
        failed=result.failed,
        repeated=result.repeated,
        reason=_reason(verdict.reason),
        reason_code=verdict.reason or "",
        helps=helps,
        explanation=printable(explain(result)),
        notes=tuple(map(printable, _notes(result))),
        facts=tuple(map(printable, _facts(result))),
        mistakes=(*_mistakes(result), *_found_by_metrics(result)),
        forbidden_tools=tuple(dict.fromkeys(printable(call.name) for call in violations)),
        calls_right=sum(call.verdict.exact == 1 for call in calls),
        start_ns=start,
        end_ns=max((turn.end for turn in turns if turn.end), default=start) if start else 0,
        turns=tuple(_turn(result, turn) for turn in result.turns),
        metrics=tuple(_metric(one, result) for one in result.metrics),
        judged=tuple(_judged_calls(result)),
        has_golden=True,
    )


def _without_golden(result: SessionResult, name: str, run: tuple[int, int]) -> SessionReport:
    """Return the report of a session that only metrics judged, which need no golden."""
    label = label_of_metrics(result)
    reasons = dict.fromkeys(
        (reason_words(one.name, one.reason), one.reason) for one in result.metrics if one.reason is not None
    )
    reason, code = next(iter(reasons), ("nothing to judge", Reason.NOTHING_EXPECTED))
    none = label is Label.NOT_EVALUATED
    session = result.session
    return replace(
        _session(result, name, run, None),
        preset="",
        label=label,
        failed=label is Label.FAIL,
        reason=reason if none else "",
        reason_code=code if none else "",
        explanation="; ".join(f"{one.name} {number_text(one.verdict.exact)}" for one in result.metrics),
        facts=() if session is None else (f"session id from {printable(session.id_source)}",),
        has_golden=False,
    )


def _found_by_metrics(result: SessionResult) -> Iterator[MistakeReport]:
    """Yield what failed metrics that need no golden found, each name once."""
    found: dict[str, MistakeReport] = {}
    for metric, turn, call in calls_judged(result):
        for one in call.failures if metric.verdict.label is Label.FAIL else ():
            found.setdefault(finding_name(call, one), _found(turn, call, one))
    yield from found.values()


def _found(turn: int, call: MetricCall, finding: Finding) -> MistakeReport:
    place = filter(None, (call.call.name, pointer_name(finding.path)))
    return MistakeReport(
        name=finding_name(call, finding),
        tool=printable(shown_name(call.call.name)),
        argument=printable(pointer_name("/".join(finding.path.split("/")[:2]))),
        words=kind_words(finding),
        detail=printable(finding.words(include_values=True)),
        turn=f"turn {turn + 1}",
        place=printable(".".join(place)),
    )


def _judged_calls(result: SessionResult) -> Iterator[JudgedCall]:
    for metric, turn, call in calls_judged(result):
        if call.failures:
            yield JudgedCall(
                metric=printable(metric.name),
                place=f"turn {turn + 1}, call {call.call_index + 1}",
                label=call.verdict.label,
                score=call.verdict.exact,
                findings=tuple(
                    FindingReport(
                        printable(pointer_name(one.path)),
                        kind_words(one),
                        printable(one.words(include_values=True)),
                    )
                    for one in call.failures
                ),
                call=actual_call(call.call),
            )


def _metric_row(sums: MetricTotals) -> MetricRow:
    most_first = sorted(sums.not_evaluated.items(), key=lambda item: -item[1])
    reasons = [(reason_words(sums.name, reason), count) for reason, count in most_first]
    texts = [words if len(reasons) == 1 else f"{words} {count:,}" for words, count in reasons]
    return MetricRow(
        name=sums.name,
        label=sums.label,
        score_text=number_text(sums.score),
        threshold_text="" if sums.threshold is None else number_text(sums.threshold),
        unit=sums.unit,
        passed=sums.passed,
        failed=sums.failed,
        not_evaluated=sum(sums.not_evaluated.values()),
        reasons="; ".join(filter(None, (", ".join(texts), sums.errors))),
        sessions_failed=sums.sessions_failed,
    )


def _mistakes(result: SessionResult) -> tuple[MistakeReport, ...]:
    found: dict[str, MistakeReport] = {}
    for one in result.differences:
        if one.lowers_score:
            wrong = one.kind is DifferenceKind.WRONG_ARGUMENT
            detail = [value_differences(one.expected, one.actual, one.parts)] if wrong else []
            mistake = MistakeReport(
                name=mistake_name(one),
                tool=printable(shown_name(one.tool)) if one.tool else "",
                argument=printable(shown_name(one.argument)) if one.argument else "",
                words="" if wrong else one.words,
                detail=printable("; ".join(filter(None, [*detail, one.hint]))),
                turn=printable(one.turn),
            )
            found.setdefault(mistake.name, mistake)
    return tuple(found.values())


def _reason(reason: Reason | None) -> str:
    return "" if reason is None else REASON_TEXT[reason]


def _notes(result: SessionResult) -> Iterator[str]:
    golden, session = result.golden, result.session
    if result.preset is not None:
        yield f"scored by {result.preset}"
    elif result.verdict.label is Label.FAIL and golden is not None and golden.criterion.threshold < 1:
        yield f"needs {score_text(float(golden.criterion.threshold))}"
    others = [call.actual.name for turn in result.turns for call in turn.unpaired_calls if call.actual]
    if others and result.verdict.label is Label.PASS:
        yield f"{_NOT_EXPECTED}: {listed(others, 3)}"
    if result.calls_evaluated < result.calls_expected:
        yield f"{result.calls_evaluated} of {counted(result.calls_expected, 'call')} evaluated"
    if golden is not None and session is not None and golden.key != session.id:
        yield f"golden {golden.key}"
    if session is not None and session.id_source == "trace_id":
        yield "no session id, named after its trace"
    if session is not None and session.incomplete:
        yield "incomplete"


def _facts(result: SessionResult) -> Iterator[str]:
    yield explain(result)
    yield f"metric {result.metric}"
    if result.criterion:
        yield f"criterion {result.criterion}"
    if result.golden is not None:
        yield f"golden set {result.golden.golden_set}"
        if result.golden.source:
            yield result.golden.source
    if result.session is not None:
        yield f"session id from {result.session.id_source}"
        if result.session.run:
            yield f"run {result.session.run}"


def _metric(result: MetricResult, session: SessionResult) -> MetricReport:
    verdict = result.verdict
    calls = [(turn, call) for one, turn, call in calls_judged(session) if one is result]
    first = next((_found(turn, call, call.failures[0]) for turn, call in calls if call.failures), None)
    known = [call for _, call in calls if call.score is not None]
    right = sum(not call.failures for call in known)
    return MetricReport(
        name=printable(result.name),
        description=printable(result.description),
        label=verdict.label,
        score=verdict.score,
        score_text=number_text(verdict.exact),
        threshold_text="" if result.threshold is None else number_text(result.threshold),
        reason=_reason(verdict.reason)
        if verdict.reason is None or result.needs_golden
        else reason_words(result.name, verdict.reason),
        reason_code=verdict.reason or "",
        # What was found in calls is shown with them.
        explanation=f"{right} of {counted(len(known), 'call')} right" if known else _explanation(verdict),
        broken=verdict.label is Label.FAIL
        or (verdict.label is Label.NOT_EVALUATED and result.threshold is not None and result.needs_golden),
        needs_golden=result.needs_golden,
        first="" if first is None else f"{first.turn}: {first}",
    )


def _explanation(verdict: MetricVerdict) -> str:
    """Return what a metric says of its score, unless that is only the reason why it has none."""
    only_reason = verdict.reason is not None and verdict.explanation == REASON_TEXT[verdict.reason]
    return "" if only_reason else printable(verdict.explanation)


def _turn(session: SessionResult, result: TurnResult) -> TurnReport:
    index = result.expected_index if result.expected_index is not None else result.turn_index
    turn, reason = result.turn, result.verdict.reason
    made = [] if turn is None else [call for call in turn.calls if not call.rejected]
    text = None if turn is None else turn.user_text.value
    return TurnReport(
        title="turn" if index is None else f"turn {index + 1}",
        whole=session.as_one,
        label=result.verdict.label,
        score=result.verdict.exact,
        reason=_reason(reason) or ("never happened" if turn is None else ""),
        happened=turn is not None,
        in_golden=reason is not Reason.TURN_NOT_EXPECTED,
        only_headline=turn is None or reason in {Reason.TURN_NOT_EXPECTED, Reason.CALLS_NOT_VISIBLE},
        nothing_expected=reason is Reason.NOTHING_EXPECTED,
        approximate=result.approximate,
        user_text=printable(" ".join(text.split())) if isinstance(text, str) else "",
        made_tools=() if turn is None else tuple(printable(call.name) for call in turn.calls),
        calls=tuple(_call(call) for call in result.calls),
        others=tuple(_others(result, made)),
        preset=None if result.answer is None else _preset(session, result, result.answer, made),
    )


def _others(result: TurnResult, made: Sequence[ToolCall]) -> Iterator[OtherCall]:
    """Yield calls that were forbidden, not expected, refused or not judged, in this order.

    A call that a missing call names as its nearest is told with that call.
    """
    forbidden = [call for call in result.unexpected_calls if call.violates is not None]
    others = [call for call in result.unpaired_calls if call.violates is None]
    for call in (*forbidden, *others):
        if call.actual is not None:
            mark, words = (UNEXPECTED, _NOT_EXPECTED) if call.violates is None else (WRONG, _FORBIDDEN)
            yield OtherCall(mark, words, actual_call(call.actual))
    for request in result.rejected:
        yield OtherCall(REJECTED, _REJECTED, actual_call(request))
    if not result.calls and not result.unexpected_calls:
        for extra in made:
            yield OtherCall(UNEXPECTED, "not judged", actual_call(extra), judged=False)


def _preset(session: SessionResult, result: TurnResult, answer: PresetResult, made: Sequence[ToolCall]) -> PresetAnswer:
    status = f"status {printable(answer.status)}" if answer.status else ""
    return PresetAnswer(
        preset=printable(answer.name),
        lines=tuple(filter(None, (status, printable(answer.words)))),
        expected=tuple((printable(call.name), call.args) for call in _expected(session, result)),
        made=tuple(map(actual_call, made)),
    )


def _expected(session: SessionResult, result: TurnResult) -> Sequence[ExpectedCall]:
    """Return what the golden expects of a turn; of all turns, where they were judged as one."""
    golden = session.golden
    if golden is None:
        return ()
    if session.as_one or result.expected_index is None:
        return golden.calls or [call for turn in golden.turns for call in turn.calls]
    return golden.turns[result.expected_index].calls


def _call(call: CallResult) -> CallReport:
    label = call.verdict.label
    return CallReport(
        tool="" if call.expected is None else printable(call.expected.name),
        label=label,
        score=call.verdict.exact,
        note=_call_note(call),
        reason=_reason(call.verdict.reason),
        arguments=tuple(_arguments(call)),
        actual=None if call.actual is None else actual_call(call.actual),
        aligned=call.aligned,
        missing=call.missing,
        only_unknown=label is Label.NOT_EVALUATED and not call.missing and not call.has_wrong_arguments,
        hint=printable(next((one.hint for one in call.differences if call.actual is None), "")),
    )


def _call_note(call: CallResult) -> str:
    """Say in a few words what is special about an expected call; nothing where its arguments say it all."""
    made = call.actual
    hidden = "" if made is None or made.arguments is not None else f"arguments {CAPTURE_WORDS[made.capture]}"
    failed = "" if made is None or made.error is None else shorten(printable(made.error), _LONGEST_ERROR)
    if call.missing:
        if call.verdict.reason is not None:
            return REASON_TEXT[call.verdict.reason]
        if made is None:
            return "never called"
        if call.out_of_order:
            return "called, but out of order"
        if call.has_wrong_arguments:
            return "called, but not as expected:"
        if failed:
            return f"not called; the nearest call failed: {failed}"
        return f"not called, or called with {hidden}" if hidden else "not called"
    if call.violates is not None:
        return _FORBIDDEN
    if call.optional and call.verdict.label is Label.FAIL:
        return "optional, but wrong"
    if call.verdict.label is Label.NOT_EVALUATED and hidden:
        return hidden
    return f"(the call failed: {failed})" if failed else ""


def _arguments(call: CallResult) -> Iterator[ArgumentReport]:
    """Yield the arguments that were compared, those that could not be, and those that were not expected."""
    compared = {argument.name for argument in call.arguments}
    yield from (_argument(argument, call.actual) for argument in call.arguments)
    expected: Mapping[str, JsonValue] = {} if call.expected is None else call.expected.args
    for name, value in expected.items():
        if name not in compared:
            words = "✗ never called" if call.missing else ""
            yield ArgumentReport(printable(name), "never_called", words, value, ABSENT)
    passed = {} if call.actual is None else call.actual.arguments or {}
    for name in call.extra_arguments:
        yield ArgumentReport(printable(name), "extra", "not expected", ABSENT, passed.get(name, ABSENT))


def _argument(argument: ArgumentResult, made: ToolCall | None) -> ArgumentReport:
    actual: JsonValue | Absence = ABSENT
    unknown = ""
    if argument.outcome in {ArgumentOutcome.MATCHED, ArgumentOutcome.MISMATCHED}:
        left_out = made is not None and made.arguments is not None and argument.name not in made.arguments
        if not (argument.outcome is ArgumentOutcome.MATCHED and argument.actual_value is None and left_out):
            actual = argument.actual_value
    elif argument.outcome is ArgumentOutcome.UNKNOWN and made is not None:
        capture = made.argument_captures.get(argument.name, made.capture)
        known = capture is Capture.CAPTURED
        unknown = "depends on a result that is not known" if known else CAPTURE_WORDS[capture]
    return ArgumentReport(
        printable(argument.name),
        argument.outcome,
        _outcome_words(argument, made),
        argument.expected_value,
        actual,
        unknown,
        argument.strategy,
        argument.exact,
        argument.hint,
    )


def _outcome_words(argument: ArgumentResult, made: ToolCall | None) -> str:
    if argument.outcome is ArgumentOutcome.UNKNOWN and made is None:
        return "? never called"
    words = _OUTCOMES[argument.outcome]
    if argument.exact is not None and argument.exact.denominator != 1:
        words += f" {score_text(argument.exact)}"
    if argument.strategy != "exact" and argument.outcome in {ArgumentOutcome.MATCHED, ArgumentOutcome.MISMATCHED}:
        words += f" ({argument.strategy})"
    return words if argument.weight == 1 else f"{words}, weight {float(argument.weight):.4g}"


def actual_call(call: ToolCall) -> ActualCall:
    """Return a call as it was made, with why its arguments are not known where they are not."""
    hidden = {name: CAPTURE_WORDS[capture] for name, capture in call.argument_captures.items()}
    passed = call.arguments or {}
    names = dict.fromkeys((*(name for name in passed if name not in hidden), *hidden))
    facts = [f"failed: {call.error}"] if call.error is not None else []
    facts += [f"call id {call.call_id}"] if call.call_id else []
    facts += [f"trace {call.span.trace_id}, span {call.span.span_id}"] if call.span else []
    facts += ["requested; no execution of it was seen"] if call.requested and not call.rejected else []
    return ActualCall(
        printable(call.name),
        tuple((printable(name), ABSENT if name in hidden else passed[name], hidden.get(name, "")) for name in names),
        f"arguments {CAPTURE_WORDS[call.capture]}" if call.arguments is None else "",
        tuple(map(printable, facts)),
    )
