"""JSON texts of trace files: documents, lines and broken texts, and which format the parsed JSON is."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import IO, Any, cast

from goldspan.mappers.readers import jaeger_and_zipkin
from goldspan.mappers.readers.platform_exports import is_strands_session, otlp_from_export, otlp_from_strands_session
from goldspan.mappers.readers.problems import BAD_JSON, OnProblem
from goldspan.scoring.errors import Problem
from goldspan.scoring.json_values import is_dict, is_list

_FIELD = re.compile(r'"(resource|scope|spans|logRecords)"\s*:\s*(\[?)')
_BETWEEN = re.compile(r"[\s,]*")
_decode = json.JSONDecoder().raw_decode


def recover_records(text: str) -> Iterator[object]:
    """Yield a request for each list of spans or log records, with its complete records.

    Of a text that is a list, whole elements are yielded first. The rest is walked by its `resource`, `scope`, `spans`
    and `logRecords` fields. A field that parses is stepped over as a whole, so that nothing inside an attribute value
    is ever taken for a field.
    """
    resource: object = None
    scope: object = None
    position = 0
    if (start := text.lstrip()).startswith("["):
        text = start
        elements, position = _elements_at(text, 1)
        if elements:
            yield elements
    while (field := _FIELD.search(text, position)) is not None:
        name, opening = field.groups()
        position = field.end()
        if name in ("spans", "logRecords") and opening:
            records, position = _elements_at(text, position)
            if records and jaeger_and_zipkin.is_jaeger_span(records[0]):
                yield {"spans": records}
            elif records and name == "spans":
                yield {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, name: records}]}]}
            elif records:
                yield {"resourceLogs": [{"resource": resource, "scopeLogs": [{"scope": scope, name: records}]}]}
        elif not opening:
            value, position = _value_at(text, position)
            if name == "resource":
                resource, scope = value, None
            else:
                scope = value


def _elements_at(text: str, position: int) -> tuple[list[object], int]:
    elements: list[object] = []
    while True:
        start = cast("re.Match[str]", _BETWEEN.match(text, position)).end()
        value, end = _value_at(text, start)
        if end == start:
            return elements, start
        elements.append(value)
        position = end


def _value_at(text: str, position: int) -> tuple[object, int]:
    """Return the value at a position and its end; without a value, the end is the position itself."""
    try:
        return _decode(text, position)
    except (ValueError, RecursionError):
        return None, position


# A text holds one JSON document, several in sequence, or one a line. Its content tells which.
#
# Lines are read one at a time, so that memory is bounded by the longest line; a document that spans several lines is
# read as a whole. A value that cannot be read is a problem with its line. All others are read.

Loads = Callable[[bytes], object]
"""`json.loads`, or a parser with the same errors that returns the same lists and scalars."""

_MAX_TEXT = 512 << 20
"""The longest line, and the longest document, that is read: so much memory a text may take, and no more."""
_CHUNK = 1 << 20
_BOM = b"\xef\xbb\xbf"
_OPENINGS = (b"{", b"[")
_NOT_AN_OBJECT = (str, int, float, list, type(None))
_PARSE_ERRORS = (ValueError, RecursionError)

_Line = tuple[int, bytes]


def may_be_json(start: bytes) -> bool:
    """Return whether the first bytes may start JSON that holds spans."""
    return start.removeprefix(_BOM).lstrip()[:1] in (b"{", b"[", b'"')


class JsonText:
    """Reads the values of one file; `place` names it in problems."""

    def __init__(self, place: str, on_problem: OnProblem, loads: Loads = json.loads) -> None:
        self._place = place
        self._on_problem = on_problem
        self._loads = loads
        self.lines = 0
        """How many lines were read."""

    def further_values(self, stream: IO[bytes]) -> Iterator[tuple[object, str]]:
        """Yield the values of lines that are not the first of their file: each is a value of its own."""
        yield from self._further_lines(self._lines(stream))

    def values(self, stream: IO[bytes]) -> Iterator[tuple[object, str]]:
        """Yield each value with its file and line, and the records recovered from broken values."""
        lines = self._lines(stream)
        start = next(lines, None)
        if start is None:
            return
        first = start[0], start[1].strip()
        try:
            value = self._loads(first[1])
        except _PARSE_ERRORS:
            yield from self._after_bad_first_line(first, lines)
            return
        yield value, f"{self._place}:{first[0]}"
        yield from self._further_lines(lines)

    def _lines(self, stream: IO[bytes]) -> Iterator[_Line]:
        """Yield each line that is not blank with its number."""
        number = 0
        while line := stream.readline(_MAX_TEXT):
            number += 1
            self.lines = number
            if len(line) == _MAX_TEXT and not line.endswith(b"\n"):
                self._problem(number, f"is longer than {_MAX_TEXT:,} bytes; the line is not read")
                while (rest := stream.readline(_CHUNK)) and not rest.endswith(b"\n"):
                    pass
            elif not line.isspace():
                yield number, line

    def _after_bad_first_line(self, first: _Line, lines: Iterator[_Line]) -> Iterator[tuple[object, str]]:
        """Decide by the second line whether the first is broken or starts a document of several lines."""
        second = next(lines, None)
        if second is not None and first[1] not in _OPENINGS:
            try:
                value = self._loads(second[1])
            except _PARSE_ERRORS:
                value = None
            if not isinstance(value, _NOT_AN_OBJECT):
                yield from self._broken_line(*first)
                yield value, f"{self._place}:{second[0]}"
                yield from self._further_lines(lines)
                return
        if not may_be_json(first[1]):
            # Neither a document nor a line of JSON. The lines after it may still be JSON.
            yield from self._broken_line(*first)
            if second is not None:
                yield from self._broken_line(*second)
            yield from self._further_lines(lines)
            return
        whole: list[bytes] = [first[1]]
        last, size = first[0], len(first[1])
        for number, line in lines if second is None else itertools.chain([second], lines):
            text = line.strip()
            whole.append(b"\n" * (number - last) + text)
            last = number
            size += len(text)
            if size > _MAX_TEXT:
                self._problem(number, f"the document is longer than {_MAX_TEXT:,} bytes; what follows is not read")
                break
        yield from self._document(b"".join(whole), first[0])

    def _document(self, text: bytes, line: int) -> Iterator[tuple[object, str]]:
        try:
            value = self._loads(text)
        except _PARSE_ERRORS:
            yield from self._documents(text.decode("utf-8-sig", errors="replace"), line)
        else:
            yield value, self._place

    def _documents(self, text: str, line: int) -> Iterator[tuple[object, str]]:
        """Read several documents in sequence, or the records of a broken one."""
        position = 0
        while position < len(text):
            try:
                value, end = _decode(text, position)
            except _PARSE_ERRORS as error:
                at = getattr(error, "pos", position)
                self._problem(line + text.count("\n", 0, at), f"is not whole JSON: {_reason(error)}")
                for recovered in recover_records(text[position:]):
                    yield recovered, self._place
                return
            yield value, self._place
            position = end
            while position < len(text) and text[position] in " \t\r\n,":
                position += 1

    def _further_lines(self, lines: Iterator[_Line]) -> Iterator[tuple[object, str]]:
        for number, line in lines:
            try:
                value = self._loads(line)
            except _PARSE_ERRORS:
                yield from self._broken_line(number, line)
            else:
                yield value, f"{self._place}:{number}"

    def _broken_line(self, number: int, line: bytes) -> Iterator[tuple[object, str]]:
        text = line.strip().decode("utf-8-sig", errors="replace")
        try:
            json.loads(text)
            reason = "holds bytes that are not UTF-8"
        except _PARSE_ERRORS as error:
            reason = f"is not whole JSON: {_reason(error)}"
        self._problem(number, reason)
        for recovered in recover_records(text):
            yield recovered, f"{self._place}:{number}"

    def _problem(self, line: int, message: str) -> None:
        self._on_problem(Problem(BAD_JSON, message, f"{self._place}:{line}"))


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


# Parsed JSON of any format that holds spans, turned into what the reader of OTLP/JSON reads.

_OTLP = frozenset({"resourceSpans", "resource_spans", "batches", "scopeSpans"})
_OF_JAEGER = "result"
_WRAPPERS = ("trace", _OF_JAEGER)
"""What Tempo's API (v2) and Jaeger's (v3) put around a trace request; Tempo's v1 has `batches` for `resourceSpans`."""


