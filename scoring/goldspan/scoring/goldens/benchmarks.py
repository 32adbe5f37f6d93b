"""What readers of other systems' files share: records with their places, and the golden set that is made of them.

The systems are BFCL, tau2 and ADK. Of ADK's eval sets each eval case is a golden, all of it literal. Read are the
fields that ADK 2.13 writes, in snake_case or camelCase, and the lists that ADK had before eval sets: of cases,
`[{name, data: [query, ...]}]`, or of the queries of one case, `[{query, expected_tool_use: [...]}]`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, NamedTuple

from pydantic.alias_generators import to_camel

from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens.criteria_and_rules import CriterionMapping
from goldspan.scoring.goldens.documents import (
    MistakeCollector,
    SourcePlace,
    Unreadable,
    ValuePath,
    check_finite,
    found,
    read_json,
    read_lines,
)
from goldspan.scoring.goldens.golden import ExpectedCall, Golden, GoldenSet, GoldenTurn
from goldspan.scoring.goldens.golden_file import content_digest
from goldspan.scoring.json_values import counted, is_list, is_mapping
from goldspan.scoring.matchers import escape_literal
from goldspan.scoring.sessions import JsonValue


@dataclass(slots=True)
class Imported:
    """A golden set as a document of goldspan's own format, and what could not be taken over."""

    document: dict[str, JsonValue]
    notices: list[str] = field(default_factory=list[str])


def read_records(text: str, notes: MistakeCollector) -> JsonValue:
    """Read JSON lines, or one JSON document, as a list; a line that cannot be read hides no other.

    Raises Unreadable if it is one document, and not JSON.
    """
    if text.lstrip().startswith("["):
        return read_json(text, notes)
    with suppress(Unreadable):
        whole = MistakeCollector(notes.file)
        value = read_json(text, whole)
        notes.place = SourcePlace(1, {0: whole.place})
        notes.mistakes += whole.mistakes
        return [value]
    records, notes.place = read_lines(text.split("\n"), notes)
    return records


def objects(value: JsonValue, where: ValuePath, notes: MistakeCollector) -> Iterator[tuple[ValuePath, dict[str, Any]]]:
    """Yield the objects of a list with their places, and note what is none."""
    if not is_list(value):
        notes.add(where, f"{found(value)}, expected a list")
        return
    for index, item in enumerate(value):
        if is_mapping(item):
            yield (*where, index), dict(item)
        else:
            notes.add((*where, index), f"{found(item)}, expected an object")


def text_of(given: dict[str, Any], names: tuple[str, ...], where: ValuePath, notes: MistakeCollector) -> str:
    """Return the text of the first of these fields that is there; a number is read as its digits."""
    for name in names:
        value = given.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    notes.add(where, f"`{names[0]}` is missing, or no text")
    return ""


def arguments_of(
    given: dict[str, Any], names: tuple[str, ...], where: ValuePath, notes: MistakeCollector
) -> dict[str, Any]:
    """Return the arguments in the first of these fields that is there; null is none."""
    for name in names:
        value = given.get(name)
        if is_mapping(value):
            check_finite(value, (*where, name), notes.add)
            return dict(value)
        if value is not None:
            notes.add((*where, name), f"{found(value)}, expected an object of arguments by name")
    return {}


# BFCL's possible answers: lines of `{id, ground_truth: [{function: {argument: [alternatives]}}]}`, of several turns as
# Python calls in text, or of `{session_id, expected: [{name, any_of}]}`. Everything is literal; `""` among the
# alternatives marks an argument that may be left out.

CRITERION: dict[str, JsonValue] = {
    "default_strategy": "casefold_exact",
    "ordered": False,
    "extra_calls": "penalize",
    "extra_arguments": "penalize",
}
"""Nearest to what BFCL's checker does: calls in any order, none too many, letters of either case."""
ABSENT: dict[str, JsonValue] = {"$absent": True}
MAY_BE_LEFT_OUT = ""


