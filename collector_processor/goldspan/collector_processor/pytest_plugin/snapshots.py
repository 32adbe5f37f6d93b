"""Golden files that accept what tests saw: `pytest --goldspan-update`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from goldspan.collector_processor.golden_tools.golden_differences import trace_difference
from goldspan.collector_processor.golden_tools.recording import record
from goldspan.collector_processor.golden_tools.updating import GoldenFile, acceptable_changes
from goldspan.collector_processor.golden_tools.writing import golden_set_text
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.goldens.documents import MistakeCollector
from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.goldens.loading import READERS
from goldspan.scoring.sessions import Session

_HEADER = ("Recorded by `pytest --goldspan-update`: read it before you rely on it.",)


@dataclass(frozen=True, slots=True)
class Seen:
    """What an assertion saw that its golden file does not expect."""

    file: Path
    golden_set: str
    """The name of the golden set, if the file is new."""
    sessions: tuple[Session, ...]
    """The id of each finds its golden, or is that of a new one."""
    criterion: Criterion | None
    """Replaces the criteria of the goldens."""


@dataclass(frozen=True, slots=True)
class Updated:
    """The text of a golden file that expects what was seen."""

    text: str
    new: tuple[str, ...]
    """Names of goldens that were added."""
    changed: tuple[str, ...]
    notes: tuple[str, ...]
    """What could not be written, and what a person has to decide."""

    def goldens(self, file: Path) -> GoldenIndex:
        """Return the goldens that the file holds with this text."""
        document = READERS[file.suffix.lower()](self.text, MistakeCollector(str(file)))
        return load_goldens(document)  # pyright: ignore[reportArgumentType] - a golden set was read from it before


def updated(file: Path, seen: Sequence[Seen]) -> Updated:
    """Return the file as it expects what was seen; it is not written.

    Missing goldens are recorded at its end. Existing goldens change where a score depends on it. Comments, matchers
    and criteria stay.

    Raises:
        FileError: the file cannot be read, or changed in place.

    """
    sessions = [session for one in seen for session in one.sessions]
    if not file.exists():
        recorded = record(sessions, seen[0].golden_set)
        text = golden_set_text(str(file), recorded.document, recorded.comments, _HEADER)
        return Updated(text, _names(recorded.document["goldens"]), (), tuple(map(str, recorded.notices)))
    target, index = GoldenFile(str(file)), load_goldens(file)
    criteria = {session.id: one.criterion for one in seen for session in one.sessions if one.criterion is not None}
    index = GoldenIndex(
        dataclasses.replace(
            one, goldens=tuple(with_criterion(golden, criteria.get(golden.key)) for golden in one.goldens)
        )
        for one in index.sets
    )
    difference = trace_difference(index, [session for session in sessions if index.find(session) is not None])
    possible = acceptable_changes(index, difference)
    recorded = record([session for session in sessions if index.find(session) is None], index.sets[0].name)
    added = recorded.document["goldens"]
    changed = dict.fromkeys(index.goldens[one.golden].key for one in possible.changes)
    left = [f"{one.change.golden}: stands for several sessions: not changed" for one in possible.pattern_goldens]
    notes = dict.fromkeys((*map(str, recorded.notices), *possible.by_hand, *left))
    return Updated(target.accept(possible.changes, added), _names(added), tuple(changed), tuple(notes))


def _names(goldens: Sequence[dict[str, str]]) -> tuple[str, ...]:
    return tuple(golden["session"] for golden in goldens)


def with_criterion(golden: Golden, criterion: Criterion | None) -> Golden:
    """Return the golden with this criterion in the place of all of its own."""
    if criterion is None:
        return golden
    turns = tuple(
        dataclasses.replace(
            turn, criterion=None, calls=tuple(dataclasses.replace(call, criterion=None) for call in turn.calls)
        )
        for turn in golden.turns
    )
    return dataclasses.replace(golden, criterion=criterion, turns=turns)
