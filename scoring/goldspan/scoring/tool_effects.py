"""Which tools only read, and which change something: as a golden set says, else as their names do."""

from __future__ import annotations

from enum import Enum, auto
from fnmatch import fnmatchcase
from functools import lru_cache

from goldspan.scoring.grounding.words import camel_words

_READING = frozenset((
    "get", "find", "list", "search", "lookup", "look", "check", "read", "fetch", "query", "view", "show", "describe",
    "count", "calculate", "compute", "convert", "estimate", "think", "is", "has", "verify", "retrieve", "validate",
    "compare", "preview", "browse", "ask",
))  # fmt: skip
_WRITING = frozenset((
    "book", "create", "add", "send", "pay", "refund", "charge", "buy", "purchase", "issue", "submit", "post", "place",
    "reserve", "schedule", "cancel", "delete", "remove", "transfer", "exchange", "return", "withdraw", "deposit",
    "register", "notify", "email", "publish", "insert", "append", "grant", "invite", "ship",
))  # fmt: skip
"""Verbs of tools that do more when they are called again; to set or update something twice is to do it once."""
_NOUNS_OF_READING = frozenset(("lookup", "search", "status", "info", "list", "details", "history", "policy", "summary"))


class ToolEffect(Enum):
    """What a tool does."""

    READS = auto()
    WRITES = auto()
    UNKNOWN = auto()
    """Its name does not say it, and the golden set neither."""


@lru_cache(maxsize=4096)
def tool_effect(tool: str, reads: tuple[str, ...], writes: tuple[str, ...]) -> ToolEffect:
    """Return what a tool does, by the globs of a golden set: `reads`, then `writes`; else its name says it.

    Where a set lists the tools that read, a tool whose name does not say that it reads writes; where it lists only
    those that write, all others read.
    """
    if any(fnmatchcase(tool, glob) for glob in reads):
        return ToolEffect.READS
    if any(fnmatchcase(tool, glob) for glob in writes):
        return ToolEffect.WRITES
    effect = _by_name(tool)
    if reads:
        return effect if effect is ToolEffect.READS else ToolEffect.WRITES
    return ToolEffect.READS if writes else effect


def _by_name(tool: str) -> ToolEffect:
    words = camel_words(tool)
    verbs = [word for word in words if word in _READING or word in _WRITING]
    if not verbs:
        return ToolEffect.UNKNOWN
    if "and" in words:
        return ToolEffect.WRITES if any(word in _WRITING for word in verbs) else ToolEffect.READS
    return ToolEffect.READS if verbs[0] in _READING or words[-1] in _NOUNS_OF_READING else ToolEffect.WRITES
