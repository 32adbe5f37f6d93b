"""Spans in, sessions out: `read_sessions` takes files, SDK spans, OTLP messages or objects."""

from __future__ import annotations

from goldspan.mappers.session_reader import read_sessions

__all__ = ["read_sessions"]
