"""The roots of traces while they run: often they name at their start the session that their trace belongs to."""

from __future__ import annotations

from weakref import ref

from opentelemetry.sdk.trace import ReadableSpan

MAX_ROOTS = 10_000
"""Traces at once; beyond it all are forgotten, and their spans wait until one that ended names the session."""
_FEW = 256


class Roots:
    """Running spans by trace id. Adding one is the agent's time, a tenth of what a `WeakValueDictionary` takes."""

    def __init__(self) -> None:
        self._roots: dict[int, ref[ReadableSpan]] = {}
        self._enough = _FEW

    def __len__(self) -> int:
        return len(self._roots)

    def add(self, span: ReadableSpan) -> None:
        """Remember a root that starts."""
        context = span.context
        if context is not None:
            if len(self._roots) >= MAX_ROOTS:
                self._roots.clear()
            self._roots[context.trace_id] = ref(span)

    def get(self, trace: int) -> ReadableSpan | None:
        """Return the root of a trace, if it still runs."""
        found = self._roots.get(trace)
        return None if found is None else found()

    def forget_ended(self) -> None:
        """Forget those that are gone, once there are twice as many as were left the last time."""
        if len(self._roots) > self._enough:
            for trace, one in list(self._roots.items()):
                if one() is None:
                    self._roots.pop(trace, None)
            self._enough = 2 * len(self._roots) + _FEW
