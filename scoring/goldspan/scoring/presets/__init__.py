"""Presets: other systems' scorers, reproduced exactly. Their scores are never mixed with goldspan's own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goldspan.scoring.metric_results import PresetResult
    from goldspan.scoring.presets.inputs import PresetOptions
    from goldspan.scoring.presets.preset_registry import PRESETS, Preset, score_with_preset

__all__ = [
    "PRESETS",
    "Preset",
    "PresetOptions",
    "PresetResult",
    "score_with_preset",
]

_MODULES = {"PresetOptions": "presets.inputs", "PresetResult": "metric_results"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562): importing one preset does not import the others."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"goldspan.scoring.{_MODULES.get(name, 'presets.preset_registry')}"), name)
