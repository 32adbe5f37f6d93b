# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
#
# [tool.record.npm]
# ai5 = "npm:ai@5.0.277"
# ai6 = "npm:ai@6.0.326"
# openai5 = "npm:@ai-sdk/openai@2.0.131"
# openai6 = "npm:@ai-sdk/openai@3.0.141"
# zod = "3.25.76"
# "@opentelemetry/api" = "1.9.1"
# "@opentelemetry/exporter-trace-otlp-proto" = "0.223.1"
# "@opentelemetry/resources" = "2.12.1"
# "@opentelemetry/sdk-trace-base" = "2.12.1"
# "@opentelemetry/sdk-trace-node" = "2.12.0"
# ///
"""Vercel's AI SDK in two versions, played by `vercel_ai.mjs`; needs node and npm."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import scenario
from openai_server import serve
from otlp_sink import receive
from recorder import Recorder, main, recording
from scenario import Turn

PROGRAM = Path(__file__).with_name("vercel_ai.mjs")


def play(
    recorder: Recorder, version: int, mode: str = "", conversations: Mapping[str, tuple[Turn, ...]] | None = None
) -> None:
    conversations = conversations or {scenario.SESSION: scenario.STANDARD}
    turns = [turns[number] for number in range(2) for turns in conversations.values()]
    asked = {
        "agent": scenario.AGENT,
        "sessions": [{"id": name, "turns": [turn.user for turn in turns]} for name, turns in conversations.items()],
        "tools": {tool.__name__: scenario.parameters(tool.__name__) for tool in scenario.TOOLS},
    }
    # A module finds its packages beside itself.
    program = shutil.copy(PROGRAM, sys.prefix)
    command = ["node", program, str(version), mode or "plain", serve(turns), receive(recorder)]
    subprocess.run(command, input=json.dumps(asked), text=True, check=True)


for version in (5, 6):
    recording(f"vercel-ai-v{version}")(lambda recorder, version=version: play(recorder, version))
    recording(f"vercel-ai-v{version}-stream")(lambda recorder, version=version: play(recorder, version, "stream"))
    recording(f"vercel-ai-v{version}-nocontent")(lambda recorder, version=version: play(recorder, version, "nocontent"))


@recording("vercel-ai-v6-batch")
def batch(recorder: Recorder) -> None:
    """A program runs two conversations, turn by turn, under one span."""
    play(recorder, 6, "", scenario.CONVERSATIONS)


main(__file__)
