"""Many teams on one gateway: tokens name tenants, limits hold for each, and whoever is refused is said."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from goldspan.collector_processor.encoded_spans.span_groups import SpanGroup, join_request, split_request
from goldspan.collector_processor.gateway.interfaces import (
    Accepted,
    AcceptResult,
    Busy,
    ExportRequest,
    OtlpResponse,
    RequestStatus,
    parse_retry_info,
)
from goldspan.collector_processor.gateway.pipeline import Intake
from goldspan.collector_processor.gateway.receive.client_limits import RefusedClients, TenantRates
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings, TenantLimits
from goldspan.collector_processor.gateway.settings.settings_file import load_settings
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving.http_server import InFlightRequests, LimitReached, RequestLimits, Reservation
from goldspan.scoring.errors import FileError
from goldspan.scoring.goldens import GoldenIndex
from rigs.downstream import Downstream
from rigs.gateway_rig import one_span
from rigs.served_gateway import Served, serving

SPAN = one_span().SerializeToString()
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
TENANT = "x-scope-orgid"
TOKENS = {"A": "token-a", "B": "token-b", "ALL": "token-all"}
SETTINGS = f"""
receivers:
  grpc: 127.0.0.1:0
  http: 127.0.0.1:0
  forward_headers: [{TENANT}]
  tokens:
    - {{env: A, tenants: {{{TENANT}: team-a}}}}
    - {{env: B, tenants: {{{TENANT}: [team-b, team-b-test]}}}}
    - {{env: ALL}}
