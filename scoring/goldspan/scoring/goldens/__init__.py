"""Goldens: what sessions should have done, read from files and matched with sessions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goldspan.scoring.goldens.golden import ExpectedCall, Golden, GoldenSet, GoldenTurn
    from goldspan.scoring.goldens.golden_index import Ambiguous, GoldenIndex, is_turn_of
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
]

_MODULES = {
    **dict.fromkeys(("Ambiguous", "GoldenIndex", "is_turn_of"), "golden_index"),
    **dict.fromkeys(("load_criterion", "load_goldens"), "loading"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562): `loading` needs results, and results need goldens."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'golden')}"), name)
