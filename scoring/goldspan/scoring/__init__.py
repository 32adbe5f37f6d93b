"""Scores the arguments an agent passes to its tools: sessions in, exact and explained results out.

    result = score_sessions("goldens.yaml", sessions)
    assert result.passed, result

Pure: no OpenTelemetry, no clock, and no file but the goldens. Names are imported when they are first used.
"""

from __future__ import annotations

from goldspan.scoring.lazy_names import names_on_use

__getattr__, __dir__, __all__ = names_on_use(__name__)
