# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "grpcio==1.85.1",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
#
# [tool.record]
# program = "go/eino"
# ///
"""Eino with APMPlus's callbacks; needs go. Eino itself writes no spans."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import scenario
from openai_server import serve
from otlp_sink import receive_grpc
from recorder import Recorder, main, recording

PROGRAM = Path(sys.prefix) / "program" / "built"


def play(recorder: Recorder, mode: str) -> None:
    """A ReAct agent, told of failures as results: without that, a failing tool ends the turn."""
    given = [mode, serve(scenario.STANDARD), receive_grpc(recorder), scenario.SESSION]
    subprocess.run([PROGRAM, *given, *(turn.user for turn in scenario.STANDARD)], check=True, timeout=60)


recording("go-eino")(lambda recorder: play(recorder, "plain"))
recording("go-eino-stream")(lambda recorder: play(recorder, "stream"))


main(__file__)
