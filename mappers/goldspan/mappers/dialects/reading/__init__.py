"""Shared readers for dialects: tables, arguments, messages and log records."""

from __future__ import annotations
