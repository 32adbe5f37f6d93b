"""Spans in, sessions out: `read_sessions` reads files, SDK spans, OTLP messages or objects.

Names are imported when they are first used: an agent reads no files.
"""

from __future__ import annotations

from goldspan.scoring.lazy_names import names_on_use

__getattr__, __dir__, __all__ = names_on_use(__name__)
