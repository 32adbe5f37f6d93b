"""Spans as protobuf bytes: requests are split, selected and joined, and attributes appended, without decoding a span.

Splitting a request finds its spans and copies their bytes, at some 50 ns a span. Resource, scope, schema URLs and
unknown fields stay bytes too, so that any part of a request can be sent as a request of its own.

`ForeignScores` removes what a client wrote under goldspan's names, where clients are not trusted with scores:

    traces    attributes of resources, scopes, spans, span events and links; span events that are evaluations
    logs      attributes of resources, scopes and records; records that are evaluations
    metrics   attributes of resources and scopes; metrics

Nearly every request holds none of the names: then a search is all it costs. Of the others only attributes and names
are parsed. Evaluations of other metrics stay.

`TraceSelection` is the policy of reading in the gateway and in the stream. A span without a dialect's marker, or of a
trace whose sessions no golden wants, is not decoded: it goes into the span buffer. `_EncodedTrace` shows the policy the
spans of one trace. Session ids are looked up under the keys of rule R6, on any span of the trace and its resource. A
trace without the name of a session is read at once.

`KeyScanner` finds keys without decoding. An attribute key is encoded as `0A length key 12`, and one compiled regular
expression finds all known keys, at about a nanosecond a byte. A match may also be text that looks the same; decoding
the span shows that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from google.protobuf.message import DecodeError

from goldspan.collector_processor.emit.names import EVALUATION_NAME, is_own
from goldspan.collector_processor.emit.otlp_encoding import SPAN_ATTRIBUTES, Value, encoded_attributes
from goldspan.collector_processor.engine.reading_and_holding import (
    Decision,
    ReadingPolicy,
    SessionsWithoutGolden,
    SpanBuffer,
)
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.mappers.assembly.turn_fragments import DEFAULT_SESSION_KEYS
from goldspan.mappers.carrying_keys import may_be_of_agent
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects.reading.value_parsing import session_identifier
from goldspan.mappers.readers.otlp_protobuf import (
    ProtobufReader,
    fields,
    hex_bytes,
    message_class,
    message_value,
)
from goldspan.mappers.readers.protobuf_framing import varint
from goldspan.mappers.span_facts import Record, SpanFacts
from goldspan.mappers.spans import LogView, LostSpan, alternatives
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.metrics.session_metrics import BUILT_IN_METRICS
from goldspan.scoring.run import Scorer
from goldspan.scoring.sessions import SpanRef

_TRACE_ID = b"\n\x10"
"""The first bytes of a span whose trace id is its first field and has 16 bytes, as every writer encodes it."""


class Envelope(NamedTuple):
    """Resource and scope of spans, encoded: a `ResourceSpans` without `scope_spans`, a `ScopeSpans` without `spans`."""

    resource: bytes
    scope: bytes


LOST = Envelope(b"", b"lost")
"""Of what is known of spans that could not be read."""
_LOST_TAG = message_class("UnreadSpans")(lost_spans=[b""]).SerializeToString()[:-1]


class SpanGroup(NamedTuple):
    """The spans of one scope of one resource."""

    envelope: Envelope
    spans: Sequence[bytes]


def split_request(body: bytes) -> list[SpanGroup] | None:
    """Return the spans of a trace request in their order; None if the bytes are no trace request."""
    try:
        request = message_class("UnreadSpans").FromString(body)
    except DecodeError:
        return None
    groups: list[SpanGroup] = []
    for resource_spans in request.resource_spans:
        found: list[tuple[bytes, list[bytes]]] = []
        for scope_spans in resource_spans.scope_spans:
            spans = list(scope_spans.spans)
            scope_spans.ClearField("spans")
            found.append((scope_spans.SerializeToString(), spans))
        resource_spans.ClearField("scope_spans")
        resource: bytes = resource_spans.SerializeToString()
        groups += [SpanGroup(Envelope(resource, scope), spans) for scope, spans in found]
    return [*groups, SpanGroup(LOST, list(request.lost_spans))] if request.lost_spans else groups


_Item = TypeVar("_Item")


def chunks(
    items: Iterable[_Item], size: Callable[[_Item], int], most_bytes: int, most: float = math.inf
) -> Iterator[list[_Item]]:
    """Yield lists of items, each of so many items and bytes at most; an item that is larger is alone."""
    some: list[_Item] = []
    total = 0
    for item in items:
        more = size(item)
        if some and (total + more > most_bytes or len(some) >= most):
            yield some
            some, total = [], 0
        some.append(item)
        total += more
    if some:
        yield some


def join_request(groups: Iterable[SpanGroup]) -> bytes:
    """Return a trace request with these spans; empty without spans.

    Equal resources and scopes are written once. Spans keep their order within a scope, and resources and scopes the
    order of their first span.
    """
    request = message_class("UnreadSpans")()
    resources: dict[bytes, Any] = {}
    scopes: dict[Envelope, Any] = {}
    for envelope, spans in groups:
        if not spans:
            continue
        if envelope == LOST:
            request.lost_spans.extend(spans)
            continue
        scope = scopes.get(envelope)
        if scope is None:
            resource = resources.get(envelope.resource)
            if resource is None:
                resource = resources[envelope.resource] = request.resource_spans.add()
                resource.MergeFromString(envelope.resource)
            scope = scopes[envelope] = resource.scope_spans.add()
            scope.MergeFromString(envelope.scope)
        scope.spans.extend(spans)
    return bytes(request.SerializeToString())


def by_trace(spans: Iterable[bytes]) -> dict[bytes, list[bytes]]:
    """Group encoded spans by trace id, in the order of first occurrence."""
    starts: dict[bytes, list[bytes]] = {}
    for span in spans:
        start = span[:18]
        if (some := starts.get(start)) is None:
            some = starts[start] = []
        some.append(span)
    traces: dict[bytes, list[bytes]] = {}
    for start, some in starts.items():
        if start.startswith(_TRACE_ID):
            trace = start[2:]
            traces[trace] = traces[trace] + some if trace in traces else some
        else:
            for span in some:
                traces.setdefault(trace_id_of(span), []).append(span)
    return traces


def trace_ids(groups: Iterable[SpanGroup]) -> list[bytes] | None:
    """Return the trace ids of these spans; None if a span has none where every writer puts it."""
    starts = {span[:18] for group in groups for span in group.spans}
    return [start[2:] for start in starts] if all(start.startswith(_TRACE_ID) for start in starts) else None


def traces_at(body: bytes, groups: Iterable[SpanGroup], offsets: Sequence[int]) -> set[bytes] | None:
    """Return the trace ids of the spans that contain these byte offsets of a request; None if one is in no span.

    The offsets ascend. Spans of a scope follow one another in a request, each after its tag and its length.
    """
    found: set[bytes] = set()
    at, index = 0, 0
    for group in groups:
        for span in group.spans:
            if index == len(offsets):
                return found
            size = len(span)
            at += 1 + max(1, -(-size.bit_length() // 7))  # the tag, and the length as a varint
            if not body.startswith(span, at) and (at := body.find(span, at)) < 0:
                return None
            if offsets[index] < at:
                return None
            at += size
            while index < len(offsets) and offsets[index] < at:
                found.add(trace_id_of(span))
                index += 1
    return found if index == len(offsets) else None


def trace_id_of(span: bytes) -> bytes:
    """Return the trace id of an encoded span; empty without one."""
    if span.startswith(_TRACE_ID):
        return span[2:18]
    found = b""
    for number, wire, start, end, whole in fields(span):
        if (number, wire, whole) == (1, 2, True):
            found = span[start:end]
    return found


def with_scores(span: bytes, attributes: Mapping[str, Value], metrics: Collection[str]) -> bytes:
    """Return an encoded span with the attributes of these metrics, in place of those that came under their names.

    The fields of a protobuf message may come in any order, so attributes are appended.
    """
    if not attributes:
        return span
    if has_scores(span, metrics):
        message = message_class("Span").FromString(span)
        _remove_scores(message, metrics)
        span = message.SerializeToString()
    return span + encoded_attributes(attributes, SPAN_ATTRIBUTES)


def has_scores(span: bytes, metrics: Collection[str]) -> bool:
    """Tell whether an encoded span has attributes under the names of these metrics."""
    if not any(metric.encode() in span for metric in metrics):
        return False  # as nearly every span
    try:
        return any(is_score(raw, metrics) for raw in message_class("Span").FromString(span).attributes)
    except DecodeError:
        return False


def is_score(attribute: bytes, metrics: Collection[str]) -> bool:
    """Tell whether an encoded attribute has a name of these metrics."""
    try:
        key: bytes = message_class("Key").FromString(attribute).key
    except DecodeError:
        return False
    return is_own(str(key, "utf-8", "replace"), metrics)


def _remove_scores(holder: Any, metrics: Collection[str]) -> int:
    """Remove the attributes under the names of these metrics from a message, and return how many these were."""
    kept = [raw for raw in holder.attributes if not is_score(raw, metrics)]
    removed = len(holder.attributes) - len(kept)
    if removed:
        del holder.attributes[:]
        holder.attributes.extend(kept)
    return removed


def ref_of(span: bytes) -> SpanRef:
    """Return trace id and span id of an encoded span."""
    ids = {number: span[start:end] for number, wire, start, end, _ in fields(span) if number in (1, 2) and wire == 2}
    return SpanRef(hex_bytes(ids.get(1, b"")), hex_bytes(ids.get(2, b"")))


_OVERHEAD = 120  # bytes of memory that a buffered span takes beside its own


class EncodedSpanBuffer(SpanBuffer[bytes, SpanGroup]):
    """The spans of one tenant that the engine has not read, by trace id."""

    def put(self, envelope: Envelope, spans: Mapping[bytes, list[bytes]], now: float) -> None:
        """Add spans of one envelope, by trace id."""
        size = sum(len(span) + _OVERHEAD for some in spans.values() for span in some)
        self.add({trace: (SpanGroup(envelope, encoded),) for trace, encoded in spans.items()}, size, now)


_EVALUATION_NAME = EVALUATION_NAME.name.encode()


class ForeignScores:
    """The names of some metrics; gives requests without them. For any number of threads."""

    def __init__(self, metrics: Iterable[str]) -> None:
        self._metrics = frozenset(metrics)
        self._encoded = {name.encode() for metric in self._metrics for name in (metric, metric.replace(".", "_"))}
        self._clean = {
            Signal.TRACES: self._clean_span,
            Signal.LOGS: self._clean_record,
            Signal.METRICS: self._clean_metric,
        }

    @classmethod
    def of(cls, goldens: GoldenIndex, scorer: Scorer) -> ForeignScores:
        """Name the metrics that are built in, and those that the scorer or a golden asks for."""
        chosen = {choice.metric.name for choice in (*scorer.metrics, *scorer.later)}
        of_goldens = {choice.name for golden in goldens.goldens for choice in golden.metrics}
        return cls({*BUILT_IN_METRICS, *chosen, *of_goldens})

    def remove(self, signal: Signal, body: bytes) -> tuple[bytes, int] | None:
        """Return a request without foreign scores, and how many attributes, events, records and metrics were removed.

        A span, a record or a metric that is broken and may hold one is removed whole. None: the body is no request.
        """
        if not self._may_hold(body):
            return body, 0
        try:
            request = message_class("AnyRequest").FromString(body)
        except DecodeError:
            return None
        removed = 0
        for resource in request.resources:
            removed += _remove_scores(resource.resource, self._metrics)
            for scope in resource.scopes:
                removed += _remove_scores(scope.scope, self._metrics)
                removed += self._clean_all(scope.items, signal)
        return (bytes(request.SerializeToString()), removed) if removed else (body, 0)

    def _may_hold(self, encoded: bytes) -> bool:
        return any(name in encoded for name in self._encoded)

    def _clean_all(self, items: Any, signal: Signal) -> int:
        """Replace the spans, records or metrics of a scope by clean ones. Returns how much was removed."""
        removed = 0
        kept: list[bytes] = []
        for item in items:
            clean, count = item, 0
            if self._may_hold(item):
                try:
                    clean, count = self._clean[signal](item)
                except DecodeError:
                    clean, count = None, 1
            removed += count
            if clean is not None:
                kept.append(clean)
        if removed:
            del items[:]
            items.extend(kept)
        return removed

    def _clean_span(self, encoded: bytes) -> tuple[bytes | None, int]:
        span = message_class("Span").FromString(encoded)
        removed = _remove_scores(span, self._metrics)
        for parts, kind in ((span.events, "EventParts"), (span.links, "LinkParts")):
            kept: list[bytes] = []
            for part in parts:
                message = message_class(kind).FromString(part)
                if self._is_evaluation(message):
                    removed += 1
                elif count := _remove_scores(message, self._metrics):
                    removed += count
                    kept.append(message.SerializeToString())
                else:
                    kept.append(part)
            del parts[:]
            parts.extend(kept)
        return (span.SerializeToString() if removed else encoded), removed

    def _clean_record(self, encoded: bytes) -> tuple[bytes | None, int]:
        record = message_class("RecordParts").FromString(encoded)
        if self._is_evaluation(record):
            return None, 1
        removed = _remove_scores(record, self._metrics)
        return (record.SerializeToString() if removed else encoded), removed

    def _clean_metric(self, encoded: bytes) -> tuple[bytes | None, int]:
        name = str(message_class("MetricParts").FromString(encoded).name, "utf-8", "replace")
        return (None, 1) if is_own(name, self._metrics) else (encoded, 0)

    def _is_evaluation(self, event: Any) -> bool:
        """Tell whether a log record or a span event is the evaluation of one of these metrics."""
        for raw in event.attributes:
            if _EVALUATION_NAME in raw:
                attribute = message_class("TextAttribute").FromString(raw)
                if attribute.key == _EVALUATION_NAME and attribute.value.string_value in self._encoded:
                    return True
        return False


_VALUE, _TEXT = b"\x12", 0x0A  # tags of `KeyValue.value` and `AnyValue.string_value`
_LONGEST_KEY = 0x7F
"""Bytes; a longer key has a two-byte length. No dialect has one."""


class KeyScanner:
    """Searches bytes for the attribute keys of one dialect registry."""

    def __init__(self, registry: DialectRegistry, session_keys: Iterable[str] = DEFAULT_SESSION_KEYS) -> None:
        """Search for the dialects' markers, and for session ids under `session_keys` and the dialects' own keys."""
        scopes = [getattr(one, "bare_scopes", frozenset[str]()) for one in registry.dialects]
        events = {name for one in registry.dialects for name in getattr(one, "log_events", ())}
        sessions = registry.session_keys.union(session_keys)
        self._marked = _keys(frozenset[str]().union(*(one.markers for one in registry.dialects))).search
        unknown = registry.opaque_markers
        self.opaque = _keys(unknown).search
        """Searches for the marker of a dialect that does not name its session keys."""
        self._session = _keys(sessions, _VALUE)
        self._opaque_keys = frozenset(key.encode() for key in unknown)
        self._of_interest = _keys(sessions | unknown, _VALUE)
        self._scopes_without_attributes = tuple(scope.encode() for scope in sorted(frozenset[str]().union(*scopes)))
        event_names = "|".join(sorted(map(re.escape, events))) or "(?!)"
        self._log_events = re.compile(event_names.encode())
        self._log_sessions = _keys(sessions).search

    def marked(self, encoded: bytes) -> bool:
        """Tell whether there is a key that makes a dialect read a span, or keys of an agent that none knows."""
        return self._marked(encoded) is not None or may_be_of_agent(encoded)

    def reads_without_attributes(self, scope: bytes) -> bool:
        """Tell whether a dialect may read spans of this encoded scope that have no attributes."""
        return any(name in scope for name in self._scopes_without_attributes)

    def may_concern_spans(self, logs: bytes) -> bool:
        """Tell whether encoded log records may hold content or the session of a span."""
        return self._log_events.search(logs) is not None or self._log_sessions(logs) is not None

    def sessions(self, encoded: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield every session id in an encoded span or resource, each with the attribute that holds it."""
        for found in self._session.finditer(encoded):
            start, end = found.span()
            if (session_id := _session_id(encoded, end)) is not None:
                yield session_id, encoded[start + 2 : end - 1]

    def of_interest(self, encoded: bytes, wants: Callable[[str], bool]) -> list[int]:
        """Return the byte offsets of wanted session ids and of opaque markers, in one pass over a request."""
        offsets: list[int] = []
        checked: dict[bytes, bool] = {}
        for found in self._of_interest.finditer(encoded):
            start, at = found.span()
            size = encoded[at] if at < len(encoded) else 0
            value = encoded[at : at + 1 + size]
            wanted = checked.get(value) if size < 0x80 else None  # a longer value is not all in `value`
            if wanted is None:
                session_id = _session_id(encoded, at)
                wanted = checked[value] = session_id is not None and wants(session_id)
            if wanted or encoded[start + 2 : at - 1] in self._opaque_keys:
                offsets.append(start)
        return offsets


