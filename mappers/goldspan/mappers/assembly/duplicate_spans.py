"""Spans that were delivered more than once: which version is kept (R4).

A later end wins, then more attributes, then the greater content, so that the order of delivery does not matter.
"""

from __future__ import annotations

from goldspan.mappers.span_facts import PlainSpanFacts, SpanFacts
from goldspan.mappers.spans import UndecodedSpan

PlainSpan = tuple[PlainSpanFacts, UndecodedSpan]
"""A span without markers, with the group that it belongs to."""


def newer_version(old: SpanFacts | None, new: SpanFacts) -> SpanFacts:
    """Return the version of a span to keep: later end, then more attributes, then the greater content (R4)."""
    return new if old is None or new.supersedes(old) else old


def fact_of(plain: PlainSpan) -> SpanFacts:
    """Return a plain span as facts."""
    group, undecoded = plain
    return group.fact(group.skeleton(undecoded))


def without_ids(fact: SpanFacts, number: int) -> SpanFacts:
    """Name a span that has no ids by its place in the input, so that it is never taken for another (R4)."""
    return fact.changed(trace_id="", span_id=f"#{number:09d}", parent_id="")
