"""LangChain's trajectory match (`create_trajectory_match_evaluator`, agentevals 0.0.9): true or false."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, cast

from goldspan.scoring.json_values import is_dict, is_list, is_mapping, is_sequence
from goldspan.scoring.presets.inputs import InputMissingError, PresetOptions, items, named_call, plain_call, plain_calls
from goldspan.scoring.verdict import PresetResult, judged

# Messages come with OpenAI's or LangChain's roles and tool calls, and Anthropic's and OpenAI's content blocks.

_ROLES = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "system": "system",
    "developer": "developer",
    "function": "function",
    "tool": "tool",
}
_BLOCK_IDS = {"tool_use": "id", "function_call": "call_id"}  # content blocks that hold a call, and where its id stands


class MessageCall(NamedTuple):
    """A tool call in a message."""

    name: str
    args: Any


class LangChainMessage(NamedTuple):
    """What is compared of a message."""

    role: str
    calls: list[MessageCall] | None
    """None where the message has no tool calls, never empty."""


def read_messages(given: object, *, roles_matter: bool) -> list[LangChainMessage]:
    """Read messages, or a mapping that holds them under `messages`; `None` is no message.

    A bare list of calls is read as one assistant message where roles do not matter. Raises InputMissingError for bare
    calls where roles matter, and KeyError, TypeError or ValueError for what is no message or no tool call.
    """
    if is_mapping(given):
        if "role" in given:
            return [_message(given)]
        if "messages" not in given:
            raise ValueError("if messages is a dict, it must contain a 'messages' key")
        given = given["messages"]
    entries = items(given)
    if not entries or any(_is_message(entry) for entry in entries):
        return [_message(entry) for entry in entries]
    if roles_matter:
        raise InputMissingError("messages with their roles: strict matching compares message by message")
    return [
        LangChainMessage("assistant", [_through_json(*named_call(plain)) for plain in plain_calls(entries)] or None)
    ]


def _is_message(entry: object) -> bool:
    return is_mapping(entry) and ("role" in entry or "tool_calls" in entry or entry.get("type") in _ROLES)


def _message(message: object) -> LangChainMessage:
    if not is_mapping(message):
        raise TypeError(f"a message is a mapping with a 'role', not {type(message).__name__}")
    said = message["role"] if "role" in message else message["type"]
    if said not in _ROLES:
        raise ValueError(f"Unexpected message type: {said!r}. Use one of {', '.join(map(repr, _ROLES))}.")
    role = _ROLES[said]
    content = message.get("content")
    blocks = [block for block in content if is_mapping(block)] if is_list(content) else []
    if blocks and all(block.get("type") == "tool_result" for block in blocks):
        return LangChainMessage("tool", None)
    return LangChainMessage(role, (_message_calls(message, blocks) or None) if role == "assistant" else None)


def _message_calls(message: Mapping[str, Any], blocks: list[Mapping[str, Any]]) -> list[MessageCall]:
    """Return the calls that an assistant's message states, and those that its content blocks hold beside them."""
    stated = [plain_call(call) for call in items(message.get("tool_calls"))]
    known = {call.get("id", "") for call in stated}
    calls = [_tool_call(call) for call in stated]
    calls += [
        _block_call(block)
        for block in blocks
        if block.get("type") in _BLOCK_IDS and block[_BLOCK_IDS[block["type"]]] not in known
    ]
    return calls


def _tool_call(call: Mapping[str, Any]) -> MessageCall:
    if "function" in call:
        args = call["function"]["arguments"]
        args = json.loads(args, strict=False) if isinstance(args, str) else args
        return _through_json(*named_call({"name": call["function"]["name"], "args": args}))
    return _through_json(*named_call({"name": call["name"], "args": call["args"]}))


def _block_call(block: Mapping[str, Any]) -> MessageCall:
    if block["type"] == "tool_use":
        return _through_json(block["name"], block["input"])
    return MessageCall(block["name"], json.loads(block["arguments"]))


def _through_json(name: str, args: Any) -> MessageCall:
    return MessageCall(name, json.loads(json.dumps(args)))


NAME = "langchain"

_Calls = list[MessageCall]
_Matcher = Callable[[Any, Any], bool]  # of the arguments of an output and of a reference call


class LangChainOptions(PresetOptions):
    """The arguments of `create_trajectory_match_evaluator`."""

    trajectory_match_mode: Literal["strict", "unordered", "subset", "superset"] = "strict"
    tool_args_match_mode: Literal["exact", "ignore", "subset", "superset"] = "exact"
    tool_args_match_overrides: Mapping[str, Any] | None = None
    """By tool name: a mode, a list of dotted paths into the arguments, or a function of both arguments. An empty one
    counts for nothing, and a mode of an unknown name is `ignore`, as in agentevals."""


def score(expected: object, actual: object, options: LangChainOptions) -> PresetResult:
    """Compare two lists of messages; `strict` needs messages, the other modes take bare calls too.

    Raises InputMissingError if `strict` was given bare calls; KeyError, TypeError or ValueError as agentevals.
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


def _calls(messages: list[LangChainMessage]) -> _Calls:
    return [call for message in messages for call in message.calls or []]


def _same_messages(
    outputs: list[LangChainMessage], reference: list[LangChainMessage], options: LangChainOptions
) -> bool:
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
        return lambda output, reference: all(_at(output, path) == _at(reference, path) for path in override)
    raise ValueError(f"Invalid tool args match override: {override}")


def _subset(output: Any, reference: Any) -> bool:
    return all(key in reference and reference[key] == value for key, value in output.items())


def _ignore(output: Any, reference: Any) -> bool:  # noqa: ARG001 - that is the point
    return True


_MODES: dict[str, _Matcher] = {
    "exact": operator.eq,
    "subset": _subset,
    "superset": lambda output, reference: _subset(reference, output),
    "ignore": _ignore,
}


def _at(args: Any, path: str) -> Any:
    """Find the value at a dotted path; null where there is none."""
    for part in path.split("."):
        if not is_dict(args):
            return None
        args = args.get(part)
    return args
