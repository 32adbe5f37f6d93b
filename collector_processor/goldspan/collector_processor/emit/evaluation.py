"""An evaluation: one result of one metric, as it leaves on a span, as an event and as a metric point."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from goldspan.mappers.facts import NO_RESOURCE, ResourceFacts
from goldspan.scoring.results import (
    CallResult,
    MetricResult,
    MetricTurn,
    MetricVerdict,
    Range,
    SessionResult,
    TurnResult,
    Verdict,
)
from goldspan.scoring.sessions import SpanRef

_SHARE = Range(0.0, 1.0)


class Level(StrEnum):
    """What an evaluation judges."""

    CALL = "call"
    TURN = "turn"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class DetailDigest:
    """In place of a result's detail where only what was said of it is still known, not why."""

    digest: str
    """The `digest_of` the evaluation that was handed out."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One result of one metric, ready to be written as span attributes, an event and a metric point.

    The same records give the same `id`; a correction has the same `id` and a higher `revision`.
    """

    id: str
    """32 hex digits, a hash of golden set, criterion, session, run, level, turn, call and metric."""
    revision: int
    """From 1. Attributes and metrics carry revision 1 only; higher ones are events."""
    level: Level
    metric: str
    verdict: Verdict | MetricVerdict
    """Of a metric without threshold it has no label: that only informs."""
    target: SpanRef | None
    """The span it judges: a missing call's is its turn's root, a session's its last turn's; none if no turn came."""
    timestamp: int
    """End of the judged span, nanoseconds since the epoch."""
    session_id: str
    run: str
    golden: str
    """The golden's session key."""
    golden_set: str
    """`name@version`."""
    criterion: str
    preset: str | None
    detail: CallResult | TurnResult | SessionResult | MetricTurn | MetricResult | DetailDigest
    explanation: str
    """Names arguments and gives counts; holds values only where the door was told to include them."""
    turn_index: int | None = None
    """Position of the golden's turn, from 0; of the actual turn where the golden has none for it."""
    agent: str | None = None
    resource: ResourceFacts = NO_RESOURCE
    range: Range = _SHARE
    """The scores its metric can give."""
    incomplete: bool = False
    withdrawn: bool = False
    """A correction that takes an earlier result back: later records made another run or turn of it."""
