"""Learns what is normal for agents from the sessions that a gateway sees, and writes a profile for each tenant.

It reads sessions that are over, in a thread of its own, and delays nothing. A profile is only written: people review
it like a golden set, and name it in `scoring.profile`.
"""

from __future__ import annotations

import hashlib
import json
import queue
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import yaml

from goldspan.collector_processor.atomic_files import write_text
from goldspan.collector_processor.serving.admin import Sample
from goldspan.collector_processor.serving.process import GuardedThread, OnFailure
from goldspan.scoring.metrics.argument_profile import Learning, Profile
from goldspan.scoring.metrics.profile_file import load_profile, profile_document
from goldspan.scoring.sessions import Session

_MOST_WAITING = 1_000
"""Sessions that wait. Beyond it one is not learnt from, which changes little: others are."""
_MOST_REMEMBERED = 100_000  # runs that are known to be counted, so that a correction counts none twice
_WRITE_EVERY = 300.0
_LOOK_EVERY = 1.0
_SINCE = "learning-since.json"


class ProfileLearner:
    """Counts sessions by tenant. `put` is for the worker's thread."""

    def __init__(self, folder: Path, seconds: float, now: Callable[[], float], on_failure: OnFailure) -> None:
        """Learn for so many seconds since the first start, and write `TENANT.yaml` into the folder. Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._now = folder, now
        self._end = _since(folder / _SINCE, now()) + seconds
        self._waiting: queue.Queue[tuple[str, Session]] = queue.Queue(_MOST_WAITING)
        self._counted: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._learnt: dict[str, tuple[Profile, Learning]] = {}
        """By tenant what the file had at the start, and what was seen since."""
        self._changed: set[str] = set()
        self._closed = False
        self.sessions = 0
        self.thread = GuardedThread("profile", self._run, on_failure)

    def put(self, tenant: str, session: Session) -> None:
        """Queue a complete run; one that lacks spans is left out. Never blocks."""
        if not session.incomplete and self._now() < self._end and any(turn.calls for turn in session.turns):
            with suppress(queue.Full):
                self._waiting.put_nowait((tenant, session))

    def close(self, seconds: float) -> None:
        """Count what waits, for so long at most, and write."""
        self._closed = True
        self.thread.join(seconds)

    def samples(self) -> Iterator[Sample]:
        """Yield what was counted since the start."""
        yield "goldspan_profile_sessions_total", {}, self.sessions

    def _run(self) -> None:
        written = self._now()
        while True:
            with suppress(queue.Empty):
                self._learn(*self._waiting.get(timeout=_LOOK_EVERY))
            ends = self._closed and self._waiting.empty()
            if self._changed and (ends or self._now() - written >= _WRITE_EVERY):
                written = self._now()
                self._write()
            if ends:
                return

    def _learn(self, tenant: str, session: Session) -> None:
        key = tenant, session.id, session.run
        if key in self._counted:
            return
        self._counted[key] = None
        if len(self._counted) > _MOST_REMEMBERED:
            self._counted.popitem(last=False)
        if tenant not in self._learnt:
            file = self._folder / file_name(tenant)
            self._learnt[tenant] = (load_profile(file) if file.exists() else Profile()), Learning()
        self._learnt[tenant][1].add(session)
        self._changed.add(tenant)
        self.sessions += 1

    def _write(self) -> None:
        for tenant in sorted(self._changed):
            before, learning = self._learnt[tenant]
            document = profile_document(before.plus(learning.profile))
            text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
            header = f"# Learnt by the gateway from sessions of {tenant}. Review it, and name it in scoring.profile.\n"
            write_text(str(self._folder / file_name(tenant)), header + text)
        self._changed.clear()


def file_name(tenant: str) -> str:
    """Return the file of a tenant, whose name is its headers as JSON: `acme-1f2e3d4c.yaml`."""
    values = [str(value) for _, value in json.loads(tenant)]
    if not values:
        return "profile.yaml"
    readable = re.sub(r"[^\w.-]+", "_", "-".join(values))[:40].strip(".")
    return f"{readable}-{hashlib.sha256(tenant.encode()).hexdigest()[:8]}.yaml"


def _since(file: Path, now: float) -> float:
    """Return when learning began: at the first start."""
    with suppress(OSError, ValueError):
        return float(json.loads(file.read_text("utf-8")))
    write_text(str(file), json.dumps(now))
    return now
