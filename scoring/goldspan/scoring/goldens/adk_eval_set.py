"""ADK's eval sets as golden sets: one golden for each eval case, all of it literal.

Read are the fields that ADK 2.13 writes, in snake_case or camelCase, and the lists that ADK had before eval sets: of
cases, `[{name, data: [query, ...]}]`, or of the queries of one case, `[{query, expected_tool_use: [...]}]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, NamedTuple

from pydantic.alias_generators import to_camel

from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens.benchmarks import objects
from goldspan.scoring.goldens.criterion_inheritance import CriterionMapping
from goldspan.scoring.goldens.documents import MistakeCollector, ValuePath, check_finite, found
from goldspan.scoring.goldens.golden import ExpectedCall, Golden, GoldenSet, GoldenTurn
from goldspan.scoring.goldens.golden_file import content_digest
from goldspan.scoring.json_values import is_list, is_mapping
from goldspan.scoring.sessions import JsonValue

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


def is_eval_set(document: JsonValue) -> bool:
    """Whether a document is meant as an ADK eval set, or as a file of ADK from before eval sets."""
    if is_list(document):
        return any(is_mapping(item) and item.keys() & {"data", "query"} for item in document)
    return is_mapping(document) and ("eval_cases" in document or "evalCases" in document)


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


_Case = tuple[str | None, tuple[GoldenTurn, ...], ValuePath]
"""Session, turns and place."""


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
    calls = [_call(use, name="tool_name", args="tool_input") for use in invocation.objects("expected_tool_use")]
    return GoldenTurn(tuple(call for call in calls if call.name not in HAND_OFFS), user=query)


def _turn(invocation: _Object) -> GoldenTurn:
    content = invocation.object("user_content")
    texts = [text for part in content.objects("parts") if (text := part.text("text"))] if content else []
    data = invocation.object("intermediate_data")
    calls = (_call(one) for one in _function_calls(data)) if data else ()
    return GoldenTurn(tuple(call for call in calls if call.name not in HAND_OFFS), user="\n".join(texts) or None)


def _function_calls(data: _Object) -> Iterator[_Object]:
    yield from data.objects("tool_uses")
    for event in data.objects("invocation_events"):
        if content := event.object("content"):
            for part in content.objects("parts"):
                if call := part.object("function_call"):
                    yield call


def _call(given: _Object, name: str = "name", args: str = "args") -> ExpectedCall:
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
