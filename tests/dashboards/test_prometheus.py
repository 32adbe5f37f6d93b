"""Every query of the dashboards and rules, asked of a real Prometheus that scraped a scored agent."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from ruamel.yaml import YAML

from goldspan.collector_processor import ToolParameterMatchExporter
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving.admin import STREAM_HELP, MetricsPage, Sample
from rigs.downstream import http_downstream
from rigs.gateway_process import process, settings_for
from rigs.in_process_rig import Inner
from rigs.local_ports import free_port
from rigs.otlp_containers import as_message
from rigs.repository import ROOT
from rigs.score_backend import score_backend
from rigs.scripted_agent import CONVERT, PARIS, ROME, golden, golden_set, run_turn
from rigs.trace_requests import turn_request
from rigs.waiting import until

CONFIG = ROOT / "config"
BOARDS = sorted((CONFIG / "grafana").glob("*.json"))
RULES = CONFIG / "prometheus" / "rules.yaml"
SECONDS = 12
"""How long the agent works while Prometheus looks, once a second."""

VARIABLES = {
    "$service": ".*",
    "$version": ".*",
    "$environment": ".*",
    "$golden_set": ".*",
    "$gateway": ".*",
    "$worker": ".*",
    "$__rate_interval": "10s",
    "$__range": "1m",
}
WITH_PROMTOOL = {
    "ArgumentsFailWithoutGolden",
    "CertificateExpires",
    "GoldspanDown",
    "GoldspanGone",
    "JudgeBehind",
    "JudgeGivesUp",
    "TenantSendsTooMuch",
    "ToolArgumentsNotEvaluated",
    "ToolArgumentsWrong",
}
"""Alerts with more than one condition, or on what is not here: `test_alert_rules` looks at them."""
CONDITION = re.compile(r"\s*[<>]=?\s*[0-9.]+\s*$")


class Refusing(Inner):
    """An inner exporter whose back-end is away."""

    def export(self, spans: Any) -> Any:
        raise ConnectionError("refused")


def board_queries() -> Iterator[tuple[str, str]]:
    for board in BOARDS:
        for panel in json.loads(board.read_text("utf-8"))["panels"]:
            for target in panel["targets"]:
                if "expr" in target:
                    yield f"{board.stem}: {panel['title']} {target['refId']}", target["expr"]


def rules() -> list[dict[str, Any]]:
    document = YAML(typ="safe").load(RULES)
    return [rule for group in document["groups"] for rule in group["rules"]]


def rule_queries() -> Iterator[tuple[str, str]]:
    """Rules, and of alerts what they watch: whether it is too much is not asked here."""
    for rule in rules():
        if rule.get("alert") not in WITH_PROMTOOL:
            yield rule.get("record") or rule["alert"], CONDITION.sub("", rule["expr"])


QUERIES = dict([*board_queries(), *rule_queries()])


class Prometheus:
    """A server on a local port, asked over its API."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        self._folder = folder

    def watch(self, gateway: str) -> None:
        """Scrape the admin pages of a gateway."""
        (self._folder / "gateways.json").write_text(json.dumps([{"targets": [gateway]}]), "utf-8")

    def firing(self) -> set[tuple[str, str]]:
        """Name and signal of the alerts that fire."""
        with urllib.request.urlopen(f"http://{self._address}/api/v1/alerts", timeout=10) as answer:
            alerts = json.load(answer)["data"]["alerts"]
        return {
            (one["labels"]["alertname"], one["labels"].get("signal", "")) for one in alerts if one["state"] == "firing"
        }

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """The instant vector of an expression, values that are no numbers left out."""
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://{self._address}/api/v1/query?{query}", timeout=10) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return [one for one in found if one["value"][1] != "NaN"]


OF_PARIS = {
    "gen_ai.input.messages": json.dumps(
        [
            {
                "role": "user",
                "parts": [{"type": "text", "content": "What is the weather in Paris, in celsius, for 3 days?"}],
            }
        ]
    ),
    "gen_ai.tool.definitions": json.dumps(
        [{"name": "get_weather", "parameters": {"properties": {"city": {}}, "required": ["city", "when"]}}]
    ),
}


