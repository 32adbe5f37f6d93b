"""Recorded traces, scored: reading files, running them through the engine, the exit code, the baseline and hints."""

from __future__ import annotations
