"""Spans as bytes: split, select and join requests, and keep what was read of them, without decoding the rest."""

from __future__ import annotations
