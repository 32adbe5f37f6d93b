"""goldspan's metric inside other evaluation frameworks; one module for each, imported where it is used."""

from __future__ import annotations
