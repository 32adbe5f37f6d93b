"""Print the JSON Schema of the gateway's settings, for editors.

python docs/generate_gateway_schema.py > config/gateway/goldspan.schema.json
"""

from __future__ import annotations

import json
import sys
from typing import Any

from goldspan.collector_processor.gateway.settings.field_types import ListenAddress
from goldspan.collector_processor.gateway.settings.sections import GatewaySettings

BY_VARIABLE = ("GatewaySettings", "Export")
"""Sections whose required fields may come from variables instead, so that a file need not have them."""


def page() -> str:
    """Return the whole file."""
    made = GatewaySettings.model_json_schema()
    blocks = made["$defs"] | {"GatewaySettings": made}
    for name, block in blocks.items():
        block.pop("title", None)
        if name in BY_VARIABLE:
            block.pop("required", None)
        for field in block["properties"].values():
            _shorten(field)
    draft = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps({"$schema": draft, "title": "Settings of goldspan serve", **made}, indent=2) + "\n"


def _shorten(field: dict[str, Any]) -> None:
    """Leave out the defaults of whole sections, which their own fields say, and write addresses as people do."""
    field.pop("title", None)
    default = field.get("default")
    if isinstance(default, dict) and default.keys() == {"host", "port"}:
        field["default"] = str(ListenAddress(**default))
    elif "$ref" in field:
        field.pop("default", None)


if __name__ == "__main__":
    sys.stdout.write(page())
