"""Regular expressions that are compiled when they are first used.

What reads dates, numbers and words of eleven languages has more than a hundred. An agent that starts would wait for
them, and uses few.

    _DAY = regex("([0-3]?[0-9])[.]")    as `re.compile`, in a module
    _DAY.match(text)                    compiled here, once
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _OnUse:
    """Stands for a compiled pattern, whose methods it takes over one by one."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._made_of = text, flags
        self._compiled: re.Pattern[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if self._compiled is None:
            text, flags = self._made_of
            self._compiled = re.compile(text, flags)
        method = getattr(self._compiled, name)
        setattr(self, name, method)  # the next use finds it here
        return method


def regex(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what has all that the pattern of `re.compile` has. A mistake in the text is raised at its first use."""
    return cast("re.Pattern[AnyStr]", _OnUse(text, flags))
