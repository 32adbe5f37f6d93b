"""goldspan's own golden file: its shape, declared once, and the golden set made of a document that has it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import prod
from typing import Any, cast

from goldspan.scoring.criterion import Criterion
from goldspan.scoring.errors import CriterionError, MetricError
from goldspan.scoring.goldens.criteria import (
    OF_A_CALL,
    OF_A_GOLDEN,
    OF_A_SET,
    OF_A_TURN,
    CriterionMapping,
    check_turn_of_whole_session,
    inherit,
)
from goldspan.scoring.goldens.documents import (
    Arguments,
    Field,
    Fields,
    JsonSchema,
    ListOf,
    MistakeCollector,
    Number,
    Shape,
    Text,
    ValuePath,
    check_finite,
    found,
    nearest,
)
from goldspan.scoring.goldens.golden import (
    ANY_TOOL,
    MAIN_METRIC,
    MOST_ALTERNATIVES,
    CallCount,
    ExpectedCall,
    Golden,
    GoldenSet,
    GoldenTurn,
    MetricChoice,
    Operator,
    PresetChoice,
    Repeat,
)
from goldspan.scoring.metrics.registry import find_metric, metric_names, nearest_metric
from goldspan.scoring.metrics.session_metrics import threshold_of
from goldspan.scoring.presets.session_preset import choose_preset
from goldspan.scoring.sessions import JsonValue
from goldspan.scoring.type_guards import is_list, is_mapping, is_number

# Shapes of what a golden says of its calls beside name and arguments: groups, alternatives, repeats, counts, joins.

_COUNT = re.compile(r"(==|=|!=|<=|>=|<|>)\s*([0-9]{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Truth:
    """True or false."""

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note anything else."""
        if not isinstance(value, bool):
            notes.add(where, f"{found(value)}, expected true or false")

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number from 1."""

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note anything else."""
        if type(value) is not int or value < 1:
            notes.add(where, f"{found(value)}, expected a whole number from 1")

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"type": "integer", "minimum": 1}


@dataclass(frozen=True, slots=True)
class Something:
    """Any JSON value but null."""

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note null, and numbers that JSON cannot write."""
        if value is None:
            notes.add(where, "found null, expected a value: leave it out where nothing is expected")
        check_finite(value, where, notes)

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"not": {"type": "null"}}


@dataclass(frozen=True, slots=True)
class Scalar:
    """Text, a number, or true or false: what a span's attribute can be equal to."""

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note anything else."""
        if not isinstance(value, str | int | float):
            notes.add(where, f"{found(value)}, expected text, a number, true or false")
        check_finite(value, where, notes)

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True, slots=True)
class Count:
    """How often: a number, or text such as `>= 1`."""

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note anything else."""
        if not (type(value) is int and value >= 0) and not (isinstance(value, str) and _COUNT.fullmatch(value.strip())):
            notes.add(where, f'{found(value)}, expected a number of calls, or text such as ">= 1"')

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        pattern = r"^\s*(==|=|!=|<=|>=|<|>)\s*[0-9]{1,9}\s*$"
        return {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": pattern}]}


@dataclass(frozen=True, slots=True)
class Names:
    """A name, or a list of names."""

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note anything else."""
        if not is_list(value):
            Text().check(value, where, notes)
            return
        for index, name in enumerate(value):
            Text().check(name, (*where, index), notes)

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"anyOf": [Text().schema(), {"type": "array", "items": Text().schema()}]}


@dataclass(frozen=True, slots=True)
class ByName:
    """An object of values of one shape by name, at least one."""

    item: Shape
    example: str
    """Such as `{city: Paris}`."""

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note anything but such an object, and what is wrong with its values."""
        if not is_mapping(value) or not value:
            notes.add(where, f"{found(value)}, expected an object such as {self.example}")
            return
        for name, one in value.items():
            self.item.check(one, (*where, name), notes)

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"type": "object", "minProperties": 1, "additionalProperties": self.item.schema()}


