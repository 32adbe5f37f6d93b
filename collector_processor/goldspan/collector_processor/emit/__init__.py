"""Evaluations as telemetry: span attributes, `gen_ai.evaluation.result` events and metric points."""

from __future__ import annotations
