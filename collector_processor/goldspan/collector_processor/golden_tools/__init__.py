"""Golden sets as things that are made, reviewed and kept: recorded from traces, checked, compared and updated."""

from __future__ import annotations
