"""The same requests through every door but Spark: what each says in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from goldspan.collector_processor.emit.evaluation import Events
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.gateway.interfaces import ExportRequest
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.replay.replay import replay
from goldspan.collector_processor.stream.stage_interface import StreamContext
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import views
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.run import Scorer
from rigs.in_process_rig import Inner, Rig
from rigs.otlp_containers import as_message, as_sdk_spans
from rigs.otlp_logs import as_logs_data, as_sdk_records
from rigs.pipeline_rig import Said, newest, run, said_in
from rigs.stream_rig import Stream

Documents = Sequence[Mapping[str, Any]]
"""Requests in OTLP/JSON: spans, or log records."""
LONG = 3600


def by_replay(documents: Documents, goldens: GoldenIndex, scorer: Scorer, events: Events = Events.ALL) -> Said:
    """What `goldspan score` says."""
    said, take = said_in()
    registry = DialectRegistry(join_attributes=goldens.join_attributes, definitions=True)
    found = views(documents, lambda _: None)
    replay(found, goldens, registry, problems=[], consumers=[take], scorer=scorer, events=events)
    return without_places(newest(said))


def in_process(documents: Documents, goldens: GoldenIndex, scorer: Scorer, events: Events = Events.ALL) -> Said:
    """What the door in the agent's process says, five records at a time, out of order."""
    records: list[Any] = []
    for document in documents:
        records += as_sdk_records(dict(document)) if "resourceLogs" in document else as_sdk_spans(dict(document))
    Random(len(records)).shuffle(records)
    metrics = [one.metric for one in scorer.metrics]
    times = {"settle": LONG, "run_idle": LONG, "hold_timeout": LONG}
    rig = Rig(Inner(), goldens=goldens, metrics=metrics, sample=1.0, emit=str(events), **times)
    for start in range(0, len(records), 5):
        some = records[start : start + 5]
        for record in some:
            if hasattr(record, "log_record"):
                rig.door.add_log_record(record)
        rig.door.export([record for record in some if not hasattr(record, "log_record")])
    rig.close()
    return without_places(
        newest(
            {key: list(value) if isinstance(value, tuple) else value for key, value in event.attributes.items()}
            for event in rig.events()
        )
    )


def through_gateway(documents: Documents, goldens: GoldenIndex, scorer: Scorer, events: Events = Events.ALL) -> Said:
    """What the gateway says."""
    engine = EngineSettings(
        settle=LONG, hold_timeout=LONG, run_idle=LONG, caller_timeout=LONG, scorer=scorer, events=events
    )
    outlet = run(map(_request, documents), goldens, PipelineSettings(engine=engine))
    return without_places(newest(outlet.events()))


def through_stream(documents: Documents, goldens: GoldenIndex, scorer: Scorer, events: Events = Events.ALL) -> Said:
    """What both stages of a stream say, with workers that restart."""
    stream = Stream(StreamContext.of(goldens, EngineSettings(scorer=scorer, events=events)), seed=len(documents))
    stream.run(stream.put(map(_request, documents)))
    return without_places(stream.said())


DOORS: dict[str, Callable[[Documents, GoldenIndex, Scorer, Events], Said]] = {
    "in process": in_process,
    "gateway": through_gateway,
    "stream": through_stream,
}


def _request(document: Mapping[str, Any]) -> ExportRequest:
    if "resourceLogs" in document:
        return ExportRequest(Signal.LOGS, as_logs_data(dict(document)).SerializeToString())
    return ExportRequest(Signal.TRACES, as_message(dict(document)).SerializeToString())


def without_places(said: Said) -> Said:
    """Results without what the records of events add to them."""
    return {
        name: {key: value for key, value in one.items() if key not in ("time", "context", "resource")}
        for name, one in said.items()
    }
