"""Presets at work: a session and its golden as another system would score them, told as a session's result.

ADK's presets take turns, paired as goldspan joins them; a turn that never came has no calls, and one that the golden
does not have is left out. The others take all calls of a session as one list, as their systems do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from goldspan.scoring.goldens.golden import ExpectedCall, Golden
from goldspan.scoring.json_values import is_list, is_mapping
from goldspan.scoring.results import SessionResult, TurnResult
from goldspan.scoring.sessions import JsonValue, Session, ToolCall, Turn, as_one_turn
from goldspan.scoring.tool_definitions import definitions_in, lists_of
from goldspan.scoring.verdict import CALLS_UNKNOWN, Label, PresetResult, Reason, Verdict, why_calls_unknown

if TYPE_CHECKING:
    from goldspan.scoring.presets.preset_registry import Preset

# Tool definitions that a trace holds, in the form BFCL documents functions.

_TYPES = {
    "string": "string",
    "integer": "integer",
    "number": "float",
    "boolean": "boolean",
    "array": "array",
    "object": "dict",
}


def described_functions(session: Session) -> list[Mapping[str, Any]]:
    """Return the functions whose parameters the session's traces describe well enough, each name once."""
    found: dict[str, Mapping[str, Any]] = {}
    for content in lists_of(session.turns):
        for name, schema in definitions_in(content.value):
            if (properties := _properties(schema)) is not None:
                required = schema.get("required")
                needed = list(required) if is_list(required) else []
                parameters = {"type": "dict", "properties": properties, "required": needed}
                found.setdefault(name, {"name": name, "parameters": parameters})
    return list(found.values())


