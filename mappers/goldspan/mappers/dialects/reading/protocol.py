"""What a dialect is: one instrumentation's way of writing tool calls (R1, R2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from msgspec import Struct

from goldspan.mappers.span_facts import ContextFacts, LogFacts, ModelFacts, Role, ToolFacts
from goldspan.mappers.spans import LogView, SpanView
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
    session_keys: tuple[tuple[str, str], ...] = ()
    turn_id: str | None = None


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
