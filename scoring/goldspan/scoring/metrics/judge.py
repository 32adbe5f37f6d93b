"""`tool_parameter_accuracy`: a model is asked about each call whether its arguments are faithful to the conversation.

What is asked and what an answer means is here. Who asks the model is passed in. A judge may also ask word for word
what `ToolParameterAccuracyEvaluator` of Strands Evals 1.7 asks: the system prompt and the description of the answer, in
`judge_prompts.toml`, are texts of `strands-agents-evals` 1.7.0, Copyright Amazon.com, Inc. or its affiliates, Apache
License 2.0. Scores of one judge can be compared only if both ask the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from goldspan.scoring.grounding.context import KnownBeforeCall, SessionContext, local_days
from goldspan.scoring.grounding.leaves import Kind
from goldspan.scoring.json_values import counted, is_mapping, is_sequence
from goldspan.scoring.lazy_names import texts_beside
from goldspan.scoring.messages import as_text
from goldspan.scoring.metrics.argument_profile import Profile, ToolParameterProfile
from goldspan.scoring.metrics.grounding import GENERATED, ToolParameterGrounding
from goldspan.scoring.metrics.schema import declared_tools
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content, Session, ToolCall, Turn
from goldspan.scoring.tool_definitions import ToolDefinition, of_agent, tools_in
from goldspan.scoring.verdict import REASON_TEXT, Finding, MetricScore, Range, Reason, arguments_of, why_not_known

_NO_TOOLS = (
    "No tool list could be resolved for this agent. "
    "Evaluate the tool call based on the user's request and conversation context."
)


def strands_prompts(session: Session, tools: Mapping[str, Mapping[str, Any]] | None = None) -> list[list[str]]:
    """Return the prompt for each call of each turn.

    Before a call are: earlier turns, and of its own turn the user's message and the calls that had ended when it began.
    `tools` are the schemas of all tools by name, in place of those that telemetry declares.
    """
    history: list[str] = []
    given = None if tools is None else [ToolDefinition(name, "", schema) for name, schema in tools.items()]
    available: Sequence[ToolDefinition] = ()
    found: list[list[str]] = []
    for turn in session.turns:
        available = list(tools_in(turn.tool_definitions.value)) or available
        if user := _text(turn.user_text):
            history.append(f"User: {user}")
        found.append(
            [
                _strands_prompt(
                    call,
                    _in_force(call, turn, available) if given is None else given,
                    [*history, *_lines_before(index, turn.calls)],
                )
                for index, call in enumerate(turn.calls)
            ]
        )
        history += [line for call in turn.calls if not call.rejected for line in _lines(call)]
        if answer := _text(turn.answer):
            history.append(f"Assistant: {answer}")
    return found


def _strands_prompt(call: ToolCall, tools: Sequence[ToolDefinition], history: Sequence[str]) -> str:
    listed = "\n".join(line for tool in tools for line in _tool_lines(tool)) or _NO_TOOLS
    parts = [f"## Available tool-calls\n{listed}"]
    if history:
        parts.append("\n".join(["## Previous conversation history", *history]))
    parts.append(f"## Target tool-call to evaluate\n{_call_text(call)}")
    return "\n\n".join(parts)


def _in_force(call: ToolCall, turn: Turn, otherwise: Sequence[ToolDefinition]) -> Sequence[ToolDefinition]:
    """Return the tools that the model which requested a call was given, or those recorded for the call's agent."""
    own = turn.tool_definitions if call.tool_definitions == NO_CONTENT else call.tool_definitions
    return list(tools_in(of_agent(own.value, call.agent))) or otherwise


def _lines_before(index: int, calls: Sequence[ToolCall]) -> Iterator[str]:
    start = calls[index].start
    for at, call in enumerate(calls):
        end = max(call.start, call.end)
        if at != index and not call.rejected and (end < start or (end == start and at < index)):
            yield from _lines(call)


def _lines(call: ToolCall) -> tuple[str, str]:
    return _call_text(call), f"Tool result: {_text(call.result)}"


def _call_text(call: ToolCall) -> str:
    return f"Tool call: {call.name}({dict(arguments_of(call) or {})})"


def _text(content: Content) -> str:
    if content.capture is not Capture.CAPTURED:
        return ""
    return content.raw if isinstance(content.raw, str) else as_text(content.value)


