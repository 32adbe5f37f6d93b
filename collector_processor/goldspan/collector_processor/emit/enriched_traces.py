"""Writes trace files again with the scores as span attributes: OTLP/JSON, one request a line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from goldspan.collector_processor.atomic_files import whole_file
from goldspan.collector_processor.emit.evaluation import Attributes, Evaluation, span_attributes
from goldspan.collector_processor.emit.names import is_own
from goldspan.mappers.readers.otlp_json import encode_attributes, hex_id
from goldspan.scoring.json_values import is_dict, is_list
from goldspan.scoring.sessions import SpanRef

_CONTAINERS = (
    "resourceSpans",
    "resource_spans",
    "batches",
    "scopeSpans",
    "scope_spans",
    "instrumentationLibrarySpans",
    "spans",
)


class ScoreAttributes:
    """The score attributes of each span."""

    def __init__(self) -> None:
        self._by_span: dict[SpanRef, Attributes] = {}
        self.metrics = set[str]()
        """Whose scores they are."""

    def take(self, evaluation: Evaluation) -> None:
        """Keep the span attributes of an evaluation."""
        if evaluation.target is not None and (attributes := span_attributes(evaluation)):
            self._by_span.setdefault(evaluation.target, {}).update(attributes)
            self.metrics.add(evaluation.metric)

    def of(self, span: Mapping[str, Any]) -> Attributes | None:
        """Return the attributes for a span of OTLP/JSON."""
        trace_id = hex_id(span.get("traceId") or span.get("trace_id"), 32)
        return self._by_span.get(SpanRef(trace_id, hex_id(span.get("spanId") or span.get("span_id"), 16)))


def write_enriched(path: Path, documents: Iterable[object], scores: ScoreAttributes) -> int:
    """Write every document with the attributes of `scores` on its spans. Returns the number of changed spans.

    Scores take the place of those that a span has already. Spans without scores are written unchanged. A path that
    ends in `.gz` is compressed. The file gets its name only when it is complete.
    """
    changed = 0
    with (
        whole_file(path) as plain,
        gzip.GzipFile("", "wb", fileobj=plain) if path.suffix == ".gz" else nullcontext(plain) as file,
    ):
        for document in documents:
            changed += _add_scores(document, scores)
            text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
            # UTF-8 cannot encode a lone surrogate. Its escape is valid JSON.
            file.write(text.encode("utf-8", "backslashreplace") + b"\n")
    return changed


def _add_scores(document: object, scores: ScoreAttributes) -> int:
    changed = 0
    waiting: list[object] = [document]
    while waiting:
        item = waiting.pop()
        if is_list(item):
            waiting += item
        elif is_dict(item):
            inner = [item[key] for key in _CONTAINERS if is_list(item.get(key))]
            waiting += inner
            if not inner and (attributes := scores.of(item)) is not None:
                changed += _write(item, attributes, scores.metrics)
    return changed


def _write(span: dict[str, Any], attributes: Attributes, metrics: Collection[str]) -> bool:
    present = span.setdefault("attributes", [])
    if is_dict(present):
        others = {key: value for key, value in present.items() if not is_own(str(key), metrics)}
        span["attributes"] = {**others, **attributes}
    elif is_list(present):
        pairs = [pair for pair in present if not (is_dict(pair) and is_own(str(pair.get("key")), metrics))]
        span["attributes"] = pairs + encode_attributes(attributes)
    else:
        return False
    return True
