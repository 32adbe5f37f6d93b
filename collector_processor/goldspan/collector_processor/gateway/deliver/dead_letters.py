"""Requests that a receiver refused for good, kept as files for a person to look at."""

from __future__ import annotations

import json
from pathlib import Path

from goldspan.collector_processor.gateway.interfaces import Request


class DeadLetters:
    """Two files for each request: its body as it was sent, `*.pb`, and the reason, `*.json`.

    Beyond the bounds the oldest requests are deleted. Headers are named without their values, which may be secrets.
    """

    def __init__(self, folder: Path, *, max_files: int, max_bytes: int) -> None:
        """Use a folder, which is created with the first request; keep at most so many requests and bytes of bodies."""
        self._folder = folder
        self._max_files = max_files
        self._max_bytes = max_bytes
        self._count = 0
        self.written = 0
        self.dropped = 0
        """Requests that were deleted, or could not be written."""

    def put(self, request: Request, reason: str, now: float) -> None:
        """Keep a request; one that cannot be written is counted as dropped."""
        self._count += 1
        name = f"{now:017.6f}-{self._count:06d}-{request.signal.value}"
        reason_file = {
            "signal": request.signal.value,
            "bytes": len(request.body),
            "headers": [key for key, _ in request.headers],
            "reason": reason,
        }
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / f"{name}.json").write_text(json.dumps(reason_file, indent=2), "utf-8")
            (self._folder / f"{name}.pb").write_bytes(request.body)
            self.written += 1
            self._make_room()
        except OSError:
            self.dropped += 1

    def _make_room(self) -> None:
        letters = sorted(self._folder.glob("*.pb"))
        sizes = {letter: letter.stat().st_size for letter in letters}
        total = sum(sizes.values())
        while letters and (len(letters) > self._max_files or total > self._max_bytes):
            oldest = letters.pop(0)
            total -= sizes[oldest]
            oldest.unlink(missing_ok=True)
            oldest.with_suffix(".json").unlink(missing_ok=True)
            self.dropped += 1
