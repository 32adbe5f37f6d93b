"""What golden sets exercise of an agent's tools, and what production does that none has: `goldspan goldens coverage`.

Tools are known by what was declared in traces or given, and by the calls that were made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from goldspan.scoring.comparison import canonical
from goldspan.scoring.goldens import Golden, GoldenIndex
from goldspan.scoring.json_values import is_mapping, is_sequence, shown, shown_name
from goldspan.scoring.matchers.matcher import dollar_keys
from goldspan.scoring.pages import counted, listed
from goldspan.scoring.sessions import JsonValue, Session
from goldspan.scoring.tool_definitions import lists_of, schemas_of

Schema = Mapping[str, JsonValue]
_OF_ONE_VALUE = ("$literal", "$alphanumeric", "$casefold", "$datetime")


@dataclass(slots=True)
class ToolCoverage:
    """What golden sets exercise of one tool."""

    tool: str
    goldens: int = 0
    """Goldens that expect a call of it."""
    sessions: int = 0
    """Sessions that called it."""
    failing: int = 0
    """Sessions in which a call of it failed."""
    failure_expected: bool = False
    parameters: dict[str, bool] = field(default_factory=dict[str, bool])
    """By name, whether a golden expects it: declared ones, and those that were passed."""
    values: dict[str, list[JsonValue]] = field(default_factory=dict[str, list[JsonValue]])
    """Of parameters with a closed list of values, those that no golden expects."""
    choices: int = 0
    """So many values such parameters have in all."""

    def gaps(self) -> Iterator[str]:
        """Yield what no golden exercises."""
        if not self.goldens:
            yield "no golden calls it"
            return
        if unnamed := [name for name, expected in self.parameters.items() if not expected]:
            yield f"never expected: {listed(map(shown_name, unnamed), 6)}"
        for name, missing in self.values.items():
            if missing:
                yield f"{shown_name(name)} is never {listed((shown(one, 30) for one in missing), 6)}"
        if self.failing and not self.failure_expected:
            yield f"fails in {counted(self.failing, 'session')}, and no golden says how such a call ends"


class UncoveredWay(NamedTuple):
    """Tools that sessions called together, as no golden does."""

    tools: tuple[str, ...]
    sessions: tuple[str, ...]
    """Their ids, the newest first."""


class DefinitionChange(NamedTuple):
    """A definition that took the place of another one."""

    tool: str
    since: str
    """The day on which the newest definition was first seen."""
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SuiteCoverage:
    """What golden sets exercise."""

    tools: Sequence[ToolCoverage]
    ways: Sequence[UncoveredWay]
    changed: Sequence[DefinitionChange]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left out."""
        return not self.ways and not any(any(tool.gaps()) for tool in self.tools)

    def to_json(self) -> JsonValue:
        """Return it as JSON."""
        tools = [
            {
                "tool": one.tool,
                "goldens": one.goldens,
                "sessions": one.sessions,
                "failing_sessions": one.failing,
                "failure_expected": one.failure_expected,
                "parameters": one.parameters,
                "values_never_expected": one.values,
            }
            for one in self.tools
        ]
        ways = [one._asdict() for one in self.ways]
        return {"tools": tools, "without_golden": ways, "changed_definitions": [one._asdict() for one in self.changed]}

    def lines(self) -> Iterator[str]:
        """Yield it as text."""
        called = [one for one in self.tools if one.goldens]
        named = sum(expected for tool in self.tools for expected in tool.parameters.values())
        choices = sum(tool.choices for tool in self.tools)
        shares = (
            (len(called), len(self.tools), "tools"),
            (named, sum(len(tool.parameters) for tool in self.tools), "parameters"),
            (choices - sum(sum(map(len, tool.values.values())) for tool in self.tools), choices, "listed values"),
        )
        yield "exercised: " + ", ".join(f"{part} of {whole} {name}" for part, whole, name in shares if whole)
        for tool in self.tools:
            for gap in tool.gaps():
                yield f"  {shown_name(tool.tool)}: {gap}"
        for way in self.ways:
            yield f"no golden has {listed(map(shown_name, way.tools), 8)}: {counted(len(way.sessions), 'session')}"
            yield f"  record one: goldspan goldens record TRACES --session {shown_name(way.sessions[0])}"
        for change in self.changed:
            yield f"{shown_name(change.tool)} is declared in another way since {change.since}"
            yield from (f"  {one}" for one in change.changes)


def suite_coverage(
    goldens: GoldenIndex, sessions: Sequence[Session] = (), declared: Mapping[str, Schema] | None = None
) -> SuiteCoverage:
    """Return what goldens exercise of the tools that are declared, given or in sessions, and of what sessions did."""
    versions = _versions(sessions)
    schemas = {tool: found[-1].schema for tool, found in versions.items()} | dict(declared or {})
    tools: dict[str, ToolCoverage] = {tool: ToolCoverage(tool) for tool in schemas}
    for session in sessions:
        _use(tools, session)
    for tool in tools.values():
        schema = schemas.get(tool.tool, {})
        tool.parameters = dict.fromkeys((*_properties(schema), *tool.parameters), False)
        tool.values = {name: list(values) for name in tool.parameters if (values := _choices(schema, name))}
        tool.choices = sum(map(len, tool.values.values()))
    for golden in goldens.goldens:
        _exercise(tools, golden)
    known = [_tools_of(golden) for golden in goldens.goldens]
    return SuiteCoverage(
        sorted(tools.values(), key=lambda one: one.tool), list(_ways(sessions, known)), list(_changed(versions))
    )


