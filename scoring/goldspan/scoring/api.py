"""Goldens and sessions as they are given in code: our own values, or plain lists and mappings that stand for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens.golden import ExpectedCall, Golden, GoldenTurn
from goldspan.scoring.json_values import shown
from goldspan.scoring.sessions import Capture, Session, ToolCall, Turn
from goldspan.scoring.type_guards import is_mapping

PlainCall = Mapping[str, Any]
"""`{"name": ..., "args": {...}}`; of expected calls also `{"parallel": [...]}`, a group whose order is free."""
ExpectedCalls = Sequence[ExpectedCall | PlainCall]
"""What a turn should have called."""
ActualCalls = Turn | Sequence[ToolCall | PlainCall]
"""What a turn did call; in this order, unless the calls say that they are of one batch."""
GivenGolden = Golden | Sequence[GoldenTurn | ExpectedCalls | Mapping[str, Any]] | ExpectedCalls
"""A golden, a list of turns (each a list of calls), or a list of calls for the whole session."""
GivenSession = Session | Sequence[Turn | Sequence[ToolCall | PlainCall]] | Sequence[ToolCall | PlainCall]
"""A session, a list of turns (each a list of calls), or the calls of one turn."""

_EXPECTED = ("name", "args", "criterion", "optional", "forbidden", "result")
_ACTUAL = ("name", "args", "batch", "error")


def expected_calls(given: ExpectedCalls) -> tuple[ExpectedCall, ...]:
    """Return expected calls. Raises TypeError for what is none."""
    calls: list[ExpectedCall] = []
    for group, one in enumerate(_listed(given), start=1):
        if is_mapping(one) and set(one) == {"parallel"}:
            calls += [replace(call, group=group) for call in expected_calls(one["parallel"])]
        else:
            calls.append(one if isinstance(one, ExpectedCall) else _expected_call(one))
    return tuple(calls)


def actual_turn(given: ActualCalls) -> Turn:
    """Return a turn. Raises TypeError for what is none."""
    if isinstance(given, Turn):
        return given
    return Turn(tuple(call if isinstance(call, ToolCall) else _actual_call(call) for call in _listed(given)))


def golden_of(given: GivenGolden) -> Golden:
    """Return a golden. Raises TypeError for what is none."""
    if isinstance(given, Golden):
        return given
    items = _listed(given)
    if items and all(
        isinstance(item, ExpectedCall) or (is_mapping(item) and item.keys() & {"name", "parallel"}) for item in items
    ):
        return Golden(calls=expected_calls(items))
    return Golden(turns=tuple(item if isinstance(item, GoldenTurn) else _golden_turn(item) for item in items))


def session_of(given: GivenSession) -> Session:
    """Return a session. Raises TypeError for what is none."""
    if isinstance(given, Session):
        return given
    items = _listed(given)
    if items and all(isinstance(item, ToolCall) or is_mapping(item) for item in items):
        return Session("", (actual_turn(items),))
    return Session("", tuple(actual_turn(item) for item in items))


def _expected_call(given: object) -> ExpectedCall:
    call = _fields(given, _EXPECTED, "an expected call")
    args = call.get("args", {})
    if not is_mapping(args):
        raise TypeError(f"args of {call['name']}: found {shown(args)}, expected a mapping of argument names to values")
    criterion = Criterion.parse(call["criterion"]) if "criterion" in call else None
    return ExpectedCall(
        call["name"],
        args,
        criterion,
        optional=call.get("optional") is True,
        forbidden=call.get("forbidden") is True,
        result=call.get("result"),
    )


def _actual_call(given: object) -> ToolCall:
    call = _fields(given, _ACTUAL, "a call")
    args, error = call.get("args", {}), call.get("error")
    if args is not None and not is_mapping(args):
        raise TypeError(f"args of {call['name']}: found {shown(args)}, expected a mapping, or None for not captured")
    return ToolCall(
        call["name"],
        args,
        Capture.NOT_CAPTURED if args is None else Capture.CAPTURED,
        error=None if error is None or error is False else str(error),
        batch=call.get("batch", 0),
    )


def _golden_turn(given: object) -> GoldenTurn:
    if not is_mapping(given):
        return GoldenTurn(expected_calls(_listed(given)))
    if unknown := given.keys() - {"calls", "user", "turn_id"}:
        raise TypeError(f"a turn has `calls`, `user` and `turn_id`, not {shown(min(map(str, unknown)))}")
    return GoldenTurn(expected_calls(given.get("calls", ())), given.get("user"), given.get("turn_id"))


def _fields(given: object, known: Sequence[str], what: str) -> Mapping[str, Any]:
    if not is_mapping(given) or not isinstance(given.get("name"), str):
        raise TypeError(f'found {shown(given)}, expected {what} such as {{"name": "get_weather", "args": {{}}}}')
    if unknown := given.keys() - set(known):
        raise TypeError(f"{what} has {', '.join(f'`{k}`' for k in known)}, not {shown(min(map(str, unknown)))}")
    return given


def _listed(given: object) -> Sequence[Any]:
    if isinstance(given, str) or is_mapping(given) or not isinstance(given, Iterable):
        raise TypeError(f"found {shown(given)}, expected a list")
    return tuple(given)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
