"""Scoring inside the agent's process. `span_pipeline` shows the way of a span; read it first."""

from __future__ import annotations
