"""Hints: what to switch on or change where something was not recognised or not evaluated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import NamedTuple

from goldspan.collector_processor.replay.summary_and_exit_code import Totals, calls_judged, metric_totals
from goldspan.collector_processor.replay.wording import counted, printable
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects import Advice, Dialect
from goldspan.mappers.unknown_tool_spans import UnknownTools
from goldspan.scoring.results import SessionResult
from goldspan.scoring.run import RunResult
from goldspan.scoring.sessions import Capture, Session, ToolCall
from goldspan.scoring.verdict import REASON_OF_CAPTURE, REASON_TEXT, Reason

NO_SESSION_ID = frozenset({"trace_id", "input"})
"""Where the id of a session comes from that no span names."""
CAPTURE_WORDS: dict[Capture, str] = {
    Capture.CAPTURED: "captured",
    Capture.NOT_CAPTURED: "not captured",
    Capture.REDACTED: "redacted",
    Capture.TRUNCATED: "cut off by a length limit",
    Capture.UNPARSABLE: "not readable",
}

NAME_THE_SESSION = (
    "Goldens are joined by session id. With goldspan's span processor in the agent's process, run each turn inside "
    '`with session_scope("ID"):` (from goldspan.collector_processor); without, set gen_ai.conversation.id on the '
    "agent's span."
)
"""What helps with every framework."""

PROPOSE = "`goldspan dialects propose TRACES` writes a dialect that reads them."

HELP: dict[Reason, str] = {
    Reason.ARGUMENTS_NOT_CAPTURED: "Let the instrumentation write tool arguments on its spans.",
    Reason.ARGUMENTS_REDACTED: "Let the redaction pass the arguments that goldens name.",
    Reason.ARGUMENTS_TRUNCATED: (
        "Raise the limit on attribute values: OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT, and its variant for spans, "
        "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT."
    ),
    Reason.ARGUMENTS_UNPARSABLE: "Record the arguments as a JSON object.",
    Reason.CALLS_NOT_VISIBLE: "Add an instrumentation that writes a span for each tool.",
    Reason.GOLDEN_NEVER_SEEN: (
        "`goldspan inspect` lists the session ids in the traces; a golden needs exactly the same id."
    ),
    Reason.AMBIGUOUS_GOLDEN: "Give the session a golden with its exact id, or make one of the patterns narrower.",
    Reason.SESSION_AMBIGUOUS: (
        "Pass the spans of every process that serves the session. Record messages, or give the golden's turns their "
        "`user` text; if every turn is here, set `turn_join: index`. Of several session ids at one place, name one."
    ),
    Reason.SAMPLED_OUT: "Sample every trace while goldens are scored: OTEL_TRACES_SAMPLER=always_on.",
    Reason.INPUT_MISSING: (
        "With `turn_join: key` a golden turn is found by its `user` text only: have messages recorded, or join turns "
        "by `auto` or `index`."
    ),
    Reason.INCOMPLETE: "Pass all files of the session to one command.",
    Reason.EVALUATOR_ERROR: "The error is in the metric, not in the traces.",
}
"""What helps where the dialect has no advice of its own. Reasons that the telemetry does not cause have no entry."""


class Hint(NamedTuple):
    """Something that keeps calls from being scored, and what helps."""

    seen: str
    helps: str


GROUNDING = "tool_parameter_grounding"
MISSING_INPUT: dict[str, Hint] = {
    "tool_parameter_schema": Hint(
        "no definition of the tool",
        "Have tool definitions recorded (gen_ai.tool.definitions), or pass them with `--tools FILE`.",
    ),
    GROUNDING: Hint(
        "nothing said before the call was captured",
        "Have messages recorded: most instrumentations write them with the switch for arguments.",
    ),
}
"""What `input_missing` means for metrics that need no golden, and what helps."""


def advice_of(dialect: Dialect | None) -> Advice:
    """Return what a dialect says must be switched on; other packages' dialects need not say anything."""
    advice = getattr(dialect, "advice", None)
    return advice if isinstance(advice, Advice) else Advice()


def argument_advice(registry: DialectRegistry) -> dict[str, str]:
    """Return, by dialect, what must be switched on to have arguments captured."""
    return {dialect.name: text for dialect in registry.dialects if (text := advice_of(dialect).arguments)}


