# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
#
# [tool.record.npm]
# genkit = "1.42.0"
# genkit-chat = "npm:genkit@1.33.0"
# "@opentelemetry/exporter-trace-otlp-proto" = "0.52.1"
# "@opentelemetry/sdk-trace-base" = "1.25.1"
# ///
"""Genkit for JavaScript by its own telemetry, played by `genkit.mjs`; needs node and npm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import scenario
from openai_server import serve
from otlp_sink import receive
from recorder import Recorder, main, recording

PROGRAM = Path(__file__).with_name("genkit.mjs")
WAYS = (
    "flow",
    "stream",
    "multipart",
    "nosession",
    "generate",
    "throw",
    "prompt",
    "interrupt",
    "handover",
    "chat",
    "agent",
)


def play(recorder: Recorder, way: str) -> None:
    turns = scenario.HANDED_OVER_BY_TOOL if way == "handover" else scenario.STANDARD
    asked = {
        "session": scenario.SESSION,
        "system": scenario.INSTRUCTIONS,
        "turns": [turn.user for turn in turns],
        "tools": {tool.__name__: scenario.parameters(tool.__name__) for tool in scenario.TOOLS},
        "handover": f"transfer_to_{scenario.BOOKING_AGENT}",
    }
    # A module finds its packages beside itself.
    program = shutil.copy(PROGRAM, sys.prefix)
    command = ["node", program, way, serve(turns), receive(recorder)]
    environment = os.environ | {"OTEL_SERVICE_NAME": recorder.name}
    subprocess.run(command, input=json.dumps(asked), text=True, check=True, env=environment)


for way in WAYS:
    recording(f"js-genkit-{way}")(lambda recorder, way=way: play(recorder, way))


main(__file__)
