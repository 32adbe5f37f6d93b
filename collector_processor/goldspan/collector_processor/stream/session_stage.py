"""The second stage, by session id: the fragments of a session are joined to turns and runs, and scored.

    receive   the fragments of one trace changed -> score the session -> events, and scores on the spans that came along
    advance   no change for `run_idle`? -> score its runs as complete; quiet for `retention`? -> drop it
    save      what changed since the last call becomes rows of the state

A session is a set of fragments, and its results depend on that set alone: not on the order in which traces settled, nor
on repeated messages. Time is the least watermark of all partitions of the first stage. So one that lags delays the end
of a run, and no turn is missing because its partition is slow.

Rows of a partition, by the first byte of their keys:

    s + session               results and times of a session, under a digest of its id
    f + session + fragment    a fragment, under a digest of its trace and root
    w                         the watermark of each partition of the first stage
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec

from goldspan.collector_processor.emit.evaluation import Attributes, Evaluation, span_attributes
from goldspan.collector_processor.emit.otlp_encoding import encoded_events
from goldspan.collector_processor.encoded_spans.span_groups import (
    SpanGroup,
    join_request,
    ref_of,
    split_request,
    with_scores,
)
from goldspan.collector_processor.engine import session_scorer
from goldspan.collector_processor.engine.reading_and_holding import SessionsWithoutGolden
from goldspan.collector_processor.engine.trace_machine import SessionPart
from goldspan.collector_processor.stream import stage_interface
from goldspan.collector_processor.stream.stage_interface import digest
from goldspan.mappers.assembly.turn_fragments import Fragment
from goldspan.scoring.sessions import SpanRef

_SESSION, _FRAGMENT, _WATERMARKS, _EPOCHS = b"s", b"f", b"w", b"e"
_NANOSECONDS = 1_000_000_000
_OVERHEAD = 2_000
_Place = tuple[str, str]  # trace id, and the span id of a fragment's root


@dataclass(slots=True)
class _KeptFragment:
    """A fragment of a session."""

    fragment: Fragment
    incomplete: bool  # records of its trace were dropped
    size: int
    digest: bytes


@dataclass(slots=True)
class _Session:
    """A session in memory."""

    state: session_scorer.SessionState
    incomplete: bool = False  # fragments were dropped, since it has too many
    by_trace: dict[str, dict[str, _KeptFragment]] = field(default_factory=dict[str, dict[str, _KeptFragment]])
    """Its fragments, by the span ids of their roots."""
    writes: dict[_Place, bytes | None] = field(default_factory=dict[_Place, bytes | None])
    """Fragments that differ from their rows."""
    spans: int = 0
    size: int = _OVERHEAD  # bytes of its rows, and what else it takes, about
    first_given: dict[SpanRef, list[Evaluation]] | None = None
    """Results as they were given first, by their span. None: its rows were read, and it was not scored since."""

    def find(self, place: _Place) -> _KeptFragment | None:
        trace_id, root = place
        return self.by_trace.get(trace_id, {}).get(root)

    def put(self, place: _Place, encoded: bytes, decoded: tuple[Fragment, bool]) -> bool:
        """Add a fragment, or replace it by its newer version; False if it is there already."""
        known = digest(encoded)
        if (before := self.find(place)) is not None and before.digest == known:
            return False
        self.take(place)
        trace_id, root = place
        fragment, incomplete = decoded
        self.by_trace.setdefault(trace_id, {})[root] = _KeptFragment(fragment, incomplete, len(encoded), known)
        self.spans += len(fragment.spans)
        self.size += len(encoded)
        self.writes[place] = encoded
        self.state.set_part(trace_id, has_turns=True)
        return True

    def take(self, place: _Place) -> bool:
        """Remove a fragment; False if there is none."""
        if (kept := self.find(place)) is None:
            return False
        trace_id, root = place
        of_trace = self.by_trace[trace_id]
        del of_trace[root]
        if not of_trace:
            del self.by_trace[trace_id]
        self.spans -= len(kept.fragment.spans)
        self.size -= kept.size
        self.writes[place] = None
        self.state.set_part(trace_id, has_turns=bool(of_trace))
        return True

    def part(self, trace_id: str) -> SessionPart | None:
        kept = self.by_trace.get(trace_id, {}).values()
        fragments = [one.fragment for one in kept]
        return SessionPart(self.state.id, trace_id, fragments, any(one.incomplete for one in kept)) if kept else None

    def drop(self, gap: int) -> None:
        """Forget its fragments and results, and from now on what comes within a gap of them, in nanoseconds."""
        kept = {(trace_id, root): one for trace_id, some in self.by_trace.items() for root, one in some.items()}
        self.writes.update(dict.fromkeys(kept))
        self.state.drop_runs((one.fragment for one in kept.values()), gap)
        self.by_trace.clear()
        self.spans, self.size, self.incomplete, self.first_given = 0, _OVERHEAD, False, None

    def scored(self, changes: Iterable[Evaluation]) -> None:
        if self.first_given is None:
            self.first_given, changes = {}, self.state.results_now()
        for evaluation in changes:
            if evaluation.target is not None and self.state.results[evaluation.id].revision == 1:
                self.first_given.setdefault(evaluation.target, []).append(evaluation)

    def attributes_of(self, span: SpanRef) -> tuple[Attributes, set[str]]:
        """Return the attributes of a span's results, and their metrics. A correction is none, as where it was sent."""
        attributes: Attributes = {}
        metrics: set[str] = set()
        for evaluation in (self.first_given or {}).get(span, ()):
            newest = self.state.results.get(evaluation.id)
            if newest is not None and newest.revision == 1 and (found := span_attributes(evaluation)):
                attributes.update(found)
                metrics.add(evaluation.metric)
        return attributes, metrics


