"""Metric points through a real MeterProvider."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.emitters import MetricEmitter
from goldspan.mappers.span_facts import ResourceFacts
from goldspan.scoring.goldens.golden import ExpectedCall
from goldspan.scoring.results import ArgumentOutcome
from rigs import evaluation_examples as given

SOURCE = {"tool_parameter_match.golden_set": "weather", "service.name": "shop", "deployment.environment.name": "test"}
TOOL = {"gen_ai.tool.name": "get_weather"}


class Measured:
    """A meter provider and the points it collected, by metric name."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader], shutdown_on_exit=False)

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        metrics = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics] if data else []
        return [point for metric in metrics if metric.name == name for point in metric.data.data_points]


@pytest.fixture
def measured() -> Measured:
    return Measured()


@pytest.fixture
def emitter(measured: Measured) -> MetricEmitter:
    return MetricEmitter(measured.provider)


def test_a_score_is_a_point_of_a_histogram_with_an_exemplar_of_the_judged_span(
    measured: Measured, emitter: MetricEmitter
) -> None:
    emitter.record([given.evaluation(given.ALIGNED)])
    [point] = measured.points("tool_parameter_match.score")
    assert point.explicit_bounds == (0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1)
    assert dict(point.attributes) == {
        **SOURCE,
        **TOOL,
        "tool_parameter_match.level": "call",
        "tool_parameter_match.label": "fail",
    }
    [exemplar] = point.exemplars
    assert format(exemplar.trace_id, "032x") == given.TOOL_SPAN.trace_id
    assert format(exemplar.span_id, "016x") == given.TOOL_SPAN.span_id


@pytest.mark.parametrize(("verdict", "bucket"), [(given.PASS, 7), (replace(given.MISSING.verdict), 0)])
def test_exactly_one_and_exactly_zero_have_buckets_of_their_own(
    measured: Measured, emitter: MetricEmitter, verdict: Any, bucket: int
) -> None:
    emitter.record([given.evaluation(replace(given.ALIGNED, verdict=verdict))])
    [point] = measured.points("tool_parameter_match.score")
    assert [index for index, count in enumerate(point.bucket_counts) if count] == [bucket]


def test_what_has_no_score_is_counted_with_its_reason(measured: Measured, emitter: MetricEmitter) -> None:
    emitter.record([given.evaluation(replace(given.ALIGNED, verdict=given.UNKNOWN))])
    assert measured.points("tool_parameter_match.score") == []
    [point] = measured.points("tool_parameter_match.not_evaluated")
    assert point.value == 1
    assert dict(point.attributes) == {
        **SOURCE,
        **TOOL,
        "tool_parameter_match.level": "call",
        "tool_parameter_match.reason": "arguments_redacted",
    }


def test_wrong_and_missing_arguments_of_aligned_calls_are_counted_by_name(
    measured: Measured, emitter: MetricEmitter
) -> None:
    emitter.record([given.evaluation(given.ALIGNED)])
    points = measured.points("tool_parameter_match.argument_mismatches")
    found = {point.attributes["tool_parameter_match.argument"]: point.value for point in points}
    assert found == {"unit": 1, "days": 1}


def test_a_missing_call_is_counted_and_its_near_miss_s_arguments_are_not(
    measured: Measured, emitter: MetricEmitter
) -> None:
    emitter.record([given.evaluation(given.MISSING)])
    [point] = measured.points("tool_parameter_match.missing")
    assert (point.value, dict(point.attributes)) == (1, {**SOURCE, **TOOL})
    assert measured.points("tool_parameter_match.argument_mismatches") == []


def test_an_unexpected_call_is_counted_once_and_not_as_unevaluated(measured: Measured, emitter: MetricEmitter) -> None:
    emitter.record([given.evaluation(given.UNEXPECTED)])
    [point] = measured.points("tool_parameter_match.unexpected")
    assert (point.value, dict(point.attributes)) == (1, {**SOURCE, **TOOL})
    assert measured.points("tool_parameter_match.not_evaluated") == []


@pytest.mark.parametrize("change", [{"revision": 2}, {"withdrawn": True}])
def test_corrections_are_not_counted(measured: Measured, emitter: MetricEmitter, change: dict[str, Any]) -> None:
    emitter.record([given.evaluation(given.ALIGNED, **change)])
    assert measured.reader.get_metrics_data() is None


def test_only_allowed_agents_are_named(measured: Measured) -> None:
    emitter = MetricEmitter(measured.provider, agent_names=["weather_agent"])
    emitter.record([given.evaluation(given.TURN)])
    emitter.record([given.evaluation(given.TURN, agent="made-up-by-a-model")])
    points = measured.points("tool_parameter_match.score")
    assert {point.attributes.get("gen_ai.agent.name") for point in points} == {"weather_agent", None}