def import_bfcl(records: JsonValue, name: str, notes: MistakeCollector, *, prefix: str = "") -> Imported:
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
    def __init__(self, notes: MistakeCollector) -> None:
        self.notes = notes
        self.without_calls = self.unnamed = self.unreadable = 0

    def expected(self, record: dict[str, Any], where: ValuePath) -> dict[str, JsonValue] | None:
        """Return `calls` or `turns`; None where the answer is text for people."""
        if "expected" in record:
            given = objects(record["expected"], (*where, "expected"), self.notes)
            calls = [
                self.call(text_of(one, ("name",), place, self.notes), *self.alternatives(one, place))
                for place, one in given
            ]
            return {"calls": calls} if calls else None
        return self.of_ground_truth(record.get("ground_truth"), (*where, "ground_truth"))

    def of_ground_truth(self, answers: JsonValue, inside: ValuePath) -> dict[str, JsonValue] | None:
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

    def alternatives(self, given: dict[str, Any], where: ValuePath) -> tuple[JsonValue, ValuePath]:
        if "any_of" in given:
            return given["any_of"], (*where, "any_of")
        args = arguments_of(given, ("args", "arguments"), where, self.notes)
        return {name: [value] for name, value in args.items()}, where

    def call(self, name: str, alternatives: JsonValue, where: ValuePath) -> dict[str, JsonValue]:
        if not is_mapping(alternatives):
            self.notes.add(where, f"{found(alternatives)}, expected an object of alternatives by argument")
            return {"name": name}
        check_finite(alternatives, where, self.notes.add)
        args: dict[str, JsonValue] = {}
        for argument, values in alternatives.items():
            if not is_list(values):
                self.notes.add((*where, argument), f"{found(values)}, expected a list of alternatives")
            elif any(value != MAY_BE_LEFT_OUT for value in values):
                args[argument] = _any_of(values, _value)
        return {"name": name, "args": args} if args else {"name": name}

    def call_in_text(self, text: JsonValue, where: ValuePath) -> dict[str, JsonValue]:
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
        return [_value(item) if is_mapping(item) else escape_literal(item) for item in value]
    if not (is_mapping(value) and value and all(map(is_list, value.values()))):
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


# tau2-bench's `tasks.json`, or lines of `{session_id, expected: [{name, args, compare_args, requestor}]}`, all literal.
# `compare_args` names the arguments that count; an empty list means that the name alone does.


def import_tau2(
    records: JsonValue, name: str, notes: MistakeCollector, *, prefix: str = "", user_calls: bool = False
) -> Imported:
    """Make a golden set of tasks; what is wrong with them is noted, and the result then of no use.

    `prefix` stands before each task's id in its session id. The calls of tau2's simulated user are no calls of the
    agent and left out, unless `user_calls`.
    """
    goldens: list[JsonValue] = []
    imported = Imported({"golden_set": name, "criterion": {"ordered": False}, "goldens": goldens})
    empty = of_users = 0
    for where, task in objects(records, (), notes):
        calls: list[JsonValue] = []
        for place, action in _actions(task, where, notes):
            if action.get("requestor") == "user" and not user_calls:
                of_users += 1
                continue
            calls.append(_call(action, place, notes))
        session = prefix + text_of(task, ("id", "session_id"), where, notes)
        if calls:
            goldens.append({"session": session, **_description(task), "calls": calls})
        else:
            empty += 1
    if of_users:
        imported.notices.append(f"{counted(of_users, 'call')} of the simulated user left out")
    if empty:
        imported.notices.append(f"{counted(empty, 'task')} without calls left out")
    return imported


def _actions(task: dict[str, Any], where: ValuePath, notes: MistakeCollector) -> list[tuple[ValuePath, dict[str, Any]]]:
    if "expected" in task:
        return list(objects(task["expected"], (*where, "expected"), notes))
    criteria = task.get("evaluation_criteria")
    if criteria is None:
        return []
    inside = (*where, "evaluation_criteria")
    if not is_mapping(criteria):
        notes.add(inside, f"{found(criteria)}, expected an object")
        return []
    actions = criteria.get("actions")
    return [] if actions is None else list(objects(actions, (*inside, "actions"), notes))


def _call(action: dict[str, Any], where: ValuePath, notes: MistakeCollector) -> JsonValue:
    args = arguments_of(action, ("arguments", "args"), where, notes)
    compared = action.get("compare_args")
    if is_list(compared):
        args = {name: value for name, value in args.items() if name in compared}
    elif compared is not None:
        notes.add((*where, "compare_args"), f"{found(compared)}, expected a list of names")
    call: dict[str, JsonValue] = {"name": text_of(action, ("name",), where, notes)}
    return {**call, "args": {name: escape_literal(value) for name, value in args.items()}} if args else call


def _description(task: dict[str, Any]) -> dict[str, JsonValue]:
    about = task.get("description")
    purpose = about.get("purpose") if is_mapping(about) else about
    return {"description": purpose} if isinstance(purpose, str) and purpose.strip() else {}


HAND_OFFS = frozenset(
    {
        "adk_request_confirmation",
        "adk_request_credential",
        "adk_request_input",
        "set_model_response",
        "transfer_to_agent",
    }
)
"""Calls that ADK writes for itself; in traces they are not tool calls either."""