def _properties(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is declared of each parameter; None where a type cannot be told, since BFCL checks every type."""
    properties: dict[str, Any] = {}
    declared = schema.get("properties", {})
    for name, one in declared.items() if is_mapping(declared) else ():
        kind = _TYPES.get(str(one.get("type"))) if is_mapping(one) else None
        if kind is None:
            return None
        properties[name] = {"type": kind}
        if kind == "array":
            items = one.get("items")
            inner = _TYPES.get(str(items.get("type"))) if is_mapping(items) else None
            if inner is None:
                return None
            properties[name]["items"] = {"type": inner}
    return properties


@dataclass(frozen=True, slots=True)
class ChosenPreset:
    """A preset with options that were checked."""

    preset: Preset[Any]
    options: Mapping[str, Any]
    checked: Any = field(compare=False, repr=False)
    """The options as the preset understands them."""

    @property
    def name(self) -> str:
        """The preset's name."""
        return self.preset.name

    @property
    def criterion(self) -> str:
        """The name, and a digest of the options where there are some: scores of different ones are never averaged."""
        if not self.options:
            return self.name
        written = json.dumps(dict(self.options), sort_keys=True, default=repr)
        return f"{self.name}:{hashlib.sha256(written.encode()).hexdigest()[:8]}"


def choose_preset(name: str, options: Mapping[str, Any] | None = None) -> ChosenPreset:
    """Return a preset with its options.

    Raises CriterionError if there is no such preset, or an option is unknown or has a wrong value.
    """
    # Imported where a preset is chosen, which few do: the registry holds every other system's scorer.
    from goldspan.scoring.presets.preset_registry import find_preset  # noqa: PLC0415

    preset, given = find_preset(name), dict(options or {})
    return ChosenPreset(preset, given, preset.check(given))


def score_by_preset(chosen: ChosenPreset, own: SessionResult, *, final: bool = True) -> SessionResult:
    """Score a session that `tool_parameter_match` has scored (`own`) as another system would.

    A score passes where the system says so; where it draws no line, from the golden's own threshold on. `final=False`:
    more turns may come, so that the whole has no score yet.
    """
    session, golden = own.session, own.golden
    named = replace(own, preset=chosen.name, criterion=chosen.criterion)
    if session is None or golden is None:
        return named
    if chosen.preset.by_turn and golden.calls is None:
        return _by_turn(chosen, named, golden, final=final)
    if not final:
        return replace(named, turns=(), verdict=Verdict(None, Label.NOT_EVALUATED, Reason.INCOMPLETE))
    expected = _expected(chosen, golden)
    whole = as_one_turn(session)
    blank = _blank(TurnResult(named.verdict, turn=whole, expected_index=0), named.verdict)
    unseen = next(filter(None, map(_unseen, named.turns)), None)
    if session.incomplete or unseen is not None:
        verdict = Verdict(None, Label.NOT_EVALUATED, unseen or Reason.INCOMPLETE)
        return replace(
            named, turns=(replace(blank, verdict=verdict),), turns_expected=1, turns_evaluated=0, verdict=verdict
        )
    actual = _actual(chosen, session, whole)
    if chosen.preset.by_turn and whole is not None:
        expected, actual = _one_invocation(expected, actual)
    answer = chosen.preset.score(expected, actual, _options(chosen, session))
    verdict = _verdict(answer, golden)
    turn = replace(blank, verdict=verdict, answer=answer)
    evaluated = int(verdict.exact is not None)
    return replace(named, turns=(turn,), turns_expected=1, turns_evaluated=evaluated, verdict=verdict, answer=answer)


def _by_turn(chosen: ChosenPreset, own: SessionResult, golden: Golden, *, final: bool) -> SessionResult:
    turns: list[TurnResult] = []
    wanted: list[Sequence[ExpectedCall]] = []
    made: list[Sequence[ToolCall]] = []
    unseen: Reason | None = None
    for turn in own.turns:
        if turn.expected_index is None:
            turns.append(_blank(turn, turn.verdict))
            continue
        if (why := _unseen(turn)) is not None:
            unseen = unseen or why
            turns.append(_blank(turn, Verdict(None, Label.NOT_EVALUATED, why)))
            continue
        expected, actual = golden.turns[turn.expected_index].calls, _made(turn.turn)
        answer = chosen.preset.score(*_one_invocation(expected, actual), chosen.options)
        wanted.append(expected)
        made.append(actual)
        turns.append(replace(_blank(turn, _verdict(answer, golden)), answer=answer))
    evaluated = sum(turn.verdict.exact is not None for turn in turns)
    counted = replace(own, turns=tuple(turns), turns_expected=len(wanted), turns_evaluated=evaluated)
    if unseen is not None or not final:
        return replace(counted, verdict=Verdict(None, Label.NOT_EVALUATED, unseen or Reason.INCOMPLETE))
    answer = chosen.preset.score({"invocations": wanted}, {"invocations": made}, chosen.options)
    return replace(counted, verdict=_verdict(answer, golden), answer=answer)


def _one_invocation(expected: object, actual: object) -> tuple[object, object]:
    """Return the calls of one invocation; two empty lists would be none."""
    without_calls: list[list[JsonValue]] = [[]]
    return (expected, actual) if expected or actual else (without_calls, without_calls)


def _expected(chosen: ChosenPreset, golden: Golden) -> object:
    """Return expected counts of calls where the system counts and the golden has them, else expected calls."""
    if chosen.preset.reads_counts(chosen.checked):
        counts = golden.call_counts or (golden.turns[0].call_counts if len(golden.turns) == 1 else {})
        if counts:
            return {tool: (count.operator, count.number) for tool, count in counts.items()}
    if golden.calls is not None:
        return golden.calls
    return [call for turn in golden.turns for call in turn.calls]


def _actual(chosen: ChosenPreset, session: Session, whole: Turn | None) -> object:
    """Return messages where the system compares messages and all of them were recorded, calls else."""
    if chosen.preset.reads_messages(chosen.checked):
        recorded = [turn.messages.value for turn in session.turns]
        if recorded and all(isinstance(one, list) for one in recorded):
            return [message for one in recorded for message in one]
    return _made(whole)


def _options(chosen: ChosenPreset, session: Session) -> Mapping[str, Any]:
    """Add the trace's tool definitions, where the system reads them and no option has them."""
    from pydantic.alias_generators import to_camel  # noqa: PLC0415 - as the registry above

    option = chosen.preset.functions_option
    if option is None or {option, to_camel(option)} & chosen.options.keys():
        return chosen.options
    functions = described_functions(session)
    return {**chosen.options, option: functions} if functions else chosen.options


def _made(turn: Turn | None) -> list[ToolCall]:
    return [] if turn is None else [call for call in turn.calls if not call.rejected]


def _unseen(turn: TurnResult) -> Reason | None:
    """Say why the calls that are known of a turn are perhaps not all of them, if so."""
    reason = turn.verdict.reason
    unknown = None if turn.turn is None else why_calls_unknown(turn.turn)
    return unknown or (reason if reason in CALLS_UNKNOWN else None)


def _blank(turn: TurnResult, verdict: Verdict) -> TurnResult:
    """Return a turn without scored calls."""
    return TurnResult(
        verdict, rejected=turn.rejected, turn=turn.turn, turn_index=turn.turn_index, expected_index=turn.expected_index
    )


def _verdict(answer: PresetResult, golden: Golden) -> Verdict:
    if answer.score is None:
        return Verdict(None, Label.NOT_EVALUATED, answer.reason or Reason.EVALUATOR_ERROR)
    label = answer.label
    if label is None:
        label = Label.PASS if answer.score >= float(golden.criterion.exact_threshold) else Label.FAIL
    return Verdict(Fraction(Decimal(repr(float(answer.score)))), label)
