"""Print the JSON Schema of the settings of `goldspan serve`, or of `goldspan stream`, for editors.

python docs/generate_gateway_schema.py > config/gateway/goldspan.schema.json
python docs/generate_gateway_schema.py stream > config/stream.schema.json
"""

from __future__ import annotations

import json
import sys
from typing import Any

from goldspan.collector_processor.gateway.settings.sections import GatewaySettings
from goldspan.collector_processor.serving.field_types import ListenAddress
from goldspan.collector_processor.stream.stream_settings import StreamSettings

COMMANDS = {"serve": GatewaySettings, "stream": StreamSettings}
BY_VARIABLE = ("GatewaySettings", "Export", "StreamSettings", "Kafka")
"""Sections whose required fields may come from variables instead, so that a file need not have them."""


def page(command: str = "serve") -> str:
    """Return the whole file."""
    settings = COMMANDS[command]
    made = settings.model_json_schema()
    blocks = made["$defs"] | {settings.__name__: made}
    for name, block in blocks.items():
        block.pop("title", None)
        if name in BY_VARIABLE:
            block.pop("required", None)
        for field in block["properties"].values():
            _shorten(field)
    about = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://json.schemastore.org/goldspan-{command}.json",
        "title": f"Settings of goldspan {command}",
    }
    return json.dumps({**about, **made}, indent=2) + "\n"


def _shorten(field: dict[str, Any]) -> None:
    """Leave out the defaults of whole sections, which their own fields say, and write addresses as people do."""
    field.pop("title", None)
    default = field.get("default")
    if isinstance(default, dict) and default.keys() == {"host", "port"}:
        field["default"] = str(ListenAddress(**default))
    elif "$ref" in field:
        field.pop("default", None)


if __name__ == "__main__":
    sys.stdout.write(page(*sys.argv[1:]))
