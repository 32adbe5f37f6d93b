"""tau2-bench's tasks as a golden set: the actions of each task, as the calls of one session in any order.

Read are tau2's own `tasks.json`, `[{id, evaluation_criteria: {actions: [{name, arguments, compare_args,
requestor}]}}]`, and lines of `{session_id, expected: [{name, args, compare_args, requestor}]}`. Everything is literal.

`compare_args` names the arguments that count (tau2's `Action.compare_with_tool_call`); an empty list means that the
name alone does. What tau2 decides by the arguments that were passed, and that one call may stand for several actions,
only its preset reproduces.
"""

from __future__ import annotations

from typing import Any

from goldspan.scoring.criterion_fields import is_mapping
from goldspan.scoring.explanation import counted
from goldspan.scoring.goldens.documents import Notes, Where, is_list
from goldspan.scoring.goldens.importing import Imported, arguments_of, objects, text_of
from goldspan.scoring.goldens.shapes import found
from goldspan.scoring.matchers import escape_literal
from goldspan.scoring.sessions import JsonValue

_USER = "user"


def import_tau2(records: JsonValue, name: str, notes: Notes, *, prefix: str = "", user_calls: bool = False) -> Imported:
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
            if action.get("requestor") == _USER and not user_calls:
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


def _actions(task: dict[str, Any], where: Where, notes: Notes) -> list[tuple[Where, dict[str, Any]]]:
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


def _call(action: dict[str, Any], where: Where, notes: Notes) -> JsonValue:
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