def as_otlp(parsed: object) -> object:
    """Return OTLP/JSON for JSON of Jaeger, Tempo, Zipkin, Phoenix, Langfuse and Strands Evals; all else as it is."""
    if is_dict(parsed):
        return _from_object(parsed)
    if not is_list(parsed):
        return parsed
    items = list(_from_list(parsed))
    return items[0] if len(items) == 1 else items


def _from_object(item: dict[str, Any]) -> object:
    if not _OTLP.isdisjoint(item):
        return item
    for name in _WRAPPERS:
        if is_dict(inner := item.get(name)) and not _OTLP.isdisjoint(inner):
            return jaeger_and_zipkin.events_by_time(inner) if name == _OF_JAEGER else inner
    if jaeger_and_zipkin.is_zipkin_span(item):
        return jaeger_and_zipkin.otlp_from_zipkin([item])
    if is_strands_session(item):
        return otlp_from_strands_session(item)
    request = otlp_from_export(item) or jaeger_and_zipkin.otlp_from_jaeger(item)
    return item if request is None else request


def _from_list(items: list[Any], *, inner: bool = False) -> Iterator[object]:
    for of_zipkin, run in itertools.groupby(items, jaeger_and_zipkin.is_zipkin_span):
        if of_zipkin:
            yield jaeger_and_zipkin.otlp_from_zipkin(list(run))
            continue
        for item in run:
            if is_dict(item):
                yield _from_object(item)
            elif is_list(item) and not inner:
                yield from _from_list(item, inner=True)  # Zipkin writes several traces as lists in a list
            else:
                yield item
