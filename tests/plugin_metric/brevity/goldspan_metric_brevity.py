"""A metric for goldspan: whether a session needed few calls."""

from __future__ import annotations

import asyncio

from goldspan.scoring import Golden, Session
from goldspan.scoring.metrics import MetricScore, metric


@metric(description="10 for a session without calls, one less for each call.", range=(0, 10))
async def brevity(session: Session, golden: Golden) -> MetricScore:
    """Count the calls of each turn; async, as a metric that asks a service would be."""
    await asyncio.sleep(0)
    counts = [len(turn.calls) for turn in session.turns]
    return MetricScore(
        max(10 - sum(counts), 0),
        f"{sum(counts)} calls in {len(counts)} turns",
        turns=[max(10 - count, 0) for count in counts],
    )
