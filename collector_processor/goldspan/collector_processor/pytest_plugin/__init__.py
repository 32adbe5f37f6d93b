"""The pytest plugin: tests that compare the tool calls of an agent with goldens.

`plugin` is what pytest loads. It imports the rest when a test uses the fixture `goldspan`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goldspan.scoring.names_on_use import names_on_use

if TYPE_CHECKING:
    from goldspan.collector_processor.pytest_plugin.fixture import GoldspanFixture

__all__ = [
    "GoldspanFixture",
]

__getattr__, __dir__ = names_on_use(
    __name__,
    {
        "goldspan.collector_processor.pytest_plugin.fixture": "GoldspanFixture",
    },
)
