"""Runs of tasks as inference sees them: calls that succeeded, their arguments by field, and where values come from.

Arguments that are objects are taken apart into fields: `{"payment": {"amount": 3}}` has the field
`("payment", "amount")`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property
from typing import NamedTuple

from goldspan.collector_processor.golden_tools.writing import is_json
from goldspan.scoring.comparison import canonical
from goldspan.scoring.json_values import is_mapping, is_sequence, pointer_to
from goldspan.scoring.matchers.matcher import dollar_keys
from goldspan.scoring.messages import as_text
from goldspan.scoring.sessions import CallHistory, Capture, EarlierCalls, JsonValue, Session, ToolCall
from goldspan.scoring.tool_definitions import read_only_hints
from goldspan.scoring.tool_effects import ToolEffect, tool_effect

Field = tuple[str, ...]
"""An argument, and the way to a field of it."""
_DEEPEST = 4
_FEW = 4  # more values in one place are not the ones that a text repeats
_NANOSECONDS = 1_000_000_000


class ValueOrigin(NamedTuple):
    """A place of an earlier call: a tool, and a JSON Pointer into what it returned.

    As `known_values` has them also the dotted name of an argument, with no `tool` if it is the call's own.
    """

    tool: str
    pointer: str

    @property
    def dotted(self) -> str:
        """The argument as goldens name it."""
        return f"{self.tool}.{self.pointer}" if self.tool else self.pointer


@dataclass(frozen=True, slots=True, eq=False)
class SeenCall:
    """A call of a run."""

    name: str
    args: Mapping[Field, JsonValue]
    call: ToolCall
    position: int
    """Among all calls of the session."""
    run: TaskRun

    def origins(self, value: JsonValue) -> set[ValueOrigin]:
        """Return where earlier calls had returned this value."""
        found = self.run.returned.get(canonical(value), ()) if not has_parts(value) else ()
        return {origin for position, origin in found if position < self.position}

    def known_values(self) -> Mapping[ValueOrigin, list[JsonValue]]:
        """Return the few short values that the call itself, earlier calls and their results have in one place."""
        found: defaultdict[ValueOrigin, list[JsonValue]] = defaultdict(list)
        for origin, passed in self._passed():
            found[origin] += passed
        for position, origin, value in self.run.results:
            if position < self.position:
                found[origin].append(value)
        return {
            name: values
            for name, values in found.items()
            if len(values) <= _FEW and values and all(map(_is_short, values))
        }

    def _passed(self) -> Iterator[tuple[ValueOrigin, list[JsonValue]]]:
        """Yield what this call and earlier ones passed, but no prose of this call."""
        for other in self.run.calls:
            if other.position <= self.position:
                tool = other.name if other is not self else ""
                for name, value in other.args.items():
                    passed = [one for _, one in leaves(value)]
                    if tool or not any(isinstance(one, str) and " " in one for one in passed):
                        yield ValueOrigin(tool, ".".join(name)), passed

    @property
    def reads(self) -> bool:
        """Whether its tool only reads, as MCP's hint says, else its name."""
        return self.run.reads(self.name)

    @property
    def earlier(self) -> EarlierCalls:
        """The calls before it, as matchers see them."""
        return self.run.history.before(self.call)

    @property
    def said(self) -> str:
        """What the user had said, casefolded."""
        return "\n".join(text for position, text in self.run.user_texts if position <= self.position)

    def was_said(self, value: JsonValue) -> bool:
        """Whether the user had said this value."""
        return isinstance(value, str | int | float) and str(value).casefold() in self.said

    def is_grounded(self, value: JsonValue) -> bool:
        """Whether each part of a value was said by the user or returned by an earlier call."""
        return all(self.was_said(one) or self.origins(one) for _, one in leaves(value))

    @property
    def day(self) -> date | None:
        """The day it was made, in UTC."""
        started = self.call.start or self.run.session.start
        return datetime.fromtimestamp(started // _NANOSECONDS, UTC).date() if started else None


@dataclass(frozen=True, eq=False)
class TaskRun:
    """A run that was right."""

    session: Session
    objects: Set[tuple[str, Field]] = frozenset()
    """The arguments and fields of tools that are objects wherever they are passed: these are taken apart."""
    calls: list[SeenCall] = field(init=False, default_factory=list[SeenCall])
    """Those that succeeded and whose arguments are known; repeated identical calls of reading tools once."""

    def __post_init__(self) -> None:
        seen: set[object] = set()
        for position, call in enumerate(self.session.calls):
            if call.rejected or call.error is not None or call.arguments is None:
                continue
            once = call.name, canonical(dict(call.arguments))
            if self.reads(call.name) and once in seen:
                continue
            seen.add(once)
            known = {name: value for name, value in call.arguments.items() if name not in call.argument_captures}
            args = dict(_fields(call.name, known, self.objects))
            self.calls.append(SeenCall(call.name, args, call, position, self))

    def reads(self, tool: str) -> bool:
        """Whether a tool only reads, as MCP's hint says, else its name."""
        return self._hints.get(tool, only_reads(tool))

    @cached_property
    def _hints(self) -> Mapping[str, bool]:
        return read_only_hints(self.session.turns)

    @cached_property
    def history(self) -> CallHistory:
        """Return the calls as matchers see them."""
        return CallHistory(self.session.turns, (), complete=True)

    @cached_property
    def results(self) -> Sequence[tuple[int, ValueOrigin, JsonValue]]:
        """The values that calls returned, each with the position of its call; `*` stands for the place in a list."""
        found: list[tuple[int, ValueOrigin, JsonValue]] = []
        for position, call in enumerate(self.session.calls):
            if call.result.capture is Capture.CAPTURED:
                for steps, value in leaves(call.result.value):
                    found.append((position, ValueOrigin(call.name, pointer_to(steps)), value))
        return found

    @cached_property
    def returned(self) -> Mapping[object, list[tuple[int, ValueOrigin]]]:
        """The places of each value that calls returned."""
        found: defaultdict[object, list[tuple[int, ValueOrigin]]] = defaultdict(list)
        for position, origin, value in self.results:
            found[canonical(value)].append((position, origin))
        return found

    @cached_property
    def user_texts(self) -> Sequence[tuple[int, str]]:
        """What the user said, casefolded, each with how many calls were before."""
        found: list[tuple[int, str]] = []
        calls = 0
        for turn in self.session.turns:
            if turn.user_text.capture is Capture.CAPTURED:
                found.append((calls, as_text(turn.user_text.value).casefold()))
            calls += len(turn.calls)
        return found


def only_reads(tool: str) -> bool:
    """Whether the name of a tool says that it reads."""
    return tool_effect(tool, (), ()) is ToolEffect.READS


def leaves(value: JsonValue, steps: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], JsonValue]]:
    """Yield the values in objects and lists, each with its keys, `*` in lists; no null and no boolean."""
    if is_mapping(value):
        for name, item in value.items():
            yield from leaves(item, (*steps, str(name)))
    elif is_sequence(value):
        for item in value:
            yield from leaves(item, (*steps, "*"))
    elif value is not None and not isinstance(value, bool):
        yield steps, value


