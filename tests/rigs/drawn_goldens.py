"""Goldens that ask for everything a golden may ask, drawn from what recorded sessions did.

Most of them are right by the recording: what a matcher or a rule needs of a session then decides a pass, so that a door
that does not read it gives another result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from random import Random
from typing import Any

from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.metrics.session_metrics import BUILT_IN_METRICS
from goldspan.scoring.presets.preset_registry import PRESETS
from goldspan.scoring.sessions import Capture, Session, ToolCall, Turn
from goldspan.scoring.tool_definitions import ToolsInForce
from goldspan.scoring.verdict import MAIN_METRIC

OPTIONS: dict[str, tuple[Any, ...]] = {
    "match_mode": ("name_only", "name_and_required_args", "name_and_args"),
    "default_strategy": ("exact", "casefold_exact", "numeric", "contains", "similarity"),
    "per_arg_strategies": ({}, {"city": "casefold_exact", "people": "numeric"}),
    "tools": ({}, {"get_weather": {"args": {"city": {"strategy": "contains", "weight": 3, "required": False}}}}),
    "numeric_tolerance": (0, 1),
    "ordered": (True, False),
    "parallel_calls": ("any_order", "in_order"),
    "scope": ("turn", "session"),
    "argument_score": ("all", "mean"),
    "call_score": ("mean", "all"),
    "turn_score": ("mean", "all"),
    "extra_arguments": ("report", "penalize"),
    "extra_calls": ("report", "penalize"),
    "other_writes": ("report", "forbid"),
    "repeated_writes": ("fail", "report"),
    "reads": ((), ("get_*", "*weather*")),
    "writes": ((), ("book_*",)),
    "failed_calls": ("count", "ignore"),
    "rejected_requests": ("report", "count"),
    "missing_turns": ("zero", "not_evaluated"),
    "turn_join": ("auto", "key", "index"),
    "equality": ("json",),
    "threshold": (1, 0.5),
}
"""Every field of a criterion with values that may be drawn."""

METRICS = sorted(BUILT_IN_METRICS.keys() - {MAIN_METRIC})

INSTANTS = ("2026-03-01", "2026-12-01T19:30", "19:30")
DAYS: tuple[Any, ...] = ("today", "next monday", "start of next month", {"days": 1}, {"days": 0, "time": "09:00Z"})

Matcher = Callable[[Random, Any], Any]
MATCHERS: dict[str, Matcher] = {
    "$any_of": lambda pick, value: {"$any_of": [drawn_value(pick, value), None]},
    "$regex": lambda _, value: {"$regex": "(?s).*"} if isinstance(value, str) else value,
    "$approx": lambda _, value: {"$approx": 2, "tolerance": 1} if isinstance(value, int) else value,
    "$datetime": lambda pick, value: {"$datetime": pick.choice(INSTANTS)} if isinstance(value, str) else value,
    "$contains": lambda _, value: {"$contains": value},
    "$casefold": lambda _, value: {"$casefold": value.upper() if isinstance(value, str) else value},
    "$type": lambda _, __: {"$type": ["string", "number", "object", "array", "null"]},
    "$present": lambda _, __: {"$present": True},
    "$absent": lambda _, __: {"$absent": True},
    "$ignore": lambda _, __: {"$ignore": True},
    "$unordered": lambda _, value: {"$unordered": value} if isinstance(value, list) else value,
    "$common_keys": lambda _, value: {"$common_keys": value} if isinstance(value, (dict, list)) else value,
    "$alphanumeric": lambda _, value: {"$alphanumeric": value},
    "$key_facts": lambda _, value: {"$key_facts": value} if isinstance(value, str) and value.strip() else value,
    "$generated": lambda pick, value: {"$generated": pick.choice(["token", "counter", "timestamp"])},
    "$date": lambda pick, value: {"$date": pick.choice(DAYS)} if isinstance(value, str) else value,
    "$not": lambda pick, value: {"$not": pick.choice([None, value])},
    "$mentions": lambda _, value: {"$mentions": ["get_weather.city"]} if isinstance(value, str) else value,
    "$literal": lambda _, value: {"$literal": value},
}
"""Every matcher but `$from_result`, which wants a call before it."""


def drawn_value(pick: Random, value: Any) -> Any:
    """The value itself, or a matcher in its place."""
    return value if pick.random() < 0.5 else MATCHERS[pick.choice(sorted(MATCHERS))](pick, value)


def drawn_goldens(seed: int, sessions: Sequence[Session]) -> GoldenIndex:
    """A golden for most of these sessions, by one way or another to find it.

    Metrics, presets and results of earlier calls make a door read more for all sessions, so that some sets have none.
    """
    pick = Random(seed)
    results, more = pick.random() < 0.3, pick.random() < 0.3
    goldens: list[dict[str, Any]] = []
    for session in {one.id: one for one in sessions}.values():
        if pick.random() < 0.8:
            body = _body(pick, session, results=results)
            goldens.append(
                {
                    **_key(pick, session, goldens),
                    **body,
                    **(_more(pick) if more else {}),
                    "criterion": drawn_criterion(pick),
                }
            )
    return load_goldens(
        {
            "format": 1,
            "golden_set": "drawn",
            "criterion": drawn_criterion(pick),
            "goldens": goldens,
            **({"forbidden": [pick.choice(FORBIDDEN)]} if pick.random() < 0.2 else {}),
            **({"arguments": rules} if (rules := _rules(pick, goldens)) and pick.random() < 0.3 else {}),
        }
    )


RULES: tuple[dict[str, Any], ...] = (
    {"$casefold": True},
    {"$alphanumeric": True, "optional": True},
    {"weight": 0},
    {"$key_facts": True},
    {"$unordered": True},
    {"$datetime": True},
    {"$approx": True, "tolerance": 0.01},
    {"$generated": "token", "always": True},
    {"$date": "next monday", "always": True},
    {"$mentions": ["get_weather.city"], "always": True},
    {"$any_of": [1, {"$absent": True}], "always": True, "optional": True},
)
FORBIDDEN = (
    {"name": "*", "status": "unrecovered", "forbidden": True},
    {"name": "book_*", "agent": "researcher", "forbidden": True},
)


def _rules(pick: Random, goldens: Any) -> dict[str, Any]:
    """Rules for some of the arguments that goldens have."""
    named = sorted(set(_arguments_of(goldens)))
    return {name: pick.choice(RULES) for name in pick.sample(named, min(2, len(named)))}


def _arguments_of(expected: Any) -> Iterator[str]:
    if isinstance(expected, list):
        for one in expected:
            yield from _arguments_of(one)
    elif isinstance(expected, dict):
        yield from (f"{expected['name']}.{name}" for name in expected.get("args", ()))
        for field in ("turns", "calls", "any_of", "parallel"):
            yield from _arguments_of(expected.get(field))


def drawn_criterion(pick: Random) -> dict[str, Any]:
    """A criterion with a few options drawn; most often the calls may be anywhere, so that arguments decide."""
    chosen = pick.sample(sorted(OPTIONS), pick.choice([0, 1, 1, 2, 4]))
    return {name: pick.choice(OPTIONS[name]) for name in chosen}


def _more(pick: Random) -> dict[str, Any]:
    """Metrics of its own, or a preset."""
    found: dict[str, Any] = {}
    if pick.random() < 0.7:
        found["metrics"] = pick.sample(METRICS, 2)
    if pick.random() < 0.5:
        found["preset"] = pick.choice(sorted(PRESETS))
    return found


def _key(pick: Random, session: Session, others: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first = session.turns[0].user_text.value if session.turns else None
    ways: list[dict[str, Any]] = [{"session": session.id}]
    if not any("session_pattern" in one or "first_user_text" in one for one in others):
        ways.append({"session_pattern": f"{session.id[:-1]}*"} if "*" not in session.id else {"session": session.id})
        if isinstance(first, str) and first:
            ways.append({"first_user_text": first})
    return pick.choice(ways)


def _body(pick: Random, session: Session, *, results: bool) -> dict[str, Any]:
    before: list[ToolCall] = []
    turns: list[dict[str, Any]] = []
    for turn in session.turns:
        calls = [one for one in turn.calls if not one.rejected]
        expected = [
            _expected(pick, call, turn, before + calls[:at] if results else ()) for at, call in enumerate(calls)
        ]
        before += calls
        keys: dict[str, Any] = {}
        said = turn.user_text.value
        if pick.random() < 0.5:
            keys |= {"user": said} if isinstance(said, str) and said else {}
            keys |= {"turn_id": turn.turn_id} if turn.turn_id and not keys else {}
        turns.append({**keys, **_calls(pick, calls, expected)})
    if pick.random() < 0.25:
        return {"calls": [call for turn in turns for call in _flat(turn)]}
    return {"turns": turns}


def _flat(turn: dict[str, Any]) -> list[Any]:
    return turn["calls"] if "calls" in turn else turn["any_of"][-1]


def _calls(pick: Random, calls: Sequence[ToolCall], expected: list[dict[str, Any]]) -> dict[str, Any]:
    listed: list[Any] = []
    for _, group in groupby(range(len(calls)), key=lambda at: calls[at].batch or -at - 1):
        together = [expected[at] for at in group]
        listed += [{"parallel": together}] if len(together) > 1 and pick.random() < 0.5 else together
    if pick.random() < 0.2:
        listed.append({"name": pick.choice(["*", "delete_account"]), "forbidden": True})
    if any("name" in one and not one.get("optional") for one in listed) and pick.random() < 0.15:
        return {"any_of": [[{"name": "never"}], listed]}
    return {"calls": listed}


def _expected(pick: Random, call: ToolCall, turn: Turn, before: Sequence[ToolCall]) -> dict[str, Any]:
    args: dict[str, Any] = {}
    if call.capture is Capture.CAPTURED:
        given = dict(call.arguments or {})
        args = {name: drawn_value(pick, _escaped(value)) for name, value in given.items() if pick.random() < 0.9}
        for name, value in ToolsInForce(turn).defaults_of(call).items():
            if name not in given:
                args[name] = drawn_value(pick, _escaped(value))
        if before and given and pick.random() < 0.5:
            args[pick.choice(sorted(given))] = _from_result(pick, before, list(given.values()))
    expected: dict[str, Any] = {"name": call.name, "args": args}
    if pick.random() < 0.1:
        expected["status"] = "succeeded"
    if call.agent and pick.random() < 0.1:
        expected["agent"] = call.agent
    return {**expected, "optional": True} if pick.random() < 0.1 else expected


def _from_result(pick: Random, before: Sequence[ToolCall], values: Sequence[Any]) -> dict[str, Any]:
    earlier = pick.choice(before)
    result = earlier.result.value
    named = sorted(result) if isinstance(result, dict) else []
    same = [name for name in named if result[name] in values]
    path = f"/{pick.choice(same or named)}" if named else ""
    return {"$from_result": {"call": earlier.name, "path": path}}


def _escaped(value: Any) -> Any:
    return {"$literal": value} if "$" in json.dumps(value, default=str) else value


LEFT_OUT: dict[str, Any] = {"days": 1, "notes": None}
"""Arguments of the recorded agents with their declared defaults, which they pass all the same."""


def leaving_out(value: Any) -> Any:
    """A request in OTLP/JSON in which agents leave out what has its default, at any depth and in JSON text."""
    if isinstance(value, list):
        return [leaving_out(one) for one in value]
    if isinstance(value, dict):
        kept = {name: one for name, one in value.items() if name not in LEFT_OUT or one != LEFT_OUT[name]}
        return {name: leaving_out(one) for name, one in kept.items()}
    if isinstance(value, str) and value.startswith(("{", "[")):
        try:
            return json.dumps(leaving_out(json.loads(value)))
        except ValueError:
            return value
    return value
