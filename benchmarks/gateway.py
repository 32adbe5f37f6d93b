"""What the gateway's inside pays a span, beside messages decoded in full; encoded requests in, encoded requests out.

The *full reference* does what goldspan does, skeletons, sessions, scores, attributes, on decoded messages, and writes
nothing down. The *plain reference* is a first sketch: parse each request, look at the attributes of every span, add
three to tool spans, serialise; it knows one dialect and two spans alike, and scores nothing. Beside them is the gateway
with everything on, and with each part off, to see its price.
"""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from benchmarks.harness import THREAD_CPU, Comparison, Subject, compare, pin, print_tables
from benchmarks.traffic import SessionPlan, golden_set, otlp_json_lines, plan_sessions
from goldspan.collector_processor.emit.evaluation import span_attributes
from goldspan.collector_processor.encoded_spans.span_groups import split_request
from goldspan.collector_processor.engine.engine import Engine
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.gateway.deliver.dispatcher import PendingRequest
from goldspan.collector_processor.gateway.interfaces import Delivered, ExportRequest
from goldspan.collector_processor.gateway.journal.journal import Journal
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.gateway.worker import ReceivedBody, Worker
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import views
from goldspan.mappers.spans import LogView
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN, Metric
from goldspan.scoring.run import scorer_of
from goldspan.scoring.sessions import SpanRef

SPANS = 512
"""Spans of a request."""
SESSIONS = 120
WANTED = 60
"""One session of so many has a golden."""
REGISTRY = DialectRegistry()


class Sent:
    """A delivery queue whose requests are delivered at once."""

    is_slow = False

    def __init__(self) -> None:
        self.requests: list[PendingRequest] = []

    def put(self, *together: PendingRequest) -> None:
        self.requests += together

    def withdraw(self, pending: PendingRequest) -> bool:
        return False


class Gateway:
    """A worker, called as by the pipeline's one thread."""

    def __init__(
        self,
        bodies: Sequence[bytes],
        goldens: GoldenIndex,
        *,
        journal: bool,
        hold: bool,
        metrics: Sequence[Metric] = (),
    ) -> None:
        self._engine = EngineSettings(scorer=scorer_of(metrics=metrics))
        self._requests = [ExportRequest(Signal.TRACES, body) for body in bodies]
        self._goldens = goldens
        self._journaled = journal
        self._hold = hold
        self._folders = itertools.count()
        self._root = Path(tempfile.mkdtemp(prefix="goldspan-bench-"))

    def before(self) -> None:
        settings = PipelineSettings(hold="turn" if self._hold else "off", engine=self._engine)
        self._journal = None
        if self._journaled:
            self._journal = Journal(self._root / str(next(self._folders)), max_bytes=1 << 30)
            self._journal.recover(0.0)
        self.sent = Sent()
        self.worker = Worker(
            self._goldens,
            settings,
            journal=self._journal,
            queue=self.sent,
            instance="bench",
            on_failure=_fail,
        )

    def slice(self) -> None:
        for number, request in enumerate(self._requests):
            groups = split_request(request.body)
            assert groups is not None
            entry = None if self._journal is None else self._journal.append(request, 0.0)
            accepted = number if entry is None else entry.number
            self.worker.receive(ReceivedBody(accepted, request, groups, entry), 0.0)
            self._deliver()
        for now in (0.25, 2.0):
            self.worker.tick(now)
            self._deliver()
        self.worker.commit(2.0)

    def after(self) -> None:
        if self._journal is not None:
            self._journal.close()
        shutil.rmtree(self._root, ignore_errors=True)

    def _deliver(self) -> None:
        requests, self.sent.requests = self.sent.requests, []
        for pending in requests:
            self.worker.outbox.note_delivery([pending], Delivered(), 0.0)


def _fail(where: str, error: Exception) -> None:
    raise error


def plain_reference(bodies: Sequence[bytes]) -> list[bytes]:
    """Parse, look at every attribute, add three to tool spans, serialise."""
    out: list[bytes] = []
    for body in bodies:
        request = ExportTraceServiceRequest.FromString(body)
        for group in request.resource_spans:
            for inner in group.scope_spans:
                for span in inner.spans:
                    if any(
                        pair.key == "gen_ai.operation.name" and pair.value.string_value == "execute_tool"
                        for pair in span.attributes
                    ):
                        _add(span, {"tool_parameter_match.score": 1.0, "tool_parameter_match.label": "pass", "x": 1})
        out.append(request.SerializeToString())
    return out