def _tool_lines(tool: ToolDefinition) -> Iterator[str]:
    yield f"- {tool.name}: {tool.description or 'No description'}"
    properties = (tool.schema or {}).get("properties")
    if not is_mapping(properties) or not properties:
        return
    required = (tool.schema or {}).get("required")
    yield "  Parameters:"
    for name, schema in properties.items():
        about: Mapping[str, Any] = schema if is_mapping(schema) else {}
        mark = " (required)" if is_sequence(required) and name in required else ""
        yield f"    - {name} ({about.get('type', 'any')}{mark}): {about.get('description', '')}"


ACCURACY = "tool_parameter_accuracy"
"""The metric's name."""
JudgePreset = Literal["goldspan", "strands"]
"""How a question is put: goldspan's own prompt, or that of Strands Evals 1.7 word for word."""
When = Literal["always", "ungrounded", "doubtful"]
"""Which calls the model is asked about: all, those that `tool_parameter_grounding` did not pass, or those with a value
that is assumed, comes from nowhere as few do, or deviates from the profile."""


@cache
def preset_prompt(preset: JudgePreset) -> tuple[str, ToolDefinition]:
    """Return what a preset tells the judge, and the form of its answers: `judge_prompts.toml` has both."""
    written = texts_beside("goldspan.scoring.metrics", "judge_prompts.toml")[preset]
    return written["system"], ToolDefinition(**written["tool"])


_CORRECTION = 'Answer with one JSON object: {"reasoning": "...", "score": "Yes"} or {"reasoning": "...", "score": "No"}'
_MAX_CONTEXT = 60_000  # characters of the conversation that goldspan's own prompt shows: the latest ones
_MAX_DEFINITION = 10_000
_MAX_REASONING = 2_000
_SHOWN = 3  # so many reasons are in an explanation
_MOST_OBJECTS = 200  # so many places of a text are tried as the beginning of an answer


class Question(Struct, frozen=True):
    """What a model is asked about one call."""

    system: str
    """The system prompt."""
    prompt: str
    """The user message."""
    answer: ToolDefinition = field(default_factory=lambda: preset_prompt("goldspan")[1])
    """The form of the answer: a tool to call, whose schema is also that of a JSON answer."""
    corrections: tuple[tuple[str, str], ...] = ()
    """Answers that could not be read, each with what was said to the model then."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages in OpenAI's format."""
        found = [{"role": "system", "content": self.system}, {"role": "user", "content": self.prompt}]
        for answer, correction in self.corrections:
            found += [{"role": "assistant", "content": answer}, {"role": "user", "content": correction}]
        return found

    def corrected(self, answer: str) -> Question:
        """Return the question with an answer that could not be read, and how to answer."""
        return replace(self, corrections=(*self.corrections, (answer[:_MAX_REASONING] or "(nothing)", _CORRECTION)))


class JudgeAnswer(Struct, frozen=True):
    """What a model answered."""

    accurate: bool
    reasoning: str = ""


class NoAnswer(Struct, frozen=True):
    """Why there is no answer."""

    message: str
    """One line without content of the conversation."""
    detailed: str = ""
    """The line with what the server said; empty if it is the same."""
    final: bool = False
    """To ask again later is of no use."""


Ask = Callable[[Sequence[Question]], Sequence[JudgeAnswer | NoAnswer]]
"""Puts questions to a model: an answer for each, in order. Never raises for what a model or a server does."""


