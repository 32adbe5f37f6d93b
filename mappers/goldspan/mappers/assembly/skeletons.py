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
    newest = dict(spans)
    others: dict[str, tuple[Skeletons, Skeleton]] = {}
    for group in plain:
        for skeleton in group.read():
            span_id = skeleton[0]
            if span_id in newest:
                newest[span_id] = newer(newest[span_id], group.fact(skeleton))
            elif span_id not in others or _supersedes((group, skeleton), others[span_id]):
                others[span_id] = (group, skeleton)
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


def _supersedes(one: tuple[Skeletons, Skeleton], other: tuple[Skeletons, Skeleton]) -> bool:
    return one[0].fact(one[1]).supersedes(other[0].fact(other[1]))
