"""Where the values of arguments come from: an index of what was said, and the rules that explain a value."""

from __future__ import annotations
