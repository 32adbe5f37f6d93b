"""The rows that a replay of recordings gives, to compare with Spark's."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC
from pathlib import Path
from typing import Any

from conformance.single_records import Document, record_of
from goldspan.collector_processor.engine.result_table import ResultRow, result_rows
from goldspan.collector_processor.replay.replay import replay
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import views
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.run import scorer_of
from rigs.otlp_containers import as_message
from rigs.otlp_logs import as_logs_data

METRICS = [metric.name for metric in WITHOUT_GOLDEN]


def has_ids(document: Document) -> bool:
    record = record_of(document)
    return bool(record.get("traceId") and record.get("spanId"))


def by_replay(
    documents: Iterable[Document] | Path, goldens: GoldenIndex, metrics: Iterable[str] = tuple(METRICS)
) -> list[str]:
    index = goldens.with_sample(1.0)
    registry = DialectRegistry(join_attributes=index.join_attributes, definitions=True)
    found = replay(
        views(documents, lambda problem: None), index, registry, problems=[], scorer=scorer_of(metrics=metrics)
    )
    return in_order(row._asdict() for result in found.result.sessions for row in result_rows(result))


def in_order(rows: Any) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


def collected(scores: Any) -> list[str]:
    rows = [row.asDict() for row in scores.collect()]
    assert all(list(row) == list(ResultRow._fields) for row in rows)
    return in_order({**row, "ended": row["ended"] and row["ended"].astimezone(UTC)} for row in rows)


def as_json(document: Document) -> str:
    return json.dumps(document)


def as_protobuf(document: Document) -> bytes:
    message = as_logs_data(document) if "resourceLogs" in document else as_message(document)
    return bytes(message.SerializeToString())
