"""The matchers that a golden may hold in the place of a value: each module offers its own in `KINDS`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from goldspan.scoring.matchers.matcher import MatcherKind


def matcher_kinds() -> Mapping[str, MatcherKind]:
    """Return the matchers of all modules of this package by name, the commonest first."""
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    return {kind.name: kind for module in modules for kind in module.KINDS}
