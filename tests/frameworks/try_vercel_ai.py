# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "goldspan[gateway]",
# ]
#
# [tool.record.npm]
# ai = "6.0.326"
# zod = "3.25.76"
# "@ai-sdk/openai" = "3.0.141"
# "@opentelemetry/api" = "1.9.1"
# "@opentelemetry/exporter-trace-otlp-proto" = "0.223.1"
# "@opentelemetry/sdk-trace-base" = "2.12.1"
# "@opentelemetry/sdk-trace-node" = "2.12.0"
# ///
"""Vercel's AI SDK, played by `vercel_ai.mjs`, through the gateway; needs node and npm."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from waiting import until_open

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]

Path("goldspan.yaml").write_text(
    f"""
goldens: goldens.yaml
export: {{endpoint: "{os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]}"}}
receivers: {{http: "127.0.0.1:{port}", grpc: null}}
admin: {{listen: null}}
""",
    "utf-8",
)
gateway = subprocess.Popen(["goldspan", "serve", "--config", "goldspan.yaml"])
until_open(port)
# A module finds its packages beside itself.
program = shutil.copy(Path(__file__).with_name("vercel_ai.mjs"), sys.prefix)
subprocess.run(
    ["node", program], env=os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}, check=True
)
gateway.send_signal(signal.SIGTERM)
sys.exit(gateway.wait(60))
