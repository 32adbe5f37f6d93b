"""What a golden asks for beside its calls: metrics by name, and another system's scorer. Names only, never code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from goldspan.scoring.sessions import JsonValue

MAIN = "tool_parameter_match"
"""The metric that is always judged; what is chosen stands beside it."""


class MetricChoice(NamedTuple):
    """A metric that stands beside the main one."""

    name: str
    """Of a metric that is goldspan's own, an installed package's, or registered by code."""
    threshold: Fraction | None = None
    """The least score that passes; None: the metric only informs."""


@dataclass(frozen=True, slots=True)
class PresetChoice:
    """A preset that scores in the place of `tool_parameter_match`."""

    name: str
    options: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """By the names the reproduced system gives them."""
