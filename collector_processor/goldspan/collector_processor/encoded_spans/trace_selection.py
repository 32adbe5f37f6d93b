"""Which traces are read: those of wanted sessions, and those whose session is not known yet.

A span without a dialect's marker, or of a trace whose sessions no golden wants, is not decoded: it goes into the span
buffer. A span of a wanted session, or of a session that is not known yet, is read, and so is every later span of its
trace. Session ids are looked up under the keys of rule R6, on any span of the trace and its resource. So exactly the
traces are read that may have results.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from goldspan.collector_processor.encoded_spans.attribute_key_scanner import KeyScanner
from goldspan.collector_processor.encoded_spans.span_groups import (
    EncodedSpanBuffer,
    SpanGroup,
    by_trace,
    join_request,
    trace_ids,
    traces_at,
)
from goldspan.collector_processor.engine.sessions_without_golden import SessionsWithoutGolden
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.otlp_protobuf import ProtobufReader
from goldspan.mappers.span_facts import LogFacts, SpanFacts
from goldspan.mappers.spans import LogView
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import GoldenIndex

_MAX_RESOURCES = _MAX_SCOPES = 256
_Session = tuple[str, bytes]
"""The id of a session, and the attribute that holds it."""


class TraceSelection:
    """Chooses the spans to read, and keeps the others in the span buffer. For one thread."""

    def __init__(
        self,
        goldens: GoldenIndex,
        registry: DialectRegistry,
        scanner: KeyScanner,
        *,
        unread: EncodedSpanBuffer,
        content: bool,
        is_open: Callable[[bytes], bool],
        without_golden: SessionsWithoutGolden,
        on_unmatched: Callable[[str, str], object],
        on_problem: Callable[[Problem], object],
    ) -> None:
        """Select by these goldens.

        Args:
            goldens: They say which sessions are wanted.
            registry: Reads spans and log records.
            scanner: Finds the attribute keys of the same registry.
            unread: Where spans are kept that are not read.
            content: Read messages, results and definitions of tools.
            is_open: Tells of a trace whether all its spans are read.
            without_golden: The sessions that `on_unmatched` was told of.
            on_unmatched: Is told of each session that no golden wants, with the attribute that names it.
            on_problem: Is told of what cannot be read.

        """
        self.unread = unread
        self._is_open = is_open
        self._without_golden = without_golden
        self._on_unmatched = on_unmatched
        self._on_problem = on_problem
        self._reader = ProtobufReader(on_problem)
        self._resources: dict[bytes, tuple[_Session, ...]] = {}
        self._agent_scopes: set[bytes] = set()
        self.use_goldens(goldens, registry, scanner, content=content)

    def use_goldens(
        self, goldens: GoldenIndex, registry: DialectRegistry, scanner: KeyScanner, *, content: bool
    ) -> None:
        """Select by these goldens from now on, and read the attributes that they join on."""
        self._goldens, self._registry, self._scanner, self._content = goldens, registry, scanner, content
        self.unread.unwanted.clear()

    def select(self, body: bytes, groups: Sequence[SpanGroup], now: float) -> list[tuple[bytes, list[SpanGroup]]]:
        """Return the spans of a request that are read, by trace; all others are kept in the span buffer."""
        self.unread.expire(now)
        bare = [self._scanner.reads_without_attributes(group.envelope.scope) for group in groups]
        if not self._goldens.wants_any and self._lets_pass(body, groups, bare):
            return []
        by_group = [by_trace(group.spans) for group in groups]
        if any(bare) or self._scanner.marked(body) is not None:
            chosen = self._marked(body, groups, by_group, bare)
        else:
            chosen = self._unmarked(groups, by_group)
        for group, traces in zip(groups, by_group, strict=True):
            left = {trace: spans for trace, spans in traces.items() if trace not in chosen} if chosen else traces
            if left:
                self.unread.put(group.envelope, left, now)
        return list(chosen.items())

    def _lets_pass(self, body: bytes, groups: Sequence[SpanGroup], bare: Sequence[bool]) -> bool:
        """Keep nothing of these spans, as no session is wanted; False, with nothing done, if some have to be read.

        It is noted which traces they belong to: goldens that are loaded later may want these.
        """
        traces = trace_ids(groups)
        if traces is None or any(map(self._is_open, traces)):
            return False
        calls = any(bare) or self._scanner.marked(body) is not None
        for trace in traces:
            self.unread.note_loss(trace, calls=calls)
        return True

    def _marked(
        self,
        body: bytes,
        groups: Sequence[SpanGroup],
        by_group: Sequence[Mapping[bytes, Sequence[bytes]]],
        bare: Sequence[bool],
    ) -> dict[bytes, list[SpanGroup]]:
        found = self._of_interest(body, groups)
        parts: dict[bytes, list[tuple[SpanGroup, bool]]] = {}
        for group, traces, is_bare in zip(groups, by_group, bare, strict=True):
            for trace, spans in traces.items():
                parts.setdefault(trace, []).append((SpanGroup(group.envelope, spans), is_bare))
        return {
            trace: [group for group, _ in mine]
            for trace, mine in parts.items()
            if self._is_selected(trace, mine, of_interest=found is None or trace in found)
        }

    def _unmarked(
        self, groups: Sequence[SpanGroup], by_group: Sequence[Mapping[bytes, Sequence[bytes]]]
    ) -> dict[bytes, list[SpanGroup]]:
        unwanted, is_open = self.unread.unwanted, self._is_open
        chosen: dict[bytes, list[SpanGroup]] = {}
        for group, traces in zip(groups, by_group, strict=True):
            for trace, spans in traces.items():
                if trace not in chosen and (
                    is_open(trace)
                    or (
                        trace in unwanted
                        and self._is_selected(trace, [(SpanGroup(group.envelope, spans), False)], of_interest=True)
                    )
                ):
                    chosen[trace] = []
        for group, traces in zip(groups, by_group, strict=True):
            for trace in chosen.keys() & traces.keys():
                chosen[trace].append(SpanGroup(group.envelope, traces[trace]))
        return chosen

    def facts(self, group: SpanGroup) -> list[SpanFacts | None]:
        """Read spans in order; None for bytes that are no span."""
        body = join_request([group])
        try:
            views = list(self._reader.views(self._reader.parse(body, "traces"), "traces"))
        except Exception as error:  # noqa: BLE001 - one bad span must not stop the others
            self._on_problem(Problem("unreadable_span", f"{type(error).__name__}: {error}", "traces"))
            views = []
        if len(views) == len(group.spans):
            read, content = self._registry.read, self._content
            return [None if isinstance(view, LogView) else read(view, content=content) for view in views]
        if len(group.spans) == 1:
            return [None]
        return [fact for span in group.spans for fact in self.facts(SpanGroup(group.envelope, [span]))]

    def log_facts(self, body: bytes) -> Iterator[LogFacts]:
        """Yield what the log records of a request add to spans."""
        if not self._goldens.wants_any or not self._scanner.may_concern_spans(body):
            return
        for view in self._reader.views(self._reader.parse(body, "logs"), "logs"):
            if isinstance(view, LogView) and self._registry.may_tell(view.event_name, view.attributes):
                fact = self._registry.read_log(view, content=self._content)
                if fact is not None and fact.trace_id:
                    yield fact

    def _of_interest(self, body: bytes, groups: Sequence[SpanGroup]) -> Container[bytes] | None:
        """Return the traces whose spans name a wanted session or may do so; None if it may be any of them."""
        goldens = self._goldens
        if not goldens.wants_any:
            return ()
        for resource in {group.envelope.resource for group in groups}:
            if any(goldens.wants(session_id) for session_id, _ in self._sessions_of(resource)):
                return None
        return traces_at(body, groups, self._scanner.of_interest(body, goldens.wants))

    def _is_selected(self, trace: bytes, mine: Sequence[tuple[SpanGroup, bool]], *, of_interest: bool) -> bool:
        """Decide by these spans of a trace, and those in the buffer, whether it is read.

        `of_interest` says that the spans may name a wanted session, or have the marker of a dialect that keeps session
        ids elsewhere.
        """
        if self._is_open(trace) or not trace:
            return True
        scanner, goldens = self._scanner, self._goldens
        if of_interest and goldens.wants_any and any(any(map(scanner.opaque, group.spans)) for group, _ in mine):
            return True
        if unwanted := trace in self.unread.unwanted:
            if not of_interest:
                return False
        elif not any(bare or any(map(scanner.marked, group.spans)) for group, bare in mine):
            return False
        groups = [group for group, _ in mine]
        buffered = [] if unwanted else self.unread.records(trace)
        groups += buffered
        # Spans that are not of interest name no wanted session.
        named = self._sessions(groups if of_interest else buffered)
        if goldens.wants(trace.hex()) or any(goldens.wants(session_id) for session_id, _ in named):
            return True
        if not unwanted:
            if (first := next(self._sessions(groups), None)) is None:
                return goldens.wants_any  # a later span may name its session
            self.unread.unwanted.add(trace)
            self._count_without_golden(*first, groups)
        return False

    def _sessions(self, groups: Iterable[SpanGroup]) -> Iterator[_Session]:
        for group in groups:
            yield from self._sessions_of(group.envelope.resource)
            for span in group.spans:
                yield from self._scanner.sessions(span)

    def _sessions_of(self, resource: bytes) -> tuple[_Session, ...]:
        sessions = self._resources.get(resource)
        if sessions is None:
            if len(self._resources) >= _MAX_RESOURCES:
                self._resources.clear()
            sessions = self._resources[resource] = tuple(self._scanner.sessions(resource))
        return sessions

    def _count_without_golden(self, session_id: str, key: bytes, groups: Iterable[SpanGroup]) -> None:
        """Tell of a session that no golden wants, once, if one of these spans is an agent's, a model's or a tool's."""
        if session_id in self._without_golden:
            return
        for group in groups:
            for span in group.spans:
                if self._scanner.marked(span) is None:
                    continue
                if group.envelope.scope in self._agent_scopes or any(
                    fact is not None and fact.role is not None for fact in self.facts(SpanGroup(group.envelope, [span]))
                ):
                    self._remember_scope(group.envelope.scope)
                    self._on_unmatched(session_id, str(key, "utf-8", "replace"))
                    return

    def _remember_scope(self, scope: bytes) -> None:
        """Note that an agent writes spans of this scope: further sessions are counted without reading their spans."""
        if len(self._agent_scopes) < _MAX_SCOPES:
            self._agent_scopes.add(scope)
