"""What presets read: calls in plain mappings, expected calls and tool calls; and options."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from goldspan.scoring.errors import CriterionError
from goldspan.scoring.goldens.golden import ExpectedCall
from goldspan.scoring.json_values import is_mapping, is_sequence
from goldspan.scoring.matchers.matcher import holds_matchers
from goldspan.scoring.sessions import Capture, ToolCall
from goldspan.scoring.verdict import Reason, why_hidden

PlainCall = dict[str, Any]
"""`name`, `args` where given, and whatever else a system reads of a call: `id`, `output`, `compare_args`, ..."""


class InputMissingError(Exception):
    """The system reads something that was not given; becomes a result with the reason `input_missing`."""


def plain_call(call: object) -> PlainCall:
    """Read one call as a mapping of its own. Raises TypeError if it is nothing that can be read as a call."""
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

    Raises TypeError if it is no list, or something in it is no call.
    """
    return [
        plain_call(call)
        for call in items(calls)
        if not (isinstance(call, ExpectedCall) and (call.optional or call.forbidden))
    ]


def items(calls: object) -> list[object]:
    """Return what a list holds; `None` holds nothing. Raises TypeError if it is no list."""
    if calls is None:
        return []
    if not is_sequence(calls):
        raise TypeError(f"calls come as a list, not {_kind(calls)}")
    return list(calls)


def named_call(plain: PlainCall) -> tuple[str, dict[str, Any]]:
    """Return name and arguments, where a system demands both to be well formed; no `args` at all means none.

    Raises TypeError if the name is no string, or the arguments are no object with string keys.
    """
    name, args = plain.get("name"), plain.get("args", {})
    if not isinstance(name, str):
        raise TypeError(f"the name of a call is a string, not {_kind(name)}")
    return name, checked_arguments(name, args)


def checked_arguments(name: str | None, args: object) -> dict[str, Any]:
    """Return the arguments of a call as a dict. Raises TypeError if they are no object with string keys."""
    if not is_mapping(args):
        raise TypeError(f"the arguments of {name!r} are an object, not {_kind(args)}")
    plain: dict[Any, Any] = dict(args)
    if odd := [key for key in plain if not isinstance(key, str)]:
        raise TypeError(f"the arguments of {name!r} have a key that is no string: {odd[0]!r}")
    return plain


def unknown_arguments(actual: object) -> Reason | None:
    """Return why the arguments of a call are not known, if so; other systems have no such notion."""
    listed = actual.get("invocations") if is_mapping(actual) else actual
    entries = listed if is_sequence(listed) else ()
    nested = [call for entry in entries for call in (entry if is_sequence(entry) else (entry,))]
    return next((why for call in nested if isinstance(call, ToolCall) and (why := why_hidden(call))), None)


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


# Options of a preset: typed, named as the reproduced system names them, unknown ones refused.


class PresetOptions(BaseModel):
    """The ancestor of every preset's options; camelCase is accepted beside snake_case."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, arbitrary_types_allowed=True
    )


OptionsT = TypeVar("OptionsT", bound=PresetOptions)


def read_options(preset: str, model: type[OptionsT], given: Mapping[str, Any]) -> OptionsT:
    """Check what the caller gave.

    Raises CriterionError if an option is unknown (the message has the nearest name) or has a wrong value; all are
    listed.
    """
    aliases = {field.alias for field in model.model_fields.values() if field.alias}
    mistakes = [
        unknown_name(f"preset {preset!r} has no option", option, model.model_fields)
        for option in given
        if option not in model.model_fields and option not in aliases
    ]
    if mistakes:
        raise CriterionError("; ".join(mistakes))
    try:
        return model.model_validate(dict(given))
    except ValidationError as invalid:
        where = f"preset {preset!r}, option"
        wrong = (
            f"{where} {'.'.join(map(str, error['loc']))!r}: {error['msg']}, found {error['input']!r}"
            for error in invalid.errors(include_url=False)
        )
        raise CriterionError("; ".join(wrong)) from None


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """Write `what 'nmae': did you mean 'name'? It has to be one of name, other`."""
    choices = sorted(known)
    near = get_close_matches(name, choices, n=1)
    hint = f": did you mean {near[0]!r}?" if near else "."
    ruled = f" It has to be one of {', '.join(choices)}" if choices else " It takes none"
    return f"{what} {name!r}{hint}{ruled}"
