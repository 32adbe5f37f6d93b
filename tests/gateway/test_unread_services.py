"""Services whose telemetry is not understood are named, with what helps."""

from __future__ import annotations

from typing import Any

from goldspan.collector_processor.cli.serve import _advice
from goldspan.collector_processor.encoded_spans.span_groups import split_request
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.gateway.tenant import ReadingRules
from goldspan.collector_processor.gateway.unread_services import UnreadServices
from goldspan.scoring.goldens import GoldenIndex
from rigs.otlp_containers import as_message
from rigs.trace_requests import turn_request

RULES = ReadingRules.of(GoldenIndex(), PipelineSettings(), print)


def request(service: str, **attributes: str) -> list[Any]:
    document = turn_request("s", ("get_weather", {"city": "Paris"}))
    resource = document["resourceSpans"][0]
    resource["resource"] = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    if attributes:
        for scope in resource["scopeSpans"]:
            scope["scope"] = {"name": "homemade"}
            for span in scope["spans"]:
                span["attributes"] = [{"key": key, "value": {"stringValue": text}} for key, text in attributes.items()]
    return split_request(as_message(document).SerializeToString()) or []


def test_a_service_of_which_nothing_is_recognised_is_listed_with_advice() -> None:
    services = UnreadServices(_advice)
    for _ in range(3):
        services.note("team-a", request("known"), RULES.scanner)
        services.note("team-b", request("homemade-agent", **{"http.route": "/chat"}), RULES.scanner)
    [found] = services.document(RULES.registry)
    assert services.count == 1
    assert (found["tenant"], found["service"], found["recognised"]) == ("team-b", "homemade-agent", 0)
    assert found["spans"] == 3 * len(request("x")[0].spans)
    assert set(found["scopes"]) == {"homemade"}
    assert any("goldspan dialects" in hint["helps"] for hint in found["advice"])


def test_a_service_is_understood_once_one_of_its_spans_is() -> None:
    services = UnreadServices()
    services.note("", request("late", **{"http.route": "/chat"}), RULES.scanner)
    assert services.count == 1
    services.note("", request("late"), RULES.scanner)
    assert services.count == 0
    assert services.document(RULES.registry) == []


def test_any_number_of_services_takes_bounded_memory() -> None:
    services = UnreadServices()
    for number in range(1_200):
        services.note("", request(f"service-{number}", **{"http.route": "/chat"}), RULES.scanner)
    assert services.count == 1_000
    assert len(services.document(RULES.registry)) == 100
