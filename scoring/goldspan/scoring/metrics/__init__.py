"""Metrics: what turns a session and its golden into a score, by name.

`tool_parameter_match` is the main one. Each of the others has a range of its own. Results of different metrics or
criteria are never averaged.
"""

from __future__ import annotations

from goldspan.scoring.lazy_names import names_on_use

__getattr__, __dir__, __all__ = names_on_use(__name__)
