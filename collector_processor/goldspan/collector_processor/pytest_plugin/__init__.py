"""The pytest plugin: tests that compare the tool calls of an agent with goldens.

`plugin` is what pytest loads. It imports the rest when a test uses the fixture `goldspan`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goldspan.collector_processor.pytest_plugin.fixture import GoldspanFixture

__all__ = ["GoldspanFixture"]


def __getattr__(name: str) -> object:
    """Import the type of the fixture when it is first used (PEP 562): pytest loads this package in every run."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.fixture"), name)
