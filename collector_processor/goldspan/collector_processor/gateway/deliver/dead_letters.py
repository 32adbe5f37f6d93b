"""What a receiver refused for good, kept in a folder for a person to look at: a bounded number of files and bytes."""

from __future__ import annotations

import json
from pathlib import Path

from goldspan.collector_processor.gateway.interfaces import Request


class DeadLetters:
    """Two files for each letter: the request as it was sent, `*.pb`, and why it is here, `*.json`.

    The oldest make room for the newest. Headers are named without their values, which may be secrets.
    """

    def __init__(self, folder: Path, *, max_files: int, max_bytes: int) -> None:
        """Use a folder, which need not be there yet."""
        self._folder = folder
        self._max_files = max_files
        self._max_bytes = max_bytes
        self._count = 0
        self.written = 0
        self.dropped = 0
        """Letters that are no longer kept, or could not be written."""

    def put(self, request: Request, reason: str, now: float) -> None:
        """Keep a request; what cannot be written is counted."""
        self._count += 1
        name = f"{now:017.6f}-{self._count:06d}-{request.signal.value}"
        why = {
            "signal": request.signal.value,
            "bytes": len(request.body),
            "headers": [key for key, _ in request.headers],
            "reason": reason,
        }
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / f"{name}.json").write_text(json.dumps(why, indent=2), "utf-8")
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
