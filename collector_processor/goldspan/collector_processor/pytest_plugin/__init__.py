"""The pytest plugin: tests that compare the tool calls of an agent with goldens.

`plugin` is what pytest loads. It imports the rest when a test uses the fixture `goldspan`.
"""

from __future__ import annotations

from goldspan.scoring.lazy_names import names_on_use

__getattr__, __dir__, __all__ = names_on_use(__name__)
