"""Hints: what to switch on or change where something was not recognised or not evaluated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain, islice
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple, cast

from goldspan.collector_processor.replay.summary_and_exit_code import Totals, metric_totals
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects import Advice, Dialect
from goldspan.mappers.dialects.reading.protocol import IN_PROCESS, Stack, advice_for, built_in_advice
from goldspan.mappers.span_facts import Role
from goldspan.scoring.lazy_names import texts_beside
from goldspan.scoring.pages import counted, listed, printable
from goldspan.scoring.result_words import CAPTURE_WORDS, GROUNDING, MISSING_INPUT, judged_calls
from goldspan.scoring.run import ScoringResult
from goldspan.scoring.sessions import Capture, DoubtedFact, Session, ToolCall, Turn
from goldspan.scoring.verdict import REASON_OF_CAPTURE, REASON_TEXT, Reason

if TYPE_CHECKING:
    from goldspan.collector_processor.replay.dialect_proposals import ShapedTools

NO_SESSION_ID = frozenset({"trace_id", "input"})
"""Where the id of a session comes from that no span names."""


class Hint(NamedTuple):
    """Something that keeps calls from being scored, and what helps."""

    seen: str
    helps: str


_TEXTS = texts_beside("goldspan.collector_processor.replay", "hints.toml")
SET_SESSION: dict[str, str] = _TEXTS["set_session"]
LANGUAGES: dict[str, str] = _TEXTS["languages"]
GENERAL = Advice(**_TEXTS["general"])
HELP: dict[Reason, str] = {Reason(code): text for code, text in _TEXTS["reasons"].items()}
HELP_WITH_DOUBT: dict[DoubtedFact, str] = {DoubtedFact(code): text for code, text in _TEXTS["doubts"].items()}
PROPOSE = "`goldspan dialects propose TRACES` writes a dialect that reads them."


def advice_of(dialect: Dialect) -> tuple[Advice, ...]:
    """Return what must be switched on where a dialect reads: goldspan's have a file for it, others may say it."""
    advice: object = getattr(dialect, "advice", ())
    listed = cast("tuple[object, ...]", advice) if isinstance(advice, tuple) else (advice,)
    return tuple(one for one in listed if isinstance(one, Advice)) or built_in_advice().get(dialect.name, ())


class Advisor:
    """Gives the advice of dialects to the stacks that they read."""

    def __init__(self, registry: DialectRegistry) -> None:
        """Take the advice of all dialects."""
        self._advice = {dialect.name: advice_of(dialect) for dialect in registry.dialects}
        self._all = tuple(one for advice in self._advice.values() for one in advice)

    def advice(self, dialect: str, stack: Stack) -> Advice:
        """Return what helps the users of a stack whose spans this dialect reads."""
        return advice_for(self._advice.get(dialect, ()), self._all, stack) or GENERAL


class Writer(NamedTuple):
    """What wrote some spans of a trace, and what they are."""

    dialect: str
    role: Role
    stack: Stack


Writers = Mapping[str, Collection[Writer]]
"""What wrote the recognised spans of each trace."""


def advice_words(texts: Iterable[tuple[Advice, str]]) -> str:
    """Return the texts of several advices in one, each with whom it is for where they differ."""
    owners: dict[str, list[str]] = {}
    for advice, text in texts:
        if text:
            owners.setdefault(text, []).append(who(advice))
    if len(owners) <= 1:
        return "".join(owners)
    return " ".join(f"{', '.join(dict.fromkeys(names))}: {text}" for text, names in owners.items())


def who(advice: Advice) -> str:
    """Return whom an advice is for: the framework and its language."""
    language = LANGUAGES.get(advice.language, advice.language)
    return f"{advice.framework} ({language})" if language else advice.framework


ArgumentAdvice = Callable[[str], str | None]
"""Says of a dialect what must be switched on to have arguments captured."""


