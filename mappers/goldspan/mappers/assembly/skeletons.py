"""Which plain spans of a trace matter: those that stand above others that tell something. Most are leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from goldspan.mappers.facts import Skeletons, SpanFacts, newer
from goldspan.mappers.spans import Skeleton


def with_those_above(
    spans: Mapping[str, SpanFacts], plain: Sequence[Skeletons], named: Iterable[str]
) -> dict[str, SpanFacts]:
    """Return the spans of one trace that tell something, with the plain ones that they stand under or that are `named`.

    No turn, call or session depends on any other span.
    """
    telling = {span_id: span for span_id, span in spans.items() if span.role is not None or span.session_keys}
    sought = {span.parent_id for span in telling.values()}.union(named) - {""} - telling.keys()
    if not sought and not any(group.holds_any(telling.keys()) for group in plain):
        return telling
    newest, others = _newest(spans, plain)
    found: dict[str, SpanFacts] = {}
    wanted = [span_id for span_id, span in newest.items() if span.role is not None or span.session_keys]
    wanted += named
    while wanted:
        span_id = wanted.pop()
        if span_id in found:
            continue
        span = newest.get(span_id)
        if span is None and span_id in others:
            group, skeleton = others[span_id]
            span = group.fact(skeleton)
        if span is not None:
            found[span_id] = span
            wanted.append(span.parent_id)
    return found


_Plain = tuple[Skeletons, Skeleton]


def _newest(
    spans: Mapping[str, SpanFacts], plain: Sequence[Skeletons]
) -> tuple[dict[str, SpanFacts], dict[str, _Plain]]:
    """Return one version of every span: of those there are facts of, and of the others."""
    newest = dict(spans)
    others: dict[str, _Plain] = {}
    for group in plain:
        for skeleton in group.read():
            span_id = skeleton[0]
            if span_id in newest:
                newest[span_id] = newer(newest[span_id], group.fact(skeleton))
            elif span_id not in others or _supersedes((group, skeleton), others[span_id]):
                others[span_id] = (group, skeleton)
    return newest, others


def _supersedes(one: _Plain, other: _Plain) -> bool:
    return one[0].fact(one[1]).supersedes(other[0].fact(other[1]))
