"""Attribute keys that may hold something of a call or of a conversation, by their words (reading by shape).

gen_ai.input.messages, llamaindex.step.input_summary, toolArgs     may carry
http.request.method, db.query.text, user.name                      never do: a span with such keys alone is plain
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from goldspan.scoring.patterns import regex

_WORD = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
CALL_WORDS = frozenset({"tool", "tools", "toolcall", "function", "functions", "functioncall"})
INPUT_WORDS = frozenset({"in", "input", "inputs", "arguments", "argument", "args", "kwargs", "parameters", "params"})
OUTPUT_WORDS = frozenset(
    {"out", "output", "outputs", "completion", "completions", "response", "result", "results", "choice", "choices"}
    | {"answer", "return", "returned", "generation"}
)
ERROR_WORDS = frozenset({"error", "exception", "failure"})
NO_ERRORS = frozenset({"", "false", "none", "null", "ok", "success", "0"})
"""Values of keys of errors that say that there was none."""
_SESSION = frozenset({"session", "conversation", "convo", "thread"})
_NO_SESSION = frozenset({"mcp", "transport", "parent", "user", "name"})
_SAYING = ("out", "output", "outputs", "messages", "message", "prompt", "prompts", "completion", "completions", "llm")
_CARRYING = (CALL_WORDS | INPUT_WORDS).union(_SAYING, ("conversation", "response", "reply", "choices", "generation"))
_TOOL_WORDS = frozenset({"tool", "tools", "toolcall", "functioncall", "llm"})
ASKED_WORDS = INPUT_WORDS | {"prompt", "prompts", "messages"}
_ANSWERED = OUTPUT_WORDS | {"reply"}
_SHORT = frozenset({"in", "out"})
_AGENTS_WORDS = tuple(map(frozenset, (("gen", "ai"), ("span", "kind"), ("span", "type"), ("function", "call"))))
_NO_CONTENT = regex(
    r"(?:http|db|rpc|messaging|graphql|faas|url|net|network|server|client|error|exception|thread|process|aws|k8s"
    r"|code(?!\.function\.(?:parameter|return)\.))\."
)
OTHER_WORK = regex(r"(?:http|db|rpc|messaging|graphql|faas)\.")
"""How keys of spans begin that are of a request, a database or a queue."""
OWN_RESULTS = regex(r"(?:goldspan|tool_parameter_[a-z]+|tool_call_repetition|answer_grounding)\.")
"""How keys of goldspan's own attributes begin: traces that it enriched are read as they were before."""


@lru_cache(maxsize=4096)
def words_of(key: str) -> frozenset[str]:
    """Return the words of a key or a name, in any way of writing: `tool.call.arguments`, `toolArgs`, `tool_input`."""
    return frozenset(word.lower() for word in _WORD.findall(key))


@lru_cache(maxsize=4096)
def may_carry(key: str) -> bool:
    """Say whether an attribute with this key may hold something of a call or of a conversation."""
    return not _CARRYING.isdisjoint(words_of(key)) and _NO_CONTENT.match(key) is None


@lru_cache(maxsize=4096)
def names_session(key: str) -> bool:
    """Say whether a key is that of a session's id by its words; `thread.id` is the thread that a span ran in."""
    words = words_of(key)
    named = "id" in words and not words.isdisjoint(_SESSION)
    return named and words.isdisjoint(_NO_SESSION) and key != "thread.id"


def are_of_agent(keys: Iterable[str]) -> bool:
    """Say whether these keys of one span make it an agent's, even if no dialect knows any of them.

    One is about tools, a language model or kinds of spans; or one is of an input, and one of an output.
    """
    found = 0
    for key in keys:
        found |= _sides_of(key) if isinstance(key, str) else 0  # pyright: ignore[reportUnnecessaryIsInstance]
        if found == _BOTH_SIDES:
            return True
    return False


_INPUT, _OUTPUT, _BOTH_SIDES = 1, 2, 3
_SEPARATORS = regex(r"[^a-z]+")


