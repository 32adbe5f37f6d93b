"""What was found in each recording, and where: the facts behind docs/dialects.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from conformance import recordings
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import read_files
from goldspan.mappers.span_facts import Role, SpanFacts
from goldspan.mappers.spans import LogView
from goldspan.scoring.sessions import Capture, SpanRef, ToolCall
from rigs.otlp_containers import by_shape_too

TOOL_SPAN, MODEL_OUTPUT, AGENT_OUTPUT, LOG_RECORDS, LINKED_SPANS = (
    "tool spans",
    "models' output",
    "the agent's output",
    "log records",
    "linked spans",
)


@dataclass(frozen=True)
class Finding:
    """One recording, read and held against the truth."""

    name: str
    dialects: tuple[str, ...]
    """The dialects that recognised its spans; first the one that most of its calls are of."""
    turns: int
    calls: int
    failed: int
    requested: int
    """How many calls no span shows the execution of."""
    places: Mapping[str, int]
    """Where arguments came from, with the number of calls; a capture state where they came from nowhere."""
    session_keys: tuple[str, ...]
    """Where session ids came from; `trace_id` is no session id."""
    failures_visible: bool
    wrong: tuple[str, ...]
    known_gap: str | None

    @property
    def captured(self) -> int:
        """How many calls have arguments."""
        return sum(count for place, count in self.places.items() if place not in set(Capture))


def find(name: str) -> Finding:
    """Read one recording and say what was found."""
    row = recordings.read(name)
    spans = _facts(name)
    calls = [call for turn in row.turns for call in turn]
    by_calls = Counter(call.dialect for call in calls)
    roles = Counter(span.dialect for span in spans.values() if span.role is not None)
    spoken_of = Counter(note.dialect for span in spans.values() for note in span.notes)
    truth = recordings.TRUTH["files"][name]
    return Finding(
        name=name,
        dialects=tuple(
            dict.fromkeys(dialect for found in (by_calls, roles, spoken_of) for dialect, _ in found.most_common())
        ),
        turns=len(row.turns),
        calls=len(calls),
        failed=sum(call.error is not None for call in calls),
        requested=sum(call.requested for call in calls),
        places=Counter(_place(call, spans) for call in calls),
        session_keys=tuple(sorted({session.id_source for session in row.sessions})),
        failures_visible=recordings.failures_are_visible(truth),
        wrong=tuple(row.wrong),
        known_gap=truth.get("known_gap"),
    )


def _facts(name: str) -> dict[SpanRef, SpanFacts]:
    registry = DialectRegistry()
    views = read_files(recordings.files_of(name), lambda problem: None)
    return by_shape_too(registry.read(view) for view in views if not isinstance(view, LogView))


def _place(call: ToolCall, spans: Mapping[SpanRef, SpanFacts]) -> str:
    """Say where a call's arguments came from, by what the spans it was read from hold themselves."""
    if call.capture is not Capture.CAPTURED:
        return call.capture.value
    evidence = [spans[ref] for ref in call.evidence if ref in spans]
    if any(span.tool is not None and span.tool.arguments.capture is Capture.CAPTURED for span in evidence):
        return TOOL_SPAN
    if any(span.notes for span in evidence):
        return LINKED_SPANS
    asking = [span for span in evidence if span.model is not None and span.model.requests]
    if not asking:
        return LOG_RECORDS
    return AGENT_OUTPUT if asking[0].role is Role.AGENT else MODEL_OUTPUT
