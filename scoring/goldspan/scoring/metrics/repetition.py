"""`tool_call_repetition`: calls that repeat earlier ones and change nothing."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from goldspan.scoring.grounding.words import normalised, stem, words_of
from goldspan.scoring.json_values import counted, plain
from goldspan.scoring.metrics.call_scores import CallMetric, CallScore, RunningScore
from goldspan.scoring.sessions import Capture, Session, ToolCall, Turn
from goldspan.scoring.verdict import Finding, Reason, arguments_of, why_hidden, why_not_known

_LONGEST_LOOP = 8  # calls in one round of a loop
_ROUNDS = 3  # a loop whose results are not known has at least so many rounds
_REWORDINGS = 3  # a call is reworded again if so many calls of its tool before it were rewordings of it
_JSON = json.JSONEncoder(sort_keys=True, default=str)


class ToolCallRepetition(CallMetric, frozen=True):
    """Whether a call was made before, with the same arguments and the same outcome."""

    name: str = "tool_call_repetition"
    description: str = "The share of calls that are no repetition of an earlier call with the same outcome."
    needs: frozenset[str] = frozenset(("context",))
    threshold: Fraction | None = None

    def running(self, beside: Mapping[str, RunningScore] | None = None) -> RunningScore:  # noqa: ARG002 - its face
        """Return what judges one run while it grows."""
        return _RunningRepetition()


class _RunningRepetition(RunningScore):
    def __init__(self) -> None:
        super().__init__("call")
        self._seen = _SeenCalls()
        self._starts: list[int] = []  # the number of calls before each turn

    def _begin(self, session: Session, same: int) -> int:
        if same < len(self._starts):
            self._seen.go_back(self._starts[same])
            del self._starts[same:]
        first = len(self._seen)
        for turn in session.turns[same:]:
            self._starts.append(len(self._seen))
            self._seen.add(turn.calls)
        concerned = self._seen.find_loops(first)
        return same if concerned == first else bisect_right(self._starts, concerned) - 1

    def _judged(self, index: int, turn: Turn) -> Sequence[CallScore]:
        start = self._starts[index]
        return [_score(call, self._seen.found.get(place)) for place, call in enumerate(turn.calls, start)]


def _score(call: ToolCall, finding: Finding | None) -> CallScore:
    if call.rejected:
        return CallScore(call, reason=Reason.NOTHING_EXPECTED)
    if arguments_of(call) is None:
        return CallScore(call, reason=why_not_known(call))
    if (reason := why_hidden(call)) is not None:
        return CallScore(call, reason=reason)
    return CallScore(call, int(finding is None), 1, () if finding is None else (finding,))


class _SeenCalls:
    """The calls of a run that grows, and what is said of each that repeats earlier ones.

    A call is `identical` if an earlier call had its name and arguments, and returned the same; `retry_unchanged` if
    both failed. Calls whose results were not captured are repeated only as a `loop`: the same calls in the same
    order, three times in a row. One is `reworded` if the three calls of its tool before it differ from it in the
    wording of texts alone; that informs, and lowers no score.
    """

    def __init__(self) -> None:
        self.found: dict[int, Finding] = {}
        self._calls: list[ToolCall] = []
        self._keys: list[str | None] = []  # name and arguments of each call; None for one that repeats none
        self._alike: dict[str, list[int]] = {}  # the calls with a key
        self._of_tool: dict[str, list[int]] = {}
        self._outcomes: dict[int, str | None] = {}
        """Of calls whose key another has; what the others returned is never compared, so not read."""
        self._first_with: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def go_back(self, count: int) -> None:
        """Forget all calls after the first so many."""
        for index in range(len(self._calls) - 1, count - 1, -1):
            self.found.pop(index, None)
            key, outcome = self._keys[index], self._outcomes.pop(index, None)
            if key is not None:
                self._of_tool[self._calls[index].name].pop()
                self._alike[key].pop()
                if not self._alike[key]:
                    del self._alike[key]
                if outcome is not None and self._first_with[key, outcome] == index:
                    del self._first_with[key, outcome]
        del self._calls[count:], self._keys[count:]

    def add(self, calls: Sequence[ToolCall]) -> None:
        for index, call in enumerate(calls, len(self._calls)):
            key = _key(call)
            self._calls.append(call)
            self._keys.append(key)
            if key is None:
                continue
            alike = self._alike.setdefault(key, [])
            alike.append(index)
            before = self._of_tool.setdefault(call.name, [])
            before.append(index)
            if len(alike) == 1:
                if len(before) > _REWORDINGS and self._is_reworded(before[-1 - _REWORDINGS :]):
                    message = "asks the same in other words again"
                    self.found[index] = Finding("", "reworded", f"{message} (as call {before[-2] + 1} of the session)")
                continue
            for one in alike if len(alike) == 2 else (index,):
                read = self._outcomes[one] = _outcome(self._calls[one])
                if read is not None:
                    self._first_with.setdefault((key, read), one)
            outcome = self._outcomes[index]
            first = index if outcome is None else self._first_with[key, outcome]
            if first != index:
                failed = call.error is not None
                kind = "retry_unchanged" if failed else "identical"
                message = "failed again, unchanged" if failed else "the same call returned the same before"
                self.found[index] = Finding("", kind, f"{message} (call {first + 1} of the session)", failed=True)

    def _is_reworded(self, places: Sequence[int]) -> bool:
        *before, last = (arguments_of(self._calls[place]) or {} for place in places)
        return all(_differ_in_words(one, last) for one in before)

    def find_loops(self, first: int) -> int:
        """Find the loops that the calls from `first` on are in. Return the first call of which something new is said.

        A call before them is in a new loop only if that has just come to its third round.
        """
        concerned = max(0, first - _LONGEST_LOOP * (_ROUNDS - 1))
        before = {index: one for index in range(concerned, first) if (one := self.found.get(index)) is not None}
        for index in range(concerned, len(self._calls)):
            if index in self.found and self.found[index].kind == "loop":
                del self.found[index]
        begin = max(0, concerned - _LONGEST_LOOP * _ROUNDS)
        keys = enumerate(self._keys[begin:], begin)
        rounds = [None if key is None else (key, self._outcomes.get(index)) for index, key in keys]
        for index, length in _loops(rounds):
            if index + begin >= concerned:
                message = f"the same {counted(length, 'call')} again and again"
                self.found.setdefault(index + begin, Finding("", "loop", message, failed=True))
        changed = (index for index in range(concerned, first) if self.found.get(index) != before.get(index))
        return next(changed, first)


def _differ_in_words(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether arguments are the same but for texts that share half of their words, and all of those with digits."""
    if one.keys() != other.keys():
        return False
    different = [(value, other[name]) for name, value in one.items() if value != other[name]]
    return bool(different) and all(_are_rewordings(*pair) for pair in different)


