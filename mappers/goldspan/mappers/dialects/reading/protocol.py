"""What a dialect is: one instrumentation's way of writing tool calls (R1, R2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from goldspan.mappers.span_facts import ContextFacts, LogFacts, ModelFacts, Role, ToolFacts
from goldspan.mappers.spans import LogView, SpanView
from goldspan.scoring.json_values import is_list
from goldspan.scoring.lazy_names import texts_beside
from goldspan.scoring.sessions import NO_CONTENT, Content


class Reading(Struct, frozen=True, gc=False):
    """What one dialect read of one span. Without a role it only adds to the reading of another dialect."""

    role: Role | None = None
    agent: str | None = None
    tool: ToolFacts | None = None
    """Set if and only if the role is `tool`."""
    model: ModelFacts | None = None
    """Set only if the role is `model`."""
    user_text: Content = NO_CONTENT
    """The user message that this agent or model received. Goldens join on it."""
    context: Callable[[], ContextFacts] | None = None
    """Reads the rest of the context; called only if it is needed."""
    tool_definitions: Callable[[], Content] | None = None
    """Reads the definitions of tools alone, where they are needed and the rest is not; without it, `context` does."""
    session_keys: tuple[tuple[str, str], ...] = ()
    """Session attributes that only this dialect knows, such as `group_id`; the well-known ones are read by all."""
    turn_id: str | None = None
    turn_number: int | None = None
    """The dialect's own number of the turn in its session, from 1."""
    no_turn: bool = False
    hides_calls: bool = False
    notes: tuple[LogFacts, ...] = ()
    """Content that this span holds for spans in other traces, to which it is linked."""


@runtime_checkable
class Dialect(Protocol):
    """Reads the spans of one instrumentation. Register your own in the entry-point group `goldspan.dialects`.

    `read` sees every span that has one of the `markers` among its attribute keys, and returns none for those that
    are not its own. It checks types before it believes them; what it raises all the same is counted, not passed on.
    """

    @property
    def name(self) -> str:
        """The dialect's name in reports and in `ToolCall.dialect`."""
        ...

    @property
    def markers(self) -> frozenset[str]:
        """Attribute keys, any one of which makes a span worth reading."""
        ...

    def read(self, span: SpanView) -> Reading | None:
        """Read one span."""
        ...


class LogReading(Struct, frozen=True, gc=False):
    """What one dialect read of one log record; it is added to the span that the record was written in (R11)."""

    model: ModelFacts | None = None
    whole: bool = False
    """The record holds the whole input and output of its model call, not one message."""
    own_message: bool = False
    """The record is an earlier answer of the model, repeated in its input. Messages before it are history."""
    tools: tuple[ToolFacts, ...] = ()
    """Tool executions that the record describes, joined to their spans by call id."""
    results: Callable[[], tuple[ToolFacts, ...]] | None = None
    """Reads the results of tools; called only if they are needed."""
    user_text: Content = NO_CONTENT
    context: Callable[[], ContextFacts] | None = None
    """As in `Reading`."""
    tool_definitions: Callable[[], Content] | None = None
    """As in `Reading`."""
    session_keys: tuple[tuple[str, str], ...] = ()
    turn_id: str | None = None
    users: tuple[str, ...] | None = None
    """Digests of what users said, as in `SpanEvidence`; so are the next two."""
    system: str = ""
    wrote: str = ""


@runtime_checkable
class LogDialect(Protocol):
    """A dialect that also reads log records."""

    @property
    def name(self) -> str:
        """As in `Dialect`."""
        ...

    @property
    def log_events(self) -> frozenset[str]:
        """Names of events, any one of which makes a log record worth reading."""
        ...

    def read_log(self, log: LogView) -> LogReading | None:
        """Read one log record, under the same rules as `Dialect.read`."""
        ...


# What a user must switch on where a recording lacks something, in the words of their framework and language.

ANY_SCOPE = "*"
IN_PROCESS = 'Run each turn inside `with session_scope("..."):` of goldspan.collector_processor.'
"""Names the session of any framework in Python, with goldspan's span processor in the agent's process."""
LANGUAGE = "telemetry.sdk.language"
_SAME_LANGUAGE = {"webjs": "nodejs"}


