"""Which sessions no golden wants, where their ids come from, and what a door says of them."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.goldens.golden_index import joined_by

MAX_REMEMBERED = 10_000
"""Sessions that are counted once; a session that is older than so many others is counted again."""
MAX_LISTED = 20
"""The newest sessions, which are kept with their ids."""
_LONGEST_ID = 200
_MAX_NAMED = 5
"""Sessions, and goldens, in one sentence."""


class SeenSession(NamedTuple):
    """A session without a golden."""

    id: str
    """At most 200 characters of it."""
    source: str
    """The attribute that names the session; `trace_id` if none does, and the id is the trace's."""

    @property
    def shown(self) -> str:
        """The id, and where it comes from."""
        if self.source == "trace_id":
            return f"{printable(self.id)} (a trace id: no span names a session)"
        return f"{printable(self.id)} (from {printable(self.source)})"


class SessionsWithoutGolden:
    """Notes each session once while it is remembered. One thread adds, any may read. Memory is bounded."""

    def __init__(self) -> None:
        self._remembered: OrderedDict[int, None] = OrderedDict()  # hashes: an id may have any length
        self._newest: deque[SeenSession] = deque(maxlen=MAX_LISTED)

    def __contains__(self, session_id: str) -> bool:
        """Whether a session is remembered."""
        return hash(session_id) in self._remembered

    def add(self, session_id: str, source: str) -> bool:
        """Note a session. False if it was noted before."""
        if session_id in self:
            return False
        self._remembered[hash(session_id)] = None
        if len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        self._newest.append(SeenSession(session_id[:_LONGEST_ID], source))
        return True

    def newest(self) -> tuple[SeenSession, ...]:
        """Return the newest sessions, at most 20, the oldest of them first."""
        return tuple(self._newest)


class JoinReport:
    """What a door logs of sessions without a golden. It says nothing twice, and each time more of what is the same.

    The first sessions are named one by one; later a tenth more than were said before must have come.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()
        self._said = 0

    def golden_seen(self, golden_set: str, golden: str) -> None:
        """Note that a session of this golden was scored. Empty names are those of a result without golden."""
        if golden_set or golden:
            self._seen.add((golden_set, golden))

    @property
    def is_warning(self) -> bool:
        """Whether no golden was seen at all. Sessions without a golden beside others are no mistake."""
        return not self._seen

    def sentence(
        self, goldens: Sequence[Golden], sessions: SessionsWithoutGolden, count: int, *, last: bool = False
    ) -> str | None:
        """Return what is to be said now; None if there is nothing new.

        Args:
            goldens: All goldens.
            sessions: The sessions without a golden.
            count: How many there were.
            last: Nothing is said later: say all that is new.

        """
        self._said = min(self._said, count)  # after a failure the engine and its counts start over
        new = count - self._said
        if not new or not goldens or (new < self._said // 10 and not last):
            return None
        self._said = count
        return join_sentence(len(self._seen), goldens, sessions.newest(), count)


def join_sentence(seen: int, goldens: Sequence[Golden], sessions: Sequence[SeenSession], count: int) -> str:
    """Say how many goldens were seen, which sessions came that none wants, and what to do.

    Args:
        seen: How many of the goldens were seen.
        goldens: All goldens.
        sessions: The newest sessions without a golden, the oldest of them first.
        count: How many sessions without a golden there were.

    """
    came = [one.shown for one in sessions[-_MAX_NAMED:]]
    wanted = [printable(" ".join(joined_by(golden))) for golden in islice(goldens, _MAX_NAMED)]
    return (
        f"{seen} of {len(goldens)} goldens seen; sessions seen: {_listed(came, max(count, len(came)))}. "
        f"The goldens are for: {_listed(wanted, len(goldens))}. "
        "Write the id of the session into the golden file, or name the session in the agent: session_scope."
    )


def _listed(shown: Sequence[str], total: int) -> str:
    rest = total - len(shown)
    return ", ".join(shown) + (f" and {rest:,} more" if rest > 0 else "")


def printable(text: str) -> str:
    """Return the text, with escapes for what would break a line of a log."""
    text = text[:_LONGEST_ID]
    return text if text.isprintable() else repr(text)[1:-1]
