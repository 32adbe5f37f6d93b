# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
#
# [tool.record]
# program = "java/spring_ai"
# ///
"""Spring AI in Spring Boot, by Micrometer's bridge to OpenTelemetry; needs Java 17 and mvn."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import scenario
from openai_server import serve
from otlp_sink import receive
from recorder import Recorder, main, recording

PROGRAM = Path(sys.prefix) / "program" / "target" / "built.jar"


def play(recorder: Recorder, *settings: str) -> None:
    environment = {
        # The client adds the version of the API.
        "SPRING_AI_OPENAI_BASE_URL": serve(scenario.STANDARD).removesuffix("/v1"),
        "MANAGEMENT_OTLP_TRACING_ENDPOINT": f"{receive(recorder)}/v1/traces",
        "SPRING_APPLICATION_NAME": recorder.name,
    }
    command = ["java", *settings, "-jar", PROGRAM, scenario.SESSION, *(turn.user for turn in scenario.STANDARD)]
    subprocess.run(command, env=os.environ | environment, check=True, timeout=120)


recording("java-springai")(lambda recorder: play(recorder, "-Dspring.ai.tools.observations.include-content=true"))


main(__file__)
