"""Print the fields of a criterion, from the model that reads them."""

from __future__ import annotations

import json
import sys

from goldspan.scoring import Criterion


def page() -> str:
    """Return the table."""
    lines = ["| field | default | meaning |", "|---|---|---|"]
    for name, field in Criterion.model_json_schema()["properties"].items():
        default = field.get("default")
        shown = (
            "none" if default in (None, [], {}) else f"`{default if isinstance(default, str) else json.dumps(default)}`"
        )
        meaning = " ".join(field["description"].split())
        others = [f"`{value}`" for value in field.get("enum", ()) if f"`{value}`" not in meaning and value != default]
        more = f" Or {', '.join(others)}." if others else ""
        lines.append(f"| `{name}` | {shown} | {meaning}{more} |")
    return "\n".join(lines).replace("1.0`", "1`").replace("0.0`", "0`") + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