def _session_id(encoded: bytes, at: int) -> str | None:
    """Return the session id in the `AnyValue` whose length is at this offset."""
    size = encoded[at] if at < len(encoded) else 0x80
    if 2 < size < 0x80 and encoded[at + 1 : at + 3] == bytes([_TEXT, size - 2]):
        return session_identifier(str(encoded[at + 3 : at + 1 + size], "utf-8", "replace"))
    size, start = varint(encoded, at)
    if size < 0:
        return None
    try:
        return session_identifier(message_value(message_class("AnyValue").FromString(encoded[start : start + size])))
    except DecodeError:
        return None


def _keys(keys: Iterable[str], tail: bytes = b"") -> re.Pattern[bytes]:
    """Compile a search for any of these keys in the position of an attribute key, followed by `tail`."""
    encoded = sorted(key.encode() for key in keys if 0 < len(key.encode()) <= _LONGEST_KEY)
    if not encoded:
        return re.compile(rb"(?!)")
    lengths = b"".join(re.escape(bytes([size])) for size in sorted({len(key) for key in encoded}))
    return re.compile(rb"\n[" + lengths + rb"](?:" + alternatives(encoded) + rb")" + tail, re.DOTALL)


_MAX_RESOURCES = 256
_Session = tuple[str, bytes]  # the id of a session, and the attribute that holds it


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
        """Select by these goldens; `scanner` finds the keys of `registry`, and `unread` keeps what is not read.

        `content` says to read messages, results and definitions of tools. `is_open` tells of a trace whether all its
        spans are read. `without_golden` and `on_unmatched` are those of the policy.
        """
        self.unread = unread
        self._is_open = is_open
        self._on_problem = on_problem
        self._reader = ProtobufReader(on_problem)
        self._resources: dict[bytes, tuple[_Session, ...]] = {}
        self._policy = ReadingPolicy[bytes, tuple[Envelope, bytes]](
            goldens,
            unread,
            recognises=self._recognises,
            without_golden=without_golden,
            on_unmatched=on_unmatched,
        )
        self.use_goldens(goldens, registry, scanner, content=content)

    def use_goldens(
        self, goldens: GoldenIndex, registry: DialectRegistry, scanner: KeyScanner, *, content: bool
    ) -> None:
        """Select by these goldens from now on, and read the attributes that they join on."""
        self._goldens, self._registry, self.scanner, self._content = goldens, registry, scanner, content
        self._policy.use_goldens(goldens)

    def select(self, body: bytes, groups: Sequence[SpanGroup], now: float) -> list[tuple[bytes, list[SpanGroup]]]:
        """Return the spans of a request that are read, by trace; all others are kept in the span buffer."""
        self.unread.expire(now)
        bare = [self.scanner.reads_without_attributes(group.envelope.scope) for group in groups]
        if not self._goldens.wants_any and self._lets_pass(body, groups, bare):
            return []
        by_group = [by_trace(group.spans) for group in groups]
        chosen = self._chosen(body, groups, by_group, bare)
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
        calls = any(bare) or self.scanner.marked(body)
        for trace in traces:
            self.unread.note_loss(trace, calls=calls)
        return True

    def _chosen(
        self,
        body: bytes,
        groups: Sequence[SpanGroup],
        by_group: Sequence[Mapping[bytes, Sequence[bytes]]],
        bare: Sequence[bool],
    ) -> dict[bytes, list[SpanGroup]]:
        """Return the spans that are read. Decided are marked traces, and unwanted ones that may name a session."""
        unwanted, is_open, decide = self.unread.unwanted, self._is_open, self._policy.decide
        is_marked = any(bare) or self.scanner.marked(body)
        found = self._of_interest(body, groups) if is_marked else None
        batches: dict[bytes, _EncodedTrace] = {}
        for group, traces, is_bare in zip(groups, by_group, bare, strict=True):
            for trace, spans in traces.items():
                of_interest = found is None or trace in found
                is_lost = group.envelope == LOST and not trace
                if (of_interest if trace in unwanted else is_marked) or is_open(trace) or is_lost:
                    part = SpanGroup(group.envelope, spans)
                    if (batch := batches.get(trace)) is None:
                        batch = batches[trace] = _EncodedTrace(self, trace, [part], of_interest=of_interest)
                    else:
                        batch.groups.append(part)
                    if is_bare:
                        batch.bare = (*batch.bare, part)
        return {
            trace: batch.groups
            for trace, batch in batches.items()
            if is_open(trace) or not trace or decide(trace, batch) is Decision.READ
        }

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

    def _recognises(self, marked: tuple[Envelope, bytes]) -> bool:
        envelope, span = marked
        return any(fact is not None and fact.role is not None for fact in self.facts(SpanGroup(envelope, [span])))

    def log_facts(self, body: bytes) -> Iterator[Record]:
        """Yield what the log records of a request add to spans, and that some could not be read."""
        if not self._goldens.wants_any or not (_LOST_TAG in body or self.scanner.may_concern_spans(body)):
            return
        for view in self._reader.views(self._reader.parse(body, "logs"), "logs"):
            if isinstance(view, LostSpan):
                yield self._registry.read(view)
            elif isinstance(view, LogView) and self._registry.may_tell(view.event_name, view.attributes):
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
        return traces_at(body, groups, self.scanner.of_interest(body, goldens.wants))

    def sessions(self, groups: Iterable[SpanGroup]) -> Iterator[_Session]:
        """Yield every session that these spans and their resources name."""
        for group in groups:
            yield from self._sessions_of(group.envelope.resource)
            for span in group.spans:
                yield from self.scanner.sessions(span)

    def _sessions_of(self, resource: bytes) -> tuple[_Session, ...]:
        sessions = self._resources.get(resource)
        if sessions is None:
            if len(self._resources) >= _MAX_RESOURCES:
                self._resources.clear()
            sessions = self._resources[resource] = tuple(self.scanner.sessions(resource))
        return sessions


