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