admin: {{listen: '127.0.0.1:0'}}
tenant_limits: {{requests_per_second: 10, bytes_per_second: 1MiB}}
"""


@pytest.fixture
def served(http: Downstream, tmp_path: Path) -> Iterator[Served]:
    with serving(f"{SETTINGS}export: {{endpoint: '{http.endpoint}'}}\n", tmp_path, TOKENS) as running:
        yield running


def headers(token: str, tenant: str | None = None) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"} | ({} if tenant is None else {TENANT: tenant})


@pytest.mark.parametrize(
    ("token", "tenant", "status", "arrives_as"),
    [
        ("token-a", "team-a", 200, "team-a"),
        ("token-a", None, 200, "team-a"),
        ("token-a", "team-b", 403, None),
        ("token-b", "team-b-test", 200, "team-b-test"),
        ("token-b", None, 403, None),
        ("token-all", "anybody", 200, "anybody"),
        ("wrong", "team-a", 401, None),
    ],
)
def test_a_token_sends_as_its_tenants_alone(
    served: Served, http: Downstream, token: str, tenant: str | None, status: int, arrives_as: str | None
) -> None:
    assert served.post(SPAN, **headers(token, tenant)).status == status
    codes = {200: grpc.StatusCode.OK, 401: grpc.StatusCode.UNAUTHENTICATED, 403: grpc.StatusCode.PERMISSION_DENIED}
    with grpc.insecure_channel(served.server.addresses["grpc"]) as channel:
        call = channel.unary_unary(EXPORT, None, None).future(SPAN, metadata=tuple(headers(token, tenant).items()))
        assert call.code() is codes[status]
    assert [one.headers.get(TENANT) for one in http.received] == ([arrives_as] * 2 if arrives_as else [])


def samples(served: Served) -> dict[tuple[str, str, str], float]:
    families = text_string_to_metric_families(served.get("/metrics").data.decode())
    return {
        (one.name, one.labels.get("outcome", one.labels.get("reason", "")), one.labels.get("tenant", "")): one.value
        for family in families
        for one in family.samples
    }


def test_whoever_is_refused_is_counted_and_said_once_a_minute(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    name = "goldspan_receiver_refused_requests_total"
    before = samples(served)
    for reason in ("unauthenticated", "forbidden", "malformed", "too_large", "not_found", "unsupported"):
        assert before[name, reason, ""] == 0
    for _ in range(5):
        served.post(SPAN, **headers("wrong", "team-x"))
    served.post(SPAN, **headers("token-a", "team-b"))
    served.post(b"\xff\xff", **headers("token-all", "team-c"), **{"content-encoding": "gzip"})
    served.post(SPAN, **headers("token-all"), **{"content-length": str(1 << 40)})
    served.post(SPAN, "/v1/other", **headers("token-all"))
    served.post(SPAN, **headers("token-all"), **{"content-type": "text/plain"})
    assert served.post(SPAN, **headers("token-b", "team-b")).status == 200
    after = samples(served)
    counts = {reason: value for (metric, reason, _), value in after.items() if metric == name and value}
    assert counts == {
        "unauthenticated": 5,
        "forbidden": 1,
        "malformed": 1,
        "too_large": 1,
        "not_found": 1,
        "unsupported": 1,
    }
    assert after["goldspan_receiver_requests_total", "accepted", "team-b"] == 1
    lines = [vars(record) for record in caplog.records if "a client is refused" in record.message]
    assert [(line["reason"], line["tenant"], line["address"]) for line in lines] == [
        ("unauthenticated", "team-x", "127.0.0.1"),
        ("forbidden", "team-b", "127.0.0.1"),
        ("malformed", "team-c", "127.0.0.1"),
        ("too_large", "", "127.0.0.1"),
        ("not_found", "", "127.0.0.1"),
        ("unsupported", "", "127.0.0.1"),
    ]


def test_a_storm_of_one_tenant_is_answered_with_429_and_costs_no_other(served: Served) -> None:
    statuses = [served.post(SPAN, **headers("token-a")).status for _ in range(300)]
    assert statuses[:100] == [200] * 100
    assert set(statuses) == {200, 429}
    refused = next(
        answer for answer in (served.post(SPAN, **headers("token-a")) for _ in range(50)) if answer.status == 429
    )
    assert int(refused.headers["retry-after"]) >= 1
    assert served.post(SPAN, **headers("token-b", "team-b")).status == 200
    counted = samples(served)
    assert counted["goldspan_receiver_requests_total", "too_many", "team-a"] > statuses.count(429)
    assert ("goldspan_receiver_requests_total", "too_many", "team-b") not in counted


def test_bytes_of_a_tenant_are_limited_over_grpc_as_well(served: Served) -> None:
    large = join_request([SpanGroup(envelope, spans * 4_000) for envelope, spans in split_request(SPAN) or ()])
    with grpc.insecure_channel(served.server.addresses["grpc"]) as channel:
        export = channel.unary_unary(EXPORT, None, None)
        calls = [export.with_call(large, metadata=tuple(headers("token-b", "team-b").items())) for _ in range(1)]
        assert len(calls) == 1
        while len(large) * len(calls) < 20 << 20:
            call = export.future(large, metadata=tuple(headers("token-b", "team-b").items()))
            if call.code() is not grpc.StatusCode.OK:
                break
            calls.append(call)
        assert call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        details = dict(call.trailing_metadata())["grpc-status-details-bin"]
    assert (parse_retry_info(details) or 0) >= 1


def test_one_tenant_takes_half_of_the_backlog_that_the_others_leave() -> None:
    taken: list[Any] = []
    intake = Intake(
        GoldenIndex(),
        PipelineSettings(max_backlog=10 * len(SPAN), max_sessions=3),
        None,
        put=taken.append,
        waiting_bytes=lambda: 0,
        open_sessions=lambda headers: 3 if headers == ((TENANT, "c"),) else 0,
        now=lambda: 0.0,
        on_failure=lambda *_: None,
    )

    def send(tenant: str) -> AcceptResult:
        return intake.accept(ExportRequest(Signal.TRACES, SPAN, ((TENANT, tenant),)))

    answers = [send("a") for _ in range(8)]
    assert answers[:5] == [Accepted()] * 5
    assert all(isinstance(one, Busy) and one.of_tenant for one in answers[5:])
    assert send("b") == Accepted()
    assert isinstance(full := send("c"), Busy)
    assert full.of_tenant
    for one in taken:
        intake.worked_on(one.request)
    assert intake.backlog == 0
    assert send("a") == Accepted()


def test_tokens_for_headers_that_are_not_forwarded_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "goldspan.yaml"
    path.write_text("export: {endpoint: 'http://x:1'}\nreceivers: {tokens: [{env: A, tenants: {x-team: a}}]}\n")
    with pytest.raises(FileError, match="x-team, expected it in `forward_headers`"):
        load_settings(path, {"A": "token"})


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 50)), max_size=60))
def test_a_tenant_never_gets_more_than_its_rate_and_one_burst(steps: list[tuple[float, int]]) -> None:
    now, accepted = 0.0, 0
    rates = TenantRates(TenantLimits(requests_per_second=3, bytes_per_second=None), lambda: now)
    one = ((TENANT, "a"),)
    for pause, count in steps:
        now += pause
        for _ in range(count):
            accepted += rates.take(one, "requests", 1) is None
    assert accepted <= 3 * now + 3 * 10 + 1
    now += 100
    assert rates.take(one, "requests", 1) is None


def test_in_flight_one_tenant_leaves_room_for_each_other() -> None:
    in_flight = InFlightRequests(RequestLimits(max_concurrent_requests=8))
    held: list[Reservation] = []
    with pytest.raises(LimitReached) as limit:
        held += [in_flight.reserve("a") for _ in range(9)]
    assert limit.value.of_tenant
    for _ in range(20):
        try:
            held.append(in_flight.reserve("a"))
        except LimitReached:
            break
    assert in_flight.requests == 4
    others = [in_flight.reserve("b"), in_flight.reserve("b")]
    for one in (*held, *others):
        one.close()


def test_lines_about_refused_clients_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    refused = RefusedClients(lambda: now)
    response = OtlpResponse(RequestStatus.UNAUTHENTICATED, "expected a token")
    with caplog.at_level(logging.WARNING):
        for number in range(50_000):
            refused.note(response, f"tenant-{number}", "10.0.0.1")
        assert len(caplog.records) == 20
        now = 61.0
        refused.note(response, "tenant-49999", "10.0.0.1")
    assert vars(caplog.records[-1])["requests"] == 2
    assert ("goldspan_receiver_refused_requests_total", {"reason": "unauthenticated"}, 50_001) in refused.samples()
