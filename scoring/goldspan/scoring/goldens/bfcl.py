"""BFCL's possible answers as a golden set: any of the values that an answer lists, arguments that may be left out.

Read are BFCL's own files, `{id, ground_truth: [{function: {argument: [alternatives]}}]}` a line, those of several
turns, where `ground_truth` holds Python calls as text, turn by turn, and lines of `{session_id, expected: [{name,
any_of}]}`. Everything is literal.

`""` among the alternatives marks an argument that may be left out (BFCL's `ast_checker`); where it is the only one,
nothing is expected of the argument. That BFCL ignores spaces and some punctuation in text, and tells integers from
floats, only its preset reproduces.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from goldspan.scoring.comparison import is_list, is_object
from goldspan.scoring.explanation import counted
from goldspan.scoring.goldens.documents import Notes, Where
from goldspan.scoring.goldens.importing import Imported, arguments_of, objects, text_of
from goldspan.scoring.goldens.shapes import check_finite, found
from goldspan.scoring.matchers import escape_literal
from goldspan.scoring.sessions import JsonValue

CRITERION: dict[str, JsonValue] = {
    "default_strategy": "casefold_exact",
    "ordered": False,
    "extra_calls": "penalize",
    "extra_arguments": "penalize",
}
"""Nearest to what BFCL's checker does: calls in any order, none too many, letters of either case."""
ABSENT: dict[str, JsonValue] = {"$absent": True}
MAY_BE_LEFT_OUT = ""


def import_bfcl(records: JsonValue, name: str, notes: Notes, *, prefix: str = "") -> Imported:
    """Make a golden set of possible answers; what is wrong with them is noted, and the result then of no use.

    `prefix` stands before each answer's id in its session id.
    """
    goldens: list[JsonValue] = []
    imported = Imported({"golden_set": name, "criterion": dict(CRITERION), "goldens": goldens})
    reader = _Reader(notes)
    for where, record in objects(records, (), notes):
        expected = reader.expected(record, where)
        session = prefix + text_of(record, ("id", "session_id"), where, notes)
        if expected is None:
            reader.without_calls += 1
        else:
            goldens.append({"session": session, **expected})
    if reader.without_calls:
        imported.notices.append(f"{counted(reader.without_calls, 'answer')} without calls left out")
    if reader.unnamed:
        unnamed = counted(reader.unnamed, "argument")
        imported.notices.append(f"{unnamed} passed by position left out: the answers do not name them")
    if reader.unreadable:
        imported.notices.append(f"{counted(reader.unreadable, 'argument')} left out, since no plain value")
    return imported


class _Reader:
    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.without_calls = self.unnamed = self.unreadable = 0

    def expected(self, record: dict[str, Any], where: Where) -> dict[str, JsonValue] | None:
        """Return `calls` or `turns`; None where the answer is text for people."""
        if "expected" in record:
            given = objects(record["expected"], (*where, "expected"), self.notes)
            calls = [
                self.call(text_of(one, ("name",), place, self.notes), *self.alternatives(one, place))
                for place, one in given
            ]
            return {"calls": calls} if calls else None
        answers, inside = record.get("ground_truth"), (*where, "ground_truth")
        if is_list(answers) and answers and all(map(is_list, answers)):
            turns = [[self.call_in_text(one, (*inside, index)) for one in turn] for index, turn in enumerate(answers)]
            return {"turns": [{"calls": calls} if calls else {} for calls in turns]} if any(turns) else None
        if is_list(answers) and all(isinstance(one, str) for one in answers):
            return None
        calls = [
            self.call(name, alternatives, (*place, name))
            for place, one in objects(answers, inside, self.notes)
            for name, alternatives in one.items()
        ]
        return {"calls": calls} if calls else None

    def alternatives(self, given: dict[str, Any], where: Where) -> tuple[JsonValue, Where]:
        if "any_of" in given:
            return given["any_of"], (*where, "any_of")
        args = arguments_of(given, ("args", "arguments"), where, self.notes)
        return {name: [value] for name, value in args.items()}, where

    def call(self, name: str, alternatives: JsonValue, where: Where) -> dict[str, JsonValue]:
        if not is_object(alternatives):
            self.notes.add(where, f"{found(alternatives)}, expected an object of alternatives by argument")
            return {"name": name}
        check_finite(alternatives, where, self.notes)
        args: dict[str, JsonValue] = {}
        for argument, values in alternatives.items():
            if not is_list(values):
                self.notes.add((*where, argument), f"{found(values)}, expected a list of alternatives")
            elif any(value != MAY_BE_LEFT_OUT for value in values):
                args[argument] = _any_of(values, _value)
        return {"name": name, "args": args} if args else {"name": name}

    def call_in_text(self, text: JsonValue, where: Where) -> dict[str, JsonValue]:
        try:
            parsed = ast.parse(str(text).strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            parsed = None
        if not isinstance(parsed, ast.Call):
            self.notes.add(where, f"{found(text)}, expected a call such as get_weather(city='Paris')")
            return {"name": str(text)}
        self.unnamed += len(parsed.args)
        args: dict[str, JsonValue] = {}
        for keyword in parsed.keywords:
            try:
                value = _as_json(ast.literal_eval(keyword.value))
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                self.unreadable += 1
                continue
            if keyword.arg is not None:
                args[keyword.arg] = escape_literal(value)
        name = ast.unparse(parsed.func)
        return {"name": name, "args": args} if args else {"name": name}


def _any_of(values: Any, write: Callable[[JsonValue], JsonValue]) -> JsonValue:
    """Return what a golden expects for alternatives, at least one; `write` says how it writes a value."""
    expected = [write(value) for value in values if value != MAY_BE_LEFT_OUT]
    if MAY_BE_LEFT_OUT in values:
        expected += [MAY_BE_LEFT_OUT, ABSENT]
    return expected[0] if len(expected) == 1 else {"$any_of": expected}


def _value(value: JsonValue) -> JsonValue:
    """Return one alternative; objects, also those in lists, have alternatives of their own for each key."""
    if is_list(value):
        return [_value(item) if is_object(item) else escape_literal(item) for item in value]
    if not (is_object(value) and value and all(map(is_list, value.values()))):
        return escape_literal(value)
    return {name: _any_of(alternatives, escape_literal) for name, alternatives in value.items() if alternatives}


def _as_json(value: Any) -> JsonValue:
    """Return Python's value as JSON. Raises TypeError for what JSON does not have."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [_as_json(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case dict():
            return {str(name): _as_json(item) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            raise TypeError(type(value).__name__)
