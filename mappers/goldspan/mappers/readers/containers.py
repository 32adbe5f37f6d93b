"""Parsed JSON of any format that holds spans, turned into what the reader of OTLP/JSON reads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from goldspan.mappers.json_shapes import is_list, is_object
from goldspan.mappers.readers.jaeger import otlp_from_jaeger
from goldspan.mappers.readers.zipkin import is_zipkin_span, otlp_from_zipkin

_OTLP = frozenset({"resourceSpans", "resource_spans", "batches", "scopeSpans"})
_WRAPPERS = ("trace", "result")
"""What Tempo's API (v2) and Jaeger's (v3) put around a trace request; Tempo's v1 has `batches` for `resourceSpans`."""


def as_otlp(parsed: object) -> object:
    """Return OTLP/JSON for Jaeger's, Tempo's and Zipkin's JSON; everything else as it is."""
    if is_object(parsed):
        return _from_object(parsed)
    if not is_list(parsed):
        return parsed
    items = list(_from_list(parsed))
    return items[0] if len(items) == 1 else items


def _from_object(item: dict[str, Any]) -> object:
    if not _OTLP.isdisjoint(item):
        return item
    for name in _WRAPPERS:
        if is_object(inner := item.get(name)) and not _OTLP.isdisjoint(inner):
            return inner
    if is_zipkin_span(item):
        return otlp_from_zipkin([item])
    request = otlp_from_jaeger(item)
    return item if request is None else request


def _from_list(items: list[Any], *, inner: bool = False) -> Iterator[object]:
    for of_zipkin, run in itertools.groupby(items, is_zipkin_span):
        if of_zipkin:
            yield otlp_from_zipkin(list(run))
            continue
        for item in run:
            if is_object(item):
                yield _from_object(item)
            elif is_list(item) and not inner:
                yield from _from_list(item, inner=True)  # Zipkin writes several traces as lists in a list
            else:
                yield item
