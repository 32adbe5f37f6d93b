"""`tool_call_repetition`: calls that repeat earlier ones and change nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction

from msgspec import Struct

from goldspan.scoring.json_values import counted, plain
from goldspan.scoring.metric_results import Finding, MetricScore, Range
from goldspan.scoring.metrics.call_scores import CallScore, score_of_calls
from goldspan.scoring.sessions import Capture, Session, ToolCall
from goldspan.scoring.verdict import Reason, arguments_of, why_hidden, why_not_known

_LONGEST_LOOP = 8
"""Calls in one round of a loop."""
_ROUNDS = 3
"""A loop whose results are not known has at least so many rounds."""


class ToolCallRepetition(Struct, frozen=True):
    """Whether a call was made before, with the same arguments and the same outcome."""

    name: str = "tool_call_repetition"
    description: str = "The share of calls that are no repetition of an earlier call with the same outcome."
    range: Range = Range(0.0, 1.0)
    needs: frozenset[str] = frozenset(("context",))
    by_turn: bool = True
    threshold: Fraction | None = None

    def __call__(self, session: Session, _golden: object = None, /) -> MetricScore:
        """Judge every call of a session, rejected requests aside."""
        calls = [call for turn in session.turns for call in turn.calls]
        found = repeated_calls(calls)
        scores = iter([_score(call, found.get(index)) for index, call in enumerate(calls)])
        return score_of_calls([[next(scores) for _ in turn.calls] for turn in session.turns], "call")


def _score(call: ToolCall, finding: Finding | None) -> CallScore:
    if call.rejected:
        return CallScore(call, reason=Reason.NOTHING_EXPECTED)
    if arguments_of(call) is None:
        return CallScore(call, reason=why_not_known(call))
    if (reason := why_hidden(call)) is not None:
        return CallScore(call, reason=reason)
    return CallScore(call, int(finding is None), 1, () if finding is None else (finding,))


def repeated_calls(calls: Sequence[ToolCall]) -> dict[int, Finding]:
    """Return what is said of the calls that repeat earlier ones, by position.

    A call is `identical` if an earlier call had its name and arguments, and returned the same; `retry_unchanged` if
    both failed. Calls whose results were not captured are repeated only as a `loop`: the same calls in the same
    order, three times in a row.
    """
    found: dict[int, Finding] = {}
    first_with: dict[str, int] = {}
    rounds: list[str | None] = []
    for index, call in enumerate(calls):
        key, outcome = _key(call), _outcome(call)
        rounds.append(key if key is None or outcome is None else f"{key}\0{outcome}")
        if key is None or outcome is None:
            continue
        first = first_with.setdefault(f"{key}\0{outcome}", index)
        if first != index:
            failed = call.error is not None
            kind = "retry_unchanged" if failed else "identical"
            message = "failed again, unchanged" if failed else "the same call returned the same before"
            found[index] = Finding("", kind, f"{message} (call {first + 1} of the session)", failed=True)
    for index, length in _loops(rounds):
        found.setdefault(index, Finding("", "loop", f"the same {counted(length, 'call')} again and again", failed=True))
    return found


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
        return json.dumps(value, sort_keys=True, default=str)
    except (ValueError, RecursionError):  # nested too deep, or an integer of thousands of digits
        return None
    except TypeError:  # keys of several types
        return json.dumps(plain(value), sort_keys=True)


def _loops(keys: Sequence[str | None]) -> Iterator[tuple[int, int]]:
    """Yield each position from the second round of a loop on, with the number of calls in a round."""
    for length in range(1, _LONGEST_LOOP + 1):
        run = 0
        for index in range(length, len(keys)):
            run = run + 1 if keys[index] is not None and keys[index] == keys[index - length] else 0
            if run >= length * (_ROUNDS - 1):
                first = index - run + 1 if run == length * (_ROUNDS - 1) else index
                yield from ((position, length) for position in range(first, index + 1))
