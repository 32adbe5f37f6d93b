"""Values of goldens that match more than themselves: `{$any_of: [...]}`, `{$regex: ...}` and their like."""

from __future__ import annotations

from goldspan.scoring.matchers.kinds.literal import NAMES, escape_literal, is_matcher

__all__ = ["NAMES", "escape_literal", "is_matcher"]