def test_tools_beyond_the_limit_are_other(measured: Measured) -> None:
    emitter = MetricEmitter(measured.provider, name_limit=2)
    for tool in ("a", "b", "c", "d", "a"):
        emitter.record([given.evaluation(replace(given.MISSING, expected=ExpectedCall(tool)))])
    points = measured.points("tool_parameter_match.missing")
    assert {point.attributes["gen_ai.tool.name"]: point.value for point in points} == {"a": 2, "b": 1, "_other": 2}


def test_arguments_beyond_the_limit_are_other(measured: Measured) -> None:
    emitter = MetricEmitter(measured.provider, name_limit=2)
    wrong = tuple(given.argument(name, ArgumentOutcome.MISMATCHED) for name in "abcd")
    emitter.record([given.evaluation(replace(given.ALIGNED, arguments=wrong))])
    points = measured.points("tool_parameter_match.argument_mismatches")
    found = {point.attributes["tool_parameter_match.argument"]: point.value for point in points}
    assert found == {"a": 1, "b": 1, "_other": 2}


@pytest.mark.parametrize(
    ("golden_set", "name"), [("weather@3", "weather"), ("weather", "weather"), ("team@home@2", "team@home")]
)
def test_the_golden_set_is_named_without_its_version(
    measured: Measured, emitter: MetricEmitter, golden_set: str, name: str
) -> None:
    emitter.record([given.evaluation(given.TURN, golden_set=golden_set, resource=ResourceFacts())])
    [point] = measured.points("tool_parameter_match.score")
    assert dict(point.attributes) == {
        "tool_parameter_match.golden_set": name,
        "tool_parameter_match.level": "turn",
        "tool_parameter_match.label": "fail",
    }


def test_scores_of_two_versions_of_a_service_are_two_series(measured: Measured, emitter: MetricEmitter) -> None:
    for version in ("1.4.0", "1.5.0"):
        emitter.record([given.evaluation(given.TURN, resource=ResourceFacts("shop", service_version=version))])
    points = measured.points("tool_parameter_match.score")
    assert [dict(point.attributes)["service.version"] for point in points] == ["1.4.0", "1.5.0"]


def test_sessions_without_a_golden_are_one_counter(measured: Measured, emitter: MetricEmitter) -> None:
    emitter.record_no_golden(3)
    [point] = measured.points("tool_parameter_match.not_evaluated")
    assert (point.value, dict(point.attributes)) == (
        3,
        {"tool_parameter_match.reason": "no_golden", "tool_parameter_match.level": "session"},
    )


def test_points_use_declared_names_only(measured: Measured, emitter: MetricEmitter) -> None:
    for detail in (given.ALIGNED, given.MISSING, given.UNEXPECTED, replace(given.TURN, verdict=given.UNKNOWN)):
        emitter.record([given.evaluation(detail)], [given.evaluation(detail)])
    for instrument in names.METRICS:
        points = measured.points(instrument.shown)
        assert points, instrument.shown
        for point in points:
            assert set(point.attributes) <= set(instrument.attributes)


def of_service(service: str, tool: str) -> Any:
    detail = replace(given.MISSING, expected=ExpectedCall(tool))
    return given.evaluation(detail, resource=ResourceFacts(service_name=service))


def by_service_and_tool(measured: Measured) -> dict[tuple[str, str], int]:
    points = measured.points("tool_parameter_match.missing")
    return {(point.attributes["service.name"], point.attributes["gen_ai.tool.name"]): point.value for point in points}


def test_names_of_thirty_services_are_bound_for_each(measured: Measured) -> None:
    emitter = MetricEmitter(measured.provider, name_limit=2)
    for number in range(30):
        emitter.record([of_service(f"team-{number}", tool) for tool in ("a", "b")])
    assert names.OTHER not in {tool for _, tool in by_service_and_tool(measured)}


def test_of_many_names_those_that_occur_most_are_shown(measured: Measured) -> None:
    emitter = MetricEmitter(measured.provider, name_limit=3)
    for number in range(50):
        emitter.record([of_service("team", f"invented-{number}")])
        emitter.record([of_service("team", "frequent"), of_service("team", "often")] if number >= 2 else [])
    found = by_service_and_tool(measured)
    assert sum(found.values()) == 50 + 96
    assert found["team", "frequent"] >= 40
    assert found["team", "often"] >= 40
    assert len(found) <= 2 * 3 + 1
    folded = {name: count for _, _, name, count in emitter.known_names.folded()}
    assert set(folded) & {"frequent", "often"} == set()
    assert folded


def test_agents_are_named_and_bound_where_all_are_allowed(measured: Measured) -> None:
    emitter = MetricEmitter(measured.provider, agent_names=None, name_limit=2)
    for agent in ("planner", "booker", "made-up-1", "made-up-2"):
        emitter.record([given.evaluation(given.TURN, agent=agent)])
    points = measured.points("tool_parameter_match.score")
    assert {point.attributes.get("gen_ai.agent.name") for point in points} == {"planner", "booker", "_other"}
