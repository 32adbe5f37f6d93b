"""What a door makes when it is first needed: importing the engine or a client takes some tenths of a second.

Meanwhile an agent waits for its model. A program that has no agent at all never loads them.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

_logger = logging.getLogger("goldspan")
_MAX_WAITING = 2048  # so many calls wait until what they need is made

T = TypeVar("T")


class MadeOnUse(Generic[T]):
    """Makes one thing once, when it is first needed; until then it keeps the latest of what is to be done with it.

    A fork waits for it, so that all children of a server share what was loaded, and none inherits half of it.
    """

    def __init__(self, make: Callable[[], T], otherwise: str) -> None:
        """Whatever `make` raises is logged, with what happens `otherwise`: there is nothing then."""
        self._make = make
        self._otherwise = otherwise
        self._making = threading.RLock()
        self._changing = threading.Lock()
        self._waiting = deque[Callable[[T], object]](maxlen=_MAX_WAITING)
        self._ended = False
        self.made: T | None = None
        if hasattr(os, "register_at_fork"):
            alive = weakref.WeakMethod(self.get)
            os.register_at_fork(before=lambda: (found := alive()) and found())

    def get(self) -> T | None:
        """Return what is made; made now, if it is not yet. None: it cannot be."""
        if not self._ended:
            with self._making:
                if not self._ended:
                    self.end(self._made_or_none())
        return self.made

    def tell(self, call: Callable[[T], object]) -> None:
        """Call with what is made, now or when it is, which begins now. Never waits for that."""
        if not self._ended:
            with self._changing:
                if not self._ended:
                    self._waiting.append(call)
                    if len(self._waiting) == 1:
                        with suppress(RuntimeError):  # no more threads: whoever needs it first makes it
                            threading.Thread(target=self.get, name="goldspan-start", daemon=True).start()
                    return
        if self.made is not None:
            call(self.made)

    def end(self, made: T | None) -> None:
        """Have this from now on, and do with it what waits for it."""
        with self._changing:
            for call in self._waiting:
                with suppress(Exception):
                    if made is not None:
                        call(made)
            self._waiting.clear()
            self.made, self._ended = made, True

    def _made_or_none(self) -> T | None:
        try:
            return self._make()
        except Exception:
            _logger.warning("goldspan cannot start: %s", self._otherwise, exc_info=True)
            return None
