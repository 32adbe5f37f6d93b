"""Answers by the content of their questions: in memory, and in a SQLite file if one is named."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from goldspan.scoring.errors import SettingsError
from goldspan.scoring.metrics.judge import JudgeAnswer, Question

_MAX_IN_MEMORY = 10_000
_SECONDS_LOCKED = 2.0
"""How long one process waits for another that writes."""


class AnswerCache:
    """Keeps answers. Only an answer Yes or No is kept, so that a question that failed is asked again. Thread-safe.

    The file is for its owner alone (0600): reasons quote conversations. A file that fails later costs only its answers.
    """

    def __init__(self, path: Path | None) -> None:
        """Open the file, or make it. Raises SettingsError."""
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, JudgeAnswer] = OrderedDict()
        self._file = None if path is None else _opened(path)

    def get(self, key: str) -> JudgeAnswer | None:
        """Return the answer kept for a key."""
        with self._lock:
            if (found := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return found
            if self._file is None:
                return None
            try:
                row = self._file.execute("SELECT accurate, reasoning FROM answers WHERE key = ?", (key,)).fetchone()
            except sqlite3.Error:
                return None
            return None if row is None else JudgeAnswer(bool(row[0]), str(row[1]))

    def put(self, key: str, answer: JudgeAnswer) -> None:
        """Keep an answer."""
        with self._lock:
            self._kept[key] = answer
            if len(self._kept) > _MAX_IN_MEMORY:
                self._kept.popitem(last=False)
            if self._file is not None:
                with suppress(sqlite3.Error):
                    row = (key, answer.accurate, answer.reasoning)
                    self._file.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", row)


def key_of(question: Question, identity: str) -> str:
    """Return the key of a question to a model: a hash of all that the answer depends on."""
    asked = [identity, question.messages, question.answer.name, question.answer.schema]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _opened(path: Path) -> sqlite3.Connection:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)
        file = sqlite3.connect(path, timeout=_SECONDS_LOCKED, isolation_level=None, check_same_thread=False)
        file.execute(
            "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, accurate INTEGER, reasoning TEXT) WITHOUT ROWID"
        )
    except (OSError, sqlite3.Error) as error:
        raise SettingsError(
            f"judge: cache: {path} cannot be used: {getattr(error, 'strerror', None) or error}"
        ) from None
    return file
