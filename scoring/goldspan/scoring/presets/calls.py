"""What a preset is given, whatever holds it: plain mappings, expected calls, tool calls."""

from __future__ import annotations

import json
from typing import Any

from goldspan.scoring.goldens.models import ExpectedCall
from goldspan.scoring.known_arguments import why_hidden
from goldspan.scoring.matchers.matcher import holds_matchers
from goldspan.scoring.presets.shapes import is_mapping, is_sequence
from goldspan.scoring.results import Reason
from goldspan.scoring.sessions import Capture, ToolCall

PlainCall = dict[str, Any]
"""`name`, `args` where given, and whatever else a system reads of a call: `id`, `output`, `compare_args`, ..."""


class InputMissingError(Exception):
    """The system reads something that was not given; becomes a result with the reason `input_missing`."""


def plain_call(call: object) -> PlainCall:
    """Read one call as a mapping of its own.

    Raises:
        TypeError: it is nothing that can be read as a call.

    """
    if isinstance(call, ExpectedCall):
        values = call.values.items()
        args = {name: call.args[name] if holds_matchers(value) else value for name, value in values}  # no `$literal`
        expected: PlainCall = {"name": call.name, "args": args}
        if call.result is not None:
            expected["output"] = call.result if isinstance(call.result, str) else json.dumps(call.result)
        return expected
    if isinstance(call, ToolCall):
        plain: PlainCall = {"name": call.name}
        if call.arguments is not None:
            plain["args"] = dict(call.arguments)
        if call.result.capture is Capture.CAPTURED:
            plain["output"] = call.result.raw
        return plain
    if is_mapping(call):
        plain = dict(call)
        if "args" not in plain and "arguments" in plain:
            plain["args"] = plain.pop("arguments")
        return plain
    raise TypeError(f"a call is a mapping with 'name' and 'args', an ExpectedCall or a ToolCall, not {_kind(call)}")


def plain_calls(calls: object) -> list[PlainCall]:
    """Read a list of calls; `None` is an empty one. Optional and forbidden calls are left out: others have none.

    Raises:
        TypeError: it is no list, or something in it is no call.

    """
    return [plain_call(call) for call in items(calls) if not _beyond_others(call)]


def items(calls: object) -> list[object]:
    """Return what a list holds; `None` holds nothing.

    Raises:
        TypeError: it is no list.

    """
    if calls is None:
        return []
    if not is_sequence(calls):
        raise TypeError(f"calls come as a list, not {_kind(calls)}")
    return list(calls)


def named_call(plain: PlainCall) -> tuple[str, dict[str, Any]]:
    """Return name and arguments, where a system demands both to be well formed; no `args` at all means none.

    Raises:
        TypeError: the name is no string, or the arguments are no object with string keys.

    """
    name, args = plain.get("name"), plain.get("args", {})
    if not isinstance(name, str):
        raise TypeError(f"the name of a call is a string, not {_kind(name)}")
    return name, checked_arguments(name, args)


def checked_arguments(name: str | None, args: object) -> dict[str, Any]:
    """Return the arguments of a call as a dict.

    Raises:
        TypeError: they are no object with string keys.

    """
    if not is_mapping(args):
        raise TypeError(f"the arguments of {name!r} are an object, not {_kind(args)}")
    plain: dict[Any, Any] = dict(args)
    if odd := [key for key in plain if not isinstance(key, str)]:
        raise TypeError(f"the arguments of {name!r} have a key that is no string: {odd[0]!r}")
    return plain


def unknown_arguments(actual: object) -> Reason | None:
    """Say why the arguments of some call are not to be believed, if so; other systems have no notion of it."""
    listed = actual.get("invocations") if is_mapping(actual) else actual
    entries = listed if is_sequence(listed) else ()
    nested = [call for entry in entries for call in (entry if is_sequence(entry) else (entry,))]
    return next((why for call in nested if isinstance(call, ToolCall) and (why := why_hidden(call))), None)


def _beyond_others(call: object) -> bool:
    return isinstance(call, ExpectedCall) and (call.optional or call.forbidden)


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__