def argument_advice(registry: DialectRegistry, stacks: Iterable[tuple[str, Stack]]) -> ArgumentAdvice:
    """Return what says of a dialect what must be switched on in these stacks; the advice is read when it is asked."""

    def words(dialect: str) -> str:
        advisor = Advisor(registry)
        advice = [advisor.advice(dialect, stack) for name, stack in sorted(stacks) if name == dialect]
        known = [one for one in advice if one is not GENERAL] or advice[:1]
        return advice_words((one, one.arguments) for one in known)

    return words


def hints_for_traces(
    sessions: Sequence[Session],
    dialects: Counter[str],
    registry: DialectRegistry,
    writers: Writers,
    shaped: Sequence[ShapedTools] = (),
) -> Iterator[Hint]:
    """Yield what keeps the calls of these sessions from being scored; `dialects` counts recognised spans.

    Where calls were read by the `shaped` values of spans that no table reads, no advice says that instrumentation or
    session ids are missing which those spans have.
    """
    turns = list(chain.from_iterable(session.turns for session in sessions))
    calls = list(chain.from_iterable(turn.calls for turn in turns))
    hidden = [turn for turn in turns if not turn.calls_visible]
    advisor = Advisor(registry)
    yield from _hints_of_unread_ids(shaped)
    if not shaped and not dialects:
        yield Hint(**_TEXTS["nothing_recognised"])
    elif not calls and not any(_has_models(turn, writers) for turn in hidden):
        yield Hint(**_TEXTS["no_tool_call"])
    yield from _hints_of_arguments(turns, writers, advisor)
    texts = Counter(text for turn in hidden for text in _how_to_see_calls(turn, writers, advisor))
    yield from (Hint(f"no span shows which tools ran in {n} of {len(turns)} turns", text) for text, n in texts.items())
    yield from _hints_of_times(turns, writers)
    yield from _hints_of_doubts(turns)
    yield from _hints_of_ids(sessions, writers, advisor, known=any(found.session for found in shaped))


def _hints_of_arguments(turns: Sequence[Turn], writers: Writers, advisor: Advisor) -> Iterator[Hint]:
    """Yield how to have arguments recorded that are not known, by dialect."""
    total = sum(len(turn.calls) for turn in turns)
    lacking = chain.from_iterable(turn.calls for turn in turns if not _has_arguments_elsewhere(turn))
    for (capture, dialect, helps), count in _unknown_arguments(lacking, writers, advisor).items():
        yield Hint(f"arguments {CAPTURE_WORDS[capture]} in {count} of {total} calls ({dialect})", helps)


def _hints_of_unread_ids(shaped: Sequence[ShapedTools]) -> Iterator[Hint]:
    """Yield where session ids are that no dialect reads."""
    for found in shaped:
        if found.session is not None and not found.session_known:
            yield Hint(f"session ids in {printable(found.session)}, which no dialect reads", PROPOSE)


def _has_arguments_elsewhere(turn: Turn) -> bool:
    """Whether arguments of a turn are recorded where they were not read."""
    return any(one.fact is DoubtedFact.ARGUMENTS for one in turn.doubts)


def _hints_of_times(turns: Sequence[Turn], writers: Writers) -> Iterator[Hint]:
    """Yield where only times tell which calls were requested together (R8), while all else that goldens ask is known.

    No span of a model is in the turn then.
    """
    shown = [turn for turn in turns if all(call.capture is Capture.CAPTURED for call in turn.calls)]
    told = [turn for turn in shown if len(turn.calls) > 1 and not _has_models(turn, writers)]
    if told:
        seen = f"no model's answer shows which calls were requested together in {len(told)} of {len(turns)} turns"
        yield Hint(seen, _TEXTS["batches_by_times"]["helps"])


def _hints_of_doubts(turns: Sequence[Turn]) -> Iterator[Hint]:
    """Yield what was read otherwise than the telemetry says, by fact and dialect."""
    found = Counter((doubt.fact, doubt.dialect) for turn in turns for doubt in turn.doubts)
    for (fact, dialect), count in found.items():
        yield Hint(f"{fact} in doubt in {count} of {len(turns)} turns ({dialect})", HELP_WITH_DOUBT[fact])


