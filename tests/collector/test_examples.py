"""The Collector configurations of `config/collector`, held against a real Collector's own validation."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rigs.repository import ROOT

COPY = ROOT / "config/collector/copy-to-file.yaml"
ROUTER = ROOT / "config/kubernetes/gateway-replicas/collector.yaml"
EXAMPLES = sorted(set((ROOT / "config/collector").glob("*.yaml")) - {COPY})


def validated(collector: Path, folder: Path, *configs: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    folders = {"COLLECTOR_STORAGE": str(folder / "storage"), "OTLP_FILE": str(folder / "scored.jsonl")}
    named = [word for one in configs for word in ("--config", str(one))]
    command = [collector, "validate", *named]
    return subprocess.run(command, check=False, env=os.environ | folders | variables, capture_output=True, text=True)


@pytest.mark.parametrize("example", [*EXAMPLES, ROUTER], ids=lambda path: path.stem)
def test_the_collector_takes_it(example: Path, collector: Path, tmp_path: Path) -> None:
    done = validated(collector, tmp_path, example, GOLDSPAN_TOKEN="secret")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("base", "receiver"), [("collector-to-goldspan.yaml", "otlp/scored"), ("from-kafka.yaml", "kafka")]
)
def test_a_copy_can_be_kept_beside_it(base: str, receiver: str, collector: Path, tmp_path: Path) -> None:
    done = validated(collector, tmp_path, COPY.with_name(base), COPY, COPY_OF=receiver)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_what_waits_is_on_disk_within_a_stated_size_and_counted(example: Path) -> None:
    content: Any = YAML(typ="safe").load(example)
    queues = [one["sending_queue"] for name, one in content["exporters"].items() if "prometheus" not in name]
    assert queues
    assert all(one["storage"] == "file_storage" and one["sizer"] == "bytes" and one["queue_size"] for one in queues)
    retries = [one["retry_on_failure"] for name, one in content["exporters"].items() if "prometheus" not in name]
    assert all(one["max_elapsed_time"] == "0s" for one in retries)
    assert "file_storage" in content["service"]["extensions"]
    assert "batch" not in content["processors"]  # it has in memory what was acknowledged
    assert content["service"]["telemetry"]["metrics"]["level"] != "none"
    exported = {one for pipeline in content["service"]["pipelines"].values() for one in pipeline["exporters"]}
    assert "file" not in exported


def test_the_collector_refuses_what_is_wrong(collector: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(EXAMPLES[0].read_text("utf-8").replace("receivers: [otlp]", "receivers: [nobody]"), "utf-8")
    done = validated(collector, tmp_path, wrong)
    assert done.returncode != 0
    assert "nobody" in done.stderr
