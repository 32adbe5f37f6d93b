"""Reads the settings from a YAML file and environment variables, and reports every mistake at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args, overload

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from goldspan.collector_processor.gateway.settings.sections import GatewaySettings
from goldspan.collector_processor.serving.field_types import Secret, Section
from goldspan.scoring.errors import FileError, Mistake
from goldspan.scoring.field_docstrings import field_docstrings
from goldspan.scoring.goldens import documents
from goldspan.scoring.json_values import is_dict, is_list, is_sequence, shown

PREFIX = "GOLDSPAN_"
"""Prefix of the variables. The rest is the path of the field, as in GOLDSPAN_EXPORT_ENDPOINT."""

_OF_KUBERNETES = re.compile(
    r"GOLDSPAN_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)\w*)?)"
)
"""What Kubernetes sets for services whose names begin with goldspan."""
_NEAR = 0.9  # how near a misspelt name is, of 1: one or two letters
_SECRET_FIELDS = frozenset({"api_key", "headers", "options", "public_key", "secret_key", "token", "tokens"})
_PAIRS = frozenset({"headers", "options"})  # mappings that a variable holds as `name=value,name=value`
_MAX_SHOWN = 60
_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "path_type": "the path of a file",
    "string_type": "text",
    "tuple_type": "a list",
}
"""What was expected, by pydantic's error type."""


SettingsT = TypeVar("SettingsT", bound=Section)
"""The settings of a server: its top-level section."""


@overload
def load_settings(path: Path | None, environ: Mapping[str, str]) -> GatewaySettings: ...
@overload
def load_settings(path: Path | None, environ: Mapping[str, str], top: type[SettingsT]) -> SettingsT: ...
def load_settings(path: Path | None, environ: Mapping[str, str], top: type[Section] = GatewaySettings) -> Section:
    """Read the settings, those of the gateway by default. A variable overrides the field in the file.

    Raises:
        FileError: every mistake, each with file, line and field, or with its variable.

    """
    collector = documents.MistakeCollector("settings" if path is None else str(path))
    document: dict[str, Any] = {}
    if path is not None:
        with suppress(documents.Unreadable):
            content = documents.read_yaml(documents.read_text(path, collector), collector)
            if is_dict(content):
                document = content
            elif content is not None:
                expected = "expected a mapping such as `export: {endpoint: ...}`"
                collector.add((), f"found {shown(content, _MAX_SHOWN)}, {expected}")
    overridden = _apply_variables(document, environ, top)
    collector.mistakes += _misspelt(document, environ, top)
    if collector.mistakes:
        raise FileError(*collector.in_order())
    try:
        return top.model_validate(document)
    except ValidationError as error:
        for detail in error.errors():
            where, message = _describe(detail, document, top)
            if (variable := overridden.get(where)) is None:
                collector.add(where, message)
            else:
                collector.mistakes.append(Mistake("environment", variable, message))
        raise FileError(*collector.in_order()) from None


def unknown_variables(settings: Section, environ: Mapping[str, str]) -> list[str]:
    """Return the variables that begin as those of settings do, and are of none: perhaps of an agent, perhaps wrong."""
    return _unknown(settings.model_dump(), environ, type(settings))


def _unknown(document: object, environ: Mapping[str, str], top: type[Section]) -> list[str]:
    known = {*(name for name, _ in variables(top)), *_secret_variables(document)}
    return sorted(
        name for name in environ if name.startswith(PREFIX) and name not in known and not _OF_KUBERNETES.fullmatch(name)
    )


def _secret_variables(document: object) -> Iterator[str]:
    """Yield the variables that the settings name as places of secrets."""
    if is_dict(document):
        if isinstance(name := document.get("env"), str):
            yield name
        for value in document.values():
            yield from _secret_variables(value)
    elif is_sequence(document):
        for value in document:
            yield from _secret_variables(value)


