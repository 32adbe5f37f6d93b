"""The environment variables of a zero-code set-up: `GOLDSPAN_` and an option's name in capitals."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from goldspan.scoring.errors import SettingsError

PREFIX = "GOLDSPAN_"
SESSION_VARIABLE = "GOLDSPAN_SESSION"
"""The session of every span without a `session_scope`, for processes that are one session."""


@dataclass(frozen=True, slots=True)
class Option:
    """How the text of an option is read, and what a message says is expected."""

    read: Callable[[str], object]
    expected: str


def _number(text: str) -> float:
    return float(text)


def _switch(text: str) -> bool:
    known = {"on": True, "true": True, "1": True, "yes": True, "off": False, "false": False, "0": False, "no": False}
    return known[text.lower()]


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _paths(text: str) -> tuple[str, ...]:
    return tuple(path for part in text.split(os.pathsep) if (path := part.strip()))


OPTIONS: Mapping[str, Option] = {
    "goldens": Option(_paths, f"golden files or directories, with {os.pathsep!r} between them"),
    "criterion": Option(str, "a file with a criterion"),
    "preset": Option(str, "the name of a preset"),
    "metrics": Option(_names, "names of metrics, with commas between them"),
    "metric_timeout": Option(_number, "seconds"),
    "exporter": Option(str, "the name of the exporter that sends the spans, such as otlp or console"),
    "hold": Option(_switch, "on or off"),
    "hold_timeout": Option(_number, "seconds"),
    "settle": Option(_number, "seconds"),
    "run_idle": Option(_number, "seconds"),
    "session_gap": Option(_number, "seconds"),
    "max_held_spans": Option(int, "a number of spans"),
    "max_held_bytes": Option(int, "a number of bytes"),
    "include_values": Option(_switch, "on or off"),
    "agent_names": Option(_names, "names of agents, with commas between them"),
}
"""Every option that a variable or a configuration file can set. The others are Python objects."""


def options_of(environment: Mapping[str, str]) -> dict[str, object]:
    """Return the options whose variables are set and not empty.

    Raises `SettingsError` that names every invalid variable, what was found and what was expected.
    """
    found: dict[str, object] = {}
    mistakes: list[str] = []
    for name, option in OPTIONS.items():
        variable = PREFIX + name.upper()
        if not (text := environment.get(variable, "").strip()):
            continue
        try:
            found[name] = option.read(text)
        except (ValueError, KeyError):
            mistakes.append(f"{variable}: found {text!r}, expected {option.expected}")
    if mistakes:
        raise SettingsError("; ".join(mistakes))
    return found
