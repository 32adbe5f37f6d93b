"""What reading a trace file costs a span, beside parsing the same lines and doing nothing with them."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from benchmarks.harness import ROUNDS, Comparison, Subject, pin, print_tables
from benchmarks.replay import beside_loads, parse
from benchmarks.traffic import SessionPlan, otlp_json_lines, plan_sessions
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import read_files
from goldspan.mappers.spans import LogView, SpanView

AGENTS = [f"s-{number}" for number in range(12)]
OTHERS = [f"h-{number}" for number in range(200)]


def messages(lines: Sequence[str]) -> Iterator[TracesData]:
    """Yield the requests as messages."""
    for line in lines:
        request = json.loads(line)
        for group in request["resourceSpans"]:
            for span in (span for inner in group["scopeSpans"] for span in inner["spans"]):
                for key in ("traceId", "spanId", "parentSpanId"):
                    span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
        yield json_format.ParseDict(request, TracesData())


def walk(encoded: Sequence[bytes]) -> None:
    """Parse every message and look at every attribute."""
    for message in encoded:
        for group in TracesData.FromString(message).resource_spans:
            for inner in group.scope_spans:
                for span in inner.spans:
                    for pair in span.attributes:
                        _ = pair.key, pair.value.string_value


def read(traces: Path, each: Callable[[SpanView | LogView], object]) -> int:
    """Read every span."""
    return sum(each(view) is not None for view in read_files([traces], lambda problem: None))


def run() -> Iterator[Comparison]:
    """Measure traffic of which little, and of which half, is an agent's."""
    pin()
    others = plan_sessions(OTHERS, agent=False)
    yield from measure("one span in ten an agent's", [*plan_sessions(AGENTS), *others])
    yield from measure("half of the spans an agent's", plan_sessions(AGENTS * 4))


def measure(what: str, sessions: Sequence[SessionPlan]) -> Iterator[Comparison]:
    """Read the same spans as JSON lines and as protobuf."""
    spans = sum(map(len, sessions))
    lines = list(otlp_json_lines(sessions))
    encoded = [message.SerializeToString() for message in messages(lines)]
    registry = DialectRegistry()
    with tempfile.TemporaryDirectory() as folder:
        traces, protobuf = Path(folder, "traces.jsonl"), Path(folder, "traces.pb")
        traces.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        protobuf.write_bytes(b"".join(len(one).to_bytes(4, "big") + one for one in encoded))
        for path in (traces, protobuf):
            assert read(path, lambda view: view) == spans, "the benchmark does not read what it should"

        size, packed = traces.stat().st_size / spans, protobuf.stat().st_size / spans
        yield beside_loads(
            f"reading, {what}; JSON lines {size:,.0f} and protobuf {packed:,.0f} bytes a span, process CPU",
            traces,
            spans,
            [
                Subject("goldspan: views of JSON lines", lambda: read(traces, lambda view: view)),
                Subject("goldspan: facts of JSON lines", lambda: read(traces, registry.read)),
                Subject("goldspan: views of protobuf", lambda: read(protobuf, lambda view: view)),
                Subject("goldspan: facts of protobuf", lambda: read(protobuf, registry.read)),
                Subject("messages, every attribute looked at", lambda: walk(encoded)),
                Subject("json_format.Parse of each line", lambda: parse(traces)),
            ],
            rounds=max(5, ROUNDS // 3),
        )


if __name__ == "__main__":
    print_tables(run())
