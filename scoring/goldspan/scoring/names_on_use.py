"""Public names of a package, each imported when it is first used: an agent does not load what only a gateway needs.

    if TYPE_CHECKING:
        from goldspan.scoring.api import score_session, score_turn

    __all__ = ["score_session", "score_turn"]

    __getattr__, __dir__ = names_on_use(__name__, {"goldspan.scoring.api": "score_session score_turn"})

`from goldspan.scoring import score_turn` calls `__getattr__`. It imports the module and keeps the name in the package.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_on_use(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` of a package.

    Args:
        package: The name of the package, fully qualified.
        names: The public names, with spaces between, by the module that defines them, fully qualified too.

    """
    modules = {name: module for module, defined in names.items() for name in defined.split()}

    def on_use(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return on_use, listed
