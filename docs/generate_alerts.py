"""Print what the alerts say, and what to do about each, from `config/prometheus/rules.yaml`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import yaml

RULES = Path(__file__).resolve().parents[1] / "config/prometheus/rules.yaml"
_LABEL = re.compile(r"\{\{ \$labels\.(\w+) \}\}")
_VALUE = re.compile(r"\{\{ \$value[^}]*\}\}")


def page() -> str:
    """Return the table. Labels stand for their values, N for a number."""
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    lines = ["| alert | says | what to do |", "|---|---|---|"]
    for rule in (rule for group in groups for rule in group["rules"] if "alert" in rule):
        said = _LABEL.sub(r"*\1*", _VALUE.sub("N", rule["annotations"]["summary"]))
        lines.append(f"| `{rule['alert']}` | {said.strip()} | {rule['annotations']['description'].strip()} |")
    return "\n".join(lines).replace("tool_parameter_match_", "") + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