class ToolParameterAccuracy(Struct, frozen=True):
    """The share of calls whose arguments a model finds faithful to what was said and returned before them."""

    ask: Ask
    preset: JudgePreset = "goldspan"
    when: When = "always"
    system_prompt: str | None = None
    """In place of the preset's."""
    profile: Profile = Profile()
    """What is normal for the agent; where it knows enough, what is normal is asked about no more."""
    tools: Mapping[str, Mapping[str, Any]] | None = None
    """The schemas of all tools by name, as in `--tools`; None: those that telemetry declares."""
    name: str = ACCURACY
    description: str = "The share of calls whose arguments a model finds faithful to the conversation."
    range: Range = Range(0.0, 1.0)
    needs: frozenset[str] = frozenset(("context", "tool_definitions"))
    threshold: Fraction | None = Fraction(1)

    def __call__(self, session: Session, _golden: object = None, /) -> MetricScore:
        """Judge every call of a session, rejected requests aside."""
        asked = self.questions(session)
        answers = iter(self.ask([one for turn in asked for one in turn if isinstance(one, Question)]))
        turns = [
            [_judged(next(answers) if isinstance(one, Question) else one) for one in turn] for turn in asked
        ]  # fmt: skip
        names = [call.name for turn in session.turns for call in turn.calls]
        pooled = _pooled([call for turn in turns for call in turn], names)
        scores = [
            replace(_pooled(calls, [call.name for call in turn.calls]), calls=calls)
            for turn, calls in zip(session.turns, turns, strict=True)
        ]
        return replace(pooled, turns=scores)

    def questions(self, session: Session) -> list[list[Question | Reason | None]]:
        """Return what to ask about each call of each turn: a question, why none can be asked, or None.

        None: by `when` there is no need to ask, since each value has an origin.
        """
        settled = self._settled(session)
        prompt = self._prompts(session)
        return [
            [
                None if (at, index) in settled else _unasked(call) or self._question(prompt(at, index))
                for index, call in enumerate(turn.calls)
            ]
            for at, turn in enumerate(session.turns)
        ]

    def _question(self, prompt: str | Reason) -> Question | Reason:
        if isinstance(prompt, Reason):
            return prompt
        system, form = preset_prompt(self.preset)
        return Question(system if self.system_prompt is None else self.system_prompt, prompt, form)

    def _prompts(self, session: Session) -> Callable[[int, int], str | Reason]:
        """Return what makes the prompt for a call, or says why there is none, by the places of turn and call."""
        if self.preset == "strands":
            prompts = strands_prompts(session, self.tools)
            return lambda at, index: prompts[at][index]
        context = SessionContext(session)
        tools = declared_tools(session, self.tools)

        def own(at: int, index: int) -> str | Reason:
            turn, call = session.turns[at], session.turns[at].calls[index]
            return _prompt(call, turn, context.calls[at][index], context, tools.schema_of(call, turn))

        return own

    def _settled(self, session: Session) -> set[tuple[int, int]]:
        if self.when == "always":
            return set()
        grounding = ToolParameterGrounding(tools=self.tools, generated=self.profile.generated)
        if self.when == "ungrounded":
            return {place for place, call in _scores(grounding(session)) if call.score == 1}
        scores = [grounding(session), ToolParameterProfile(profile=self.profile, tools=self.tools)(session)]
        doubtful = {place for score in scores for place, call in _scores(score) if any(map(_is_doubt, call.findings))}
        return {place for place, _ in _scores(scores[0])} - doubtful


def _scores(score: MetricScore) -> Iterator[tuple[tuple[int, int], MetricScore]]:
    """Yield the scores of the calls of a session, each with the places of its turn and of itself."""
    for at, turn in enumerate(score.turns):
        for index, call in enumerate(turn.calls if isinstance(turn, MetricScore) else ()):
            if isinstance(call, MetricScore):
                yield (at, index), call


def _is_doubt(finding: Finding) -> bool:
    return finding.failed or (finding.kind == Kind.ASSUMED and finding.message != GENERATED)


def _unasked(call: ToolCall) -> Reason | None:
    """Return why nothing can be asked about a call; None if it can."""
    if call.rejected:
        return Reason.NOTHING_EXPECTED
    return why_not_known(call) if arguments_of(call) is None else None


def _prompt(
    call: ToolCall, turn: Turn, known: KnownBeforeCall, context: SessionContext, schema: Mapping[str, Any] | None
) -> str | Reason:
    """Return goldspan's own question about a call."""
    if not known.captured:
        return Reason.INPUT_MISSING
    said: list[str] = []
    size = 0
    for passage in reversed(context.conversation.passages[: known.passages]):
        label = "system message" if passage.kind == "system" else passage.where or passage.kind
        said.append(f"[{label}]\n{passage.text}")
        size += len(said[-1]) + 2
        if size > _MAX_CONTEXT:
            break
    notes = [] if known.complete else ["Part of the conversation was not recorded: a value may come from there."]
    conversation = "\n\n".join(reversed(said))
    if size > _MAX_CONTEXT:
        conversation = conversation[-_MAX_CONTEXT:]
        notes.append("The beginning of the conversation is left out: a value may come from there.")
    if days := local_days(call, turn):
        notes.append(f"Day of the call: {days[0].isoformat()}")
    if call.argument_captures:
        notes.append(f"These values were not recorded, take them as right: {', '.join(call.argument_captures)}")
    parts = [
        f"# Tool\n{call.name}" + ("" if schema is None else f"\n{as_text(schema)[:_MAX_DEFINITION]}"),
        "\n".join(["# Before the call", *notes, "", conversation]),
        f"# Call\n{call.name}({as_text(dict(arguments_of(call) or {}))})",
    ]
    return "\n\n".join(parts)


