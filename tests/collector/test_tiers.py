"""Agent -> Collector by trace -> first tier -> Collector by session -> second tier -> back-end, all of them real."""

from __future__ import annotations

import contextlib
import socket
import time
from functools import partial
from pathlib import Path

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from collector.collecting import collecting
from downstream import http_downstream
from gateway_process import process
from goldspan.collector_processor.gateway.interfaces import Signal
from goldspan.mappers.readers.otlp_messages import message_attributes
from local_ports import free_port
from pipeline_rig import events_in, spans_in, until
from scripted_agent import PARIS, ROME, run_turn

SESSIONS = [f"sess-{number}" for number in range(6)]
GOLDEN_TURN = "{calls: [{name: get_weather, args: {city: Paris, unit: celsius}}]}"
GOLDENS = "golden_set: g\ngoldens:\n" + "".join(
    f"  - {{session: {session}, turns: [{GOLDEN_TURN}, {GOLDEN_TURN}]}}\n" for session in SESSIONS
)


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False


def test_sessions_are_scored_whole_by_two_tiers_of_two(collector: Path, tmp_path: Path) -> None:
    ports = {name: f"127.0.0.1:{free_port()}" for name in ("agents", "between", "1A", "1B", "2A", "2B")}
    with contextlib.ExitStack() as stack:
        backends = {name: stack.enter_context(http_downstream()) for name in ("1A", "1B", "2A", "2B")}
        for name, backend in backends.items():
            folder = tmp_path / name
            folder.mkdir()
            (folder / "goldens.yaml").write_text(GOLDENS, "utf-8")
            to_between = f"{{endpoint: 'http://{ports['between']}', protocol: grpc, retry: {{initial: 100ms}}}}"
            if name.startswith("1"):
                rest = f"scoring: {{tier: assemble, settle: 200ms}}\nexport: {to_between}\n"
            else:
                rest = "goldens: goldens.yaml\nscoring: {settle: 200ms, run_idle: 2s}\n"
                rest += f"export: {{endpoint: '{backend.endpoint}'}}\n"
            doors = f"receivers: {{grpc: '{ports[name]}', http: '127.0.0.1:0'}}\nadmin: {{listen: '127.0.0.1:0'}}\n"
            stack.enter_context(process(doors + rest, folder))
        addresses = {f"GOLDSPAN_TIER_{name[0]}_{name[1]}": ports[name] for name in backends}
        for config, port in (("tier-2-by-session.yaml", ports["between"]), ("tier-1-by-trace.yaml", ports["agents"])):
            ready = partial(listens, port)
            stack.enter_context(collecting(collector, config, ready, COLLECTOR_GRPC=port, **addresses))
        provider = TracerProvider(resource=Resource({"service.name": "travel"}), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"http://{ports['agents']}", insecure=True)))
        for session in SESSIONS:
            run_turn(provider.get_tracer("agent"), session, [PARIS])
        for session in SESSIONS:
            run_turn(provider.get_tracer("agent"), session, [ROME])
        provider.shutdown()

        def events(name: str) -> list[dict[str, object]]:
            return events_in(one.body for one in backends[name].received if one.signal is Signal.LOGS)

        def judged(name: str) -> list[object]:
            whole = [one for one in events(name) if one["tool_parameter_match.level"] == "session"]
            return [(one["gen_ai.conversation.id"], one["gen_ai.evaluation.score.value"]) for one in whole]

        until(lambda: len({*judged("2A"), *judged("2B")}) == len(SESSIONS), 40)
        assert sorted([*judged("2A"), *judged("2B")]) == [(session, 0.75) for session in SESSIONS]
        assert judged("2A"), "both have their part"
        assert judged("2B"), "both have their part"

        def spans() -> list[object]:
            return [
                (message_attributes(span.attributes)["goldspan.session.id"], span.span_id)
                for name in ("2A", "2B")
                for span in spans_in(one.body for one in backends[name].received if one.signal is Signal.TRACES)
            ]

        until(lambda: len(spans()) >= 8 * len(SESSIONS))
        time.sleep(0.2)
        assert len(set(spans())) == len(spans()) == 8 * len(SESSIONS)
