"""The image, the files for Compose and the manifests for Kubernetes: their files are there; settings and ports fit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from goldspan.collector_processor.gateway.settings.sections import GatewaySettings
from goldspan.collector_processor.gateway.settings.settings_file import load_settings
from goldspan.collector_processor.serving.admin import Admin, MetricsPage
from goldspan.collector_processor.serving.http_server import BearerTokens
from goldspan.collector_processor.stream.stream_settings import StreamSettings
from goldspan.scoring import load_goldens
from rigs.repository import ROOT

KUBERNETES = ROOT / "config" / "kubernetes"
WORKERS, GATEWAY = KUBERNETES / "stream", KUBERNETES / "gateway"


def documents(path: Path) -> list[Any]:
    """The documents of a YAML file."""
    yaml: Any = YAML(typ="safe")
    return list(yaml.load_all(path))


def document(path: Path) -> Any:
    """The only document of a YAML file."""
    [only] = documents(path)
    return only


@dataclass(frozen=True)
class Compose:
    """A file for Compose, and the files of this repository that it mounts."""

    name: str

    @property
    def content(self) -> Any:
        return document(ROOT / self.name)

    @property
    def services(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.content["services"]
        return found

    def mounts(self, service: str) -> Iterator[tuple[str, str]]:
        """What a service mounts from this repository, and where."""
        for volume in self.services[service].get("volumes", ()):
            source, target, *_ = volume.split(":")
            if source.startswith("."):
                yield source, target
            else:
                assert source in self.content["volumes"]

    def mounted(self, service: str, path: str) -> Path:
        """The file of this repository that a container has at a path."""
        [found] = [source for source, target in self.mounts(service) if target == path]
        return ROOT / found


SIMPLE, KAFKA = Compose("compose.yaml"), Compose("compose.kafka.yaml")
SERVICES = [pytest.param(one, name, id=f"{one.name} {name}") for one in (SIMPLE, KAFKA) for name in one.services]


def manifests(folder: Path) -> Mapping[str, Any]:
    """What a kustomization applies, by kind."""
    return {
        one["kind"]: one
        for name in document(folder / "kustomization.yaml")["resources"]
        for one in documents(folder / name)
    }


MANIFESTS = manifests(WORKERS)
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


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


@pytest.mark.parametrize(("compose", "service"), SERVICES)
class TestServices:
    def test_mounts_what_there_is(self, compose: Compose, service: str) -> None:
        assert [source for source, _ in compose.mounts(service) if not (ROOT / source).exists()] == []
        stated = compose.services[service]
        assert {one["source"] for one in stated.get("configs", ())} <= set(compose.content["configs"])
        assert set(stated.get("depends_on", ())) <= set(compose.services)

    def test_listens_on_this_machine_only(self, compose: Compose, service: str) -> None:
        assert all(port.startswith("127.0.0.1:") for port in compose.services[service].get("ports", ()))


@pytest.mark.parametrize(
    ("compose", "service"),
    [(SIMPLE, "collector"), (KAFKA, "collector-to-kafka"), (KAFKA, "collector-from-kafka")],
)
def test_collectors_have_configurations_with_their_variables(compose: Compose, service: str) -> None:
    collector = compose.services[service]
    flags, paths = collector["command"][::2], collector["command"][1::2]
    assert set(flags) == {"--config"}
    texts = [compose.mounted(service, path).read_text("utf-8") for path in paths]
    assert set(collector["environment"]) <= set(re.findall(r"\$\{env:(\w+)", "".join(texts)))


@pytest.mark.parametrize(
    ("compose", "service", "settings_of"),
    [(SIMPLE, "goldspan", GatewaySettings), (KAFKA, "goldspan", StreamSettings)],
)
def test_goldspan_can_use_its_settings(compose: Compose, service: str, settings_of: Any) -> None:
    container = compose.services[service]
    settings = load_settings(
        compose.mounted(service, container["command"][-1]), container.get("environment", {}), settings_of
    )
    [goldens] = settings.goldens
    assert load_goldens(compose.mounted(service, str(goldens))).goldens
    [token] = settings.admin.tokens
    assert str(token.file) == container["configs"][0]["target"]
    assert settings.admin.listen is not None
    assert f"127.0.0.1:{settings.admin.listen.port}/readyz" in DOCKERFILE
    [job, _] = document(compose.mounted("prometheus", "/etc/prometheus/prometheus.yaml"))["scrape_configs"]
    assert job["authorization"]["credentials_file"] == compose.services["prometheus"]["configs"][0]["target"]


def test_workers_have_partitions_and_are_scraped() -> None:
    worker = KAFKA.services["goldspan"]
    settings = load_settings(KAFKA.mounted("goldspan", worker["command"][1]), worker["environment"], StreamSettings)
    assert settings.kafka.brokers == ("kafka:9092",)
    assert settings.kafka.partitions >= worker["deploy"]["replicas"] == 3
    assert settings.admin.listen is not None
    [job, _] = document(KAFKA.mounted("prometheus", "/etc/prometheus/prometheus.yaml"))["scrape_configs"]
    assert job["dns_sd_configs"] == [{"names": ["goldspan"], "type": "A", "port": settings.admin.listen.port}]


def test_the_gateway_and_the_collector_know_each_other() -> None:
    collector = SIMPLE.services["collector"]["environment"]
    settings = load_settings(SIMPLE.mounted("goldspan", "/etc/goldspan/gateway.yaml"), {}, GatewaySettings)
    assert settings.receivers.grpc is not None
    assert collector["GOLDSPAN_ENDPOINT"] == f"goldspan:{settings.receivers.grpc.port}"
    assert str(settings.export.endpoint).endswith(f"collector:{collector['COLLECTOR_SCORED'].rpartition(':')[2]}")
    [job, _] = document(SIMPLE.mounted("prometheus", "/etc/prometheus/prometheus.yaml"))["scrape_configs"]
    assert settings.admin.listen is not None
    assert job["static_configs"] == [{"targets": [f"goldspan:{settings.admin.listen.port}"]}]


@pytest.mark.parametrize(
    ("compose", "collector", "base", "added"),
    [
        (SIMPLE, "collector", "collector-to-goldspan.yaml", "compose/backends.yaml"),
        (KAFKA, "collector-from-kafka", "from-kafka.yaml", "compose-kafka/to-prometheus.yaml"),
    ],
)
def test_points_reach_prometheus(compose: Compose, collector: str, base: str, added: str) -> None:
    pipelines = document(ROOT / "config" / added)["service"]["pipelines"]
    assert set(pipelines) <= set(document(ROOT / "config" / "collector" / base)["service"]["pipelines"])
    _, _, port = compose.services[collector]["environment"]["PROMETHEUS_ENDPOINT"].rpartition(":")
    [_, scores] = document(compose.mounted("prometheus", "/etc/prometheus/prometheus.yaml"))["scrape_configs"]
    assert scores["static_configs"] == [{"targets": [f"{collector}:{port}"]}]


@pytest.mark.parametrize("compose", [SIMPLE, KAFKA], ids=lambda one: one.name)
def test_grafana_finds_the_dashboards(compose: Compose) -> None:
    provisioned = compose.mounted("grafana", "/etc/grafana/provisioning/dashboards/goldspan.yaml")
    [provider] = document(provisioned)["providers"]
    assert list(compose.mounted("grafana", provider["options"]["path"]).glob("goldspan-*.json"))


@pytest.mark.parametrize("folder", [WORKERS, GATEWAY], ids=lambda one: one.name)
class TestManifests:
    def test_all_files_are_applied(self, folder: Path) -> None:
        kustomization = document(folder / "kustomization.yaml")
        files = [name for one in kustomization["configMapGenerator"] for name in one["files"]]
        named = {"kustomization.yaml", *kustomization["resources"], *files}
        assert named == {path.name for path in folder.iterdir()}
        [container] = manifests(folder)["StatefulSet"]["spec"]["template"]["spec"]["containers"]
        assert container["image"] in {one["name"] for one in kustomization["images"]}

    def test_everything_means_the_same_pods(self, folder: Path) -> None:
        found = manifests(folder)
        stateful_set = found["StatefulSet"]["spec"]
        selectors = [
            stateful_set["selector"]["matchLabels"],
            stateful_set["template"]["metadata"]["labels"],
            found["Service"]["spec"]["selector"],
            found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
            found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
            found["PodMonitor"]["spec"]["selector"]["matchLabels"],
        ]
        assert all(one == {"app.kubernetes.io/name": f"goldspan-{folder.name}"} for one in selectors)
        # Otherwise a service's variables would look like settings.
        assert stateful_set["template"]["spec"]["enableServiceLinks"] is False

    def test_settings_restart_the_pods_and_goldens_do_not(self, folder: Path) -> None:
        made = {one["name"]: one for one in document(folder / "kustomization.yaml")["configMapGenerator"]}
        pod = manifests(folder)["StatefulSet"]["spec"]["template"]["spec"]
        named = {one["name"]: one["configMap"]["name"] for one in pod["volumes"] if "configMap" in one}
        assert set(named.values()) == set(made)
        assert "options" not in made[named["settings"]]
        assert made[named["goldens"]]["options"] == {"disableNameSuffixHash": True}
        [mount] = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "goldens"]
        assert "subPath" not in mount  # it would keep the file of the start


KNOWN = sorted(path for path in KUBERNETES.rglob("*.yaml") if "apiVersion: " in path.read_text("utf-8"))


@pytest.mark.parametrize("path", KNOWN, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_kubernetes_knows_every_field(path: Path) -> None:
    validate: Any = pytest.importorskip(
        "kubernetes_validate", reason="no schemas here: pip install kubernetes-validate"
    )
    for one in documents(path):
        if one["apiVersion"].partition("/")[0] in {"v1", "apps", "policy", "networking.k8s.io"}:
            validate.validate(one, validate.latest_version(), strict=True)


class TestReplicas:
    folder = KUBERNETES / "gateway-replicas"
    kustomization = document(folder / "kustomization.yaml")
    found = documents(folder / "router.yaml")
    collector = document(folder / "collector.yaml")

    def test_each_replica_is_named_and_reached(self) -> None:
        assert self.kustomization["resources"] == ["../gateway", "router.yaml"]
        [patch] = self.kustomization["patches"]
        changed = {one["path"]: one["value"] for one in YAML(typ="safe").load(patch["patch"])}
        gateway = manifests(GATEWAY)["StatefulSet"]
        assert patch["target"] == {"kind": "StatefulSet", "name": gateway["metadata"]["name"]}
        headless, service, *_ = self.found
        assert headless["spec"]["clusterIP"] == "None"
        assert headless["spec"]["selector"] == gateway["spec"]["selector"]["matchLabels"]
        assert changed["/spec/serviceName"] == headless["metadata"]["name"]
        named = [
            f"{gateway['metadata']['name']}-{number}.{headless['metadata']['name']}:{headless['spec']['ports'][0]['port']}"
            for number in range(changed["/spec/replicas"])
        ]
        balancing = self.collector["exporters"]["load_balancing"]
        assert [one.partition(":-")[2].rstrip("}") for one in balancing["resolver"]["static"]["hostnames"]] == named
        assert service["spec"]["selector"] == {"app.kubernetes.io/name": "goldspan-router"}

    def test_the_router_shows_the_token_of_the_gateway_and_keeps_nothing(self) -> None:
        [router] = [one for one in self.found if one["kind"] == "Deployment"]
        [container] = router["spec"]["template"]["spec"]["containers"]
        [token] = container["env"]
        secret = token["valueFrom"]["secretKeyRef"]
        [volume] = [one for one in TestGateway.pod["volumes"] if one["name"] == "tokens"]
        assert (secret["name"], secret["key"]) == (volume["secret"]["secretName"], "token")
        protocol = self.collector["exporters"]["load_balancing"]["protocol"]["otlp"]
        assert protocol["headers"] == {"authorization": f"Bearer ${{env:{token['name']}}}"}
        assert protocol["sending_queue"] == protocol["retry_on_failure"] == {"enabled": False}
        [files] = [one["files"] for one in self.kustomization["configMapGenerator"]]
        assert files == [container["args"][1].rpartition("/")[2]]


class TestGateway:
    found = manifests(GATEWAY)
    settings = load_settings(GATEWAY / "goldspan.yaml", {}, GatewaySettings)
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    container = pod["containers"][0]

    def test_it_finds_settings_goldens_tokens_and_state(self) -> None:
        paths = {one["name"]: one["mountPath"] for one in self.container["volumeMounts"]}
        assert self.container["args"] == ["serve", "--config", f"{paths['settings']}/goldspan.yaml"]
        assert [str(path) for path in self.settings.goldens] == [paths["goldens"]]
        assert load_goldens(GATEWAY / "goldens.yaml").goldens
        tokens = [*self.settings.receivers.tokens, *self.settings.admin.tokens]
        assert [str(one.file) for one in tokens] == [f"{paths['tokens']}/token", f"{paths['tokens']}/admin-token"]
        assert "STATE_DIRECTORY=" + paths["state"] in DOCKERFILE
        [scrape] = self.found["PodMonitor"]["spec"]["podMetricsEndpoints"]
        secret = [one["secret"]["secretName"] for one in self.pod["volumes"] if one["name"] == "tokens"]
        assert [scrape["authorization"]["credentials"]] == [{"name": secret[0], "key": "admin-token"}]
        assert f"USER {self.pod['securityContext']['runAsUser']}\n" in DOCKERFILE

    def test_ports_are_those_of_the_settings(self) -> None:
        receivers, admin = self.settings.receivers, self.settings.admin
        assert receivers.grpc is not None
        assert receivers.http is not None
        assert admin.listen is not None
        ports = {"otlp-grpc": receivers.grpc.port, "otlp-http": receivers.http.port, "admin": admin.listen.port}
        assert {one["name"]: one["containerPort"] for one in self.container["ports"]} == ports
        served = {one["targetPort"]: one["port"] for one in self.found["Service"]["spec"]["ports"]}
        assert served == {"otlp-grpc": ports["otlp-grpc"], "otlp-http": ports["otlp-http"]}
        senders, prometheus = self.found["NetworkPolicy"]["spec"]["ingress"]
        assert {one["port"] for one in senders["ports"]} == set(served.values())
        assert [one["port"] for one in prometheus["ports"]] == [ports["admin"]]
        to_collector, _ = self.found["NetworkPolicy"]["spec"]["egress"]
        host, _, port = str(self.settings.export.endpoint).rpartition("/")[2].partition(":")
        assert [one["port"] for one in to_collector["ports"]] == [int(port)]
        selected = to_collector["to"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
        assert host.split(".")[1] == selected
        for probe in ("livenessProbe", "readinessProbe"):
            get = self.container[probe]["httpGet"]
            assert (get["port"], status_of(get["path"])) == ("admin", 200)

    def test_a_sidecar_listens_where_its_agent_sends(self) -> None:
        pod = document(KUBERNETES / "sidecar.yaml")["spec"]["template"]["spec"]
        [agent], [sidecar] = pod["containers"], pod["initContainers"]
        variables = {one["name"]: one["value"] for one in sidecar["env"]}
        settings = load_settings(None, variables, GatewaySettings)
        assert settings.receivers.http is not None
        assert agent["env"][0]["value"] == f"http://127.0.0.1:{settings.receivers.http.port}"
        assert settings.admin.listen is not None
        probes = [sidecar[name]["exec"]["command"][-1] for name in ("startupProbe", "readinessProbe", "livenessProbe")]
        pages = [f"127.0.0.1:{settings.admin.listen.port}/{page}" for page in ("readyz", "readyz", "healthz")]
        assert [page in probe for page, probe in zip(pages, probes, strict=True)] == [True] * 3
        assert sidecar["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        mounted = {one["mountPath"] for one in sidecar["volumeMounts"]}
        assert {str(path.parent) for path in settings.goldens} | {"/var/lib/goldspan"} <= mounted


class TestWorkers:
    settings = load_settings(WORKERS / "stream.yaml", {}, StreamSettings)
    pod = MANIFESTS["StatefulSet"]["spec"]["template"]["spec"]
    worker = pod["containers"][0]

    def path_in(self, volume: str) -> str:
        [path] = [one["mountPath"] for one in self.worker["volumeMounts"] if one["name"] == volume]
        return str(path)

    def test_workers_find_settings_goldens_token_and_state(self) -> None:
        volumes = {one["name"]: one for one in self.pod["volumes"]}
        assert (
            volumes["settings"]["configMap"]["name"]
            == document(WORKERS / "kustomization.yaml")["configMapGenerator"][0]["name"]
        )
        assert self.worker["args"] == ["stream", f"{self.path_in('settings')}/stream.yaml"]
        assert [str(path) for path in self.settings.goldens] == [self.path_in("goldens")]
        assert load_goldens(WORKERS / "goldens.yaml").goldens
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