def _judged(found: JudgeAnswer | NoAnswer | Reason | None) -> MetricScore:
    if found is None:
        message = "nothing is in doubt; the model was not asked"
        return MetricScore(1, message, findings=(Finding("", "grounded", message),))
    if isinstance(found, Reason):
        return MetricScore(None, REASON_TEXT[found], found)
    if isinstance(found, NoAnswer):
        return MetricScore(None, found.message, Reason.EVALUATOR_ERROR, detailed=found.detailed)
    message = f"the model answers {'Yes' if found.accurate else 'No'}"
    detailed = f"{message}: {' '.join(found.reasoning.split())}" if found.reasoning else ""
    finding = Finding("", "yes" if found.accurate else "no", message, detailed, failed=not found.accurate)
    return MetricScore(int(found.accurate), message, findings=(finding,), detailed=detailed)


def _pooled(calls: Sequence[MetricScore], names: Sequence[str]) -> MetricScore:
    """Return the share of the calls found accurate.

    A call without an answer counts neither for nor against, but nothing passes that was not answered: then there is a
    score only if another call is wrong.
    """
    judged = [Fraction(call.score) for call in calls if call.score is not None]
    failed = [call for call in calls if call.reason is Reason.EVALUATOR_ERROR]
    right = sum(judged, Fraction(0))
    if failed and right == len(judged):
        head = f"{len(failed)} of {counted(len(judged) + len(failed), 'call')} without an answer"
        words, detailed = (_listed(head, [_words(one, values) for one in failed]) for values in (False, True))
        return MetricScore(None, words, Reason.EVALUATOR_ERROR, detailed=detailed)
    if not judged:
        return _not_judged(calls)
    head = f"{right} of {counted(len(judged), 'call')}"
    if failed:
        head += f", {len(failed)} without an answer"
    wrong = [(name, call) for name, call in zip(names, calls, strict=True) if call.score == 0]
    words, detailed = (
        _listed(head, [f"{name}: {_words(call, values)}" for name, call in wrong]) for values in (False, True)
    )
    return MetricScore(right / len(judged), words, detailed=detailed)


def _not_judged(calls: Sequence[MetricScore]) -> MetricScore:
    reason = next((one.reason for one in calls if one.reason not in (None, Reason.NOTHING_EXPECTED)), None)
    return MetricScore(None, REASON_TEXT[reason] if reason else "", reason or Reason.NOTHING_EXPECTED)


def _words(call: MetricScore, include_values: bool) -> str:  # noqa: FBT001
    return (call.detailed if include_values else "") or call.explanation


def _listed(head: str, reasons: Iterable[str]) -> str:
    """Return an explanation: what holds of all, and the first few different reasons."""
    different = list(dict.fromkeys(reasons))
    more = f"; and {len(different) - _SHOWN} more" if len(different) > _SHOWN else ""
    return "; ".join([head, *different[:_SHOWN]]) + more


def parse_answer(given: object) -> JudgeAnswer | None:
    """Read a model's answer: a `JudgeAnswer`, a boolean, or an object with `score` Yes or No, alone or within a text.

    Of several objects in a text the last counts: models think first. None: it answers neither.
    """
    if isinstance(given, JudgeAnswer):
        return given
    if isinstance(given, bool):
        return JudgeAnswer(given)
    if isinstance(given, str):
        return next((found for one in _objects(given) if (found := parse_answer(one)) is not None), None)
    if not is_mapping(given):
        return None
    score, reasoning = given.get("score"), given.get("reasoning")
    word = score.strip().strip(".").casefold() if isinstance(score, str) else ""
    accurate = score if isinstance(score, bool) else {"yes": True, "no": False}.get(word)
    return None if accurate is None else JudgeAnswer(accurate, as_text(reasoning)[:_MAX_REASONING] if reasoning else "")


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the outermost JSON objects in a text, the last one first."""
    decoder, found = json.JSONDecoder(), list[Mapping[str, Any]]()
    at = text.find("{")
    for _ in range(_MOST_OBJECTS):
        if at < 0:
            break
        try:
            one, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            found.append(one)
        at = text.find("{", end)
    yield from reversed(found)
