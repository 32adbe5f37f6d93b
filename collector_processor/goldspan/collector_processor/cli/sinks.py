"""`--sink`: back-ends that get the results of a replay as scores of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.replay.replay import Outlet
from goldspan.scoring.errors import SettingsError

if TYPE_CHECKING:
    from goldspan.collector_processor.sinks.score_exporter import ScoreExporter

KINDS = ("phoenix", "mlflow", "langfuse")
_PATIENCE, _FAREWELL = 15.0, 30.0
"""Seconds that a span may be unknown to a back-end, and that the end may take."""
_WAITING = 2_000
"""Scores that wait at once, before the replay waits itself."""


class Sink(NamedTuple):
    """A back-end and its address."""

    kind: str
    endpoint: str


class SinkType(click.ParamType[Sink]):
    """A kind of back-end and its address."""

    name = "sink"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Sink:
        """Read KIND=URL."""
        if isinstance(value, Sink):  # click converts what it has converted
            return value
        kind, _, endpoint = str(value).partition("=")
        if kind not in KINDS or not endpoint.startswith(("http://", "https://")):
            self.fail(
                f"{value!r}: expected KIND=URL, as in phoenix=http://localhost:6006, one of {', '.join(KINDS)}",
                param,
                ctx,
            )
        return Sink(kind, endpoint)


@contextlib.contextmanager
def scoring_in(sinks: tuple[Sink, ...], outlets: list[Outlet], complaints: list[str]) -> Generator[None]:
    """Give evaluations to back-ends while the block runs; what one did not take is a complaint."""
    if not sinks:
        yield
        return
    if find_spec("urllib3") is None:
        raise SettingsError("--sink needs urllib3: pip install 'goldspan[sinks]'")
    # Imported when asked for, as all that talks to a network.
    from goldspan.collector_processor.sinks.score_exporter import Feed  # noqa: PLC0415

    feeds = [(sink, Feed({sink.kind: _exporter(sink)})) for sink in sinks]

    def take(evaluation: Evaluation) -> None:
        for _, feed in feeds:
            feed.take([evaluation])
            feed.make_room(_WAITING, _PATIENCE)

    outlets.append(take)
    try:
        yield
    finally:
        for sink, feed in feeds:
            feed.close(_FAREWELL)
            dropped = sum(exporter.dropped for exporter in feed.exporters.values())
            if dropped:
                taken = sum(exporter.delivered for exporter in feed.exporters.values())
                complaints.append(f"{sink.kind} at {sink.endpoint} did not take {dropped} of {dropped + taken} scores")


def _exporter(sink: Sink) -> ScoreExporter:
    from goldspan.collector_processor.sinks import LangfuseScores, MLflowScores, PhoenixScores  # noqa: PLC0415

    made: dict[str, Callable[..., ScoreExporter]] = {
        "phoenix": PhoenixScores,
        "mlflow": MLflowScores,
        "langfuse": LangfuseScores,
    }
    return made[sink.kind](sink.endpoint, patience=_PATIENCE)
