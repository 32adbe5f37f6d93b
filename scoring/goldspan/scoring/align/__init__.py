"""Alignment of expected with actual calls: the objective, the exact solver, groups and batches."""

from __future__ import annotations
