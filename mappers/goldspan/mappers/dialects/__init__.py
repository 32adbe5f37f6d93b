"""Dialects: how instrumentations write tool calls, one file each (R2).

A dialect file imports its parts from here: a `DialectTable` with `Rule`s and `Source`s, or the protocol `Dialect` for a
class of its own. `goldspan.mappers.installed_dialects` lists the dialects in order of precedence.
How their parts are read is in `reading/`.
"""

from __future__ import annotations

from goldspan.scoring.lazy_names import names_on_use

__getattr__, __dir__, __all__ = names_on_use(__name__)
