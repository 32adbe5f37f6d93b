"""The gateway's settings out of a YAML file and the environment: whole, or refused with every mistake at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from goldspan.collector_processor.gateway.settings.field_types import Secret, Section
from goldspan.collector_processor.gateway.settings.sections import GatewaySettings
from goldspan.mappers.json_shapes import is_list, is_object
from goldspan.scoring.errors import FileError, Mistake
from goldspan.scoring.goldens.documents import MistakeCollector, Unreadable, ValuePath, nearest, path_text, read_text
from goldspan.scoring.goldens.yaml_text import read_yaml
from goldspan.scoring.json_values import shown

PREFIX = "GOLDSPAN_"
"""Variables begin with it; the rest is the path of the option, as in GOLDSPAN_EXPORT_ENDPOINT."""

_NOT_SHOWN = frozenset({"api_key", "headers", "public_key", "secret_key", "token", "tokens"})
_LONGEST = 60
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


def load_settings(path: Path | None, environ: Mapping[str, str]) -> GatewaySettings:
    """Read the settings; a variable of an option beats what the file says of it.

    Raises:
        FileError: everything wrong, each mistake with file, line and field, or with the variable.

    """
    notes = MistakeCollector("settings" if path is None else str(path))
    document: dict[str, Any] = {}
    if path is not None:
        with suppress(Unreadable):
            read = read_yaml(read_text(path, notes), notes)
            if is_object(read):
                document = read
            elif read is not None:
                notes.add((), f"found {shown(read, _LONGEST)}, expected a mapping such as `export: {{endpoint: ...}}`")
    said_by = _override(document, environ)
    if notes.mistakes:
        raise FileError(*notes.in_order())
    try:
        return GatewaySettings.model_validate(document)
    except ValidationError as error:
        for detail in error.errors():
            where, message = _explained(detail, document)
            variable = said_by.get(where)
            if variable is None:
                notes.add(where, message)
            else:
                notes.mistakes.append(Mistake("environment", variable, message))
        raise FileError(*notes.in_order()) from None


def variables(section: type[Section] = GatewaySettings, above: ValuePath = ()) -> Iterator[tuple[str, ValuePath]]:
    """Yield the variable of each option that one line of text can say, and the way to it."""
    for name, field in section.model_fields.items():
        where = (*above, name)
        inner = section_in(field.annotation)
        if inner is not None and inner is not Secret:
            yield from variables(inner, where)
        elif inner is None or name == "headers":
            yield PREFIX + "_".join(map(str, where)).upper(), where


def _override(document: dict[str, Any], environ: Mapping[str, str]) -> dict[ValuePath, str]:
    """Put what variables say into the document; return which says what."""
    said_by: dict[ValuePath, str] = {}
    for variable, where in variables():
        text = environ.get(variable, "")
        if not text:
            continue
        inside: dict[str, Any] = document
        for step in where[:-1]:
            if not is_object(inside.get(str(step))):
                inside[str(step)] = {}
            inside = inside[str(step)]
        inside[str(where[-1])] = None if text == "null" else text
        said_by[where] = variable
    return said_by


def _explained(detail: ErrorDetails, document: object) -> tuple[ValuePath, str]:
    kind, where = detail["type"], _in_document(detail["loc"], document)
    context = detail.get("ctx", {})
    if kind == "missing":
        name = str(detail["loc"][-1])
        section = _section_at(where)
        about = section.model_fields[name].description if section is not None else None
        return where, f"`{name}` is missing{f': {about}' if about else ''}"
    if kind == "extra_forbidden":
        return where, _unknown(str(where[-1]), _section_at(where[:-1]))
    if kind == "value_error":
        return where, str(context.get("error"))
    secret = not _NOT_SHOWN.isdisjoint(where)
    found = type(detail["input"]).__name__ if secret else shown(detail["input"], _LONGEST)
    if kind == "literal_error":
        return where, f"found {found}, expected {str(context.get('expected')).replace(chr(39), '`')}"
    if kind == "greater_than_equal":
        return where, f"found {found}, expected {context.get('ge'):g} or more"
    if kind in _EXPECTED:
        return where, f"found {found}, expected {_EXPECTED[kind]}"
    return where, f"found {found}: {detail['msg']}"


def _in_document(steps: tuple[int | str, ...], document: object) -> ValuePath:
    """Return the part of pydantic's way that is in the document: it names alternatives of a type as well."""
    way: list[str | int] = []
    for step in steps:
        if is_object(document) and step in document:
            document = document[str(step)]
        elif is_list(document) and isinstance(step, int) and step < len(document):
            document = document[step]
        else:
            continue
        way.append(step)
    return tuple(way)


def _section_at(where: ValuePath) -> type[Section] | None:
    section: type[Section] | None = GatewaySettings
    for step in where:
        if isinstance(step, int):
            continue
        field = section.model_fields.get(step) if section is not None else None
        if field is not None:
            section = section_in(field.annotation)
    return section


def section_in(annotation: object) -> type[Section] | None:
    """Return the section that an annotation allows, in a list or beside null as well."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for one in get_args(annotation) if (found := section_in(one)) is not None), None)


def _unknown(name: str, section: type[Section] | None) -> str:
    known = list(section.model_fields) if section is not None else []
    near = nearest(name, known)
    if near:
        return f"unknown field: did you mean `{near}`?"
    elsewhere = [path_text(where) for _, where in variables() if where[-1] == name]
    if elsewhere:
        return f"unknown field here: did you mean `{elsewhere[0]}`?"
    return f"unknown field: there are {', '.join(known)}"