class _EncodedTrace:
    """The spans of one trace in a request. `TraceBatch` describes the members."""

    __slots__ = ("_selection", "_trace", "bare", "groups", "of_interest")

    def __init__(self, selection: TraceSelection, trace: bytes, groups: list[SpanGroup], *, of_interest: bool) -> None:
        self._selection = selection
        self._trace = trace
        self.groups = groups
        self.of_interest = of_interest
        self.bare: tuple[SpanGroup, ...] = ()
        """Those of scopes of which a dialect reads spans without attributes."""

    @property
    def trace_id(self) -> str:
        return self._trace.hex()

    @property
    def is_marked(self) -> bool:
        return bool(self.bare) or self._any_has(self._selection.scanner.marked)

    @property
    def is_opaque(self) -> bool:
        return self._any_has(self._selection.scanner.opaque)

    def sessions(self) -> Iterable[str]:
        return (session_id for session_id, _ in self._selection.sessions(self.groups))

    def earlier_sessions(self, unread: Sequence[SpanGroup]) -> Mapping[str, bytes]:
        return dict(self._selection.sessions(unread)) if unread else {}

    def first_session(self, earlier: Mapping[str, bytes]) -> tuple[str, str] | None:
        for session_id, key in self._selection.sessions(self.groups):
            return session_id, str(key, "utf-8", "replace")
        for session_id, key in earlier.items():
            return session_id, str(key, "utf-8", "replace")
        return None

    def marked(self) -> Iterator[tuple[bytes, tuple[Envelope, bytes]]]:
        marked = self._selection.scanner.marked
        for group in self.groups:
            for span in group.spans:
                if marked(span) or group in self.bare:
                    yield group.envelope.scope, (group.envelope, span)

    def _any_has(self, search: Callable[[bytes], object]) -> bool:
        return any(any(map(search, group.spans)) for group in self.groups)