_NAME_ENDS = (".evalset.json", ".test.json", ".json")


def read_eval_set(document: JsonValue, notes: MistakeCollector, defaults: CriterionMapping) -> GoldenSet:
    """Make a golden set of an ADK eval set; what is wrong with it is noted, and the result then of no use."""
    criterion = Criterion() if notes.mistakes else Criterion.parse(defaults)
    name, cases = _old_cases(document, notes) if is_list(document) else _cases(_Object(document, (), notes))
    digest = "" if notes.mistakes else content_digest(document)
    goldens = [
        Golden(session, turns, criterion=criterion, golden_set=name, digest=digest, source=notes.source(where))
        for session, turns, where in cases
    ]
    return GoldenSet(name, None, digest, criterion, tuple(goldens), notes.source(()))


_Case = tuple[str | None, tuple[GoldenTurn, ...], ValuePath]  # session, turns and place


def _cases(top: _Object) -> tuple[str, list[_Case]]:
    name = top.text("eval_set_id", required=True) or ""
    return name, [
        (_session(case), tuple(map(_turn, case.objects("conversation"))), case.where)
        for case in top.objects("eval_cases")
    ]


def _session(case: _Object) -> str | None:
    eval_id = case.text("eval_id", required=True)
    pinned = case.object("session_input")
    return (pinned and pinned.text("session_id")) or eval_id


def _old_cases(document: JsonValue, notes: MistakeCollector) -> tuple[str, list[_Case]]:
    file, items = PurePath(notes.file).name, _objects(document, (), notes)
    name = next((file.removesuffix(end) for end in _NAME_ENDS if file.endswith(end)), file)
    if any("query" in item.value for item in items):
        return name, [(name, tuple(map(_old_turn, items)), ())]
    return name, [
        (item.text("name", required=True), tuple(map(_old_turn, item.objects("data"))), item.where) for item in items
    ]


def _old_turn(invocation: _Object) -> GoldenTurn:
    query = invocation.text("query", required=True)
    calls = [_adk_call(use, name="tool_name", args="tool_input") for use in invocation.objects("expected_tool_use")]
    return GoldenTurn(tuple(call for call in calls if call.name not in HAND_OFFS), user=query)


def _turn(invocation: _Object) -> GoldenTurn:
    content = invocation.object("user_content")
    texts = [text for part in content.objects("parts") if (text := part.text("text"))] if content else []
    data = invocation.object("intermediate_data")
    calls = (_adk_call(one) for one in _function_calls(data)) if data else ()
    return GoldenTurn(tuple(call for call in calls if call.name not in HAND_OFFS), user="\n".join(texts) or None)


def _function_calls(data: _Object) -> Iterator[_Object]:
    yield from data.objects("tool_uses")
    for event in data.objects("invocation_events"):
        if content := event.object("content"):
            for part in content.objects("parts"):
                if call := part.object("function_call"):
                    yield call


def _adk_call(given: _Object, name: str = "name", args: str = "args") -> ExpectedCall:
    values = given.object(args)
    if values is not None:
        check_finite(values.value, values.where, values.notes.add)
    return ExpectedCall(given.text(name, required=True) or "", values.value if values else {}, literal=True)


class _Object(NamedTuple):
    """An object in the document, read field by field; null is the same as absent, as for ADK."""

    value: Any
    where: ValuePath
    notes: MistakeCollector

    def text(self, name: str, *, required: bool = False) -> str | None:
        where, value = self._field(name)
        if isinstance(value, str) and (value or not required):
            return value
        if value is not None:
            self.notes.add(where, f"{found(value)}, expected text")
        elif required:
            self.notes.add(self.where, f"`{name}` is missing")
        return None

    def object(self, name: str) -> _Object | None:
        where, value = self._field(name)
        if value is None or is_mapping(value):
            return None if value is None else _Object(value, where, self.notes)
        self.notes.add(where, f"{found(value)}, expected an object")
        return None

    def objects(self, name: str) -> list[_Object]:
        where, value = self._field(name)
        return [] if value is None else _objects(value, where, self.notes)

    def _field(self, name: str) -> tuple[ValuePath, JsonValue]:
        written = name if name in self.value or to_camel(name) not in self.value else to_camel(name)
        return (*self.where, written), self.value.get(written)


def _objects(items: JsonValue, where: ValuePath, notes: MistakeCollector) -> list[_Object]:
    return [_Object(item, place, notes) for place, item in objects(items, where, notes)]
