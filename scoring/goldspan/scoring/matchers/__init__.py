"""Values of goldens that match more than themselves: `{$any_of: [...]}`, `{$regex: ...}` and their like."""

from __future__ import annotations

from goldspan.scoring.matchers.kinds.literal import escape_literal
from goldspan.scoring.matchers.reading import NAMES, is_matcher

__all__ = ["NAMES", "escape_literal", "is_matcher"]