@lru_cache(maxsize=4096)
def _sides_of(key: str) -> int:
    """Return whether a key is of an input, of an output or, as it names an agent's work, enough by itself."""
    if _NO_CONTENT.match(key) is not None:
        return 0
    words = words_of(key) - _SHORT.difference(_SEPARATORS.split(key.lower()))  # `in` of `step.in`, not of `logIn`
    if not _TOOL_WORDS.isdisjoint(words) or any(both <= words for both in _AGENTS_WORDS):
        return _BOTH_SIDES
    return _INPUT * (not ASKED_WORDS.isdisjoint(words)) | _OUTPUT * (not _ANSWERED.isdisjoint(words))


_CALLING = regex(
    r"(?!tools/(?:list\b|call$))(?:(?:execute|call|run|invoke)_)?(?:tools?|function)(?:[_/ ]?call)?"
    r"(?: *[:./] *| +)(?=\S)",
    re.IGNORECASE,
)
"""`tools/list` is MCP's question for a server's tools, and `tools/call` a call of one that it does not name."""
_CALLED = regex(r"\.(?:tool|a?call|__call__|a?invoke|run)$")
_TOOL_NAME = regex(r"[A-Za-z_][\w\-]{0,79}")


def begins_as_call(span_name: str) -> bool:
    """Say whether a span's name begins as those of tool calls do, and goes on: `tool: search`, `execute_tool f`."""
    return _CALLING.match(span_name) is not None


def tool_in(span_name: str) -> str:
    """Return the tool that a span's name names, if it is one of a tool: `search` of `tool: search`, `search.tool`."""
    name = _CALLED.sub("", _CALLING.sub("", span_name, count=1)) or span_name
    return name if _TOOL_NAME.fullmatch(name) else name.rsplit(None, 1)[-1] if name else ""


def is_tool_name(text: str) -> bool:
    """Say whether a text may be a tool's name."""
    return _TOOL_NAME.fullmatch(text) is not None


def may_be_of_agent(encoded: bytes) -> bool:
    """Say whether encoded spans together have keys that `are_of_agent`; it costs little where no such word is."""
    found, lower = 0, encoded.lower()
    for parts in (_PARTS_OF_AGENTS, _PARTS_OF_INPUTS, _PARTS_OF_OUTPUTS):
        for part in parts:
            for place in part.finditer(lower):
                found |= _sides_of(_key_around(encoded, place.start()))
                if found == _BOTH_SIDES:
                    return True
        if parts is _PARTS_OF_INPUTS and not found:
            return False
    return False


def _key_around(encoded: bytes, at: int) -> str:
    """Return the attribute key that this place is in, `0A length key 12`; empty if it is in something else.

    A text, `12 length+2 0A length text`, may be followed by a span, which begins with 12, too.
    """
    tag = encoded.rfind(b"\n", max(0, at - _LONGEST_KEY - 2), at)
    for start in (tag, tag - 1):  # the length may be that byte, too
        size = encoded[start + 1]
        end = start + 2 + size
        if start >= 0 and encoded[start] == _KEY_TAG and at < end < len(encoded) and encoded[end] == _VALUE_TAG:
            is_text = encoded[max(0, start - 2) : start] == bytes([_VALUE_TAG, (size + 2) & 0xFF])
            return "" if is_text else str(encoded[start + 2 : end], "utf-8", "replace")
    return ""


_KEY_TAG, _VALUE_TAG = 0x0A, 0x12
_LONGEST_KEY = 0x7F
_PARTS_OF_AGENTS = tuple(map(regex, (rb"tool", rb"llm", rb"gen.?ai", rb"span", rb"function.?call")))
_PARTS_OF_INPUTS = tuple(
    map(regex, (rb"input", rb"arg(?:s|ument)", rb"param", rb"prompt", rb"messages", rb"in(?<![a-z]in)(?![a-z ])"))
)
_PARTS_OF_OUTPUTS = (
    *(regex(word.encode()) for word in sorted(_ANSWERED - _SHORT)),
    regex(rb"out(?<![a-z]out)(?![a-z ])"),
)
