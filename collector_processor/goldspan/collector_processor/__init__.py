"""Scores agents from their telemetry: in their process, in a gateway before the backend, and from recorded files.

The names here are imported when they are first used, so that an agent does not load what only a gateway needs.
"""

from __future__ import annotations

from goldspan.scoring.lazy_names import names_on_use

__getattr__, __dir__, __all__ = names_on_use(__name__)
