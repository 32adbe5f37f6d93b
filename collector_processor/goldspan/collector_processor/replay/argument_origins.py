"""Where the values of a call's arguments came from: the answer to `goldspan inspect --why CALL`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from msgspec import Struct

from goldspan.scoring.json_values import plain, steps_of, value_at
from goldspan.scoring.metric_results import Finding
from goldspan.scoring.metrics.grounding import why
from goldspan.scoring.sessions import Session, ToolCall

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