def _hints_of_ids(sessions: Sequence[Session], writers: Writers, advisor: Advisor, *, known: bool) -> Iterator[Hint]:
    """Yield how to name sessions that have several ids or, unless it is `known` where ids are, none."""
    if ambiguous := [session for session in sessions if session.ambiguous]:
        seen = f"several session ids in {len(ambiguous)} of {len(sessions)} sessions"
        yield from (Hint(seen, text) for text in _set_session(ambiguous, writers, advisor))
    nameless = [session for session in sessions if session.id_source in NO_SESSION_ID and not session.ambiguous]
    if nameless and not known:
        seen = f"no session id in {len(nameless)} of {len(sessions)} sessions"
        for writer in _writers_of(nameless, writers):
            text = advisor.advice(writer.dialect, writer.stack).session
            if text and text not in (IN_PROCESS, SET_SESSION[""].capitalize()):
                yield Hint(f"{seen} ({writer.dialect})", text)
        yield from (Hint(f"{seen} (any framework)", text) for text in _set_session(nameless, writers, advisor))


def _unknown_arguments(
    calls: Iterable[ToolCall], writers: Writers, advisor: Advisor
) -> Counter[tuple[Capture, str, str]]:
    """Count calls by each way in which arguments of theirs are unknown, with what helps."""
    found: Counter[tuple[Capture, str, str]] = Counter()
    for call in calls:
        states = {call.capture, *call.argument_captures.values()} - {Capture.CAPTURED}
        if not states:
            continue
        mine = [
            writer
            for ref in call.evidence
            for writer in sorted(writers.get(ref.trace_id, ()))
            if writer.dialect == call.dialect
        ]
        of_tools = [writer for writer in mine if writer.role is Role.TOOL]
        stack = (of_tools or mine or [Writer("", Role.TOOL, Stack())])[0].stack
        advice = advisor.advice(call.dialect, stack)
        for capture in sorted(states):
            helps = {
                Capture.NOT_CAPTURED: advice.arguments,
                Capture.REDACTED: advice.redacted,
                Capture.UNPARSABLE: advice.unparsable,
            }.get(capture)
            found[capture, call.dialect, helps or HELP[REASON_OF_CAPTURE[capture]]] += 1
    return found


def _has_models(turn: Turn, writers: Writers) -> bool:
    return any(one.role is Role.MODEL for trace_id in turn.trace_ids for one in writers.get(trace_id, ()))


def _how_to_see_calls(turn: Turn, writers: Writers, advisor: Advisor) -> list[str]:
    """Return what makes a turn's calls visible: what models answered, or else what its agents' spans lack."""
    mine = dict.fromkeys(writer for trace_id in turn.trace_ids for writer in sorted(writers.get(trace_id, ())))
    models = [writer for writer in mine if writer.role is Role.MODEL]
    advice = [advisor.advice(writer.dialect, writer.stack) for writer in models or mine]
    texts = [one.calls or one.arguments for one in advice if one is not GENERAL and (one.calls or one.arguments)]
    return list(dict.fromkeys(texts or [GENERAL.calls]))


def _writers_of(sessions: Iterable[Session], writers: Writers) -> dict[Writer, None]:
    """Return what wrote the calls of these sessions; without calls, what wrote their other spans."""
    found: dict[Writer, None] = {}
    theirs: dict[Writer, None] = {}
    for session in sessions:
        for turn in session.turns:
            dialects = {call.dialect for call in turn.calls}
            for trace_id in turn.trace_ids:
                for writer in sorted(writers.get(trace_id, ())):
                    found[writer] = None
                    if writer.dialect in dialects:
                        theirs[writer] = None
    return theirs or found


def _set_session(sessions: Sequence[Session], writers: Writers, advisor: Advisor) -> Iterable[str]:
    """Return how to name these sessions in each of their languages, whatever the framework."""
    found = _writers_of(sessions, writers)
    languages = dict.fromkeys(
        writer.stack.language or advisor.advice(writer.dialect, writer.stack).language for writer in found
    )
    words = dict.fromkeys(SET_SESSION.get(language, SET_SESSION[""]) for language in languages or [""])
    return [f"Goldens are joined by session id: {text}" for text in words]