@dataclass(frozen=True, slots=True)
class Aliases:
    """Other names of tools, each of one tool only."""

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note anything but names by name, and names that stand for two tools."""
        ByName(Names(), "{get_weather: [weather.get]}").check(value, where, notes)
        seen: dict[str, str] = {}
        for tool, step, alias in _aliases(value):
            if is_mapping(value) and alias in value:
                notes.add((*where, *step), f"found {alias}, which has aliases itself: a tool has one name in goldens")
            elif seen.setdefault(alias, tool) != tool:
                notes.add((*where, *step), f"found {alias}, which is an alias of {seen[alias]} already")

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return ByName(Names(), "").schema()


def aliases_of(value: JsonValue) -> dict[str, str]:
    """Return the tool that each alias stands for."""
    return {alias: tool for tool, _, alias in _aliases(value)}


def _aliases(value: JsonValue) -> list[tuple[str, tuple[str | int, ...], str]]:
    listed: list[tuple[str, tuple[str | int, ...], str]] = []
    for tool, names in value.items() if is_mapping(value) else ():
        if isinstance(names, str):
            listed.append((tool, (tool,), names))
        elif is_list(names):
            listed += [(tool, (tool, index), name) for index, name in enumerate(names) if isinstance(name, str)]
    return listed


@dataclass(frozen=True, slots=True)
class CallOrGroup:
    """A call, or a group of calls whose order is free."""

    call: Fields
    group: Fields

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note what is wrong with what it is meant to be."""
        (self.group if self._is_group(value) else self.call).check(value, where, notes)

    def _is_group(self, item: JsonValue) -> bool:
        names = list(self.group.fields)
        return is_mapping(item) and "name" not in item and any(nearest(name, names) for name in item)

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {"anyOf": [self.call.schema(), self.group.schema()]}


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Lists of calls of which any would do."""

    calls: ListOf

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note anything but several lists of calls, and such as everything satisfies."""
        if not is_list(value) or len(value) < 2:
            notes.add(where, f"{found(value)}, expected a list of at least two lists of calls: [[...], [...]]")
            return
        if len(value) > MOST_ALTERNATIVES:
            notes.add(where, f"found {len(value)} alternatives, expected at most {MOST_ALTERNATIVES}")
        for index, one in enumerate(value):
            self.calls.check(one, (*where, index), notes)
            if is_list(one) and all(is_mapping(call) and call.get("optional") is True for call in one):
                message = "an alternative without a needed call would always do: say which calls are `optional` instead"
                notes.add((*where, index), message)

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        lists = {**self.calls.schema(), "minItems": 1}
        return {"type": "array", "minItems": 2, "maxItems": MOST_ALTERNATIVES, "items": lists}


def check_call(call: Mapping[str, Any], where: ValuePath, notes: MistakeCollector) -> None:
    """Note what the fields of a call say wrongly together."""
    if call.get("name") == ANY_TOOL and call.get("forbidden") is not True:
        notes.add((*where, "name"), "`*` stands for any tool where `forbidden: true` stands beside it, and only there")


def check_repeat(repeat: Mapping[str, Any], where: ValuePath, notes: MistakeCollector) -> None:
    """Note more passes than runs."""
    runs, passes = repeat.get("runs"), repeat.get("passes")
    if type(runs) is int and type(passes) is int and passes > runs:
        notes.add((*where, "passes"), f"{found(passes)}, expected at most {runs}, as many as there are `runs`")


def counts_of(value: JsonValue) -> dict[str, CallCount]:
    """Read counts that were checked."""
    return {name: _count(one) for name, one in value.items()} if is_mapping(value) else {}


def _count(value: str | int) -> CallCount:
    hit = _COUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    if hit is None:
        return CallCount("==", int(value))
    operator = hit.group(1)
    return CallCount("==" if operator == "=" else cast("Operator", operator), int(hit.group(2)))


# The fields `metrics` and `preset` of a golden file. They hold names that are known already, and never import code.

_CODE = "goldens are data and import nothing: name a metric that is registered, or use `--metric {name}`"