def hints_for_traces(
    sessions: Sequence[Session],
    dialects: Counter[str],
    registry: DialectRegistry,
    unknown_tools: Sequence[UnknownTools] = (),
) -> Iterator[Hint]:
    """Yield what keeps the calls of these sessions from being scored; `dialects` counts recognised spans.

    Where spans look like tool calls of an unknown dialect, no advice says that instrumentation, arguments or session
    ids are missing which those spans have.
    """
    turns = [turn for session in sessions for turn in session.turns]
    calls = [call for turn in turns for call in turn.calls]
    known = {dialect.name: dialect for dialect in registry.dialects}
    for found in unknown_tools:
        spans = counted(len(found.spans), "span looks", "spans look")
        yield Hint(f"{spans} like tool calls of an unknown dialect", PROPOSE)
    if unknown_tools:
        pass
    elif not dialects:
        yield Hint(
            "no span was recognised as an agent's, a model's or a tool's",
            "`goldspan dialects` lists what goldspan reads; perhaps the framework is not instrumented yet.",
        )
    elif not calls:
        yield Hint("agents or models were seen, but no tool call", HELP[Reason.CALLS_NOT_VISIBLE])
    for (capture, dialect), count in _unknown_arguments(calls).items():
        if capture is Capture.NOT_CAPTURED and unknown_tools:
            continue
        helps = advice_of(known.get(dialect)).arguments if capture is Capture.NOT_CAPTURED else ""
        seen = f"arguments {CAPTURE_WORDS[capture]} in {count} of {len(calls)} calls ({dialect})"
        yield Hint(seen, helps or HELP[REASON_OF_CAPTURE[capture]])
    hidden = sum(not turn.calls_visible for turn in turns)
    if hidden and not unknown_tools:
        yield Hint(f"no span shows the tool calls of {hidden} of {len(turns)} turns", HELP[Reason.CALLS_NOT_VISIBLE])
    if any(session.ambiguous for session in sessions):
        count = sum(session.ambiguous for session in sessions)
        yield Hint(f"several session ids in {count} of {len(sessions)} sessions", NAME_THE_SESSION)
    nameless = [session for session in sessions if session.id_source in NO_SESSION_ID and not session.ambiguous]
    if nameless and not any(found.session for found in unknown_tools):
        seen = f"no session id in {len(nameless)} of {len(sessions)} sessions"
        theirs = dict.fromkeys(call.dialect for session in nameless for turn in session.turns for call in turn.calls)
        for name in theirs or dialects:
            if text := advice_of(known.get(name)).session:
                yield Hint(f"{seen} ({name})", text)
        yield Hint(f"{seen} (any framework)", NAME_THE_SESSION)


def _unknown_arguments(calls: Sequence[ToolCall]) -> Counter[tuple[Capture, str]]:
    """Count calls by each way in which arguments of theirs are unknown."""
    found: Counter[tuple[Capture, str]] = Counter()
    for call in calls:
        states = {call.capture, *call.argument_captures.values()} - {Capture.CAPTURED}
        found.update((capture, call.dialect) for capture in sorted(states))
    return found


def hints_for_run(result: RunResult, sums: Totals, by_dialect: Mapping[str, str]) -> Iterator[Hint]:
    """Yield what keeps a run from being evaluated whole; `by_dialect` says how to have arguments captured."""
    found: list[Hint] = []
    for reason, count in sums.not_evaluated.items():
        if reason in HELP:
            texts = _dialect_advice(result, reason, by_dialect) or [HELP[reason]]
            found += [Hint(f"{REASON_TEXT[reason]} ({count:,})", text) for text in texts]
    if sums.never_seen:
        found.append(Hint(REASON_TEXT[Reason.GOLDEN_NEVER_SEEN], HELP[Reason.GOLDEN_NEVER_SEEN]))
    found += _hints_of_metrics(result, by_dialect)
    judged = not result.golden_sets and bool(sums.judged_without_golden)
    if not sums.seen and sums.without_golden and not judged:
        found.append(Hint("no session has a golden", HELP[Reason.GOLDEN_NEVER_SEEN]))
    yield from dict.fromkeys(found)


def _hints_of_metrics(result: RunResult, by_dialect: Mapping[str, str]) -> Iterator[Hint]:
    """Yield how to look into what metrics that need no golden found, and what kept them from judging calls."""
    for session in result.sessions:
        found = (call for metric, _, call in calls_judged(session) if call.failures and metric.name == GROUNDING)
        failed = next(found, None)
        if failed is not None:
            place = failed.call.call_id or (failed.call.span.span_id if failed.call.span else failed.call.name)
            helps = (
                f"`goldspan inspect --why {quote(printable(place))} TRACES` shows where each of its values came from."
            )
            yield Hint(f"a call of {printable(failed.call.name)} in {_name(session)}", helps)
            break
    most: Counter[Reason] = Counter()
    for one in metric_totals(result):
        for reason, count in one.not_evaluated.items():
            if _lacks_input(one.name, reason):
                words, helps = MISSING_INPUT[one.name]
                yield Hint(f"{words} ({counted(count, one.unit)})", helps)
            else:
                most[reason] = max(most[reason], count)
    for reason, count in most.items():
        dialects = dict.fromkeys(
            call.call.dialect
            for session in result.sessions
            for _, _, call in calls_judged(session)
            if call.reason is reason is Reason.ARGUMENTS_NOT_CAPTURED
        )
        texts = [f"{name}: {by_dialect[name]}" for name in dialects if name in by_dialect]
        for text in texts or [HELP[reason]] if reason in HELP else []:
            yield Hint(f"{REASON_TEXT[reason]} ({count:,})", text)


def _name(session: SessionResult) -> str:
    return "" if session.session is None else printable(session.session.id)


def _lacks_input(metric: str, reason: Reason) -> bool:
    return reason is Reason.INPUT_MISSING and metric in MISSING_INPUT


def reason_words(metric: str, reason: Reason) -> str:
    """Return why a metric that needs no golden has no score: of the own ones, what they lack."""
    if reason is Reason.NOTHING_EXPECTED:
        return "nothing to judge"
    return MISSING_INPUT[metric].seen if _lacks_input(metric, reason) else REASON_TEXT[reason]


def _dialect_advice(result: RunResult, reason: Reason, by_dialect: Mapping[str, str]) -> list[str]:
    if reason is not Reason.ARGUMENTS_NOT_CAPTURED:
        return []
    dialects = dict.fromkeys(
        call.actual.dialect
        for session in result.sessions
        for turn in session.turns
        for call in turn.calls
        if call.actual is not None and call.verdict.reason is reason
    )
    return [f"{name}: {by_dialect[name]}" for name in dialects if by_dialect.get(name)]