def hints_for_run(result: ScoringResult, sums: Totals, advice: ArgumentAdvice) -> Iterator[Hint]:
    """Yield what keeps a run from being evaluated whole; `advice` says how to have arguments captured."""
    found: list[Hint] = []
    for reason, count in sums.not_evaluated.items():
        if reason in HELP:
            calls = (call for session in result.sessions for turn in session.turns for call in turn.calls)
            made = (call.actual.dialect for call in calls if call.actual is not None and call.reason is reason)
            texts = _advice_of(reason, made, advice)
            found += [Hint(f"{REASON_TEXT[reason]} ({count:,})", text) for text in texts]
    if sums.never_seen:
        found.append(Hint(REASON_TEXT[Reason.GOLDEN_NEVER_SEEN], HELP[Reason.GOLDEN_NEVER_SEEN]))
    found += (*_hints_of_repeats(result), *_hints_of_grounding(result), *_hints_of_metrics(result, advice))
    judged = not result.golden_sets and bool(sums.judged_without_golden)
    if not sums.seen and sums.without_golden and not judged:
        found.append(Hint("no session has a golden", HELP[Reason.GOLDEN_NEVER_SEEN]))
    yield from dict.fromkeys(found)


def _hints_of_repeats(result: ScoringResult) -> Iterator[Hint]:
    """Say how a golden set accepts calls that are made twice."""
    turns = (turn for session in result.sessions for turn in session.turns)
    repeated = Counter(call.tool for turn in turns for call in turn.unexpected_calls if call.repeats)
    if repeated:
        tools = listed(map(printable, repeated))
        yield Hint(
            f"the same call succeeded before ({repeated.total():,})",
            f"{tools} ran again with the same arguments. If that is right, expect both calls, or list the tool under "
            "`reads`; `repeated_writes: report` in the criterion only reports it.",
        )


def _hints_of_grounding(result: ScoringResult) -> Iterator[Hint]:
    """Yield how to look into the first value without an origin, and what may be missing to find it."""
    ungrounded = (one.places[0] for one in result.findings.rare if one.metric == GROUNDING)
    for place in islice(ungrounded, 1):
        call = place.call.call
        named = quote(printable(call.call_id or (call.span.span_id if call.span else call.name)))
        helps = f"`goldspan inspect --why {named} TRACES` shows where each of its values came from."
        yield Hint(f"a call of {printable(call.name)} in {printable(place.name)}", helps)
        if not all(map(find_spec, ("airportsdata", "babel", "pycountry"))):
            yield Hint(**_TEXTS["without_tables"])


def _hints_of_metrics(result: ScoringResult, advice: ArgumentAdvice) -> Iterator[Hint]:
    """Yield what kept metrics that need no golden from judging calls."""
    most: Counter[Reason] = Counter()
    for one in metric_totals(result):
        for reason, count in one.not_evaluated.items():
            if reason is Reason.INPUT_MISSING and one.name in MISSING_INPUT:
                yield Hint(f"{MISSING_INPUT[one.name]} ({counted(count, one.unit)})", _TEXTS["missing_input"][one.name])
            else:
                most[reason] = max(most[reason], count)
    for reason in filter(HELP.__contains__, most):
        metrics = (metric for session in result.sessions for metric in session.metrics)
        calls = (call for metric in metrics for _, call in judged_calls(metric) if call.reason is reason)
        texts = _advice_of(reason, (call.call.dialect for call in calls), advice)
        yield from (Hint(f"{REASON_TEXT[reason]} ({most[reason]:,})", text) for text in texts)


def _advice_of(reason: Reason, dialects: Iterable[str], advice: ArgumentAdvice) -> list[str]:
    """Return what helps against a reason: what these dialects advise where they do, else what helps everywhere."""
    names = dict.fromkeys(dialects) if reason is Reason.ARGUMENTS_NOT_CAPTURED else ()
    return [f"{name}: {words}" for name in names if (words := advice(name))] or [HELP[reason]]