def _are_rewordings(one: object, other: object) -> bool:
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    words, others = ({stem(word) for word in words_of(normalised(text))} for text in (one, other))
    apart = words ^ others
    few = min(len(words), len(others)) < 2
    return not few and len(apart) <= len(words & others) * 2 and not any(map(str.isdigit, "".join(apart)))


def _key(call: ToolCall) -> str | None:
    arguments = arguments_of(call)
    if arguments is None or call.rejected or call.argument_captures:
        return None
    written = _written(arguments)
    return None if written is None else f"{call.name}\0{written}"


def _outcome(call: ToolCall) -> str | None:
    if call.error is not None:
        return "error"  # messages of errors hold times and ids of requests
    if call.result.capture is not Capture.CAPTURED:
        return None
    written = _written(call.result.value)
    return None if written is None else f"result\0{written}"


def _written(value: object) -> str | None:
    """Return a value as text that equal values share; None where that cannot be said."""
    try:
        return _JSON.encode(value)
    except (ValueError, RecursionError):  # nested too deep, or an integer of thousands of digits
        return None
    except TypeError:  # keys of several types
        return json.dumps(plain(value), sort_keys=True)


def _loops(keys: Sequence[tuple[str, str | None] | None]) -> Iterator[tuple[int, int]]:
    """Yield each position from the second round of a loop on, with the number of calls in a round."""
    if len(set(keys)) == len(keys):
        return
    for length in range(1, _LONGEST_LOOP + 1):
        run = 0
        for index in range(length, len(keys)):
            run = run + 1 if keys[index] is not None and keys[index] == keys[index - length] else 0
            if run >= length * (_ROUNDS - 1):
                first = index - run + 1 if run == length * (_ROUNDS - 1) else index
                yield from ((position, length) for position in range(first, index + 1))
