"""One module for each matcher that a golden may hold in the place of a value."""

from __future__ import annotations
