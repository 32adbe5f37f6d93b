"""Recorded traces in, results out."""

from __future__ import annotations
