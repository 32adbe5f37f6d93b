"""What differs between two golden sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from goldspan.collector_processor.golden_tools.changes import (
    NOTHING,
    CallPlace,
    Change,
    argument_changes,
    call_document,
    golden_document,
    turn_document,
)
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.goldens.documents import path_text
from goldspan.scoring.goldens.models import ExpectedCall, Golden, GoldenTurn


def set_changes(before: GoldenIndex, after: GoldenIndex) -> Iterator[Change]:
    """Yield what differs, golden by golden: first those of the set before, then those that were added."""
    old = {_identity(golden): golden for golden in before.goldens}
    new = {_identity(golden): golden for golden in after.goldens}
    for key, golden in old.items():
        if key in new:
            yield from _Golden(golden, new[key]).changes()
        else:
            yield _whole(golden, golden_document(golden), NOTHING)
    for key, golden in new.items():
        if key not in old:
            yield _whole(golden, NOTHING, golden_document(golden))


def _identity(golden: Golden) -> tuple[str, ...]:
    """Tell goldens apart by what they are joined by."""
    attribute = sorted(f"{name}={value!r}" for name, value in golden.attribute.items())
    return (golden.session or "", golden.session_pattern or "", golden.first_user_text or "", *attribute)


def _whole(golden: Golden, before: Any, after: Any) -> Change:
    return Change(golden.key, golden.source, None, "", "", "", before, after)


class _Golden:
    """One golden as it was and as it is."""

    def __init__(self, before: Golden, after: Golden) -> None:
        self.before, self.after = before, after

    def changes(self) -> Iterator[Change]:
        yield from self._criterion(self.before.criterion, self.after.criterion, None, "", "")
        if (self.before.calls is None) != (self.after.calls is None):
            yield _whole(self.before, golden_document(self.before), golden_document(self.after))
            return
        if self.before.calls is not None and self.after.calls is not None:
            one = (self.before.calls, *self.before.alternatives)
            yield from self._lists(one, (self.after.calls, *self.after.alternatives), None, "")
        for index, (old, new) in enumerate(zip_longest(self.before.turns, self.after.turns)):
            name = ((old or new).user or "") if old or new else ""
            if old is None or new is None:
                before, after = (NOTHING if turn is None else turn_document(turn) for turn in (old, new))
                yield self._change(index, name, "", "", before, after)
            else:
                yield from self._turn(index, name, old, new)

    def _turn(self, index: int, name: str, before: GoldenTurn, after: GoldenTurn) -> Iterator[Change]:
        for field in ("user", "turn_id"):
            one, other = getattr(before, field), getattr(after, field)
            if one != other:
                sides = NOTHING if one is None else one, NOTHING if other is None else other
                yield self._change(index, name, "", field, *sides)
        old, new = before.criterion or self.before.criterion, after.criterion or self.after.criterion
        if before.criterion or after.criterion:
            yield from self._criterion(old, new, index, name, "")
        yield from self._lists((before.calls, *before.alternatives), (after.calls, *after.alternatives), index, name)

    def _lists(
        self,
        before: Sequence[Sequence[ExpectedCall]],
        after: Sequence[Sequence[ExpectedCall]],
        turn: int | None,
        name: str,
    ) -> Iterator[Change]:
        for number, (old, new) in enumerate(zip_longest(before, after, fillvalue=())):
            alternative = number if len(before) > 1 or len(after) > 1 else None
            yield from self._calls(old, new, turn, name, alternative)

    def _calls(
        self,
        before: Sequence[ExpectedCall],
        after: Sequence[ExpectedCall],
        turn: int | None,
        name: str,
        alternative: int | None,
    ) -> Iterator[Change]:
        for old, new in _pairs(before, after):
            if old is not None and new is not None:
                yield from self._call(before[old], after[new], turn, name, CallPlace(turn, alternative, old))
            elif old is not None:
                place = CallPlace(turn, alternative, old)
                yield self._change(turn, name, before[old].name, "", call_document(before[old]), NOTHING, place)
            elif new is not None:
                yield self._change(turn, name, after[new].name, "", NOTHING, call_document(after[new]))

    def _call(
        self, before: ExpectedCall, after: ExpectedCall, turn: int | None, name: str, place: CallPlace
    ) -> Iterator[Change]:
        old, new = call_document(before), call_document(after)
        for way, one, other in argument_changes(old.get("args", {}), new.get("args", {})):
            yield self._change(turn, name, before.name, path_text(way), one, other, place)
        for field in ("optional", "forbidden", "result"):
            one, other = old.get(field, NOTHING), new.get(field, NOTHING)
            if one != other:
                yield self._change(turn, name, before.name, field, one, other, place)
        if bool(before.group) != bool(after.group):
            sides = True if before.group else NOTHING, True if after.group else NOTHING
            yield self._change(turn, name, before.name, "parallel", *sides, place)
        if before.criterion is not None or after.criterion is not None:
            above = self.before.criterion, self.after.criterion
            yield from self._criterion(
                before.criterion or above[0], after.criterion or above[1], turn, name, before.name
            )

    def _criterion(
        self, before: Criterion, after: Criterion, turn: int | None, name: str, tool: str
    ) -> Iterator[Change]:
        if before == after:
            return
        old, new = (one.model_dump(mode="json", exclude_defaults=True) for one in (before, after))
        for field in dict.fromkeys((*old, *new)):
            one, other = old.get(field, NOTHING), new.get(field, NOTHING)
            if one != other:
                yield self._change(turn, name, tool, f"criterion.{field}", one, other)

    def _change(
        self,
        turn: int | None,
        name: str,
        tool: str,
        field: str,
        before: Any,
        after: Any,
        place: CallPlace | None = None,
    ) -> Change:
        return Change(self.before.key, self.before.source, turn, name, tool, field, before, after, place)


def _pairs(before: Sequence[ExpectedCall], after: Sequence[ExpectedCall]) -> Iterator[tuple[int | None, int | None]]:
    """Pair calls that are alike: equal ones in their order, then those of one tool between them."""
    old, new = [repr(call_document(call)) for call in before], [repr(call_document(call)) for call in after]
    for tag, first, last, start, stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from zip(range(first, last), range(start, stop), strict=True)
            continue
        left = list(range(start, stop))
        for index in range(first, last):
            partner = next((one for one in left if after[one].name == before[index].name), None)
            if partner is not None:
                left.remove(partner)
            yield index, partner
        yield from ((None, one) for one in left)
