"""The judge: asks a model of the user's choice about calls, within a budget, for `tool_parameter_accuracy`."""

from __future__ import annotations

from goldspan.scoring.lazy_names import names_on_use

__getattr__, __dir__, __all__ = names_on_use(__name__)
