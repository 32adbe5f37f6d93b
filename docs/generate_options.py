"""Print the options of the in-process door with their defaults, from its signature and docstring."""

from __future__ import annotations

import inspect
import re
import sys

from goldspan.collector_processor import ToolParameterMatchExporter

_OPTION = re.compile(r"^    (\w+): (.*(?:\n {8,}.*)*)", re.MULTILINE)
_WORDS = {None: "none", (): "none"}


def page() -> str:
    """Return the table."""
    constructor = ToolParameterMatchExporter.__init__
    meanings = {name: " ".join(text.split()) for name, text in _OPTION.findall(inspect.getdoc(constructor) or "")}
    lines = ["| option | default | meaning |", "|---|---|---|"]
    for name, option in inspect.signature(constructor).parameters.items():
        if option.kind is inspect.Parameter.KEYWORD_ONLY:
            lines.append(f"| `{name}` | {_default(name, option.default)} | {meanings[name]} |")
    return "\n".join(lines) + "\n"


def _default(name: str, value: object) -> str:
    if name.endswith("_provider"):
        return "the global one"
    if isinstance(value, float | int) and not isinstance(value, bool):
        return f"{value:g}" if isinstance(value, float) else str(value)
    return _WORDS.get(value) or f"`{value}`"


if __name__ == "__main__":
    sys.stdout.write(page())
