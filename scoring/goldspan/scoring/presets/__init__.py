"""Presets: other systems' scorers, reproduced exactly. Their scores are never mixed with goldspan's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goldspan.scoring.names_on_use import names_on_use

if TYPE_CHECKING:
    from goldspan.scoring.presets.inputs import PresetOptions
    from goldspan.scoring.presets.preset_registry import PRESETS, Preset, score_with_preset
    from goldspan.scoring.verdict import PresetResult

__all__ = [
    "PRESETS",
    "Preset",
    "PresetOptions",
    "PresetResult",
    "score_with_preset",
]

__getattr__, __dir__ = names_on_use(
    __name__,
    {
        "goldspan.scoring.verdict": "PresetResult",
        "goldspan.scoring.presets.inputs": "PresetOptions",
        "goldspan.scoring.presets.preset_registry": "PRESETS Preset score_with_preset",
    },
)
