"""Spans that were delivered more than once: which version is kept (R4).

A later end wins, then more attributes, then the greater content, so that the order of delivery does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goldspan.mappers.span_facts import PlainSpanFacts, SpanFacts
from goldspan.mappers.spans import SpanOutline

PlainSpan = tuple[PlainSpanFacts, SpanOutline]
"""A span without markers, with the group that it belongs to."""


def newer_version(old: SpanFacts | None, new: SpanFacts) -> SpanFacts:
    """Return the version of a span to keep: later end, then more attributes, then the greater content (R4)."""
    return new if old is None or new.supersedes(old) else old


def newest_versions(
    spans: Mapping[str, SpanFacts], plain: Sequence[PlainSpanFacts]
) -> tuple[dict[str, SpanFacts], dict[str, PlainSpan]]:
    """Return one version of every span of a trace by span id: those with facts, and the plain ones."""
    newest = dict(spans)
    others: dict[str, PlainSpan] = {}
    for group in plain:
        for outline in group.read():
            span_id = outline[0]
            if span_id in newest:
                newest[span_id] = newer_version(newest[span_id], group.fact(outline))
            elif span_id not in others or _supersedes((group, outline), others[span_id]):
                others[span_id] = (group, outline)
    return newest, others


def _supersedes(one: PlainSpan, other: PlainSpan) -> bool:
    return one[0].fact(one[1]).supersedes(other[0].fact(other[1]))


def without_ids(fact: SpanFacts, number: int) -> SpanFacts:
    """Name a span that has no ids by its place in the input, so that it is never taken for another (R4)."""
    return fact.changed(trace_id="", span_id=f"#{number:09d}", parent_id="")
