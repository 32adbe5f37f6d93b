"""What a package offers without loading it: public names, imported when first used, and texts in files beside modules.

An agent so does not load what only a gateway needs.

A package lists them in `__init__.pyi`, as its type checkers read them:

    from goldspan.scoring.api import score_session, score_turn

    __all__ = ["score_session", "score_turn"]

and its `__init__.py` has nothing but

    __getattr__, __dir__, __all__ = names_on_use(__name__)

`from goldspan.scoring import score_turn` calls `__getattr__`. It imports the module and keeps the name in the package.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def names_on_use(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, given by its qualified name."""
    here: Any = sys.modules[package]
    known: dict[str, Any] = here.__dict__
    stub: bytes = here.__spec__.loader.get_data(str(Path(here.__file__).with_suffix(".pyi")))
    *imports, listing = ast.parse(stub).body
    modules = {one.name: str(line.module) for line in imports if isinstance(line, ast.ImportFrom) for one in line.names}

    def on_use(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        known[name] = getattr(import_module(modules[name]), name)
        return known[name]

    listed: list[str] = ast.literal_eval(listing.value) if isinstance(listing, ast.Assign) else []
    return on_use, lambda: sorted({*known, *modules}), listed


@cache
def texts_beside(package: str, file: str) -> dict[str, Any]:
    """Return what a TOML file beside the modules of a package holds: texts that are no code."""
    # Imported when a text is asked for: scoring alone shows none.
    import tomllib  # noqa: PLC0415
    from importlib.resources import files  # noqa: PLC0415

    return tomllib.loads((files(package) / file).read_text("utf-8"))