class Stack(NamedTuple):
    """What wrote a span; `""` is unknown."""

    language: str = ""
    """`telemetry.sdk.language`; a browser's is `nodejs`, too."""
    scope: str = ""
    """The instrumentation scope; of a framework that its users name after their service, the framework."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What the users of one framework switch on where a recording lacks something: exact variables and calls."""

    arguments: str = ""
    session: str = ""
    calls: str = ""
    """Where turns lack calls that were made; without it, what helps with `arguments` does."""
    redacted: str = ""
    """Where the instrumentation itself replaces arguments by words such as `__REDACTED__`."""
    unparsable: str = ""
    """Where the instrumentation writes some arguments in a form that has no names."""
    framework: str = ""
    language: str = ""
    """`telemetry.sdk.language` of whom the advice is for; `""` for all languages."""
    scopes: tuple[str, ...] = (ANY_SCOPE,)
    """Patterns of instrumentation scopes."""
    distributions: tuple[str, ...] = ()
    """Patterns of the names of Python's distributions that write such spans."""
    checked: str = ""
    """The versions whose source or documentation says so."""


@cache
def built_in_advice() -> Mapping[str, tuple[Advice, ...]]:
    """Return the advice of goldspan's own dialects, by name: `advice.toml` beside them has it."""
    written = texts_beside("goldspan.mappers.dialects", "advice.toml")
    return {dialect: tuple(map(_advice, advice)) for dialect, advice in written.items()}


def _advice(fields: Mapping[str, Any]) -> Advice:
    lists: dict[str, Any] = {name: tuple(one) for name, one in fields.items() if is_list(one)}
    return Advice(**{**fields, **lists})


def language_of(said: object) -> str:
    """Return the language of what wrote a resource's spans, which its `LANGUAGE` says; `""` if it does not."""
    return _SAME_LANGUAGE.get(said, said) if isinstance(said, str) else ""


OWN_KEYS: Mapping[str, str] = {
    "koog.event.id": "koog",
    "gen_ai.tool.call.outcome": "rig",
    "rig.completion_parent": "rig",
}
"""Attributes that tell the framework where its scope has the name of the user's service."""


def writer_of(keys: Iterable[str], scope: str) -> str:
    """Return the framework that these attributes tell, else the scope."""
    return next((OWN_KEYS[key] for key in sorted(OWN_KEYS.keys() & set(keys))), scope)


def stack_of(span: SpanView) -> Stack:
    """Return what wrote a span."""
    return Stack(language_of(span.resource.attributes.get(LANGUAGE)), writer_of(span.attributes, span.scope_name))


def advice_for(own: tuple[Advice, ...], others: Iterable[Advice], stack: Stack) -> Advice | None:
    """Return the advice for a stack; none where its language or its framework is not known.

    `own` is the advice of the dialect that read the span. One scope writes spans of several dialects, so that `others`,
    the advice of all dialects, is asked for those that name the scope.
    """
    one_language = len({one.language for one in own}) == 1
    return (
        _most_specific(own, stack)
        or next((one for one in own if not one.language and ANY_SCOPE in one.scopes), None)
        or _most_specific(others, stack)
        or next((one for one in own if _fits(one, stack, known=one_language) and ANY_SCOPE in one.scopes), None)
    )


def _most_specific(advice: Iterable[Advice], stack: Stack) -> Advice | None:
    """Return the advice with the longest pattern, other than any, that fits the scope; none if several languages do."""
    fitting = [
        (len(pattern), one)
        for one in advice
        for pattern in one.scopes
        if pattern != ANY_SCOPE and fnmatchcase(stack.scope, pattern) and _fits(one, stack, known=True)
    ]
    longest = max(map(itemgetter(0), fitting), default=0)
    found = [one for length, one in fitting if length == longest]
    return found[0] if len({one.language for one in found}) == 1 else None


def _fits(advice: Advice, stack: Stack, *, known: bool) -> bool:
    """Say whether the language fits; where spans do not say theirs, something else may make it `known`."""
    return advice.language in {"", stack.language} or (known and not stack.language)
