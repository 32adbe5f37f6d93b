"""The inside of the gateway between a sender and an outlet that remembers everything."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from conformance.recordings import files_of  # noqa: F401 - for those who use this rig
from goldspan.collector_processor.emit.evaluation import Evaluation, Events, event_attributes, source_attributes
from goldspan.collector_processor.encoded_spans.span_groups import SpanGroup, join_request, split_request
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.gateway.interfaces import Accepted, Delivered, DeliveryResult, ExportRequest, Headers
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.replay.replay import replay
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import read_files
from goldspan.mappers.readers.otlp_protobuf import message_attributes
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.run import Scorer
from rigs.otlp_containers import as_message, requests_of
from rigs.otlp_logs import LOGGED, as_logs_data, log_documents

EVERYTHING = {
    "format": 1,
    "golden_set": "everything",
    "goldens": [
        {
            "session_pattern": "*",
            "turns": [
                {"calls": [{"name": "get_weather", "args": {"city": "Paris", "unit": "celsius"}}]},
                {"calls": [{"name": "book_table", "args": {"people": 2}}]},
            ],
        }
    ],
}
QUICK = EngineSettings(settle=0.1, hold_timeout=5.0, run_idle=0.3, caller_timeout=1.0)
"""Results soon, for tests that wait for them."""
Said = dict[str, dict[str, Any]]
"""Final results: what the event of each says, by result id, whatever the revision."""


class Downstream:
    """An outlet that keeps what it is given, and answers as it is told."""

    def __init__(self, answer: Callable[[ExportRequest], DeliveryResult] | None = None) -> None:
        self.answer = answer or (lambda request: Delivered())
        self.requests: list[ExportRequest] = []
        self._lock = threading.Lock()

    def deliver(self, request: ExportRequest) -> DeliveryResult:
        outcome = self.answer(request)
        if isinstance(outcome, Delivered):
            with self._lock:
                self.requests.append(request)
        return outcome

    def close(self) -> None:
        pass

    def of(self, signal: Signal, headers: Headers | None = None) -> list[bytes]:
        return [
            one.body for one in self.requests if one.signal is signal and (headers is None or one.headers == headers)
        ]

    def spans(self, headers: Headers | None = None) -> list[Span]:
        return spans_in(self.of(Signal.TRACES, headers))

    def events(self, headers: Headers | None = None) -> list[dict[str, Any]]:
        return events_in(self.of(Signal.LOGS, headers))

    def points(self, headers: Headers | None = None) -> dict[str, float]:
        """The newest value of every sum, and the count of every histogram, over all attributes."""
        found: dict[str, float] = {}
        for body in self.of(Signal.METRICS, headers):
            found = Counter()
            for group in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for inner in group.scope_metrics:
                    for metric in inner.metrics:
                        for point in metric.sum.data_points:
                            found[metric.name] += point.as_int
                        for bucket in metric.histogram.data_points:
                            found[metric.name] += bucket.count
        return found

    def said(self) -> Said:
        return newest(self.events())


def spans_in(bodies: Iterable[bytes]) -> list[Span]:
    return [
        span
        for body in bodies
        for group in ExportTraceServiceRequest.FromString(body).resource_spans
        for inner in group.scope_spans
        for span in inner.spans
    ]


def events_in(bodies: Iterable[bytes]) -> list[dict[str, Any]]:
    """Evaluation events with their attributes, context and time; other log records are left out."""
    found: list[dict[str, Any]] = []
    for body in bodies:
        for group in ExportLogsServiceRequest.FromString(body).resource_logs:
            resource = message_attributes(group.resource.attributes)
            for inner in group.scope_logs:
                for record in inner.log_records:
                    if record.event_name != "gen_ai.evaluation.result":
                        continue
                    place = f"{record.trace_id.hex()}/{record.span_id.hex()}" if record.trace_id else ""
                    found.append(
                        {
                            **message_attributes(record.attributes),
                            "time": record.time_unix_nano,
                            "context": place,
                            "resource": resource,
                        }
                    )
    return found


def counted_in(bodies: Iterable[bytes]) -> Counter[tuple[str, ...]]:
    """What metric points count in the end, over all processes: by metric and attributes, less what was superseded."""
    last: dict[bytes, tuple[int, Any]] = {}
    for body in bodies:
        [group] = ExportMetricsServiceRequest.FromString(body).resource_metrics
        metrics = [metric for scope in group.scope_metrics for metric in scope.metrics]
        points = [point for one in metrics for point in (*one.sum.data_points, *one.histogram.data_points)]
        process, time = group.resource.SerializeToString(), max(point.time_unix_nano for point in points)
        if time >= last.get(process, (0, None))[0]:
            last[process] = time, metrics
    found = Counter[tuple[str, ...]]()
    for metric in (one for _, metrics in last.values() for one in metrics):
        for point in (*metric.sum.data_points, *metric.histogram.data_points):
            said = {key: str(value) for key, value in message_attributes(point.attributes).items()}
            name = said.pop("tool_parameter_match.counted_by", metric.name.rpartition(".")[2])
            count = point.count if metric.HasField("histogram") else point.as_int
            sign = -1 if metric.name.endswith("superseded") else 1
            found[name, *sorted(f"{key}={value}" for key, value in said.items())] += sign * count
    return found


def newest(events: Iterable[dict[str, Any]], *, as_written: bool = False) -> Said:
    """The last revision of every result that was not withdrawn; `as_written`: the one that was written last."""
    found: Said = {}
    for event in events:
        name = event[_attribute(event, "result_id")]
        before, revision = found.get(name), _attribute(event, "revision")
        if as_written or before is None or before[revision] <= event[revision]:
            found[name] = event
    left = {name: dict(event) for name, event in found.items() if not event.get(_attribute(event, "withdrawn"))}
    for event in left.values():
        del event[_attribute(event, "revision")]
    return left


def _attribute(event: dict[str, Any], name: str) -> str:
    return f"{event['gen_ai.evaluation.name']}.{name}"


def said_in() -> tuple[list[dict[str, Any]], Callable[[Evaluation], None]]:
    """A list, and what adds the event of an evaluation to it."""
    events: list[dict[str, Any]] = []

    def take(evaluation: Evaluation) -> None:
        if not evaluation.has_event:
            return
        attributes = event_attributes(evaluation)
        target = evaluation.target
        events.append(
            {
                **{key: list(value) if isinstance(value, tuple) else value for key, value in attributes.items()},
                "time": evaluation.timestamp,
                "context": f"{target.trace_id}/{target.span_id}" if target is not None and target.span_id else "",
                "resource": source_attributes(evaluation.resource),
            }
        )

    return events, take


def said_by_replay(paths: Sequence[Path], goldens: GoldenIndex, scorer: Scorer | None = None) -> Said:
    """What a replay of these files says in the end."""
    events, take = said_in()
    registry = DialectRegistry(definitions=True)  # as `goldspan score` does, whatever the goldens want
    replay(
        read_files(paths, lambda _: None),
        goldens,
        registry,
        problems=[],
        consumers=[take],
        scorer=scorer,
        events=Events.ALL,
    )
    return newest(events)


@cache
def everything() -> GoldenIndex:
    return load_goldens(EVERYTHING)


def bodies_of(recording: str) -> list[ExportRequest]:
    """A recording as export requests."""
    return list(_bodies_of(recording))


@cache  # all of them together are a few megabytes
def _bodies_of(recording: str) -> Sequence[ExportRequest]:
    traces = [ExportRequest(Signal.TRACES, as_message(one).SerializeToString()) for one in requests_of(recording)]
    logs = log_documents(recording) if recording in LOGGED else []
    return traces + [ExportRequest(Signal.LOGS, as_logs_data(one).SerializeToString()) for one in logs]


def cut_up(requests: Sequence[ExportRequest], seed: int, size: int = 5) -> list[ExportRequest]:
    """The same records in other requests: shuffled, a few in each."""
    rng = random.Random(seed)
    loose = [
        (request, SpanGroup(group.envelope, [record]))
        for request in requests
        for group in split_request(request.body) or []
        for record in group.spans
    ]
    rng.shuffle(loose)
    cut: list[ExportRequest] = []
    for signal in Signal:
        mine = [(request.headers, group) for request, group in loose if request.signal is signal]
        while mine:
            many = rng.randint(1, size)
            headers = mine[0][0]
            some = [group for own, group in mine[:many] if own == headers]
            mine = [one for one in mine[:many] if one[0] != headers] + mine[many:]
            cut.append(ExportRequest(signal, join_request(some), headers))
    rng.shuffle(cut)
    return cut


def run(
    requests: Iterable[ExportRequest],
    goldens: GoldenIndex,
    settings: PipelineSettings | None = None,
    downstream: Downstream | None = None,
) -> Downstream:
    """Send requests through a pipeline and wait until it has delivered everything."""
    outlet = downstream or Downstream()
    pipeline = GatewayPipeline(goldens, outlet, settings or PipelineSettings())
    for request in requests:
        assert pipeline.accept(request) == Accepted()
    assert pipeline.drain(30.0)
    assert not pipeline.failures
    return outlet
