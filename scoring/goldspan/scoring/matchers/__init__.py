"""Values of goldens that match more than themselves: `{$any_of: [...]}`, `{$regex: ...}` and their like."""

from __future__ import annotations

from goldspan.scoring.lazy_names import names_on_use

__getattr__, __dir__, __all__ = names_on_use(__name__)
