"""Attribute keys that may hold something of a call or of a conversation, by their words (reading by shape).

gen_ai.input.messages, llamaindex.step.input_summary, toolArgs     may carry
http.request.method, db.query.text, user.name                      never do: a span with such keys alone is plain
"""

from __future__ import annotations

import re
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
_AGENTS_WORDS = (frozenset({"gen", "ai"}), frozenset({"span", "kind"}), frozenset({"span", "type"}))
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


@lru_cache(maxsize=4096)
def names_agent(key: str) -> bool:
    """Say whether a key is about tools, a language model or kinds of spans.

    A trace with one is an agent's, even if no dialect knows any key of it.
    """
    words = words_of(key)
    told = not _TOOL_WORDS.isdisjoint(words) or any(both <= words for both in _AGENTS_WORDS)
    return told and _NO_CONTENT.match(key) is None


_CALLING = regex(
    r"(?!tools/list\b)(?:(?:execute|call|run|invoke)_)?(?:tools?|function)(?:[_/ ]?call)?(?: *[:./] *| +)(?=\S)",
    re.IGNORECASE,
)
"""`tools/list` is MCP's question for the tools of a server."""
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


def any_names_agent(encoded: bytes) -> bool:
    """Say whether encoded spans may have a key that `names_agent`, at little cost where its words are nowhere."""
    lower = encoded.lower()
    return any(word in lower for word in _PARTS_OF_WORDS) and _AGENTS_KEY.search(encoded) is not None


_PARTS_OF_WORDS = (b"tool", b"unction", b"gen", b"llm", b"span")
_AGENTS_KEY = regex(
    rb"\n[\x03-\x7f][\w.\-/: ]*?(?:tool|function_?call|gen[._]?ai|llm|span[._]?(?:kind|type))[\w.\-/: ]*\x12",
    re.IGNORECASE,
)
