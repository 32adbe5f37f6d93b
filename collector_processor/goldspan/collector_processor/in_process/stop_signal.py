"""The signal that ends a web server's worker: what is held leaves while the server answers its last requests.

uvicorn handles SIGTERM, and a moment later ends its workers by the signal itself: no exit handler runs. A plain
processor loses what waits in its queue. goldspan holds spans longer, so it would lose more. Where a host handles the
signal, spans are flushed by a thread, and the host's handler is called at most a second later than it would be. Where
no handler is installed, none is added, unless the application says that it is served: hypercorn ends the workers that
are still shutting down when the first one is gone.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType

_SECONDS, _PAUSE = 10.0, 0.05
"""How long spans are flushed after the signal, since requests still end, and the time between two flushes."""
_WAIT = 1.0  # seconds that the host's handler waits for the first flush at most

_told, _flushed = SimpleQueue[None](), SimpleQueue[None]()
"""A signal may interrupt what they do, as it may not with locks."""
_is_watched = False


def flush_when_stopped(flush: Callable[[], object], last: Callable[[], object] | None = None) -> None:
    """Call `flush` again and again once the host is told to stop. For the main thread; in others it does nothing.

    Where nothing handles the signal, it ends the process after `last`, for which it waits as long as is flushed
    elsewhere; without `last` it is left alone.
    """
    global _is_watched  # noqa: PLW0603 - there is one handler in a process
    if _is_watched or threading.current_thread() is not threading.main_thread():
        return
    hosts = signal.getsignal(signal.SIGTERM)
    wait = _WAIT
    if hosts == signal.SIG_DFL and last is not None:
        hosts, flush, wait = _end, last, _SECONDS
    if not callable(hosts):
        return

    def handle(number: int, frame: FrameType | None) -> object:
        _told.put(None)
        with suppress(Empty):
            _flushed.get(timeout=wait)
        return hosts(number, frame)

    signal.signal(signal.SIGTERM, handle)
    threading.Thread(target=_flush_when_told, args=(flush,), name="goldspan-stop", daemon=True).start()
    _is_watched = True


def _end(number: int, frame: FrameType | None) -> None:
    """End the process as the signal does where nothing handles it."""
    del frame
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _flush_when_told(flush: Callable[[], object]) -> None:
    ends: float | None = None
    while True:
        is_told = True
        try:
            _told.get(timeout=None if ends is None else _PAUSE)
        except Empty:
            is_told = False
        now = time.monotonic()
        if is_told:
            ends = now + _SECONDS
        flush()
        if is_told:
            _flushed.put(None)
        elif ends is not None and now > ends:
            ends = None
