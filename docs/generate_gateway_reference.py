"""Print the tables of `gateway-reference.md` from the settings and the numbers on `/metrics`.

With `stream`, those of `stream-reference.md`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from goldspan.collector_processor.gateway.settings.sections import GatewaySettings
from goldspan.collector_processor.gateway.settings.settings_file import section_in, variables
from goldspan.collector_processor.serving.admin import HELP, STREAM_HELP
from goldspan.collector_processor.serving.field_types import Secret, Section
from goldspan.collector_processor.stream.stream_settings import StreamSettings
from goldspan.scoring.field_docstrings import field_docstrings

REPEATED = {("export", "logs"), ("export", "metrics")}
"""Sections that are like one before them."""


def page() -> str:
    """Return the gateway's tables."""
    return _page(GatewaySettings, HELP)


def stream_page() -> str:
    """Return the tables of `goldspan stream`. What the gateway has too is only named."""
    whole = _page(StreamSettings, STREAM_HELP)
    known = set(page().splitlines())
    lines: list[str] = []
    same: list[str] = []
    for line in whole.splitlines():
        if line.startswith("| `") and line in known:
            same.append(line.split(" | ")[0].removeprefix("| "))
        else:
            if not line and same:
                lines += ["", f"As for [`goldspan serve`](gateway-reference.md): {', '.join(same)}."]
                same.clear()
            lines.append(line)
    return "\n".join(lines)


def _page(top: type[Section], help_texts: Mapping[str, str]) -> str:
    return "\n".join(
        [
            *_section(top, (), {}, {where for _, where in variables(top)}),
            "## Numbers on `/metrics`",
            "",
            "| name | meaning |",
            "|---|---|",
            *(f"| `{name}` | {meaning} |" for name, meaning in help_texts.items()),
            "",
            "Beside them stand `process_*`: memory, CPU time and open files of the process.",
        ]
    )


def _section(
    section: type[Section],
    above: tuple[str, ...],
    shown: dict[type[Section], str],
    has_variable: set[tuple[str | int, ...]],
) -> Iterator[str]:
    """Yield the lines of a section and of those inside; a class that was shown before gets a link."""
    if section in shown:
        first = shown[section]
        yield from (f"## `{'.'.join(above)}`", "", f"As [`{first}`](#{first.replace('.', '')}).", "")
        return
    shown[section] = ".".join(above)
    meanings = field_docstrings(section)
    rows: list[str] = []
    inner: list[tuple[type[Section], tuple[str, ...]]] = []
    for name, field in section.model_fields.items():
        where = (*above, name)
        below = section_in(field.annotation)
        if where in REPEATED:
            continue
        if below is not None and where not in has_variable and below is not Secret:
            inner.append((below, where))
            continue
        default = "required" if field.is_required() else _default(field.get_default(call_default_factory=True))
        rows.append(f"| `{name}` | {default} | {' '.join(meanings.get(name, '').split())} |")
    title = f"`{'.'.join(above)}`" if above else "At the top"
    if above == ("export", "traces"):
        title = "`export.traces`, and the same for `export.logs` and `export.metrics`"
    if rows:
        yield from (
            f"## {title}",
            "",
            " ".join((section.__doc__ or "").split()),
            "",
            "| option | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
        )
    for below, where in inner:
        yield from _section(below, where, shown, has_variable)


def _default(value: Any) -> str:
    if isinstance(value, tuple | dict):
        return "goldspan's own" if len(value) else "none"
    if isinstance(value, bool) or value is None:
        return f"`{json.dumps(value)}`"
    if isinstance(value, int) and value >= 1024:
        return f"`{value >> 30}GiB`" if value % (1 << 30) == 0 else _mebibytes(value)
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{value}`"


def _mebibytes(value: int) -> str:
    if value % (1 << 20) == 0:
        return f"`{value >> 20}MiB`"
    return f"`{value >> 10}KiB`" if value % (1 << 10) == 0 and value > 10_000 else f"`{value}`"


if __name__ == "__main__":
    sys.stdout.write((stream_page() if "stream" in sys.argv else page()) + "\n")
