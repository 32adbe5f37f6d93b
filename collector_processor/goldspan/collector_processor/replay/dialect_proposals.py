"""Writes a dialect for spans that look like tool calls and that no dialect reads: Python for a package of its own."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from goldspan.mappers.unknown_tool_spans import Mark, UnknownTools, ValuePlace
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


def proposal(found: Sequence[UnknownTools], name: str | None = None) -> Proposal:
    """Write dialects for these spans; `found` must not be empty. `name` names the first of them."""
    first = name or _name_from(found[0])
    names = [first, *(f"{first}_{number}" for number in range(2, len(found) + 1))]
    tables = [_table(one, called) for one, called in zip(found, names, strict=True)]
    imports = _imports("\n".join(tables))
    tools = sum(len(one.spans) for one in found)
    about = f'"""Reads tool calls that goldspan does not know. Proposed from {counted(tools, "span")}: check it."""'
    module = "\n\n".join([about, "from __future__ import annotations", imports]) + "\n\n" + "\n\n".join(tables)
    return Proposal(first, module, _pyproject(first, names))


def is_dialect_name(text: str) -> bool:
    """Say whether this can name a dialect: lower-case letters, digits and `_`, as in Python."""
    return text.isidentifier() and text.islower() and text.isascii() and not keyword.iskeyword(text)


def _name_from(found: UnknownTools) -> str:
    """Name a dialect after the first telling word of its attributes, else of its scope."""
    for text in (found.mark.key, found.arguments.key, found.scope):
        words = _WORD.findall(text.lower())
        if words and words[0] not in _COMMON and len(words) > 1 and is_dialect_name(words[0]):
            return str(words[0])
    words = [word for word in _WORD.findall(found.scope.lower()) if word not in _COMMON and is_dialect_name(word)]
    return words[0] if words else "proposed"


def _table(found: UnknownTools, name: str) -> str:
    """Return the source of one `DialectTable`, with what it needs before it."""
    before: list[str] = []
    fields = [f'    name="{name}",', f"    rules=({_rules(found)}),"]
    if found.name is None:
        affixes = {"prefixes": found.name_prefix, "suffixes": found.name_suffix}
        if given := ", ".join(f"{what}=({_text(affix)},)" for what, affix in affixes.items() if affix):
            fields.append(f"    span_name_affixes=Affixes({given}),")
    elif found.name.path or found.name.event:
        before.append(_NAME_HOOK.format(constant=name.upper(), name=name, source=_source(found.name)))
        fields.append(f"    tool_hook=_with_name_of_{name},")
    else:
        fields.append(f"    tool_name=({_text(found.name.key)},),")
    fields.append(f"    arguments=({_source(found.arguments, python_repr=found.python_repr)},),")
    if found.call_id is not None:
        fields.append(f"    call_id=({_source(found.call_id)},),")
    if found.result is not None:
        fields.append(f"    result=({_source(found.result)},),")
    if found.session is not None and not found.session_known:
        fields.append(f"    session_keys=({_text(found.session)},),")
    notes = "".join(f"# {note}\n" for note in _notes(found))
    return "\n\n".join([*before, f"{notes}{name.upper()} = DialectTable(\n" + "\n".join(fields) + "\n)\n"])


_NAME_HOOK = """{constant}_NAME = {source}


def _with_name_of_{name}(span: SpanView, attributes: Attributes, tool: ToolFacts) -> ToolFacts:
    found = {constant}_NAME.value(span, attributes)
    return replace(tool, name=found) if isinstance(found, str) and found else tool
"""


def _notes(found: UnknownTools) -> Iterator[str]:
    what = f"{counted(len(found.spans), 'span')} of tools"
    asked = f"; {found.requested} match a request of a model in the same trace" if found.requested else ""
    yield f"{what}{asked}."
    if found.also_marked:
        yield f"No attribute tells tools from {counted(found.also_marked, 'other span')}: narrow the rule."
    if found.session is None:
        yield "No attribute with a session id was found: name it in session_keys, or set gen_ai.conversation.id."
    if found.call_id is None:
        yield "No attribute with the call id was found."
    if found.result is None:
        yield "No attribute with the result was found."


def _rules(found: UnknownTools) -> str:
    rules = [_rule("TOOL", found.mark)]
    if found.agents:
        rules.append(_rule("AGENT", found.mark._replace(values=found.agents, name_prefix="", parent=None)))
    if len(rules) == 1:
        return f"{rules[0]},"
    return "".join(f"\n        {rule}," for rule in rules) + "\n    "


def _rule(role: str, mark: Mark) -> str:
    parts = [f"Role.{role}", _text(mark.key)]
    if mark.values is not None:
        parts.append(f"frozenset({{{', '.join(map(_text, sorted(mark.values)))}}})")
    if mark.scope:
        parts.append(f"scope={_text(mark.scope)}")
    if mark.name_prefix:
        parts.append(f"name_prefix={_text(mark.name_prefix)}")
    if mark.parent:
        parts.append("parent=True")
    return f"Rule({', '.join(parts)})"


def _source(place: ValuePlace, *, python_repr: bool = False) -> str:
    event = f", event={_text(place.event)}" if place.event else ""
    steps = ", ".join(_text(step) if isinstance(step, str) else str(step) for step in place.path)
    take = f", take=at({steps})" if place.path else ""
    return f"Source({_text(place.key)}{event}{take}{', python_repr=True' if python_repr else ''})"


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
