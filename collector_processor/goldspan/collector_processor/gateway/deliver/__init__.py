"""OTLP out: exporters, retries, dead letters."""

from __future__ import annotations
