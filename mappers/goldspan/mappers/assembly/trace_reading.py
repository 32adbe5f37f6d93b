"""One trace cut into fragments while it grows: only what new records concern is read again.

The fragments are a function of the set of records. Of a span that was delivered more than once one version is kept
(R4): a later end wins, then more attributes, then the greater content, so that the order of delivery does not matter.
Spans that name each other as parents are one tree, seen or not, and a tree is read as a whole. So a new record makes
stale the tree that it joins, or the two that it links, and no other:

    tool(parent: step)    a tree whose top, `step`, is missing: a fragment that waits for its caller
    chat(parent: other)   a tree of its own, with its own fragment
    step(parent: agent)   joins the first tree, whose missing top is now `agent`; `chat` is not read again
    agent                 the top of the first tree: its fragment is the agent's turn, and waits no longer
    other(parent: agent)  links both trees: they are one, and one fragment has all five spans

Little reaches beyond a tree. The session of a turn that names none itself is looked for in the rest of the trace
(R6): trees with such turns are read again when the session attributes of the trace change. Log records may name
executions by call id, spans may have no ids, and the newer version of a span may have another parent: then all trees
are one from there on.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from goldspan.mappers.assembly import turn_fragments
from goldspan.mappers.assembly.joined_logs import with_logs
from goldspan.mappers.assembly.shaped_calls import LaterShapes, with_shapes
from goldspan.mappers.assembly.trace_tree import TraceTree, with_ancestors, with_loops_as_agents
from goldspan.mappers.span_facts import LogFacts, PlainSpanFacts, Record, SpanFacts
from goldspan.mappers.spans import UndecodedSpan
from goldspan.scoring.errors import Problem

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


class _Tree:
    """Spans that parents link, and what was read of them."""

    __slots__ = ("fragments", "listed", "logs", "missing", "shapes", "spans", "starts_turn")

    def __init__(self, missing: str | None) -> None:
        self.missing = missing
        """The id at its top, while that span is not seen."""
        self.spans: dict[str, SpanFacts] = {}
        self.logs: list[LogFacts] = []
        self.fragments: list[turn_fragments.Fragment] = []
        """As of when it was last read."""
        self.listed = False
        """The fragments are among those of the trace."""
        self.shapes: LaterShapes | None = None
        self.starts_turn = False
        """A span of it is or begins a turn, so that it gives a fragment."""

    def shaped(self) -> Mapping[str, SpanFacts]:
        """Return the spans with what their shape says, read at once or later."""
        if self.shapes is None or not self.shapes.are_used:
            self.shapes = LaterShapes(self.spans)
        spans = None if self.shapes.are_used else self.shapes.spans()
        return with_shapes(self.spans) if spans is None else spans

    def joined(self) -> Mapping[str, SpanFacts]:
        """Return the spans with what their shape and their logs say: requests in logs tell executions by shape, too."""
        spans = with_logs(self.shaped(), self.logs) if self.logs else self.shaped()
        asked = any(log.model is not None and log.model.requests for log in self.logs)
        return with_shapes(spans) if asked else spans


class TraceReading:
    """The fragments of one trace, as a function of the records that were added, in any order."""

    def __init__(self) -> None:
        """Begin with no record."""
        self._new: list[Record | PlainSpanFacts] = []
        self._trees: dict[str, _Tree] = {}  # by the id of each span, seen or only named
        self._as_one: _Tree | None = None  # the tree of all spans, where their parents are not all that links them
        self._stale: dict[_Tree, None] = {}  # trees that new records concern
        self._fragments: list[turn_fragments.Fragment] = []
        self._remote: set[str] = set()  # ids that a span from another process names as its parent
        self._groups: list[PlainSpanFacts] = []
        self._plain: dict[str, PlainSpan] | None = None
        """One version of each plain span; none until one of them is needed."""
        self._pairs: turn_fragments.CountedPairs = {}  # session attributes of the spans
        self._log_pairs: dict[turn_fragments.Pair, None] = {}
        self._looked_beyond: dict[_Tree, None] = {}
        """Trees with turns whose session was looked for in the rest of the trace."""
        self._new_pairs = self._more_pairs = False
        self.waits = False
        """`fragments` left out turns that wait for their caller."""
        self.waiting = 0
        """Fragments that wait for a caller, in their process or another."""

    def add(self, record: Record | PlainSpanFacts) -> None:
        """Add a record. It is looked at when fragments are asked for; another thread may ask for them meanwhile."""
        self._new.append(record)

    def fragments(
        self, keys: Sequence[str], on_problem: Callable[[Problem], object], *, waiting: bool = True
    ) -> list[turn_fragments.Fragment]:
        """Return the fragments in the order of time: the same objects as before where nothing new concerns them.

        Args:
            keys: The session attributes in the order of precedence, each time the same.
            on_problem: Takes what is wrong with the spans that are read.
            waiting: Whether turns below a caller that was not seen are wanted. Otherwise they may be left out.

        """
        self._take_new()
        self.waits = False
        for tree in list(self._stale):
            if not waiting and tree.starts_turn and tree.missing is not None and tree.missing not in self._remote:
                self.waits = True
            else:
                del self._stale[tree]
                self._read(tree, keys, on_problem)
        return list(self._fragments)

    def _read(self, tree: _Tree, keys: Sequence[str], on_problem: Callable[[Problem], object]) -> None:
        spans = tree.joined()
        trace_id = next(iter(spans.values())).trace_id if spans else ""
        if trace_id:
            spans = with_ancestors(spans, [log.span_id for log in tree.logs])
        of_logs = [(log.span_id, log.session_keys) for log in tree.logs if log.session_keys]
        read = with_loops_as_agents(TraceTree(dict(spans), of_logs))
        for span_id in read.cut:
            words = "its parents lead back to this span; it was read as a root"
            on_problem(Problem("parent_cycle", words, f"{trace_id}/{span_id}"))
        beyond = turn_fragments.Beyond(lambda: self._pairs_beyond(tree), lambda: list(self._log_pairs))
        cut = turn_fragments.fragments_of if trace_id else turn_fragments.fragment_without_ids
        tree.fragments = turn_fragments.unchanged_fragments(cut(read, keys, beyond), tree.fragments)
        tree.listed = True
        for fragment in tree.fragments:
            insort(self._fragments, fragment, key=turn_fragments.order_of)
            self.waiting += fragment.waits_for_caller or fragment.waits_for_remote
        if beyond.used:
            self._looked_beyond[tree] = None
        else:
            self._looked_beyond.pop(tree, None)

    def _pairs_beyond(self, tree: _Tree) -> list[turn_fragments.Pair]:
        return list(
            turn_fragments.pairs_besides(
                self._pairs, (pair for span in tree.spans.values() for pair in span.session_keys)
            )
        )

    # New records.

    def _take_new(self) -> None:
        new = self._new[:]
        del self._new[: len(new)]  # another thread may add to the list
        known = bool(self._trees)
        nodes: dict[str, None] = {}
        groups: list[PlainSpanFacts] = []
        for record in new:
            if isinstance(record, PlainSpanFacts):
                groups.append(record)
            elif isinstance(record, LogFacts):
                self._add_log(record, nodes)
            else:
                self._add_span(record, nodes)
        self._groups += groups
        for group in groups:
            if self._plain is not None:
                self._note_plain(group)
            if known:
                nodes.update(dict.fromkeys(filter(self._trees.__contains__, group.ids())))
        self._add_needed_plain(nodes)
        if self._new_pairs or self._more_pairs:
            for tree in self._looked_beyond:
                if self._new_pairs or any(span.session_keys for span in tree.spans.values()):
                    self._change(tree)
            self._new_pairs = self._more_pairs = False

    def _add_span(self, span: SpanFacts, nodes: dict[str, None]) -> None:
        if not span.trace_id:
            self._make_one()
        known = self._trees.get(span.span_id)
        tree = known or self._begin(span, nodes)
        old = None if known is None else known.spans.get(span.span_id)
        if old is not None:
            span = newer_version(old, span)
            if span is old:
                return
            self._count(old.session_keys, -1)
        tree.spans[span.span_id] = span
        if span.entry:
            self._remote.add(span.parent_id)
        if span.session_keys:
            self._count(span.session_keys, 1)
        self._change(tree)
        if old is None:
            tree.starts_turn = tree.starts_turn or _starts_turn(span)
            if known is not None:
                self._link(known, span, nodes)
        elif old.parent_id != span.parent_id:
            self._make_one()  # what the older version linked cannot be told from what others did
            if span.parent_id:
                self._tree(span.parent_id, nodes)
        elif _starts_turn(old) is not _starts_turn(span):
            tree.starts_turn = any(map(_starts_turn, tree.spans.values()))

    def _add_log(self, log: LogFacts, nodes: dict[str, None]) -> None:
        if log.tools:
            self._make_one()  # by call id they may belong to any span
        tree = self._tree(log.span_id, nodes)
        tree.logs.append(log)
        self._change(tree)
        for pair in log.session_keys:
            self._new_pairs = self._new_pairs or pair not in self._log_pairs
            self._log_pairs[pair] = None

    def _count(self, pairs: turn_fragments.Pairs, change: int) -> None:
        self._more_pairs = self._more_pairs or bool(pairs)
        self._new_pairs |= turn_fragments.count_pairs(self._pairs, pairs, change)

    def _change(self, tree: _Tree) -> None:
        """Note that a tree is to be read again, and take its fragments from those of the trace."""
        self._stale[tree] = None
        if not tree.listed:
            return
        for fragment in tree.fragments:
            turn_fragments.take_out(self._fragments, fragment)
            self.waiting -= fragment.waits_for_caller or fragment.waits_for_remote
        tree.listed = False

    # Trees.

    def _tree(self, span_id: str, nodes: dict[str, None]) -> _Tree:
        tree = self._trees.get(span_id)
        if tree is None:
            nodes[span_id] = None
            tree = self._trees[span_id] = self._as_one or _Tree(span_id)
        return tree

    def _begin(self, span: SpanFacts, nodes: dict[str, None]) -> _Tree:
        """Return the tree of a span that none names yet: that of its parent, or a new one."""
        trees, parent_id = self._trees, span.parent_id
        tree = self._as_one or (trees.get(parent_id) if parent_id else None) or _Tree(None)
        trees[span.span_id] = tree
        nodes[span.span_id] = None
        if parent_id and parent_id not in trees:
            trees[parent_id] = tree
            nodes[parent_id] = None
            tree.missing = parent_id if self._as_one is None else None
        return tree

    def _link(self, tree: _Tree, span: SpanFacts, nodes: dict[str, None]) -> None:
        """Link a span that was the missing one of its tree to its parent."""
        if self._as_one is not None:
            if span.parent_id:
                self._tree(span.parent_id, nodes)
            return
        tree.missing = None
        if not span.parent_id:
            return
        above = self._trees.get(span.parent_id)
        if above is None:
            nodes[span.parent_id] = None
            self._trees[span.parent_id] = tree
            tree.missing = span.parent_id
        elif above is not tree:
            tree.missing = above.missing
            self._merge(above, tree)

    def _merge(self, one: _Tree, other: _Tree) -> None:
        """Move the smaller of two trees into the other; they have the same missing span now."""
        less, more = sorted((one, other), key=lambda tree: len(tree.spans))
        more.missing = other.missing
        self._change(less)
        self._change(more)
        del self._stale[less]
        self._looked_beyond.pop(less, None)
        for span_id in less.spans:
            self._trees[span_id] = more
        for log in less.logs:
            self._trees[log.span_id] = more
        if more.missing is not None:
            self._trees[more.missing] = more
        more.spans.update(less.spans)
        more.logs += less.logs
        more.fragments = [*more.fragments, *less.fragments]
        more.starts_turn = more.starts_turn or less.starts_turn

    def _make_one(self) -> None:
        if self._as_one is None:
            whole = _Tree(None)
            for tree in dict.fromkeys(self._trees.values()):
                tree.missing = None
                self._change(tree)
                del self._stale[tree]
                whole.spans.update(tree.spans)
                whole.logs += tree.logs
                whole.fragments += tree.fragments
            self._trees = dict.fromkeys(self._trees, whole)
            self._looked_beyond.clear()
            self._as_one = whole
            self._change(whole)

    # Plain spans: only those that other spans name, or that are versions of them.

    def _note_plain(self, group: PlainSpanFacts) -> None:
        assert self._plain is not None
        for undecoded in group.undecoded:
            span_id = undecoded[0]
            old = self._plain.get(span_id)
            new = (group, undecoded)
            if old is None or fact_of(new).supersedes(fact_of(old)):
                self._plain[span_id] = new

    def _add_needed_plain(self, nodes: dict[str, None]) -> None:
        if self._plain is None and not nodes.keys().isdisjoint(
            chain.from_iterable(group.ids() for group in self._groups)
        ):
            self._plain = {}
            for group in self._groups:
                self._note_plain(group)
        while nodes and self._plain is not None:
            found = self._plain.get(nodes.popitem()[0])
            if found is not None:
                self._add_span(fact_of(found), nodes)


def _starts_turn(span: SpanFacts) -> bool:
    return span.role is not None and not span.no_turn
