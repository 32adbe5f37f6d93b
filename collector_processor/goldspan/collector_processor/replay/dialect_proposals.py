"""Writes a dialect for calls that only the shape of their spans told: Python for a package of its own."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from goldspan.collector_processor.replay.shaped_tools import ShapedTools
from goldspan.mappers.dialects.shape import is_tool_kind, says_kind, says_tool
from goldspan.mappers.span_facts import ValuePlace
from goldspan.mappers.spans import SpanView
from goldspan.scoring.sessions import SpanRef
from goldspan.scoring.wording import counted

_WORD = re.compile(r"[a-z0-9]+")
_COMMON = frozenset(
    {"args", "arguments", "attributes", "call", "data", "gen", "gen_ai", "input", "inputs", "org", "com", "io"}
    | {"parameters", "span", "tool", "tools", "function", "opentelemetry", "instrumentation", "name"}
)
"""Words that name no framework."""
_IMPORTED = {
    "Affixes": "Affixes(",
    "Attributes": "SpanView",
    "DialectTable": "DialectTable(",
    "Role": "Role.",
    "Rule": "Rule(",
    "Source": "Source(",
    "SpanView": "SpanView",
    "ToolFacts": "ToolFacts",
    "at": "take=at(",
}
"""What a dialect imports, and what in its source uses that."""
_BETWEEN = " :./"
"""Marks between the words of a span's name."""
_REPR = re.compile(r"\{'|\w+\(")
_LONGEST_KIND = 40
_MOST_KINDS = 3


class Proposal(NamedTuple):
    """A package with one dialect for each kind of unknown tool spans."""

    name: str
    """The name of the first dialect: lower-case letters, digits and `_`."""
    module: str
    """The Python source of its only module."""
    pyproject: str

    @property
    def module_name(self) -> str:
        """The name of that module."""
        return f"goldspan_dialect_{self.name}"


class _Mark(NamedTuple):
    """What tells the spans of some calls from all others in the same traces."""

    key: str
    values: frozenset[str] | None = None
    """Values of the attribute; none allows any."""
    scope: str = ""
    also_marked: int = 0
    """How many other spans have the mark all the same; 0 where it tells them apart."""


def proposal(found: Sequence[ShapedTools], views: Iterable[SpanView], name: str | None = None) -> Proposal:
    """Write dialects for these calls; `found` must not be empty, `views` are the spans of their traces.

    `name` names the first of the dialects.
    """
    spans = {SpanRef(view.trace_id, view.span_id): view for view in views}
    marks = [_mark(one, spans) for one in found]
    first = name or _name_from(found[0], marks[0])
    names = [first, *(f"{first}_{number}" for number in range(2, len(found) + 1))]
    tables = [_table(one, mark, called, spans) for one, mark, called in zip(found, marks, names, strict=True)]
    imports = _imports("\n".join(tables))
    tools = sum(len(one.spans) for one in found)
    about = f'"""Reads tool calls that goldspan does not know. Proposed from {counted(tools, "span")}: check it."""'
    module = "\n\n".join([about, "from __future__ import annotations", imports]) + "\n\n" + "\n\n".join(tables)
    return Proposal(first, module, _pyproject(first, names))


def _mark(found: ShapedTools, spans: Mapping[SpanRef, SpanView]) -> _Mark:
    """Choose an attribute that says `tool`, else one that only these spans have; and count others that have it."""
    own = [spans[ref].attributes for ref in found.spans if ref in spans]
    inside, traces = set(found.spans), {ref.trace_id for ref in found.spans}
    others = [view for ref, view in spans.items() if ref.trace_id in traces and ref not in inside]
    options = list(_possible_marks(found, own))
    options += [(tier + 5, mark._replace(scope=found.scope)) for tier, mark in options if found.scope]
    best = [
        (sum(_holds(mark, view) for view in others), tier, len(mark.key), mark.key, mark.scope, mark)
        for tier, mark in options
    ]
    if not best:
        return _Mark("")
    wrong, *_, mark = min(best, key=lambda one: one[:-1])
    return mark._replace(also_marked=wrong)


