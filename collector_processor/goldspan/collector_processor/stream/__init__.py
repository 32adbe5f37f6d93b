"""Scoring of OTLP topics by workers that share their partitions: `trace_stage` by trace id, `session_stage` by session.

Both stages are pure: no broker, no clock, no threads. State is a partition's key-value store.
"""

from __future__ import annotations
