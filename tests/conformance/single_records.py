"""A recording taken apart into documents of one record each, so that it can be delivered in any order.

A document is OTLP/JSON with one span or one log record, and that record's own resource and scope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from conformance.recordings import files_of
from rigs.otlp_containers import documents_in

Document = dict[str, Any]
_PARTS = (("resourceSpans", "scopeSpans", "spans"), ("resourceLogs", "scopeLogs", "logRecords"))


def documents_of(name: str) -> list[Document]:
    """Every record of a recording by itself, in the order in which they came into being: spans by their ends."""
    documents = [
        single for path in files_of(name) for document in documents_in(path) for single in _taken_apart(document)
    ]
    return sorted(documents, key=_moment)


def record_of(document: Document) -> dict[str, Any]:
    """The span or log record in a document of one."""
    for resources, scopes, records in _PARTS:
        if resources in document:
            return document[resources][0][scopes][0][records][0]
    raise AssertionError(f"no document of one record: {document}")


def changed(document: Document, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Document:
    """The same document with another record in it."""
    for resources, scopes, records in _PARTS:
        if resources in document:
            (resource,) = document[resources]
            (scope,) = resource[scopes]
            (record,) = scope[records]
            return {resources: [{**resource, scopes: [{**scope, records: [change(record)]}]}]}
    raise AssertionError(f"no document of one record: {document}")


def _taken_apart(document: Document) -> Iterator[Document]:
    for resources, scopes, records in _PARTS:
        for resource in document.get(resources, ()):
            for scope in resource.get(scopes, ()):
                for record in scope.get(records, ()):
                    yield {resources: [{**resource, scopes: [{**scope, records: [record]}]}]}


def _moment(document: Document) -> int:
    record = record_of(document)
    times = (record.get(key) for key in ("endTimeUnixNano", "timeUnixNano", "observedTimeUnixNano"))
    return next((int(time) for time in times if time and int(time)), 0)
