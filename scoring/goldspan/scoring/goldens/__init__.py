"""Goldens: what sessions should have done, read from files and joined with sessions."""

from __future__ import annotations

from goldspan.scoring.goldens.models import ExpectedCall, Golden, GoldenSet, GoldenTurn

__all__ = ["ExpectedCall", "Golden", "GoldenSet", "GoldenTurn"]
