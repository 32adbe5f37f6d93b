# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
#
# [tool.record.npm]
# "@google/adk" = "2.0.0"
# "@opentelemetry/exporter-trace-otlp-proto" = "0.205.0"
# "@opentelemetry/resources" = "2.1.0"
# "@opentelemetry/sdk-trace-base" = "2.1.0"
# "@opentelemetry/sdk-trace-node" = "2.1.0"
# ///
"""Google's ADK for JavaScript by its own telemetry, played by `google_adk.mjs`; needs node and npm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import scenario
from otlp_sink import receive
from recorder import Recorder, main, recording
from scenario import Call, Turn

PROGRAM = Path(__file__).with_name("google_adk.mjs")
TRANSFER = Call("call_8", "transfer_to_agent", {"agentName": scenario.BOOKING_AGENT})
TURNS = {
    "agent-as-tool": scenario.DELEGATED,
    "subagent": (scenario.WEATHER, Turn(scenario.ASK_TABLE, ((TRANSFER,), *scenario.TABLE.steps))),
}


def steps(turns: tuple[Turn, ...]) -> list[Any]:
    return [step if isinstance(step, str) else [vars(call) for call in step] for turn in turns for step in turn.steps]


def play(recorder: Recorder, way: str = "", environment: dict[str, str] | None = None) -> None:
    turns = TURNS.get(way, scenario.STANDARD)
    asked = {
        "agent": scenario.AGENT,
        "booking": scenario.BOOKING_AGENT,
        "session": scenario.SESSION,
        "instruction": scenario.INSTRUCTIONS,
        "turns": [turn.user for turn in turns],
        # Once a conversation is handed over, the other agent asks for its tools itself.
        "steps": steps(turns)[:4] if way == "subagent" else steps(turns),
        "innerSteps": steps((scenario.TABLE,)),
        "tools": {tool.__name__: scenario.parameters(tool.__name__) for tool in scenario.TOOLS},
    }
    # A module finds its packages beside itself.
    program = shutil.copy(PROGRAM, sys.prefix)
    command = ["node", program, way or "plain", recorder.name, receive(recorder)]
    subprocess.run(command, input=json.dumps(asked), text=True, check=True, env=os.environ | (environment or {}))


recording("js-google-adk")(play)
for way in ("stream", "agent-as-tool", "subagent"):
    recording(f"js-google-adk-{way}")(lambda recorder, way=way: play(recorder, way))


@recording("js-google-adk-nocontent")
def without_content(recorder: Recorder) -> None:
    play(recorder, environment={"ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS": "false"})


main(__file__)
