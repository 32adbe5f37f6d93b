"""Golden sets inferred from several runs of each task that were right: rules with their evidence, and questions."""

from __future__ import annotations