def work(meter_provider: MeterProvider, resource: Resource, seconds: float) -> None:
    """An agent that is right in one turn, wrong in the next, forgets a call, makes one too many, and hides another."""
    sessions = [f"run-{number}" for number in range(int(seconds * 2))]
    wanted = [golden(session, [PARIS], [PARIS, CONVERT], [PARIS]) for session in sessions]
    goldens = golden_set(*wanted, *(golden(f"hidden-{session}", [PARIS]) for session in sessions))
    options: dict[str, Any] = {"goldens": goldens, "meter_provider": meter_provider, "settle": 0.05, "run_idle": 0.2}
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(ToolParameterMatchExporter(Inner(), **options)))
    free = TracerProvider(resource=resource, shutdown_on_exit=False)
    free.add_span_processor(
        SimpleSpanProcessor(
            ToolParameterMatchExporter(Inner(), meter_provider=meter_provider, settle=0.05, run_idle=0.2)
        )
    )
    broken = TracerProvider(resource=resource, shutdown_on_exit=False)
    broken.add_span_processor(SimpleSpanProcessor(ToolParameterMatchExporter(Refusing(), **options)))
    tracer = tracers.get_tracer("agent")
    for session in sessions:
        run_turn(tracer, session, [PARIS])
        run_turn(tracer, session, [ROME])
        run_turn(tracer, session, [PARIS, ("delete_everything", {})])
        hidden = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather"}
        with tracer.start_as_current_span(
            "hidden", attributes={**hidden, "gen_ai.conversation.id": f"hidden-{session}"}
        ):
            pass
        run_turn(broken.get_tracer("agent"), "nobody asked", [PARIS])
        # Without goldens: a city from nowhere, a required argument left out, one call again and again, hidden ones.
        run_turn(free.get_tracer("agent"), f"free-{session}", [ROME, PARIS, PARIS, PARIS], attributes=OF_PARIS)
        run_turn(free.get_tracer("agent"), f"right-{session}", [PARIS], attributes=OF_PARIS)
        with free.get_tracer("agent").start_as_current_span("hidden", attributes=hidden):
            pass
        time.sleep(seconds / len(sessions))
    tracers.shutdown()
    free.shutdown()
    broken.shutdown()


