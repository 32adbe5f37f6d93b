"""What a dialect's table is made of: rules that recognise spans, and sources of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from goldspan.mappers.dialects.reading.arguments import Unwrap
from goldspan.mappers.facts import Role
from goldspan.mappers.spans import Attributes, SpanView


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition on a span and the role it gives; the first rule of a table that holds is the span's."""

    role: Role | None
    key: str = ""
    """An attribute that must be there; none for a rule about spans without any attribute."""
    values: frozenset[str] | None = None
    """Its value must be one of these texts; any value, where none."""
    also: tuple[str, ...] = ()
    """Attributes that must be there too. The first of them, where there is one, is the marker of this rule."""
    without: tuple[str, ...] = ()
    """Attributes that must not be there."""
    scope: str = ""
    """How the name of the instrumentation scope must begin, where attributes do not tell dialects apart."""
    name_prefix: str = ""
    """How the span's name must begin."""
    name_suffix: str = ""
    """How the span's name must end."""
    kind: int = 0
    """The span's kind, where it says more than the attributes: 2 is a server's side."""
    parent: bool | None = None
    """Whether the span must have a parent, or must have none."""
    no_turn: bool = False
    hides_calls: bool = False
    speaks: bool = False
    """An agent's span that holds what its models asked for, and no other span does."""
    pseudo: bool = False
    """A tool span that is no call of the user's (R5)."""

    @property
    def marker(self) -> str:
        """The attribute that a span must have for this rule to be looked at; `""` where it must have none."""
        return self.also[0] if self.also else self.key

    def holds(self, span: SpanView, attributes: Attributes) -> bool:
        """Say whether this rule holds."""
        if self.key:
            value = attributes.get(self.key)
            if value is None or (self.values is not None and not (isinstance(value, str) and value in self.values)):
                return False
        for key in self.also:
            if key not in attributes:
                return False
        for key in self.without:
            if key in attributes:
                return False
        return self._fits(span)

    def _fits(self, span: SpanView) -> bool:
        if self.name_prefix and not span.name.startswith(self.name_prefix):
            return False
        if self.name_suffix and not span.name.endswith(self.name_suffix):
            return False
        if self.scope and not span.scope_name.startswith(self.scope):
            return False
        if self.parent is not None and self.parent is not bool(span.parent_id):
            return False
        return not self.kind or span.kind == self.kind


# Where the values of a dialect's table stand.


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value stands: an attribute, an attribute of a span event, or several that must be put together."""

    key: str = ""
    event: str = ""
    """The event's name; of several events of this name the last that has the attribute."""
    compute: Callable[[SpanView, Attributes], Any] | None = None
    """Puts the value together from several attributes or events; `key` then only names it for people."""
    take: Callable[[Any], Any] | None = None
    """Takes what is wanted out of what stands there; none where it is something else."""
    unwrap: Unwrap | None = None
    """The envelope around arguments."""
    unwrap_by_scope: Mapping[str, Unwrap] | None = None
    """Envelopes that only these instrumentation scopes use."""
    python_repr: bool = False
    """The value may be a Python literal where JSON is expected."""

    def value(self, span: SpanView, attributes: Attributes) -> Any:
        """Return the value, or none."""
        if self.compute is not None:
            found = self.compute(span, attributes)
        elif self.event:
            found = self._in_events(span)
        else:
            found = attributes.get(self.key)
        return found if found is None or self.take is None else self.take(found)

    def _in_events(self, span: SpanView) -> Any:
        for event in reversed(span.events):
            if event.name == self.event and (value := event.attributes.get(self.key)) is not None:
                return value
        return None

    def envelope(self, span: SpanView) -> Unwrap | None:
        """Return the envelope this span's instrumentation uses."""
        if self.unwrap_by_scope:
            return self.unwrap_by_scope.get(span.scope_name, self.unwrap)
        return self.unwrap


Sources = tuple[Source, ...]


def first_value(sources: Sources, span: SpanView, attributes: Attributes) -> Any:
    """Return the value of the first source that has one."""
    for source in sources:
        if (value := source.value(span, attributes)) is not None:
            return value
    return None


def first_text(attributes: Attributes, keys: tuple[str, ...]) -> str | None:
    """Return the first text that stands under one of these keys."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str) and value:
            return value
    return None
