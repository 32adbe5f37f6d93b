"""The image, compose.yaml and the Kubernetes manifests: their files are there; settings, ports and names fit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from goldspan.collector_processor.gateway.admin import Admin
from goldspan.collector_processor.gateway.prometheus import MetricsPage
from goldspan.collector_processor.gateway.receive.request_handler import BearerTokens
from goldspan.collector_processor.gateway.settings.loading import load_settings
from goldspan.collector_processor.stream.stream_settings import StreamSettings
from goldspan.scoring import load_goldens

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "config" / "kubernetes"
LABELS = {"app.kubernetes.io/name": "goldspan-stream"}


def documents(path: Path) -> list[Any]:
    """The documents of a YAML file."""
    yaml: Any = YAML(typ="safe")
    return list(yaml.load_all(path))


def document(path: Path) -> Any:
    """The only document of a YAML file."""
    [only] = documents(path)
    return only


COMPOSE = document(ROOT / "compose.yaml")
SERVICES: Mapping[str, Any] = COMPOSE["services"]
MANIFESTS: Mapping[str, Any] = {
    one["kind"]: one
    for name in document(KUBERNETES / "kustomization.yaml")["resources"]
    for one in documents(KUBERNETES / name)
}
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


def mounts(service: str) -> Iterator[tuple[str, str]]:
    """What is mounted from this repository, and where."""
    for volume in SERVICES[service].get("volumes", ()):
        source, target, *_ = volume.split(":")
        if source.startswith("."):
            yield source, target
        else:
            assert source in COMPOSE["volumes"]


def mounted(service: str, path: str) -> Path:
    """The file of this repository that a container has at a path."""
    [found] = [source for source, target in mounts(service) if target == path]
    return ROOT / found


def status_of(path: str) -> int:
    """How the admin pages answer to one who shows no token."""
    pages = Admin(
        tokens=BearerTokens(["t"]),
        metrics=MetricsPage(lambda: ()),
        coverage=dict[str, Any],
        not_ready_reason=lambda: None,
    )
    sent: list[Mapping[str, Any]] = []

    async def receive() -> Mapping[str, Any]:
        return {}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    scope: Mapping[str, Any] = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "headers": []}
    asyncio.run(pages(scope, receive, send))
    return int(sent[0]["status"])


class TestImage:
    def test_copies_what_there_is_and_docker_may_send(self) -> None:
        allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line[0] == "!"]
        copied = {
            name for line in re.findall(r"^COPY (?!--)(.+)$", DOCKERFILE, re.MULTILINE) for name in line.split()[:-1]
        }
        assert copied == set(allowed)
        assert [name for name in copied if not (ROOT / name).exists()] == []

    def test_has_extras_that_exist(self) -> None:
        text = (ROOT / "pyproject.toml").read_text("utf-8")
        [extras] = re.findall(r"^ARG EXTRAS=(.+)$", DOCKERFILE, re.MULTILINE)
        assert [name for name in extras.split(",") if not re.search(rf"^{name} = \[", text, re.MULTILINE)] == []

    def test_runs_as_the_user_of_the_manifests(self) -> None:
        context = MANIFESTS["StatefulSet"]["spec"]["template"]["spec"]["securityContext"]
        assert f"--uid {context['runAsUser']} " in DOCKERFILE
        assert f"\nUSER {context['runAsUser']}\n" in DOCKERFILE
        assert context["fsGroup"] == context["runAsGroup"] == context["runAsUser"]


class TestCompose:
    @pytest.mark.parametrize("service", SERVICES)
    def test_mounts_what_there_is(self, service: str) -> None:
        assert [source for source, _ in mounts(service) if not (ROOT / source).exists()] == []
        assert {one["source"] for one in SERVICES[service].get("configs", ())} <= set(COMPOSE["configs"])
        assert set(SERVICES[service].get("depends_on", ())) <= set(SERVICES)

    @pytest.mark.parametrize("service", SERVICES)
    def test_listens_on_this_machine_only(self, service: str) -> None:
        assert all(port.startswith("127.0.0.1:") for port in SERVICES[service].get("ports", ()))

    def test_workers_can_use_their_settings(self) -> None:
        worker = SERVICES["goldspan"]
        command, config = worker["command"]
        assert command == "stream"
        settings = load_settings(mounted("goldspan", config), worker["environment"], StreamSettings)
        assert settings.kafka.brokers == ("kafka:9092",)
        assert settings.kafka.partitions >= worker["deploy"]["replicas"] == 3
        [goldens] = settings.goldens
        assert load_goldens(mounted("goldspan", str(goldens))).goldens
        [token] = settings.admin.tokens
        assert str(token.file) == worker["configs"][0]["target"]
        assert settings.admin.listen is not None
        assert f"127.0.0.1:{settings.admin.listen.port}/readyz" in DOCKERFILE
        [job, _] = document(mounted("prometheus", "/etc/prometheus/prometheus.yaml"))["scrape_configs"]
        assert job["dns_sd_configs"] == [{"names": ["goldspan"], "type": "A", "port": settings.admin.listen.port}]
        assert job["authorization"]["credentials_file"] == SERVICES["prometheus"]["configs"][0]["target"]

    @pytest.mark.parametrize("service", ["collector-to-kafka", "collector-from-kafka"])
    def test_collectors_have_configurations_with_their_variables(self, service: str) -> None:
        collector = SERVICES[service]
        flags, paths = collector["command"][::2], collector["command"][1::2]
        assert set(flags) == {"--config"}
        known = set(re.findall(r"\$\{env:(\w+)", "".join(mounted(service, path).read_text("utf-8") for path in paths)))
        assert set(collector["environment"]) <= known

    def test_points_reach_prometheus(self) -> None:
        pipelines = document(ROOT / "config" / "compose" / "to-prometheus.yaml")["service"]["pipelines"]
        base = document(ROOT / "config" / "collector" / "from-kafka.yaml")["service"]["pipelines"]
        assert set(pipelines) == set(base)
        _, _, port = SERVICES["collector-from-kafka"]["environment"]["PROMETHEUS_ENDPOINT"].rpartition(":")
        [_, scores] = document(mounted("prometheus", "/etc/prometheus/prometheus.yaml"))["scrape_configs"]
        assert scores["static_configs"] == [{"targets": [f"collector-from-kafka:{port}"]}]

    def test_grafana_finds_the_dashboards(self) -> None:
        [provider] = document(ROOT / "config" / "compose" / "grafana-dashboards.yaml")["providers"]
        assert list(mounted("grafana", provider["options"]["path"]).glob("goldspan-stream.json"))


class TestKubernetes:
    settings = load_settings(KUBERNETES / "stream.yaml", {}, StreamSettings)
    pod = MANIFESTS["StatefulSet"]["spec"]["template"]["spec"]
    worker = pod["containers"][0]

    def path_in(self, volume: str) -> str:
        [path] = [one["mountPath"] for one in self.worker["volumeMounts"] if one["name"] == volume]
        return str(path)

    def test_all_files_are_applied(self) -> None:
        kustomization = document(KUBERNETES / "kustomization.yaml")
        [files] = [one["files"] for one in kustomization["configMapGenerator"]]
        named = {"kustomization.yaml", *kustomization["resources"], *files}
        assert named == {path.name for path in KUBERNETES.iterdir()}
        assert self.worker["image"] in {one["name"] for one in kustomization["images"]}

    def test_workers_find_settings_goldens_token_and_state(self) -> None:
        volumes = {one["name"]: one for one in self.pod["volumes"]}
        assert (
            volumes["settings"]["configMap"]["name"]
            == document(KUBERNETES / "kustomization.yaml")["configMapGenerator"][0]["name"]
        )
        assert self.worker["args"] == ["stream", f"{self.path_in('settings')}/stream.yaml"]
        assert [str(path) for path in self.settings.goldens] == [f"{self.path_in('settings')}/goldens.yaml"]
        assert load_goldens(KUBERNETES / "goldens.yaml").goldens
        [token] = self.settings.admin.tokens
        secret, key = volumes["admin-token"]["secret"]["secretName"], "token"
        assert str(token.file) == f"{self.path_in('admin-token')}/{key}"
        assert MANIFESTS["PodMonitor"]["spec"]["podMetricsEndpoints"][0]["authorization"]["credentials"] == {
            "name": secret,
            "key": key,
        }
        assert self.settings.folder({}).is_relative_to(self.path_in("state"))

    def test_probes_and_scrapes_reach_the_admin_pages(self) -> None:
        assert self.settings.admin.listen is not None
        port = self.settings.admin.listen.port
        assert self.worker["ports"] == [{"name": "admin", "containerPort": port}]
        assert [one["port"] for one in MANIFESTS["Service"]["spec"]["ports"]] == [port]
        [ingress] = MANIFESTS["NetworkPolicy"]["spec"]["ingress"]
        assert [one["port"] for one in ingress["ports"]] == [port]
        for probe in ("livenessProbe", "readinessProbe"):
            get = self.worker[probe]["httpGet"]
            assert (get["port"], status_of(get["path"])) == ("admin", 200)
        [scrape] = MANIFESTS["PodMonitor"]["spec"]["podMetricsEndpoints"]
        assert (scrape["port"], status_of(scrape["path"])) == ("admin", 401)

    def test_the_autoscaler_looks_at_what_workers_read(self) -> None:
        scaler = MANIFESTS["ScaledObject"]["spec"]
        assert scaler["maxReplicaCount"] == self.settings.kafka.partitions
        asked = [one["metadata"] for one in scaler["triggers"]]
        assert {one["topic"] for one in asked} <= set(self.settings.topics.read())
        assert {one["consumerGroup"] for one in asked} == {self.settings.kafka.group}
        assert {one["bootstrapServers"] for one in asked} == {",".join(self.settings.kafka.brokers)}
        assert {one["offsetResetPolicy"] for one in asked} == {"earliest"}  # where a new group begins
        assert all(one["version"] >= "2.1" for one in asked)  # Kafka 4 speaks nothing older
        assert scaler["scaleTargetRef"]["name"] == MANIFESTS["StatefulSet"]["metadata"]["name"]
        assert "replicas" not in MANIFESTS["StatefulSet"]["spec"]

    def test_brokers_can_be_reached(self) -> None:
        to_kafka, _ = MANIFESTS["NetworkPolicy"]["spec"]["egress"]
        [broker] = self.settings.kafka.brokers
        host, _, port = broker.partition(":")
        assert [one["port"] for one in to_kafka["ports"]] == [int(port)]
        assert (
            host.split(".")[1] == to_kafka["to"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
        )

    def test_everything_means_the_same_pods(self) -> None:
        selectors = [
            MANIFESTS["StatefulSet"]["spec"]["selector"]["matchLabels"],
            MANIFESTS["StatefulSet"]["spec"]["template"]["metadata"]["labels"],
            MANIFESTS["Service"]["spec"]["selector"],
            MANIFESTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
            MANIFESTS["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
            MANIFESTS["PodMonitor"]["spec"]["selector"]["matchLabels"],
        ]
        assert all(one == LABELS for one in selectors)
        # Otherwise a service's variables would look like settings.
        assert self.pod["enableServiceLinks"] is False
