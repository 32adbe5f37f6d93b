"""Whole spans out of a JSON text that is cut off or broken somewhere: bad input never loses good data beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import cast

from goldspan.mappers.readers.jaeger import is_jaeger_span

_FIELD = re.compile(r'"(resource|scope|spans|logRecords)"\s*:\s*(\[?)')
_BETWEEN = re.compile(r"[\s,]*")
_decode = json.JSONDecoder().raw_decode


def salvage(text: str) -> Iterator[object]:
    """Yield a request for each list of spans or log records, with those records of it that are whole.

    Of a text that is a list, whole elements are yielded first. The rest is walked by its `resource`, `scope`, `spans`
    and `logRecords` fields. A field that parses is stepped over as a whole, so that nothing inside an attribute value
    is ever taken for a field.
    """
    resource: object = None
    scope: object = None
    position = 0
    if (start := text.lstrip()).startswith("["):
        text = start
        elements, position = _elements(text, 1)
        if elements:
            yield elements
    while (field := _FIELD.search(text, position)) is not None:
        name, opening = field.groups()
        position = field.end()
        if name in ("spans", "logRecords") and opening:
            records, position = _elements(text, position)
            if records and is_jaeger_span(records[0]):
                yield {"spans": records}
            elif records and name == "spans":
                yield {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, name: records}]}]}
            elif records:
                yield {"resourceLogs": [{"resource": resource, "scopeLogs": [{"scope": scope, name: records}]}]}
        elif not opening:
            value, position = _value(text, position)
            if name == "resource":
                resource, scope = value, None
            else:
                scope = value


def _elements(text: str, position: int) -> tuple[list[object], int]:
    elements: list[object] = []
    while True:
        start = cast("re.Match[str]", _BETWEEN.match(text, position)).end()
        value, end = _value(text, start)
        if end == start:
            return elements, start
        elements.append(value)
        position = end


def _value(text: str, position: int) -> tuple[object, int]:
    """Return the value at a position and where it ends, which is the position itself where there is none."""
    try:
        return _decode(text, position)
    except (ValueError, RecursionError):
        return None, position
