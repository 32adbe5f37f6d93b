"""The Collector before two gateways sends each service to one of them, also after that one was away."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import urllib3
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.collecting import collecting, healthy
from collector.outage import refuse
from rigs.downstream import Downstream, grpc_downstream
from rigs.local_ports import free_port
from rigs.repository import ROOT
from rigs.trace_requests import attribute, turn_request

CONFIG = ROOT / "config/kubernetes/gateway-replicas/collector.yaml"
SERVICES = [f"team-{number}" for number in range(12)]


def replicas_of(replicas: list[Downstream]) -> dict[str, dict[int, int]]:
    """How many spans of each service each replica has accepted."""
    found: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for number, replica in enumerate(replicas):
        for one in [one for one in list(replica.received) if one.accepted]:
            for group in ExportTraceServiceRequest.FromString(one.body).resource_spans:
                spans = sum(len(scope.spans) for scope in group.scope_spans)
                found[group.resource.attributes[0].value.string_value][number] += spans
    return found


def test_the_turns_of_a_service_reach_one_replica_whatever_their_trace(collector: Path) -> None:
    waiting: list[Callable[[], bool]] = []
    health, http = (f"127.0.0.1:{free_port()}" for _ in range(2))

    def send(turn: int) -> list[int]:
        """Send a turn of each service until it is taken; return the first answers."""
        return [until_taken(service, turn) for service in SERVICES]

    def until_taken(service: str, turn: int) -> int:
        request = turn_request(f"of {service}", ("get_weather", {"city": "Paris"}), turn=turn)
        request["resourceSpans"][0]["resource"]["attributes"] = [attribute("service.name", service)]
        body, headers = json.dumps(request), {"content-type": "application/json"}

        def post() -> int:
            url = f"http://{http}/v1/traces"
            return urllib3.request("POST", url, body=body, headers=headers, retries=False).status

        first = post()
        waiting.append(lambda: first == 200 or post() == 200)
        return first

    with ExitStack() as stack:
        replicas = [stack.enter_context(grpc_downstream()) for _ in range(2)]
        variables = {f"REPLICA_{number}": one.endpoint.partition("//")[2] for number, one in enumerate(replicas)}
        variables |= {
            "COLLECTOR_GRPC": f"127.0.0.1:{free_port()}",
            "COLLECTOR_HTTP": http,
            "COLLECTOR_HEALTH": health,
            "COLLECTOR_METRICS_HOST": "127.0.0.1",
            "GOLDSPAN_TOKEN": "secret",
        }
        stack.enter_context(collecting(collector, str(CONFIG), lambda: healthy(health), **variables))
        assert send(0) == [200] * len(SERVICES)
        replicas[1].grpc_answer = refuse
        assert set(send(1)) == {200, 503}
        replicas[1].grpc_answer = lambda _: b""
        assert all(send_again() for send_again in waiting)
        found = replicas_of(replicas)
    assert {name: list(counts.values()) for name, counts in found.items()} == {one: [4] for one in SERVICES}
    assert {number for counts in found.values() for number in counts} == {0, 1}
    assert {one.headers["authorization"] for one in replicas[0].received} == {"Bearer secret"}
