"""Goldens: what sessions should have done, read from files and joined with sessions."""

from __future__ import annotations

from goldspan.scoring.goldens.golden import ExpectedCall, Golden, GoldenSet, GoldenTurn
from goldspan.scoring.goldens.golden_index import Ambiguous, GoldenIndex, is_turn_of, split_runs
from goldspan.scoring.goldens.loading import load_criterion, load_goldens

__all__ = [
    "Ambiguous",
    "ExpectedCall",
    "Golden",
    "GoldenIndex",
    "GoldenSet",
    "GoldenTurn",
    "is_turn_of",
    "load_criterion",
    "load_goldens",
    "split_runs",
]