@dataclass(frozen=True, slots=True)
class ChosenMetrics:
    """A list of names, or an object of thresholds by name."""

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note unknown names, and thresholds that are no numbers in a metric's range."""
        if not is_list(value) and not is_mapping(value):
            message = "expected a list of metrics such as [trajectory_f1], or thresholds by name: {trajectory_f1: 0.9}"
            notes.add(where, f"{found(value)}, {message}")
            return
        for step, name, threshold in _entries(value):
            self._metric(name, threshold, (*where, step), notes)

    def _metric(self, name: JsonValue, threshold: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:

        if not isinstance(name, str):
            notes.add(where, f"{found(name)}, expected the name of a metric")
        elif ":" in name:
            notes.add(where, f"{found(name)}: {_CODE.format(name=name)}")
        elif name == MAIN_METRIC:
            notes.add(where, f"{MAIN_METRIC} is judged whatever else is: say its threshold in `criterion`")
        elif name not in metric_names():
            notes.add(where, f"no metric is called {name}; {nearest_metric(name)}")
        elif threshold is not None:
            self._threshold(name, threshold, where, notes)

    def _threshold(self, name: str, threshold: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:

        if is_mapping(threshold):
            for field in threshold.keys() - {"threshold"}:
                notes.add((*where, field), "unknown field: a metric has `threshold` alone")
            if "threshold" not in threshold:
                return
            where, threshold = (*where, "threshold"), threshold["threshold"]
        if isinstance(threshold, bool) or not isinstance(threshold, int | float):
            notes.add(where, f"{found(threshold)}, expected a number: the least score that passes")
            return
        try:
            threshold_of(find_metric(name), repr(threshold))
        except MetricError as error:
            notes.add(where, str(error))

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema; which metrics there are is not known to it."""
        number = {"type": "number"}
        one: JsonSchema = {
            "anyOf": [
                {"type": ["null", "number"]},
                {"type": "object", "properties": {"threshold": number}, "additionalProperties": False},
            ]
        }
        name = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}
        return {
            "anyOf": [
                {"type": "array", "items": name},
                {"type": "object", "propertyNames": name, "additionalProperties": one},
            ]
        }


@dataclass(frozen=True, slots=True)
class ChosenPresetShape:
    """A preset's name, or an object of `name` and the preset's own options."""

    def check(self, value: JsonValue, where: ValuePath, notes: MistakeCollector) -> None:
        """Note an unknown preset, and options it does not have."""
        if value is None:
            return
        if not isinstance(value, str) and not (is_mapping(value) and isinstance(value.get("name"), str)):
            notes.add(where, f"{found(value)}, expected a preset's name, or an object of `name` and its options")
            return
        chosen = read_preset(value)
        try:
            choose_preset(chosen.name, chosen.options)
        except CriterionError as error:
            notes.add(where, str(error))

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {
            "anyOf": [
                {"type": ["null", "string"]},
                {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
            ]
        }


def read_metrics(value: JsonValue, above: tuple[MetricChoice, ...]) -> tuple[MetricChoice, ...]:
    """Add what a level chooses to what it inherits; its thresholds replace inherited ones. Mistakes are left out."""
    chosen = {choice.name: choice for choice in above}
    for _, name, threshold in _entries(value):
        number = threshold.get("threshold") if is_mapping(threshold) else threshold
        if isinstance(name, str):
            chosen[name] = MetricChoice(name, Fraction(Decimal(repr(number))) if is_number(number) else None)
    return tuple(chosen.values())


def read_preset(value: JsonValue) -> PresetChoice:
    """Return the preset that a field names."""
    if is_mapping(value):
        return PresetChoice(str(value.get("name")), {name: one for name, one in value.items() if name != "name"})
    return PresetChoice(str(value))


def with_choices(golden: Golden, given: Mapping[str, Any], above: Mapping[str, Any]) -> Golden:
    """Add what the golden (`given`) and its set (`above`) choose; a golden's preset replaces that of its set."""
    metrics = read_metrics(given.get("metrics"), read_metrics(above.get("metrics"), ()))
    preset = given["preset"] if "preset" in given else above.get("preset")
    if not metrics and preset is None:
        return golden
    return replace(golden, metrics=metrics, preset=None if preset is None else read_preset(preset))


def _entries(value: JsonValue) -> Iterator[tuple[str | int, Any, Any]]:
    if is_list(value):
        yield from ((index, name, None) for index, name in enumerate(value))
    elif is_mapping(value):
        thresholds: Mapping[str, Any] = value
        yield from ((name, name, threshold) for name, threshold in thresholds.items())


Given = Mapping[str, Any]

FORMAT = 1

CALL = Fields(
    "a call",
    {
        "name": Field(Text(), "the tool's name, as the agent's framework knows it", required=True),
        "args": Field(Arguments(), "the expected arguments by parameter name; others are reported, not judged"),
        "optional": Field(Truth(), "the call may be left out; made, it is scored outside the mean"),
        "forbidden": Field(Truth(), "the call must not be made; no args: whatever they are; name *: whatever tool"),
        "result": Field(Something(), "what the call should return, for metrics that judge it"),
        "criterion": Field(OF_A_CALL, "what differs for this call from the criterion of its turn"),
    },
    never_both=(("optional", "forbidden"),),
    together=check_call,
)
GROUP = Fields(
    "a group",
    {"parallel": Field(ListOf(CALL, "calls"), "calls whose order among themselves is free", required=True)},
)
CALLS = ListOf(CallOrGroup(CALL, GROUP), "calls")
REPEAT = Fields(
    "a repeat",
    {
        "runs": Field(Whole(), "how many runs belong together", required=True),
        "passes": Field(Whole(), "how many of them must pass; all, where it is left out"),
    },
    together=check_repeat,
)
_ANY_OF = "lists of calls of which any would do, in the place of `calls`; the best counts"
_CALL_COUNTS = 'how often tools should be called, for metrics that count: {search: 2, book: "<= 1"}'
TURN = Fields(
    "a turn",
    {
        "user": Field(Text(), "the user's message, by which the turn is found; white space is folded"),
        "turn_id": Field(Text(), "the framework's own id of the turn, by which it is found before `user`"),
        "calls": Field(CALLS, "the calls expected in this turn; none: nothing is expected"),
        "any_of": Field(Alternatives(CALLS), _ANY_OF),
        "call_counts": Field(ByName(Count(), "{search: 2}"), _CALL_COUNTS),
        "criterion": Field(OF_A_TURN, "what differs for this turn from the criterion of its golden"),
    },
    never_both=(("calls", "any_of"),),
)
GOLDEN = Fields(
    "a golden",
    {
        "session": Field(Text(), "the id of the session it belongs to"),
        "session_pattern": Field(Text(), "a glob that matches whole session ids, such as nightly-*-weather"),
        "attribute": Field(
            ByName(Scalar(), "{test.case.name: weather in Paris}"),
            "attributes that the session's spans or resource have: {test.case.name: weather in Paris}",
        ),
        "first_user_text": Field(Text(), "the first message of the user; white space is folded"),
        "turns": Field(ListOf(TURN, "turns"), "what is expected, turn by turn"),
        "calls": Field(CALLS, "what is expected of the whole session, whatever the turn"),
        "any_of": Field(Alternatives(CALLS), _ANY_OF),
        "repeat": Field(REPEAT, "judges the golden over several runs: {runs: 5, passes: 4}"),
        "call_counts": Field(ByName(Count(), "{search: 2}"), _CALL_COUNTS),
        "criterion": Field(OF_A_GOLDEN, "what differs for this golden from the criterion of its set"),
        "metrics": Field(ChosenMetrics(), "what is judged beside tool_parameter_match: names, or thresholds by name"),
        "preset": Field(ChosenPresetShape(), "another system's scorer, in the place of tool_parameter_match"),
        "description": Field(Text(), "for people"),
    },
    one_of=(("session", "session_pattern", "attribute", "first_user_text"), ("turns", "calls", "any_of")),
)
GOLDEN_SET = Fields(
    "a golden set",
    {
        "format": Field(Number(FORMAT, "a newer goldspan may read other formats"), "the format of this file: 1"),
        "golden_set": Field(Text(), "the name of the set, which results carry", required=True),
        "version": Field(Text(), "the version of the set, which results carry; quote numbers"),
        "description": Field(Text(), "for people"),
        "criterion": Field(OF_A_SET, "how calls are aligned, compared and aggregated; goldens inherit it"),
        "metrics": Field(ChosenMetrics(), "what is judged beside tool_parameter_match: names, or thresholds by name"),
        "preset": Field(ChosenPresetShape(), "another system's scorer, in the place of tool_parameter_match"),
        "aliases": Field(Aliases(), "other names that tools have in traces: {get_weather: [weather.get]}"),
        "goldens": Field(ListOf(GOLDEN, "goldens"), "one golden for each session", required=True),
    },
)


def read_golden_set(document: JsonValue, notes: MistakeCollector, defaults: CriterionMapping) -> GoldenSet:
    """Make a golden set of a document; what is wrong with it is noted, and the result then of no use."""
    GOLDEN_SET.check(document, (), notes)
    # Building goes on beside mistakes: criteria are checked while they are merged.
    given: Given = document if is_mapping(document) else {}
    return _Builder(notes, aliases_of(given.get("aliases"))).golden_set(given, defaults)


def content_digest(document: JsonValue) -> str:
    """Return 16 hex digits that are the same for the same content, however it is formatted and ordered."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


class _Builder:
    def __init__(self, notes: MistakeCollector, aliases: Mapping[str, str]) -> None:
        self.notes, self.aliases = notes, aliases

    def golden_set(self, given: Given, defaults: CriterionMapping) -> GoldenSet:
        said = self.said(given, defaults, ())
        built = GoldenSet(
            name=given.get("golden_set", ""),
            version=given.get("version"),
            digest="" if self.notes.mistakes else content_digest(given),
            criterion=self.criterion(said),
            source=self.notes.source(()),
        )
        goldens = [
            with_choices(self.golden(built, one, said, where), one, given)
            for where, one in _objects(given.get("goldens"), ("goldens",))
        ]
        return replace(built, goldens=tuple(goldens))

    def golden(self, owner: GoldenSet, given: Given, above: CriterionMapping, where: ValuePath) -> Golden:
        said = self.said(given, above, where)
        turns = tuple(self.turn(one, said, there) for there, one in _objects(given.get("turns"), (*where, "turns")))
        lists = self.lists(given, said, where)
        if said.get("scope") == "session" and prod(1 + len(turn.alternatives) for turn in turns) > MOST_ALTERNATIVES:
            message = f"with `scope: session` the alternatives of its turns make more than {MOST_ALTERNATIVES} together"
            self.notes.add((*where, "turns"), f"{message}: leave some out, or say `any_of` once for the golden")
        wrong = bool(self.notes.mistakes)
        return Golden(
            session=given.get("session"),
            session_pattern=given.get("session_pattern"),
            attribute={} if wrong else given.get("attribute", {}),
            first_user_text=given.get("first_user_text"),
            turns=turns,
            calls=lists[0] if lists else None,
            alternatives=lists[1:],
            criterion=owner.criterion if said is above else self.criterion(said),
            golden_set=owner.label,
            digest=owner.digest,
            source=self.notes.source(where),
            repeat=None if wrong or "repeat" not in given else _repeat(given["repeat"]),
            call_counts={} if wrong else counts_of(given.get("call_counts")),
            aliases=self.aliases,
        )

    def turn(self, given: Given, above: CriterionMapping, where: ValuePath) -> GoldenTurn:
        said = self.said(given, above, where)
        if above.get("scope") == "session":
            check_turn_of_whole_session(given.get("criterion"), (*where, "criterion"), self.notes)
        lists = self.lists(given, said, where)
        return GoldenTurn(
            calls=lists[0] if lists else (),
            user=given.get("user"),
            turn_id=given.get("turn_id"),
            criterion=None if said is above else self.criterion(said),
            alternatives=lists[1:],
            call_counts={} if self.notes.mistakes else counts_of(given.get("call_counts")),
        )

    def lists(self, given: Given, above: CriterionMapping, where: ValuePath) -> tuple[tuple[ExpectedCall, ...], ...]:
        """Return the list of calls, or the alternatives to choose from; empty where there is neither."""
        if "calls" in given:
            return (self.calls(given["calls"], above, (*where, "calls")),)
        lists = given.get("any_of")
        if not is_list(lists):
            return ()
        return tuple(self.calls(one, above, (*where, "any_of", index)) for index, one in enumerate(lists))

    def calls(self, items: JsonValue, above: CriterionMapping, where: ValuePath) -> tuple[ExpectedCall, ...]:
        calls: list[ExpectedCall] = []
        for group, (there, one) in enumerate(_objects(items, where), start=1):
            if "parallel" in one:
                inside = _objects(one["parallel"], (*there, "parallel"))
                calls += [replace(self.call(call, above, place), group=group) for place, call in inside]
            else:
                calls.append(self.call(one, above, there))
        return tuple(calls)

    def call(self, given: Given, above: CriterionMapping, where: ValuePath) -> ExpectedCall:
        said = self.said(given, above, where)
        name = given.get("name", "")
        return ExpectedCall(
            self.aliases.get(name, name) if isinstance(name, str) else "",
            self.args(given),
            None if said is above else self.criterion(said),
            optional=given.get("optional") is True,
            forbidden=given.get("forbidden") is True,
            result=given.get("result"),
        )

    def args(self, given: Given) -> Given:
        return {} if self.notes.mistakes else given.get("args", {})

    def said(self, given: Given, above: CriterionMapping, where: ValuePath) -> CriterionMapping:
        return inherit(above, given["criterion"], (*where, "criterion"), self.notes) if "criterion" in given else above

    def criterion(self, said: CriterionMapping) -> Criterion:
        return Criterion() if self.notes.mistakes else Criterion.parse(said)


def _repeat(given: Given) -> Repeat:
    return Repeat(given["runs"], given.get("passes", given["runs"]))


def _objects(items: JsonValue, where: ValuePath) -> Iterator[tuple[ValuePath, Given]]:
    """Yield the objects in a list; anything else there is a mistake that the shape noted."""
    for index, item in enumerate(items if is_list(items) else []):
        if is_mapping(item):
            yield (*where, index), item
