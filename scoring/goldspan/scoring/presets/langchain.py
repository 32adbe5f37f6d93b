"""LangChain's trajectory match (`create_trajectory_match_evaluator`, agentevals 0.0.9): true or false.

`strict`: the same messages by role, each with the same tool calls, in any order inside a message. `superset`: each
reference call finds a call of its own among the outputs. `subset`: the other way round. `unordered`: both. Names are
equal or not; arguments are compared by `tool_args_match_mode`, or for single tools by `tool_args_match_overrides`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

from goldspan.scoring.presets.langchain_messages import Message, MessageCall, read_messages
from goldspan.scoring.presets.options import PresetOptions
from goldspan.scoring.presets.result import PresetResult, judged
from goldspan.scoring.presets.shapes import is_dict, is_sequence

NAME = "langchain"

_Calls = list[MessageCall]
_Matcher = Callable[[Any, Any], bool]
"""Of the arguments of an output and of a reference call."""


class LangChainOptions(PresetOptions):
    """The arguments of `create_trajectory_match_evaluator`."""

    trajectory_match_mode: Literal["strict", "unordered", "subset", "superset"] = "strict"
    tool_args_match_mode: Literal["exact", "ignore", "subset", "superset"] = "exact"
    tool_args_match_overrides: Mapping[str, Any] | None = None
    """By tool name: a mode, a list of dotted paths into the arguments, or a function of both arguments. An empty one
    counts for nothing, and a mode of an unknown name is `ignore`, as in agentevals."""


def score(expected: object, actual: object, options: LangChainOptions) -> PresetResult:
    """Compare two lists of messages; `strict` needs messages, the other modes take bare calls too.

    Raises:
        InputMissingError: `strict` was given bare calls.
        KeyError, TypeError, ValueError: as agentevals, for what it cannot read.

    """
    strict = options.trajectory_match_mode == "strict"
    outputs = read_messages(actual, roles_matter=strict)
    reference = read_messages(expected, roles_matter=strict)
    match options.trajectory_match_mode:
        case "strict":
            same = _same_messages(outputs, reference, options)
        case "superset":
            same = _covers(_calls(outputs), _calls(reference), options)
        case "subset":
            same = _covers(_calls(reference), _calls(outputs), options)
        case "unordered":
            same = _covers(_calls(outputs), _calls(reference), options) and _covers(
                _calls(reference), _calls(outputs), options
            )
    return PresetResult(NAME, float(same), label=judged(passed=same))


def _calls(messages: list[Message]) -> _Calls:
    return [call for message in messages for call in message.calls or []]


def _same_messages(outputs: list[Message], reference: list[Message], options: LangChainOptions) -> bool:
    if len(outputs) != len(reference):
        return False
    for output, wanted in zip(outputs, reference, strict=True):
        if output.role != wanted.role or (output.calls is None) != (wanted.calls is None):
            return False
        calls, references = output.calls or [], wanted.calls or []
        if len(calls) != len(references) or not _each_finds_its_own(calls, references, options, swapped=True):
            return False
    return True


def _covers(outputs: _Calls, reference: _Calls, options: LangChainOptions) -> bool:
    return _each_finds_its_own(reference, outputs, options, swapped=False)


def _each_finds_its_own(seeking: _Calls, offered: _Calls, options: LangChainOptions, *, swapped: bool) -> bool:
    """Whether each call, in turn, finds a first match that is still free. `swapped`: the seeking ones are outputs."""
    free = list(offered)
    for call in seeking:
        for index, other in enumerate(free):
            if call.name != other.name:
                continue
            matches = _matcher(call.name, options)
            if matches(call.args, other.args) if swapped else matches(other.args, call.args):
                del free[index]
                break
        else:
            return False
    return True


def _matcher(tool: str, options: LangChainOptions) -> _Matcher:
    override = (options.tool_args_match_overrides or {}).get(tool)
    if not override:
        return _MODES[options.tool_args_match_mode]
    if isinstance(override, str):
        return _MODES.get(override, _ignore)
    if callable(override):
        return cast("_Matcher", override)
    if is_sequence(override):
        return _on_paths(override)
    raise ValueError(f"Invalid tool args match override: {override}")


def _exact(output: Any, reference: Any) -> bool:
    return bool(output == reference)


def _subset(output: Any, reference: Any) -> bool:
    return all(key in reference and reference[key] == value for key, value in output.items())


def _superset(output: Any, reference: Any) -> bool:
    return _subset(reference, output)


def _ignore(output: Any, reference: Any) -> bool:  # noqa: ARG001 - that is the point
    return True


_MODES: dict[str, _Matcher] = {"exact": _exact, "subset": _subset, "superset": _superset, "ignore": _ignore}


def _on_paths(paths: Sequence[str]) -> _Matcher:
    return lambda output, reference: all(_at(output, path) == _at(reference, path) for path in paths)


def _at(args: Any, path: str) -> Any:
    """Find the value at a dotted path; null where there is none."""
    for part in path.split("."):
        if not is_dict(args):
            return None
        args = args.get(part)
    return args
