"""Presets: other systems' scorers, reproduced exactly. They never mix with each other or with goldspan's own score."""

from __future__ import annotations

from goldspan.scoring.presets.inputs import PresetOptions
from goldspan.scoring.presets.registry import PRESETS, Preset, score_with_preset
from goldspan.scoring.results import PresetResult

__all__ = ["PRESETS", "Preset", "PresetOptions", "PresetResult", "score_with_preset"]
