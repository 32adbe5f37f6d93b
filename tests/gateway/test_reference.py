"""The reference page, the files to copy, and what a running gateway really says."""

from __future__ import annotations

import json
import re
import runpy
from configparser import ConfigParser
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families

from goldspan.collector_processor.cli.serve import serve
from goldspan.collector_processor.gateway.settings.sections import GatewaySettings
from goldspan.collector_processor.gateway.settings.settings_file import load_settings, variables
from goldspan.collector_processor.serving.admin import HELP, STREAM_HELP
from goldspan.collector_processor.serving.field_types import Section
from goldspan.collector_processor.stream.stream_settings import StreamSettings
from goldspan.scoring.errors import FileError
from goldspan.scoring.goldens.documents import MistakeCollector, read_yaml
from rigs.downstream import http_downstream
from rigs.gateway_process import process, settings_for
from rigs.gateway_rig import one_span
from rigs.markdown_pages import blocks
from rigs.repository import ROOT

DOCS, CONFIG = ROOT / "docs", ROOT / "config"
FILES = CONFIG / "gateway"


@pytest.mark.parametrize(("made_by", "settings"), [("page", GatewaySettings), ("stream_page", StreamSettings)])
def test_the_reference_has_every_setting_and_number(made_by: str, settings: type[Section]) -> None:
    page = runpy.run_path(str(DOCS / "generate_gateway_reference.py"))[made_by]()
    assert {where[-1] for _, where in variables(settings) if f"`{where[-1]}`" not in page} == set()
    assert {name for name in (HELP if settings is GatewaySettings else STREAM_HELP) if f"`{name}`" not in page} == set()


def test_every_number_is_described(tmp_path: Path) -> None:
    with http_downstream() as http, process(settings_for(http), tmp_path) as gateway:
        assert gateway.post(one_span().SerializeToString()) == 200
        families = list(text_string_to_metric_families(gateway.get("/metrics").data.decode()))
        assert gateway.end() == 0
    names = {
        family.name if family.type == "histogram" else sample.name
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    assert {name for name in names if not name.startswith("process_")} <= set(HELP)
    assert {"goldspan_received_requests_total", "goldspan_journal_bytes", "goldspan_delivery_delay_seconds"} <= names


def test_the_settings_to_copy_can_be_used(tmp_path: Path) -> None:
    settings = load_settings(FILES / "goldspan.yaml", {})
    assert settings.goldens
    assert settings.journal.enabled
    inside = load_settings(FILES / "container.yaml", {"GOLDSPAN_EXPORT_ENDPOINT": "http://collector:4318"})
    assert inside.receivers.tokens


@pytest.mark.parametrize("name", ["goldspan.yaml", "guarded.yaml"])
def test_the_settings_of_the_page_can_be_used(name: str, tmp_path: Path) -> None:
    [block] = [one for one in blocks((DOCS / "gateway.md").read_text("utf-8")) if one.file == name]
    (tmp_path / name).write_text(block.text)
    assert load_settings(tmp_path / name, {}).export.endpoint


@pytest.mark.parametrize("path", [FILES.parents[1] / "Dockerfile", FILES / "goldspan.service"])
def test_variables_of_the_files_to_copy_exist(path: Path) -> None:
    text = path.read_text("utf-8")
    used = set(re.findall(r"GOLDSPAN_[A-Z_]+", text)) - {"GOLDSPAN_TOKEN"}
    assert used <= {variable for variable, _ in variables()}
    assert "goldspan serve" in re.sub(r'"\]\nCMD \["', " ", text)


def test_the_unit_to_copy_is_a_unit() -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(FILES / "goldspan.service", "utf-8")
    service = unit["Service"]
    assert service["Type"] == "notify"
    options = {option for param in serve.params for option in param.opts}
    assert set(re.findall(r"--[a-z]+", service["ExecStart"])) <= options
    assert service["StateDirectory"] == "goldspan"


@pytest.mark.parametrize(
    ("command", "file"), [("serve", "gateway/goldspan.schema.json"), ("stream", "stream.schema.json")]
)
def test_the_schema_is_what_the_declarations_say(command: str, file: str) -> None:
    made = runpy.run_path(str(DOCS / "generate_gateway_schema.py"))["page"](command)
    assert (CONFIG / file).read_text("utf-8") == made, (
        f"run: python docs/generate_gateway_schema.py {command} > config/{file}"
    )


def test_each_published_schema_has_an_id_of_its_own() -> None:
    schemas = [json.loads(path.read_text("utf-8")) for path in CONFIG.rglob("*.schema.json")]
    assert {schema["$id"].rpartition("/")[2] for schema in schemas} == {
        f"goldspan-{name}.json" for name in ("golden-set", "score", "inspect", "serve", "stream")
    }


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ((FILES / "goldspan.yaml").read_text("utf-8"), True),
        ((FILES / "container.yaml").read_text("utf-8"), True),
        ("goldens: one.yaml\nreceivers: {http: null, forward_headers: x-a}\nshutdown_timeout: 5m\n", True),
        ("export: {headers: {a: text, b: {env: B}}, logs: {enabled: false}}\nlimits: {max_request_bytes: 5}\n", True),
        ("golden: one.yaml\n", False),
        ("export: {protocol: udp}\n", False),
        ("export: {headers: {a: 5}}\n", False),
        ("limits: {max_connections: many}\n", False),
    ],
)
def test_editors_and_the_gateway_agree(text: str, good: bool, tmp_path: Path) -> None:
    document = read_yaml(text, MistakeCollector("settings"))
    schema = json.loads((FILES / "goldspan.schema.json").read_text("utf-8"))
    assert Draft202012Validator(schema).is_valid(document) is good
    (tmp_path / "goldspan.yaml").write_text(text)
    environ = {"GOLDSPAN_EXPORT_ENDPOINT": "http://collector:4318"}
    if good:
        load_settings(tmp_path / "goldspan.yaml", environ)
    else:
        with pytest.raises(FileError):
            load_settings(tmp_path / "goldspan.yaml", environ)