@contextmanager
def gateway(folder: Path) -> Generator[str]:
    """A gateway with traffic while the block runs, and where its numbers are; now and then somebody refuses something.

    It is sent right and wrong turns, turns without golden, with hidden arguments and without an end, and junk.
    """
    goldens = [
        {"session": session, "turns": [{"calls": [{"name": "get_weather", "args": {"city": "Paris"}}]}]}
        for session in ("never", *(f"{kind}-{number}" for kind in ("seen", "hidden") for number in range(100)))
    ]
    (folder / "goldens.json").write_text(json.dumps({"golden_set": "g", "format": 1, "goldens": goldens}), "utf-8")
    stop = threading.Event()
    with score_backend() as scores, http_downstream() as http:
        more = f"goldens: goldens.json\nsinks: {{phoenix: {{endpoint: '{scores.endpoint}'}}}}\n"
        settings = settings_for(http, more).replace("run_idle: 1s", "run_idle: 300ms, hold_timeout: 500ms")

        def send(number: int) -> None:
            http.http_answer.status = 400 if number % 5 == 4 else 200
            unended = turn_request(f"seen-{number}", ("get_weather", {"city": "Oslo"}), turn=1)
            del unended["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
            for document in (
                turn_request(f"seen-{number}", ("get_weather", {"city": "Paris" if number % 2 else "Rome"})),
                turn_request(f"hidden-{number}", ("get_weather", None)),
                turn_request(f"nobody-{number}", ("get_weather", {})),
                unended,
            ):
                running.post(as_message(document).SerializeToString())
            running.post(b"\xff\xff")

        def keep_sending() -> None:
            number = 0
            while not stop.wait(0.3):
                send(number % 100)
                number += 1

        with process(settings, folder) as running:
            sending = threading.Thread(target=keep_sending)
            sending.start()
            try:
                yield running.addresses["admin"]
            finally:
                stop.set()
                sending.join()


STREAM_LABELS: dict[str, dict[str, str]] = {
    "goldspan_stream_partitions": {"stage": "traces"},
    "goldspan_stream_lag_records": {"topic": "otlp_spans", "partition": "0"},
    "goldspan_stream_watermark_delay_seconds": {"partition": "0"},
    "goldspan_stream_paused": {"partition": "0"},
    "goldspan_stream_read_records_total": {"topic": "otlp_spans"},
    "goldspan_stream_sent_records_total": {"topic": "goldspan.spans"},
    "goldspan_stream_dead_letters_total": {"topic": "otlp_spans"},
    "goldspan_stream_too_large_total": {"topic": "goldspan.spans"},
    "goldspan_removed_scores_total": {"signal": "traces"},
    "goldspan_results_total": {"metric": "tool_parameter_match", "level": "call", "label": "pass"},
    "goldspan_problems_total": {"code": "dropped_text"},
}


@contextmanager
def worker_page() -> Generator[str]:
    """The page of a worker on Kafka, and where it is: numbers that grow, under the names and labels of a real one.

    `tests/kafka` has real workers; here their libraries are not installed.
    """
    client = pytest.importorskip("prometheus_client", reason="prometheus_client")
    begun = time.monotonic()

    def samples() -> Iterator[Sample]:
        for name in STREAM_HELP:
            yield name, STREAM_LABELS.get(name, {}), 1 + time.monotonic() - begun

    registry = client.CollectorRegistry()
    registry.register(MetricsPage(samples, help_texts=STREAM_HELP))
    client.ProcessCollector(registry=registry)
    page, thread = client.start_http_server(0, "127.0.0.1", registry)
    try:
        yield f"127.0.0.1:{page.server_port}"
    finally:
        page.shutdown()
        page.server_close()
        thread.join()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    exporter = pytest.importorskip("opentelemetry.exporter.prometheus", reason="opentelemetry-exporter-prometheus")
    client = pytest.importorskip("prometheus_client", reason="prometheus_client")
    registry = client.CollectorRegistry()
    resource = Resource({"service.name": "travel", "service.version": "2.1.0", "deployment.environment.name": "test"})
    meters = MeterProvider([exporter.PrometheusMetricReader(registry=registry)], resource, shutdown_on_exit=False)
    page, thread = client.start_http_server(0, "127.0.0.1", registry)
    folder = tmp_path_factory.mktemp("prometheus")
    try:
        with (
            worker_page() as worker,
            scraping(folder, f"127.0.0.1:{page.server_port}", worker) as running,
            gateway(tmp_path_factory.mktemp("gateway")) as admin,
        ):
            running.watch(admin)
            work(meters, resource, SECONDS)
            yield running
    finally:
        page.shutdown()
        page.server_close()
        thread.join()
        meters.shutdown()


@contextmanager
def scraping(folder: Path, agent: str | None = None, worker: str | None = None) -> Generator[Prometheus]:
    """A Prometheus that scrapes and evaluates the rules once a second, over windows of ten seconds."""
    if (binary := shutil.which("prometheus")) is None:
        pytest.skip("no Prometheus on the PATH (Debian: apt-get install prometheus)")
    quick = RULES.read_text("utf-8").replace("interval: 1m", "interval: 1s").replace("offset 1m", "offset 1s")
    quick = quick.replace("[5m]", "[10s]").replace("[15m]", "[10s]")
    (folder / "rules.yaml").write_text(quick.replace("seconds) > 30", "seconds) > 3"), "utf-8")
    (folder / "prometheus.yaml").write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": ["rules.yaml"],
                "scrape_configs": [
                    {"job_name": "agent", "static_configs": [{"targets": [agent] if agent else []}]},
                    {"job_name": "stream", "static_configs": [{"targets": [worker] if worker else []}]},
                    {"job_name": "gateway", "file_sd_configs": [{"files": ["gateways.json"]}]},
                ],
            }
        ),
        "utf-8",
    )
    address = f"127.0.0.1:{free_port()}"
    arguments = [f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [binary, *arguments, f"--web.listen-address={address}"], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        until_ready(address, server, folder / "log")
        yield Prometheus(address, folder)
    finally:
        server.terminate()
        server.wait(10)


def until_ready(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(f"http://{address}/-/ready", timeout=1):
                return
        except OSError:
            assert server.poll() is None, log.read_text("utf-8")
            assert time.monotonic() < end, log.read_text("utf-8")
            time.sleep(0.1)


def asked(name: str) -> str:
    """The expression of a query, with a value for each variable."""
    expression = QUERIES[name].replace("[5m]", "[10s]")
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_returns_data(prometheus: Prometheus, name: str) -> None:
    assert prometheus.ask(asked(name)), asked(name)


def test_recorded_series_are_there(prometheus: Prometheus) -> None:
    assert [rule["record"] for rule in rules() if "record" in rule and not prometheus.ask(rule["record"])] == []


JUDGED = "sum by (tool_parameter_match_level) (sum_over_time(tool_parameter_match:results:increase1m[1m]))"
PASSED = JUDGED.replace("increase1m[", 'increase1m{tool_parameter_match_label="pass"}[')


def test_the_numbers_are_those_of_the_agent(prometheus: Prometheus) -> None:
    """Of its three turns one is right, one has a wrong city and lacks a call, one is right but for a call too many."""
    passes = {
        one["metric"]["tool_parameter_match_level"]: float(one["value"][1])
        for one in prometheus.ask(f"{PASSED} / {JUDGED}")
    }
    assert 0.4 < passes["turn"] < 0.9
    [wrong] = prometheus.ask("sum_over_time(tool_parameter_match:argument_mismatches:increase1m[1m]) > 0")
    assert wrong["metric"]["tool_parameter_match_argument"] == "city"


def test_what_fails_without_goldens_is_told_by_tool_argument_and_finding(prometheus: Prometheus) -> None:
    panel = "without-goldens: Findings, the rarest and worst first"
    failed, shares = (
        {
            (labels["metric"], labels["argument"], labels["finding"]): float(one["value"][1])
            for one in prometheus.ask(asked(f"{panel} {query}"))
            for labels in [one["metric"]]
        }
        for query in "AB"
    )
    assert failed.keys() == shares.keys()
    assert all(0 <= rank <= 1 for rank in failed.values())
    assert {
        ("tool_parameter_grounding", "city", "none"),
        ("tool_parameter_schema", "when", "missing"),
        ("tool_call_repetition", "(call)", "loop"),
    } <= failed.keys()
    [passing] = prometheus.ask(asked("without-goldens: Sessions that pass grounding, by service and version A"))
    assert passing["metric"] == {"service_name": "travel", "service_version": "2.1.0"}
    assert 0.2 < float(passing["value"][1]) < 0.8
    reasons = {
        one["metric"]["reason"] for one in prometheus.ask(asked("without-goldens: Calls not evaluated, by reason A"))
    }
    assert "arguments_not_captured" in reasons


def test_the_numbers_are_those_of_the_gateway(prometheus: Prometheus) -> None:
    [never] = prometheus.ask("goldspan_goldens_never_seen")
    assert float(never["value"][1]) >= 1
    reasons = {one["metric"]["reason"] for one in prometheus.ask("goldspan_calls_not_evaluated_total > 0")}
    assert "arguments_not_captured" in reasons
    [junk] = prometheus.ask('goldspan_not_accepted_requests_total{reason="broken"}')
    assert float(junk["value"][1]) > 0


def test_an_alert_fires_while_the_next_receiver_is_away_and_resolves_after_it(tmp_path: Path) -> None:
    for name in ("prometheus", "gateway"):
        (tmp_path / name).mkdir()
    span = as_message(turn_request("nobody", ("get_weather", {}))).SerializeToString()
    with http_downstream() as http:
        settings = settings_for(http)
    with scraping(tmp_path / "prometheus") as prometheus, process(settings, tmp_path / "gateway") as running:
        prometheus.watch(running.addresses["admin"])
        assert running.post(span) == 200
        until(lambda: ("DownstreamAway", "traces") in prometheus.firing(), 30)
        with http_downstream(port=int(http.endpoint.rpartition(":")[2])) as back:
            until(lambda: not prometheus.firing(), 30)
            assert [one.signal for one in back.received].count(Signal.TRACES) == 1
        assert running.end() == 0
    messages = [(line["level"], line["message"]) for line in running.log if "next receiver" in line["message"]]
    assert [level for level, _ in messages] == ["warning", "info"]


def test_boards_ask_only_for_variables_they_have() -> None:
    known = {"__data", "__from", "__range", "__rate_interval", "__to"}
    for board in BOARDS:
        document: Mapping[str, Any] = json.loads(board.read_text("utf-8"))
        names = known | {variable["name"] for variable in document["templating"]["list"]}
        assert set(re.findall(r"\$\{?(\w+)", json.dumps(document["panels"]))) <= names


def test_names_of_workers_are_those_that_workers_have() -> None:
    asked_for = {name for query in QUERIES.values() for name in re.findall(r"goldspan_stream_\w+", query)}
    assert asked_for <= set(STREAM_HELP)
    assert set(STREAM_LABELS) <= set(STREAM_HELP)
    assert {name for name in STREAM_HELP if name.startswith("goldspan_stream_")} <= asked_for


def test_rules_are_well_formed() -> None:
    if (promtool := shutil.which("promtool")) is None:
        pytest.skip("no promtool on the PATH (Debian: apt-get install prometheus)")
    subprocess.run([promtool, "check", "rules", str(RULES)], check=True, capture_output=True)
