"""Goldens: what sessions should have done, read from files and matched with sessions."""

from __future__ import annotations

from goldspan.scoring.lazy_names import names_on_use

__getattr__, __dir__, __all__ = names_on_use(__name__)
