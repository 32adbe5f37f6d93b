"""Where the values of a dialect's table stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from goldspan.mappers.dialects.capture import Unwrap
from goldspan.mappers.dialects.rules import Attributes
from goldspan.mappers.spans import SpanView


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
