"""One result of one metric, which is emitted as span attributes, an event and a metric point."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from goldspan.mappers.span_facts import NO_RESOURCE, ResourceFacts
from goldspan.scoring.metric_results import MetricCall, MetricResult, MetricTurn, MetricVerdict, Range
from goldspan.scoring.results import CallResult, SessionResult, TurnResult
from goldspan.scoring.sessions import SpanRef
from goldspan.scoring.verdict import Verdict

SHARE = Range(0.0, 1.0)
"""The range of most metrics."""


class Level(StrEnum):
    """What an evaluation is about."""

    CALL = "call"
    TURN = "turn"
    SESSION = "session"


class DetailDigest(Struct, frozen=True, gc=False):
    """In place of a result's detail when only a digest of the emitted evaluation is still known."""

    digest: str
    """`digest_of` the evaluation that was emitted."""


class Evaluation(Struct, frozen=True, gc=False):
    """One result of one metric: everything that span attributes, event and metric point need.

    The same records give the same `id`; a correction has the same `id` and a higher `revision`.
    """

    id: str
    """32 hex digits, a hash of golden set, criterion, session, run, level, turn, call and metric."""
    revision: int
    """From 1. Attributes and metrics carry revision 1 only; higher ones are events."""
    level: Level
    metric: str
    verdict: Verdict | MetricVerdict
    """It has no label if the metric has no threshold."""
    target: SpanRef | None
    """The evaluated span: the turn's root for a missing call, the last turn's root for a session; None without turn."""
    timestamp: int
    """End of the evaluated span, nanoseconds since the epoch."""
    session_id: str
    run: str
    golden: str
    """The golden's session key; empty if the session has none."""
    golden_set: str
    """`name@version`; empty if the session has no golden."""
    criterion: str
    preset: str | None
    detail: CallResult | TurnResult | SessionResult | MetricCall | MetricTurn | MetricResult | DetailDigest
    explanation: str
    """Names and counts of arguments; their values only with `include_values`."""
    turn_index: int | None = None
    """Position of the golden's turn, from 0; of the actual turn if the golden has no turn for it."""
    agent: str | None = None
    resource: ResourceFacts = NO_RESOURCE
    range: Range = SHARE
    """The range of its metric's scores."""
    incomplete: bool = False
    withdrawn: bool = False
    """A correction that withdraws an earlier result: later spans changed its run or turn."""