def _possible_marks(found: ShapedTools, own: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, _Mark]]:
    """Yield each attribute that all these spans share as a mark, with how little it says: 0 is a kind of tool."""
    for key in sorted(set(own[0]).intersection(*own[1:])) if own else ():
        values = frozenset(value for one in own if isinstance(value := one[key], str) and len(value) < _LONGEST_KIND)
        if says_kind(key) and values and len(values) <= _MOST_KINDS:
            yield 0 if all(map(is_tool_kind, values)) else 2, _Mark(key, values)
        is_arguments = found.arguments is not None and key == found.arguments.key
        yield 1 if says_tool(key) else 3 if is_arguments else 4, _Mark(key)


def _holds(mark: _Mark, view: SpanView) -> bool:
    value = view.attributes.get(mark.key)
    return (
        value is not None and (mark.values is None or value in mark.values) and view.scope_name.startswith(mark.scope)
    )


def is_dialect_name(text: str) -> bool:
    """Say whether this can name a dialect: lower-case letters, digits and `_`, as in Python."""
    return text.isidentifier() and text.islower() and text.isascii() and not keyword.iskeyword(text)


def _name_from(found: ShapedTools, mark: _Mark) -> str:
    """Name a dialect after the first telling word of its attributes, else of its scope."""
    for text in (mark.key, "" if found.arguments is None else found.arguments.key, found.scope):
        words = _WORD.findall(text.lower())
        if words and words[0] not in _COMMON and len(words) > 1 and is_dialect_name(words[0]):
            return str(words[0])
    words = [word for word in _WORD.findall(found.scope.lower()) if word not in _COMMON and is_dialect_name(word)]
    return words[0] if words else "proposed"


def _table(found: ShapedTools, mark: _Mark, name: str, spans: Mapping[SpanRef, SpanView]) -> str:
    """Return the source of one `DialectTable`, with what it needs before it."""

    def source(place: ValuePlace) -> str:
        return _source(place, is_repr=_is_repr(place, found, spans))

    before: list[str] = []
    fields = [f'    name="{name}",', f"    rules=({_rule(mark)},),"]
    if found.name is None or _is_quoted(found, spans):
        prefix, suffix = _around(found, spans)
        affixes = {"prefixes": prefix, "suffixes": suffix}
        if given := ", ".join(f"{what}=({_text(affix)},)" for what, affix in affixes.items() if affix):
            fields.append(f"    span_name_affixes=Affixes({given}),")
    elif found.name.path or found.name.event:
        before.append(_NAME_HOOK.format(constant=name.upper(), name=name, source=source(found.name)))
        fields.append(f"    tool_hook=_with_name_of_{name},")
    else:
        fields.append(f"    tool_name=({_text(found.name.key)},),")
    if found.arguments is not None:
        fields.append(f"    arguments=({source(found.arguments)},),")
    if found.call_id is not None:
        fields.append(f"    call_id=({source(found.call_id)},),")
    if found.result is not None:
        fields.append(f"    result=({source(found.result)},),")
    if found.session is not None and not found.session_known:
        fields.append(f"    session_keys=({_text(found.session)},),")
    notes = "".join(f"# {note}\n" for note in _notes(found, mark))
    return "\n\n".join([*before, f"{notes}{name.upper()} = DialectTable(\n" + "\n".join(fields) + "\n)\n"])


def _around(found: ShapedTools, spans: Mapping[SpanRef, SpanView]) -> tuple[str, str]:
    """Return what stands before and after the names of tools in the names of their spans: `tool: ` and `.call`."""
    names = {spans[ref].name for ref in found.spans if ref in spans}
    for name in sorted(names.difference(found.tools)):
        tool = next((one for one in sorted(found.tools, key=len, reverse=True) if one in name), "")
        if tool:
            before, _, after = name.partition(tool)
            return before, after
    if len(names) < 2:
        return "", ""
    start = _shared_start(min(names), max(names))
    backwards = [name[::-1] for name in names]
    end = _shared_start(min(backwards), max(backwards))[::-1]
    first = next((place for place, letter in enumerate(end) if letter in _BETWEEN), len(end))
    return start[: 1 + max(map(start.rfind, _BETWEEN))], end[first:]