def _misspelt(document: object, environ: Mapping[str, str], top: type[Section]) -> Iterator[Mistake]:
    """Yield the unknown variables that are near one of a setting, or begin as those of a section do."""
    known = [name for name, _ in variables(top)]
    sections = [name for name, field in top.model_fields.items() if section_in(field.annotation)]
    for name in _unknown(document, environ, top):
        if near := get_close_matches(name, known, n=1, cutoff=_NEAR):
            yield Mistake("environment", name, f"no setting has this variable: did you mean {near[0]}?")
        elif name.startswith(tuple(f"{PREFIX}{section.upper()}_" for section in sections)):
            near = get_close_matches(name, known, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            yield Mistake("environment", name, f"no setting has this variable{hint}")


def variables(
    section: type[Section] = GatewaySettings, above: documents.ValuePath = ()
) -> Iterator[tuple[str, documents.ValuePath]]:
    """Yield variable and path of each field whose value fits on one line."""
    for name, field in section.model_fields.items():
        where = (*above, name)
        inner = section_in(field.annotation)
        if inner is not None and not issubclass(inner, Secret):
            yield from variables(inner, where)
        elif inner is None or name in _PAIRS:
            yield PREFIX + "_".join(map(str, where)).upper(), where


def section_in(annotation: object) -> type[Section] | None:
    """Return the section in an annotation such as `Section | None` or `tuple[Section, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((section for one in get_args(annotation) if (section := section_in(one)) is not None), None)


def _apply_variables(
    document: dict[str, Any], environ: Mapping[str, str], top: type[Section]
) -> dict[documents.ValuePath, str]:
    """Put the values of variables into the document. Return the variable of each path that has one."""
    overridden: dict[documents.ValuePath, str] = {}
    for variable, where in variables(top):
        text = environ.get(variable, "")
        if not text:
            continue
        inside: dict[str, Any] = document
        for step in map(str, where[:-1]):
            if not is_dict(inside.get(step)):
                inside[step] = {}
            inside = inside[step]
        inside[str(where[-1])] = None if text == "null" else text
        overridden[where] = variable
    return overridden


def _describe(detail: ErrorDetails, document: object, top: type[Section]) -> tuple[documents.ValuePath, str]:
    """Return the path and the message of one of pydantic's errors."""
    kind, where, context = detail["type"], _path_in(document, detail["loc"]), detail.get("ctx", {})
    if kind == "missing":
        name = str(detail["loc"][-1])
        section = _section_at(where, top)
        meaning = None if section is None else field_docstrings(section).get(name)
        inner = None if section is None else section_in(section.model_fields[name].annotation)
        if meaning is None and inner is not None:
            needed = ", ".join(f"{one}: ..." for one, field in inner.model_fields.items() if field.is_required())
            meaning = f"expected `{name}: {{{needed}}}`"
        return where, f"`{name}` is missing{f': {meaning}' if meaning else ''}"
    if kind == "extra_forbidden":
        return where, _describe_unknown(str(where[-1]), _section_at(where[:-1], top), top)
    if kind == "value_error":
        return where, str(context.get("error"))
    is_secret = not _SECRET_FIELDS.isdisjoint(where)
    found = type(detail["input"]).__name__ if is_secret else shown(detail["input"], _MAX_SHOWN)
    if kind == "literal_error":
        return where, f"found {found}, expected {str(context.get('expected')).replace(chr(39), '`')}"
    if kind == "greater_than_equal":
        return where, f"found {found}, expected {context.get('ge'):g} or more"
    if kind in _EXPECTED:
        return where, f"found {found}, expected {_EXPECTED[kind]}"
    return where, f"found {found}: {detail['msg']}"


def _describe_unknown(name: str, section: type[Section] | None, top: type[Section]) -> str:
    known = list(section.model_fields) if section is not None else []
    if near := documents.nearest(name, known):
        return f"unknown field: did you mean `{near}`?"
    elsewhere = [documents.path_text(where) for _, where in variables(top) if where[-1] == name]
    if elsewhere:
        top_level = "" if "." in elsewhere[0] else " at the top of the settings"
        return f"unknown field here: did you mean `{elsewhere[0]}`{top_level}?"
    return f"unknown field: there are {', '.join(known)}"


def _path_in(document: object, steps: tuple[int | str, ...]) -> documents.ValuePath:
    """Return the steps that exist in the document. Pydantic's paths also name the alternatives of a union."""
    path: list[str | int] = []
    for step in steps:
        if is_dict(document) and step in document:
            document = document[str(step)]
        elif is_list(document) and isinstance(step, int) and step < len(document):
            document = document[step]
        else:
            continue
        path.append(step)
    return tuple(path)


def _section_at(where: documents.ValuePath, top: type[Section]) -> type[Section] | None:
    section: type[Section] | None = top
    for step in where:
        field = section.model_fields.get(step) if section is not None and isinstance(step, str) else None
        if field is not None:
            section = section_in(field.annotation)
    return section