def _use(tools: dict[str, ToolCoverage], session: Session) -> None:
    """Note what a session called."""
    calls = [call for call in session.calls if not call.rejected]
    failing = {call.name for call in calls if call.error is not None}
    for name in dict.fromkeys(call.name for call in calls):
        tool = tools.setdefault(name, ToolCoverage(name))
        tool.sessions += 1
        tool.failing += name in failing
    for call in calls:
        tools[call.name].parameters.update(dict.fromkeys(call.arguments or (), False))


def _exercise(tools: dict[str, ToolCoverage], golden: Golden) -> None:
    """Note what a golden expects."""
    expected = [call for call in golden.all_calls() if not call.forbidden]
    for name in dict.fromkeys(call.name for call in expected):
        tools.setdefault(name, ToolCoverage(name)).goldens += 1
    for call in expected:
        tool = tools[call.name]
        tool.parameters.update(dict.fromkeys(call.args, True))
        for name, missing in tool.values.items():
            seen = {canonical(one) for one in _values_of(call.args.get(name))}
            tool.values[name] = [one for one in missing if canonical(one) not in seen]
    for call in golden.all_calls():
        if call.status in {"failed", "unrecovered"}:
            for tool in tools.values():
                tool.failure_expected |= call.name in (tool.tool, "*")


def _values_of(expected: JsonValue) -> Iterator[JsonValue]:
    names = dollar_keys(expected) if is_mapping(expected) else ()
    if not names:
        yield expected
    elif names[0] == "$any_of":
        for one in expected["$any_of"]:
            yield from _values_of(one)
    elif names[0] in _OF_ONE_VALUE:
        yield expected[names[0]]


def _properties(schema: Schema) -> Schema:
    found: JsonValue = schema.get("properties")
    return found if is_mapping(found) else {}


def _choices(schema: Schema, name: str) -> Sequence[JsonValue]:
    """Return the closed list of values of a parameter, also where it may be null, or is a list of them."""
    waiting: list[JsonValue] = [_properties(schema).get(name)]
    while waiting:
        one = waiting.pop(0)
        if is_mapping(one):
            if is_sequence(one.get("enum")):
                return [value for value in one["enum"] if value is not None]
            for key in ("anyOf", "oneOf", "allOf"):
                waiting += one[key] if is_sequence(one.get(key)) else ()
            waiting.append(one.get("items"))
    return ()


def _tools_of(golden: Golden) -> frozenset[str]:
    return frozenset(call.name for call in golden.all_calls() if not call.forbidden)


def _ways(sessions: Iterable[Session], known: Sequence[Set[str]]) -> Iterator[UncoveredWay]:
    """Yield the sets of tools that sessions called and no golden has all of, the most common first."""
    found: defaultdict[tuple[str, ...], list[Session]] = defaultdict(list)
    for session in sessions:
        called = {call.name for call in session.calls if not call.rejected}
        if called and not any(called <= tools for tools in known):
            found[tuple(sorted(called))].append(session)
    for tools, made in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        newest = sorted(made, key=lambda one: (-one.start, one.id))
        yield UncoveredWay(tools, tuple(dict.fromkeys(one.id for one in newest)))


# Definitions that changed from one period to the next.


class _Version(NamedTuple):
    """A definition, and when it was first and last in use, in nanoseconds."""

    first: int
    last: int
    schema: Schema


def _versions(sessions: Iterable[Session]) -> Mapping[str, list[_Version]]:
    """Return the definitions of each tool in the order of their last use."""
    seen: defaultdict[str, dict[object, _Version]] = defaultdict(dict)
    for session in sessions:
        for turn in session.turns:
            for definitions in lists_of((turn,)):
                for tool, schema in schemas_of(definitions).items():
                    key = canonical(schema)
                    first, last, _ = seen[tool].get(key, (turn.start, turn.start, schema))
                    seen[tool][key] = _Version(min(first, turn.start), max(last, turn.start), schema)
    return {tool: sorted(found.values(), key=lambda one: one.last) for tool, found in seen.items()}


def _changed(versions: Mapping[str, Sequence[_Version]]) -> Iterator[DefinitionChange]:
    """Yield the tools whose last definition came when the first one was no longer in use."""
    for tool, found in sorted(versions.items()):
        before, after = found[0], found[-1]
        if before.last < after.first:
            day = str(datetime.fromtimestamp(after.first // 10**9, UTC).date())
            changes = tuple(_differences(before.schema, after.schema))
            yield DefinitionChange(tool, day, changes or ("in other words only",))


def _differences(before: Schema, after: Schema) -> Iterator[str]:
    old, new = _properties(before), _properties(after)
    needs = [frozenset[JsonValue](one.get("required") or ()) for one in (before, after)]
    for name in dict.fromkeys((*old, *new)):
        if name not in new:
            yield f"- {shown_name(name)}"
        elif name not in old:
            yield f"+ {shown_name(name)}{' (required)' if name in needs[1] else ''}"
        else:
            changes = list(_changes(name, before, after))
            if (name in needs[0]) != (name in needs[1]):
                changes.append("now required" if name in needs[1] else "no longer required")
            yield from (f"~ {shown_name(name)}: {change}" for change in changes)


def _changes(name: str, before: Schema, after: Schema) -> Iterator[str]:
    """Yield in which listed values and type a parameter that both definitions have differs."""
    old, new = ({canonical(one): one for one in _choices(schema, name)} for schema in (before, after))
    moved = [f"+ {shown(one, 30)}" for key, one in new.items() if key not in old]
    moved += [f"- {shown(one, 30)}" for key, one in old.items() if key not in new]
    if moved:
        yield ", ".join(moved)
    found = (_properties(schema)[name] for schema in (before, after))
    kinds = [one.get("type") if is_mapping(one) else None for one in found]
    if canonical(kinds[0]) != canonical(kinds[1]):
        yield f"{shown(kinds[0])} -> {shown(kinds[1])}"
