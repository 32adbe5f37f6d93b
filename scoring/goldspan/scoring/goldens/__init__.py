"""Goldens: what sessions should have done, read from files and matched with sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goldspan.scoring.names_on_use import names_on_use

if TYPE_CHECKING:
    from goldspan.scoring.goldens.golden import ExpectedCall, Golden, GoldenIndex, GoldenSet, GoldenTurn
    from goldspan.scoring.goldens.loading import load_criterion, load_goldens

__all__ = [
    "ExpectedCall",
    "Golden",
    "GoldenIndex",
    "GoldenSet",
    "GoldenTurn",
    "load_criterion",
    "load_goldens",
]

__getattr__, __dir__ = names_on_use(
    __name__,
    {
        "goldspan.scoring.goldens.golden": "ExpectedCall Golden GoldenIndex GoldenSet GoldenTurn",
        "goldspan.scoring.goldens.loading": "load_criterion load_goldens",
    },
)