def _fields(
    tool: str, args: Mapping[str, JsonValue], objects: Set[tuple[str, Field]], way: Field = ()
) -> Iterator[tuple[Field, JsonValue]]:
    for name, value in args.items():
        if (tool, (*way, name)) in objects:
            yield from _fields(tool, value, objects, (*way, name))
        elif is_json(value):
            yield (*way, name), value


def taken_apart(tasks: Sequence[RecordedTask]) -> list[RecordedTask]:
    """Return the tasks with those arguments taken apart into fields that are passed to every call, as objects."""
    calls = [call for task in tasks for run in task.runs for call in run.calls]
    seen = Counter((call.name, Field()) for call in calls)
    for call in calls:
        for way, value in call.args.items():
            seen.update((call.name, inner) for inner in _ways_to_objects(way, value))
    objects = {(tool, way) for (tool, way), count in seen.items() if way and count == seen[tool, way[:-1]]}
    return [RecordedTask(task.join, [TaskRun(run.session, objects) for run in task.runs]) for task in tasks]


def _ways_to_objects(way: Field, value: JsonValue) -> Iterator[Field]:
    if is_mapping(value) and value and len(way) <= _DEEPEST and not dollar_keys(value):
        yield way
        for name, inner in value.items():
            yield from _ways_to_objects((*way, name), inner)


def _is_short(value: JsonValue) -> bool:
    return not isinstance(value, str) or (1 < len(value) <= 60 and len(value.split()) <= 3)


def holds_name(value: JsonValue, names: frozenset[str]) -> bool:
    """Whether one of these names is a key anywhere in a value."""
    if is_sequence(value):
        return any(holds_name(one, names) for one in value) if names else False
    return is_mapping(value) and (not names.isdisjoint(value) or any(holds_name(one, names) for one in value.values()))


def bag_of(value: Sequence[JsonValue]) -> frozenset[tuple[object, int]]:
    """Return the elements of a list without their order."""
    return frozenset(Counter(map(canonical, value)).items())


def has_parts(value: JsonValue) -> bool:
    """Whether a value is an object or a list."""
    return is_mapping(value) or is_sequence(value)


@dataclass(frozen=True, slots=True, eq=False)
class RecordedTask:
    """The runs of one task, and how a golden finds its sessions."""

    join: Mapping[str, JsonValue]
    """The field of a golden that joins it, and what stands there."""
    runs: Sequence[TaskRun]

    def without(self, run: TaskRun) -> RecordedTask:
        """Return the task without a run."""
        return RecordedTask(self.join, [one for one in self.runs if one is not run])
