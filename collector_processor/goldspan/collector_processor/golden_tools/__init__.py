"""Golden sets recorded from traces, imported from benchmarks, checked, compared and updated: `goldspan goldens`."""

from __future__ import annotations