def full_reference(bodies: Sequence[bytes], goldens: GoldenIndex) -> list[bytes]:
    """Parse, read every span, judge the turns, add their attributes, serialise."""
    engine = Engine(goldens)
    requests: list[Any] = []
    by_ref: dict[SpanRef, Any] = {}
    for body in bodies:
        request = ExportTraceServiceRequest.FromString(body)
        requests.append(request)
        spans = (span for group in request.resource_spans for inner in group.scope_spans for span in inner.spans)
        for view, span in zip(views(request, print), spans, strict=True):
            assert not isinstance(view, LogView)
            fact = REGISTRY.read(view, content=False)
            if engine.feed(fact, 0.0):
                by_ref[fact.ref] = span
    for now in (0.25, 2.0):
        for evaluation in engine.poll(now).evaluations:
            if evaluation.target is not None and (span := by_ref.get(evaluation.target)) is not None:
                _add(span, span_attributes(evaluation))
    return [request.SerializeToString() for request in requests]


def _add(span: Span, attributes: Any) -> None:
    for key, value in attributes.items():
        pair = span.attributes.add(key=key)
        if isinstance(value, str):
            pair.value.string_value = value
        elif isinstance(value, bool):
            pair.value.bool_value = value
        elif isinstance(value, int):
            pair.value.int_value = value
        elif isinstance(value, float):
            pair.value.double_value = value
        else:
            for item in value:
                pair.value.array_value.values.add(string_value=item)


def bodies_of(sessions: Sequence[SessionPlan]) -> list[bytes]:
    """Return sessions as encoded requests."""
    return [as_request(json.loads(line)) for line in otlp_json_lines(sessions, spans_per_request=SPANS)]


def as_request(document: dict[str, Any]) -> bytes:
    """Encode a document of OTLP/JSON."""
    for group in document["resourceSpans"]:
        for inner in group["scopeSpans"]:
            for span in inner["spans"]:
                for key in ("traceId", "spanId", "parentSpanId"):
                    span[key] = base64.b64encode(bytes.fromhex(span.get(key, ""))).decode()
    return json_format.ParseDict(document, ExportTraceServiceRequest()).SerializeToString()


def spans_in(bodies: Sequence[bytes]) -> int:
    """Count."""
    return sum(len(group.spans) for body in bodies for group in split_request(body) or [])


def run() -> Iterator[Comparison]:
    """Measure agents' turns, then plain spans."""
    pin()
    names = [f"s-{number}" for number in range(SESSIONS)]
    for title, agent in (("agents' turns", True), ("plain HTTP spans", False)):
        sessions = plan_sessions(names, agent=agent)
        bodies = bodies_of(sessions)
        goldens = load_goldens(golden_set(plan_sessions(names)[::WANTED]))
        spans = spans_in(bodies)
        whole = Gateway(bodies, goldens, journal=True, hold=True)
        whole.before()
        whole.slice()
        results = sum(whole.worker.coverage.results.values())
        assert bool(results) is agent, "the benchmark does not score what it should"
        whole.after()
        size = sum(map(len, bodies)) / spans
        variants = {
            "gateway, everything on": Gateway(bodies, goldens, journal=True, hold=True),
            "  without holding": Gateway(bodies, goldens, journal=True, hold=False),
            "  without journal": Gateway(bodies, goldens, journal=False, hold=True),
            "  without goldens": Gateway(bodies, load_goldens(golden_set([])), journal=True, hold=True),
            "  by metrics without golden": Gateway(
                bodies, GoldenIndex(sample=1.0), journal=True, hold=True, metrics=WITHOUT_GOLDEN
            ),
            "  by these, a tenth of the sessions": Gateway(
                bodies, GoldenIndex(sample=0.1), journal=True, hold=True, metrics=WITHOUT_GOLDEN
            ),
            "  by a golden for every session": Gateway(
                bodies, load_goldens(golden_set(plan_sessions(names))), journal=True, hold=True
            ),
            "  without any of these": Gateway(bodies, load_goldens(golden_set([])), journal=False, hold=False),
        }
        reference = Subject("plain reference, decoded", lambda bodies=bodies: plain_reference(bodies))
        yield compare(
            f"gateway: {title}, {size:,.0f} bytes a span, {SPANS} spans a request, one session in {WANTED} wanted",
            item="span",
            items=spans,
            reference=reference,
            control=reference,
            candidates=[
                Subject("full reference, decoded", lambda b=bodies, g=goldens: full_reference(b, g)),
                *(Subject(name, one.slice, one.before, one.after) for name, one in variants.items()),
            ],
            clock=THREAD_CPU,
        )


if __name__ == "__main__":
    print_tables(run())
