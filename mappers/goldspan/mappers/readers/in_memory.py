"""Reads any mixture of SDK records, OTLP messages, parsed JSON and paths of trace files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from goldspan.mappers.readers.files import read_files
from goldspan.mappers.readers.jaeger_and_zipkin import is_zipkin_span
from goldspan.mappers.readers.json_documents import as_otlp
from goldspan.mappers.readers.otlp_json import JsonReader
from goldspan.mappers.readers.otlp_messages import is_message, message_views
from goldspan.mappers.readers.problems import BAD_RECORD, BAD_SPAN, OnProblem, describe
from goldspan.mappers.readers.sdk import SdkReader, is_log_record
from goldspan.mappers.readers.strands_sessions import is_strands_session, otlp_from_strands_session
from goldspan.mappers.spans import LogView, RecordView, SpanView
from goldspan.scoring.errors import Problem
from goldspan.scoring.json_values import is_list, is_mapping


def views(source: object, on_problem: OnProblem) -> Iterator[RecordView]:
    """Yield a view of every span and every log record in `source`, in its order.

    `source` is one of these or an iterable of them: a `ReadableSpan`, a log record of the SDK, an OTLP protobuf message
    (a request or data of traces or logs, a part of one, a span, a log record), an OTLP/JSON object of the same shapes,
    parsed JSON of Jaeger, Tempo or Zipkin, the path of a trace file, a `Session` of Strands Evals, a `SpanView`, a
    `LogView`. What cannot be read is a problem that names its place; a file raises as in `read_files`.
    """
    sdk = SdkReader()
    parsed = JsonReader(on_problem)
    for position, item in enumerate(_items(source)):
        place = f"input[{position}]"
        try:
            if isinstance(item, str | os.PathLike):
                yield from read_files([cast("str", item)], on_problem)
            elif is_mapping(item) or is_list(item):
                yield from parsed.views(as_otlp(dict(item) if is_mapping(item) else item), place)
            elif is_message(item):
                yield from message_views(item)
            elif hasattr(item, "get_span_context"):
                yield sdk.view(item)
            elif isinstance(item, LogView | SpanView):
                yield item
            elif is_strands_session(item):
                yield from parsed.views(otlp_from_strands_session(item), place)
            elif is_log_record(item):
                yield sdk.log_view(item)
            else:
                message = f"found {describe(item)}; expected a span or log record, an OTLP message or object, or a path"
                on_problem(Problem(BAD_RECORD, message, place))
        except (AttributeError, TypeError, ValueError) as error:
            on_problem(Problem(BAD_SPAN, f"cannot be read as a span or log record: {error}", place))


def _items(source: object) -> Iterable[object]:
    if _is_one(source) or not isinstance(source, Iterable):
        return (source,)
    return cast("Iterable[object]", source)


def _is_one(source: object) -> bool:
    if isinstance(source, str | bytes | os.PathLike | Mapping):
        return True
    if is_list(source) and source and is_zipkin_span(source[0]):
        return True  # both halves of a shared span must be read together
    if is_message(source) or hasattr(source, "get_span_context") or isinstance(source, LogView | SpanView):
        return True
    return is_strands_session(source) or is_log_record(source)