def _shared_start(first: str, second: str) -> str:
    """Return what two texts begin with; of many texts, what the least and the greatest begin with."""
    pairs = zip(first, second, strict=False)
    return first[: next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))]


def _is_quoted(found: ShapedTools, spans: Mapping[SpanRef, SpanView]) -> bool:
    """Say whether names of tools are written as JSON text."""
    place = found.name
    values = (spans[ref].attributes.get(place.key) for ref in found.spans if place is not None and ref in spans)
    return any(isinstance(value, str) and value[:1] == '"' for value in values)


def _is_repr(place: ValuePlace, found: ShapedTools, spans: Mapping[SpanRef, SpanView]) -> bool:
    """Say whether a value is written as Python writes it."""
    values = (spans[ref].attributes.get(place.key) for ref in found.spans if ref in spans)
    return any(isinstance(value, str) and _REPR.match(value) is not None for value in values)


_NAME_HOOK = """{constant}_NAME = {source}


def _with_name_of_{name}(span: SpanView, attributes: Attributes, tool: ToolFacts) -> ToolFacts:
    found = {constant}_NAME.value(span, attributes)
    return replace(tool, name=found) if isinstance(found, str) and found else tool
"""


def _notes(found: ShapedTools, mark: _Mark) -> Iterator[str]:
    what = f"{counted(len(found.spans), 'span')} of tools"
    asked = f"; {found.requested} match a request of a model in the same trace" if found.requested else ""
    yield f"{what}{asked}."
    if mark.also_marked:
        yield f"No attribute tells tools from {counted(mark.also_marked, 'other span')}: narrow the rule."
    if found.session is None:
        yield "No attribute with a session id was found: name it in session_keys, or set gen_ai.conversation.id."
    if found.arguments is None:
        yield "No attribute with the arguments was found: those that models requested count."
    if found.call_id is None:
        yield "No attribute with the call id was found."
    if found.result is None:
        yield "No attribute with the result was found."


def _rule(mark: _Mark) -> str:
    parts = ["Role.TOOL", _text(mark.key)]
    if mark.values is not None:
        parts.append(f"frozenset({{{', '.join(map(_text, sorted(mark.values)))}}})")
    if mark.scope:
        parts.append(f"scope={_text(mark.scope)}")
    return f"Rule({', '.join(parts)})"


def _source(place: ValuePlace, *, is_repr: bool) -> str:
    event = f", event={_text(place.event)}" if place.event else ""
    steps = [_text(step) if isinstance(step, str) else str(step) for step in place.path]
    take = f", take=at({', '.join([*steps, *(['reprs=True'] if is_repr else [])])})" if steps else ""
    return f"Source({_text(place.key)}{event}{take}{', python_repr=True' if is_repr and not steps else ''})"


def _text(value: str) -> str:
    """Return a Python literal of a text that came with telemetry."""
    return ascii(value) if '"' in value or "\\" in value or not value.isprintable() else f'"{value}"'


def _imports(source: str) -> str:
    used = ", ".join(name for name, sign in _IMPORTED.items() if sign in source)
    replace = "from msgspec.structs import replace\n\n" if "SpanView" in source else ""
    return f"{replace}from goldspan.mappers.dialects import {used}"


def _pyproject(first: str, names: Iterable[str]) -> str:
    entries = "\n".join(f'{name} = "goldspan_dialect_{first}:{name.upper()}"' for name in names)
    return f"""[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "goldspan-dialect-{first.replace("_", "-")}"
version = "0.1"
description = "Lets goldspan read the tool calls of {first}."
requires-python = ">=3.11"
dependencies = ["goldspan"]

[project.entry-points."goldspan.dialects"]
{entries}
"""
