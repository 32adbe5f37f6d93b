"""Log records on their way from the agent's threads to the pipeline: a bounded queue that nobody waits for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from goldspan.mappers.readers.sdk import SdkReader, log_event
from goldspan.mappers.spans import LogView

MAX_WAITING = 2048
"""Records that wait at most, as BatchLogRecordProcessor's default."""


class LogInbox:
    """Takes what may tell something of a span, as it is at that moment. Safe to use from several threads."""

    def __init__(self, may_tell: Callable[[str, Mapping[str, Any]], bool]) -> None:
        """Ask `may_tell` of each record's event name and attributes."""
        self._may_tell = may_tell
        self._views = SdkReader()
        self._waiting = deque[LogView]()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, record: Any) -> bool:
        """Take a record of the SDK; False if it was dropped because too many wait. Raises what a broken one raises."""
        if not getattr(record, "log_record", record).trace_id or not self._may_tell(*log_event(record)):
            return True
        if len(self._waiting) >= MAX_WAITING:
            return False
        self._waiting.append(self._views.log_view(record))
        return True

    def take(self) -> Iterator[LogView]:
        """Take out what waits, oldest first."""
        while self._waiting:
            yield self._waiting.popleft()
