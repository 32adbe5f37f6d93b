# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
#
# [tool.record]
# program = "java/quarkus_langchain4j"
# ///
"""LangChain4j as Quarkus runs and traces it; needs Java 17 and mvn. LangChain4j itself writes no span of a tool."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import scenario
from openai_server import serve
from otlp_sink import receive
from recorder import Recorder, main, recording

PROGRAM = Path(sys.prefix) / "program" / "target" / "quarkus-app" / "quarkus-run.jar"
CONTENT = [
    f"-Dquarkus.langchain4j.tracing.include-{what}=true"
    for what in ("tool-arguments", "tool-result", "prompt", "completion")
]


def play(recorder: Recorder, *settings: str) -> None:
    environment = {
        "QUARKUS_LANGCHAIN4J_OPENAI_BASE_URL": serve(scenario.STANDARD),
        "QUARKUS_OTEL_EXPORTER_OTLP_ENDPOINT": receive(recorder),
        "QUARKUS_OTEL_RESOURCE_ATTRIBUTES": f"service.name={recorder.name}",
    }
    command = ["java", *settings, "-jar", PROGRAM, scenario.SESSION, *(turn.user for turn in scenario.STANDARD)]
    subprocess.run(command, env=os.environ | environment, check=True, timeout=120)


recording("java-quarkus-langchain4j")(lambda recorder: play(recorder, *CONTENT))
recording("java-quarkus-langchain4j-nocontent")(play)

main(__file__)
