"""What open sessions keep in memory: the gateway's state after so many sessions of five calls, all of them wanted.

`python -m benchmarks.gateway_state [SESSIONS]` prints mebibytes of this process; `... trace` those of Python's objects.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
import tracemalloc
from pathlib import Path

from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

from benchmarks.gateway import Sent
from goldspan.collector_processor.encoded_spans.span_groups import split_request
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.gateway.interfaces import Delivered, ExportRequest
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.gateway.worker import ReceivedBody, Worker
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.scoring.goldens import load_goldens

CALLS = 5
ARGUMENTS = (
    '{"origin": "Paris", "destination": "Nairobi", "date": "2026-11-%02d", "passengers": [{"name": "Ann", "age": 41},'
    ' {"name": "Ben", "age": 7}], "class": "economy", "max_price": %d, "flexible": true}'
)
GOLDENS = {
    "format": 1,
    "golden_set": "state",
    "goldens": [
        {"session_pattern": "s-*", "turns": [{"calls": [{"name": "search", "args": {"origin": "Paris"}}] * CALLS}]}
    ],
}
_PER_REQUEST = 50


def body(first: int) -> bytes:
    """One request with the only turn of several sessions."""
    data = TracesData()
    spans = data.resource_spans.add().scope_spans.add().spans
    for number in range(first, first + _PER_REQUEST):
        start = 1_800_000_000_000_000_000 + number
        root = spans.add(trace_id=number.to_bytes(16, "big"), span_id=number.to_bytes(8, "big"), name="invoke_agent")
        root.start_time_unix_nano, root.end_time_unix_nano = start, start + 10**9
        _attribute(root, "gen_ai.operation.name", "invoke_agent")
        _attribute(root, "gen_ai.conversation.id", f"s-{number}")
        for call in range(CALLS):
            tool = spans.add(trace_id=root.trace_id, span_id=(number * 8 + call).to_bytes(8, "little"), name="tool")
            tool.parent_span_id = root.span_id
            tool.start_time_unix_nano, tool.end_time_unix_nano = start + call, start + call + 1
            _attribute(tool, "gen_ai.operation.name", "execute_tool")
            _attribute(tool, "gen_ai.tool.name", "search")
            _attribute(tool, "gen_ai.tool.call.id", f"call_{number:08x}{call:08x}")
            _attribute(tool, "gen_ai.tool.call.arguments", ARGUMENTS % (call + 1, number % 900))
    return data.SerializeToString()


def _attribute(span: Span, key: str, value: str) -> None:
    span.attributes.add(key=key).value.string_value = value


def resident() -> float:
    """Return what this process has in memory, in MiB."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def main(sessions: int, *, trace: bool) -> None:
    """Open sessions, let every turn be judged, and say what they take."""
    sent = Sent()

    def fail(where: str, error: Exception) -> None:
        raise error

    worker = Worker(
        load_goldens(GOLDENS),
        PipelineSettings(engine=EngineSettings(run_idle=600.0)),
        journal=None,
        queue=sent,
        instance="bench",
        on_failure=fail,
    )

    def step(now: float) -> None:
        worker.tick(now)
        for pending in sent.requests:
            worker.outbox.note_delivery([pending], Delivered(), now)
        sent.requests.clear()

    def play(first: int, last: int, now: float) -> float:
        for number in range(first, last, _PER_REQUEST):
            request = ExportRequest(Signal.TRACES, body(number))
            worker.receive(ReceivedBody(number, request, split_request(request.body) or [], None), now)
            now += 0.5
            step(now)
        return now

    now = play(1, 1 + _PER_REQUEST, 0.0)
    gc.collect()
    before, began = resident(), time.process_time()
    if trace:
        tracemalloc.start()
    now = play(1001, 1001 + sessions, now)
    for _ in range(20):
        now += 1.0
        step(now)
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0] / 2**20 if trace else resident() - before
    results = sum(worker.coverage.results.values())
    print(f"{sessions:,} open sessions x {CALLS} calls, {results:,} results handed out")
    print(f"{taken:.0f} MiB of {'objects' if trace else 'memory'}, {taken * 2**20 / sessions / CALLS:.0f} bytes a call")
    print(f"{(time.process_time() - began) / sessions / CALLS * 1e6:.0f} us a call{', traced' if trace else ''}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000, trace="trace" in sys.argv)