class SessionStage:
    """One partition of the second stage. For one thread."""

    def __init__(
        self, context: stage_interface.StreamContext, state: stage_interface.PartitionState, sources: int
    ) -> None:
        """Continue with the state of this partition; `sources` is the number of partitions of the first stage."""
        self._context = context
        self._settings = context.settings
        self._state = state
        self.stats = stage_interface.StageStats()
        self._scorer = session_scorer.SessionScorer(context.goldens, context.settings, self.stats)
        self._watermarks = [0.0] * sources
        self._now = 0.0
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()
        """Sessions in memory by a digest of their id, the least recently used first."""
        self._size = 0
        self._due = stage_interface.DueTimes()  # every open session
        self._changed: dict[bytes, None] = {}
        self._dropped: dict[bytes, None] = {}
        self._watermarks_changed = False
        self._epochs = [0] * len(self._watermarks)  # the newest of each partition of the first stage
        self._epochs_changed = False
        self._uncounted: tuple[list[Evaluation], list[Evaluation]] = [], []
        """Results that are final, and those that are so no longer, since the last commit."""
        self._restore()

    def use_goldens(self, context: stage_interface.StreamContext) -> None:
        """Score by the goldens of this context from now on; an open session when something new comes for it."""
        self._context, self._scorer.goldens = context, context.goldens

    @property
    def without_golden(self) -> SessionsWithoutGolden:
        """The sessions that were counted as `stats.sessions_without_golden`."""
        return self._scorer.without_golden

    @property
    def open_sessions(self) -> int:
        """Sessions whose fragments or last run are remembered."""
        return len(self._due)

    def take_uncounted(self) -> tuple[list[Evaluation], list[Evaluation]]:
        """Return the results that are final since the last call, and those that were and do not hold any longer.

        They are counted with the commit of the state that they are in: whoever continues before it counts them again.
        """
        taken, self._uncounted = self._uncounted, ([], [])
        return taken

    # Input.

    def receive(self, key: bytes, body: bytes) -> Iterable[stage_interface.Output]:
        """Receive a message of the first stage; `key` is the session id."""
        try:
            message = stage_interface.decode_message(body)
            if not 0 <= message.source < len(self._watermarks):
                raise ValueError(f"found a message of partition {message.source} of {len(self._watermarks)}")
            parts = {
                root: None if one is None else (stage_interface.decode_fragment(one), one)
                for root, one in message.changes
            }
        except ValueError as error:
            return [stage_interface.DeadLetter(body, str(error))]
        if 0 < message.epoch < self._epochs[message.source]:
            return []  # of a worker that does not know yet that it lost the partition: the next one says it anew
        outputs: list[stage_interface.Output] = []
        if message.epoch > self._epochs[message.source]:
            self._epochs[message.source] = message.epoch
            self._epochs_changed = True
        if message.trace:
            self._receive(key, message, parts, outputs)
        self._watermarks[message.source] = max(self._watermarks[message.source], message.watermark)
        self._watermarks_changed = True
        return [*outputs, *self._work(min(self._watermarks))]

    # Time.

    def deadline(self) -> float | None:
        """Return the next time at which `advance` has work to do."""
        return self._due.first()

    def advance(self, watermark: float) -> Iterable[stage_interface.Output]:
        """Complete and drop what is due by this time.

        Call it with the wall clock, where this partition and all of the first stage were read up to their ends.
        """
        return self._work(max(watermark, min(self._watermarks)))

    def _work(self, now: float) -> list[stage_interface.Output]:
        self._now = max(self._now, now)
        outputs: list[stage_interface.Output] = []
        for due, key in self._due.take(self._now):
            session = self._find(key)
            if session is not None:
                self._advance_session(key, session, due, outputs)
        return outputs

    # State.

    def save(self) -> None:
        """Write rows for what changed since the last call."""
        for key in self._dropped:
            for row, _ in list(self._state.items(_FRAGMENT + key)):
                self._state.delete(row)
            self._state.delete(_SESSION + key)
        self._dropped.clear()
        for key in self._changed:
            session = self._sessions[key]
            for place, encoded in session.writes.items():
                row = _FRAGMENT + key + _digest("/".join(place).encode())
                if encoded is None:
                    self._state.delete(row)
                else:
                    self._state.set(row, msgspec.msgpack.encode((place, encoded)))
            session.writes.clear()
            session.state.due = self._due[key]
            self._state.set(_SESSION + key, stage_interface.encode_head(session.state, incomplete=session.incomplete))
        self._changed.clear()
        if self._watermarks_changed:
            self._state.set(_WATERMARKS, msgspec.msgpack.encode(self._watermarks))
            self._watermarks_changed = False
        if self._epochs_changed:
            self._state.set(_EPOCHS, msgspec.msgpack.encode(self._epochs))
            self._epochs_changed = False
        while self._size > self._context.cached_bytes and self._sessions:
            _, session = self._sessions.popitem(last=False)
            self._size -= session.size

    def _restore(self) -> None:
        if (row := self._state.get(_WATERMARKS)) is not None:
            known = msgspec.msgpack.decode(row)[: len(self._watermarks)]
            self._watermarks[: len(known)] = known
        if (row := self._state.get(_EPOCHS)) is not None:
            epochs = msgspec.msgpack.decode(row)[: len(self._epochs)]
            self._epochs[: len(epochs)] = epochs
        for key, head in self._state.items(_SESSION):
            if (due := stage_interface.due_of(head)) is not None:
                self._due.set(key[1:], due)

    def _find(self, key: bytes) -> _Session | None:
        """Return an open session, from memory or from its rows."""
        session = self._sessions.get(key)
        if session is not None:
            self._sessions.move_to_end(key)
            return session
        if key not in self._due or (head := self._state.get(_SESSION + key)) is None:
            return None
        state, incomplete = stage_interface.decode_head(head)
        session = self._sessions[key] = _Session(state, incomplete)
        for _, row in self._state.items(_FRAGMENT + key):
            (trace, root), encoded = msgspec.msgpack.decode(row)
            session.put((trace, root), encoded, stage_interface.decode_fragment(encoded))
        session.writes.clear()
        self._size += session.size
        return session

    # Sessions.

    def _receive(
        self,
        session_id: bytes,
        message: stage_interface.SessionMessage,
        parts: Mapping[str, tuple[tuple[Fragment, bool], bytes] | None],
        outputs: list[stage_interface.Output],
    ) -> None:
        key = _digest(session_id)
        session = self._find(key)
        if session is None:
            if all(part is None for part in parts.values()):
                outputs += [stage_interface.Traces(message.held)] if message.held else []
                return
            name = session_id.decode("utf-8", "surrogatepass")
            session = self._sessions[key] = _Session(session_scorer.SessionState(name, message.watermark))
            self._size += session.size
        size = session.size
        changed = False
        for root, part in parts.items():
            place = message.trace, root
            if part is None:
                changed |= session.take(place)
            elif self._scorer.late_fragments([part[0][0]], session.state):
                self.stats.late += len(part[0][0].spans)
            elif session.spans >= self._context.max_session_spans and session.find(place) is None:
                session.incomplete = changed = True
            else:
                changed |= session.put(place, part[1], part[0])
        self._size += session.size - size
        if changed:
            session.state.grow(message.watermark)
            self._changed[key] = None
            self._due.set(key, session.state.last + self._settings.run_idle)
        if changed or message.held:
            self._score(session, message.watermark, outputs)
        if message.held:
            outputs.append(_scored(message.held, session))

    def _advance_session(
        self, key: bytes, session: _Session, now: float, outputs: list[stage_interface.Output]
    ) -> None:
        """Score the runs of a quiet session; later drop its fragments; later forget it."""
        self._changed[key] = None
        step, again = session_scorer.next_step(session.state, now, self._settings)
        if step is session_scorer.SessionStep.FORGET:
            self._due.remove(key)
            del self._sessions[key], self._changed[key]
            self._size -= session.size
            self._dropped[key] = None
            return
        if step is session_scorer.SessionStep.SCORE:
            self._score(session, now, outputs, complete=True)
        elif step is session_scorer.SessionStep.DROP:
            self._size += _OVERHEAD - session.size
            session.drop(self._settings.assembly.session_gap_ns)
        self._due.set(key, again)

    def _score(
        self, session: _Session, now: float, outputs: list[stage_interface.Output], *, complete: bool = False
    ) -> None:
        state, output = session.state, session_scorer.OutputBuilder()
        self._scorer.score(state, session.part, output, complete=complete, incomplete=session.incomplete)
        session.scored(output.evaluations)
        for problem in output.problems:
            self.stats.problems[problem.code] += 1
        self._uncounted[0].extend(output.final)
        self._uncounted[1].extend(output.superseded)
        if events := encoded_events(output.evaluations, int(now * _NANOSECONDS)):
            outputs.append(stage_interface.Logs(state.id.encode("utf-8", "surrogatepass"), events))
        if output.evaluations or output.sessions:
            outputs.append(stage_interface.Results(tuple(output.evaluations), tuple(output.sessions)))


def _scored(held: bytes, session: _Session) -> stage_interface.Traces:
    """Return spans with the attributes of their results."""
    return stage_interface.Traces(
        join_request(
            SpanGroup(envelope, [with_scores(span, *session.attributes_of(ref_of(span))) for span in spans])
            for envelope, spans in split_request(held) or ()
        )
    )


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()
