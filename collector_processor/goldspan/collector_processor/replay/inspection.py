"""What is in traces: what was recognised, what was not, and what to switch on.

Here are the answers to "why is nothing scored?", and to `goldspan inspect --why CALL`: where the values of a call's
arguments came from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from msgspec import Struct

from goldspan.collector_processor.replay.dialect_proposals import ShapedToolFinder, ShapedTools
from goldspan.collector_processor.replay.hints import Hint, Writer, hints_for_traces
from goldspan.mappers.assembly import assemble
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects.reading.protocol import stack_of
from goldspan.mappers.span_facts import Record
from goldspan.mappers.spans import LogView, RecordView
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens.golden import user_texts
from goldspan.scoring.json_values import plain, steps_of, value_at
from goldspan.scoring.metrics.grounding import why
from goldspan.scoring.result_words import doubt_document
from goldspan.scoring.sessions import Capture, Content, Session, ToolCall, Turn
from goldspan.scoring.verdict import Finding

NO_SCOPE = "(no scope)"


@dataclass(frozen=True, slots=True)
class Inspection:
    """Everything that was recognised in some traces, and counts of what was not."""

    sessions: tuple[Session, ...]
    problems: tuple[Problem, ...]
    spans: int
    dialects: Mapping[str, int]
    """Recognised spans by dialect, most first."""
    not_recognised: Mapping[str, int]
    """The other spans by the name of their instrumentation scope, most first."""
    shaped: tuple[ShapedTools, ...]
    """Calls that no dialect's table reads: which attributes carried them."""
    hints: tuple[Hint, ...]

    @property
    def recognised(self) -> int:
        """How many spans stand for an agent, a model call or a tool."""
        return sum(self.dialects.values())

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Every tool call, in order."""
        return tuple(call for session in self.sessions for call in session.calls)

    @property
    def lacks_nothing(self) -> bool:
        """Every turn shows its calls and every call its arguments, so that the other spans have nothing to add."""
        turns = [turn for session in self.sessions for turn in session.turns]
        shown = all(turn.calls_visible and not turn.doubts for turn in turns)
        known = all(call.capture is Capture.CAPTURED and not call.argument_captures for call in self.calls)
        return bool(self.calls) and shown and known

    def to_json(self) -> dict[str, Any]:
        """Return the document that `config/inspect.schema.json` describes."""
        document = {
            "sessions": [_session(session) for session in self.sessions],
            "problems": [asdict(problem) for problem in self.problems],
            "spans": {"read": self.spans, "dialects": dict(self.dialects), "not_recognised": dict(self.not_recognised)},
            "read_by_shape": [one.to_json() for one in self.shaped],
            "advice": [hint._asdict() for hint in self.hints],
        }
        return cast("dict[str, Any]", plain(document))


def inspect_spans(
    views: Iterable[RecordView], registry: DialectRegistry, problems: list[Problem], *, content: bool = False
) -> Inspection:
    """Rebuild the sessions of these spans and log records, counting spans that are not part of one.

    `problems` is the list that the reader of `views` adds to; what assembly finds is added too. With `content`,
    messages and results are read as well.
    """
    dialects: Counter[str] = Counter()
    others: Counter[str] = Counter()
    writers: dict[str, set[Writer]] = {}
    finder = ShapedToolFinder(registry.session_keys)

    def facts() -> Iterator[Record]:
        for view in views:
            if isinstance(view, LogView):
                if (log := registry.read_log(view, content=content)) is not None:
                    finder.add_log(log)
                    yield log
                continue
            fact = registry.read(view, content=content)
            finder.add(view, fact)
            if fact.role is None:
                others[view.scope_name or NO_SCOPE] += 1
            else:
                dialects[fact.dialect] += 1
                writers.setdefault(fact.trace_id, set()).add(Writer(fact.dialect, fact.role, stack_of(view)))
            yield fact

    sessions = assemble(facts(), on_problem=problems.append)
    shaped = finder.found(sessions)
    return Inspection(
        sessions=tuple(sessions),
        problems=tuple(problems),
        spans=dialects.total() + others.total(),
        dialects=dict(dialects.most_common()),
        not_recognised=dict(others.most_common()),
        shaped=shaped,
        hints=tuple(dict.fromkeys(hints_for_traces(sessions, dialects, registry, writers, shaped))),
    )


def _session(session: Session) -> dict[str, Any]:
    fields = _fields(session, "id", "id_source", "run", "ambiguous", "incomplete")
    return {**fields, "turns": [_turn(turn) for turn in session.turns]}


def _turn(turn: Turn) -> dict[str, Any]:
    return {
        "trace_ids": list(turn.trace_ids),
        "root": None if turn.root is None else turn.root._asdict(),
        **_fields(turn, "turn_id", "agent"),
        "user_text": user_text(turn.user_text),
        "calls_visible": turn.calls_visible,
        "doubts": [doubt_document(doubt) for doubt in turn.doubts],
        "calls": [_call(call) for call in turn.calls],
    }


def _call(call: ToolCall) -> dict[str, Any]:
    captured = call.capture is Capture.CAPTURED and call.arguments is not None
    return {
        "name": call.name,
        "arguments": dict(call.arguments or {}) if captured else None,
        "capture": call.capture.value,
        "argument_captures": {name: capture.value for name, capture in call.argument_captures.items()},
        **_fields(call, "call_id", "error", "requested", "rejected", "batch", "agent", "dialect"),
        "spans": [ref._asdict() for ref in call.evidence],
    }


def _fields(value: Session | Turn | ToolCall, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def user_text(content: Content) -> str | None:
    """Return what the user said where it is known."""
    return next(reversed(user_texts(content)), None)


MOST_CALLS_EXPLAINED = 20
"""Calls that are shown with the origins of their values, unless all are asked for."""


class CallOrigins(Struct, frozen=True):
    """One call, with a finding for each value of its arguments."""

    session: Session
    turn_index: int
    call_index: int
    number: int
    """Position among the calls of the session, from 1."""
    call: ToolCall
    findings: tuple[Finding, ...]
    """None where the arguments were not captured, or there are none."""

    def to_json(self) -> dict[str, Any]:
        """Return what `config/inspect.schema.json` describes as `origins`."""
        document = {
            "session": self.session.id,
            "run": self.session.run,
            "turn_index": self.turn_index,
            "call_index": self.call_index,
            "name": self.call.name,
            "call_id": self.call.call_id,
            "span": self.call.span and self.call.span._asdict(),
            "values": [
                {
                    "path": one.path,
                    "value": value_at(dict(self.call.arguments or {}), steps_of(one.path)),
                    "kind": one.kind,
                    "failed": one.failed,
                    "message": one.words(include_values=True),
                }
                for one in self.findings
            ],
        }
        return cast("dict[str, Any]", plain(document))


def origins_of(
    sessions: Iterable[Session],
    wanted: str,
    tools: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    most: int | None = None,
) -> tuple[CallOrigins, ...]:
    """Return the calls that `wanted` names, the first `most` with the origins of their values; none if it names none.

    `wanted` is `SESSION#N`, the session's N-th call from 1; a call id or span id; or the name of a tool, for all of its
    calls. What is found first counts.
    """
    calls = list(_calls(sessions))
    session_id, _, number = wanted.rpartition("#")
    by_number = [one for one in calls if one.session.id == session_id and str(one.number) == number]
    by_id = [one for one in calls if wanted in _ids(one.call)]
    by_name = [one for one in calls if one.call.name == wanted]
    found = by_number or by_id or by_name
    # Each is explained by all that its session said before: of a tool with many calls that takes its time.
    return (*(_explained(one, tools) for one in found[:most]), *(found[most:] if most is not None else ()))


def _calls(sessions: Iterable[Session]) -> Iterator[CallOrigins]:
    for session in sessions:
        number = 0
        for turn_index, turn in enumerate(session.turns):
            for call_index, call in enumerate(turn.calls):
                number += 1
                yield CallOrigins(session, turn_index, call_index, number, call, ())


def _ids(call: ToolCall) -> set[str]:
    spans = (call.span, *call.evidence)
    return {one for one in (call.call_id, *(span.span_id for span in spans if span is not None)) if one}


def _explained(one: CallOrigins, tools: Mapping[str, Mapping[str, Any]] | None) -> CallOrigins:
    found = why(one.session, one.call, tools=tools) if one.call.arguments else ()
    findings = tuple(finding for finding in found if finding.path)  # none of an empty object
    return CallOrigins(one.session, one.turn_index, one.call_index, one.number, one.call, findings)
