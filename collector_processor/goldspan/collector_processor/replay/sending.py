"""Results of a replay sent on: to an OTLP endpoint, and as scores to Phoenix, MLflow or Langfuse."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.replay.replay import Consumer
from goldspan.scoring.errors import SettingsError

if TYPE_CHECKING:
    from goldspan.collector_processor.sinks.score_exporter import ScoreExporter

SINK_KINDS = ("phoenix", "mlflow", "langfuse")
_PATIENCE_SECONDS = 15.0
"""How long a span may be unknown to a back-end."""
_CLOSE_SECONDS = 30.0
_MOST_WAITING = 2_000
"""Scores that wait at once, before the replay waits itself."""


class Sink(NamedTuple):
    """A back-end and its address."""

    kind: str
    endpoint: str


@contextlib.contextmanager
def sending(
    otlp_endpoint: str | None, sinks: Sequence[Sink], complaints: list[object], *, otlp_metrics: bool
) -> Generator[list[Consumer]]:
    """Give what takes evaluations and sends them on while the block runs; what was not taken is a complaint."""
    with contextlib.ExitStack() as destinations:
        consumers: list[Consumer] = []
        if otlp_endpoint is not None:
            sender = _to_otlp(otlp_endpoint, complaints, metrics=otlp_metrics)
            consumers.append(destinations.enter_context(sender))
        if sinks:
            consumers.append(destinations.enter_context(_to_sinks(sinks, complaints)))
        yield consumers


@contextlib.contextmanager
def _to_otlp(endpoint: str, complaints: list[object], *, metrics: bool) -> Generator[Consumer]:
    # Imported when asked for: the exporters take longer to import than most traces take to score.
    from goldspan.collector_processor.replay.otlp_results import OtlpResults  # noqa: PLC0415

    results = OtlpResults(endpoint, metrics=metrics)
    try:
        yield results.take
    finally:
        results.close()
    lost = [f"{results.lost} of {results.sent + results.lost} events"] if results.lost else []
    lost += ["the metrics"] if results.points_lost else []
    if lost:
        complaints.append(f"{endpoint} did not take {' and '.join(lost)}; expected an OTLP/HTTP receiver there")


@contextlib.contextmanager
def _to_sinks(sinks: Sequence[Sink], complaints: list[object]) -> Generator[Consumer]:
    if find_spec("urllib3") is None:
        raise SettingsError("--sink needs urllib3: pip install 'goldspan[sinks]'")
    # Imported when asked for, since they need the extra `sinks`.
    from goldspan.collector_processor.sinks.score_exporter import ScoreSinks  # noqa: PLC0415

    feeds = [(sink, ScoreSinks({sink.kind: _exporter(sink)})) for sink in sinks]

    def take(evaluation: Evaluation) -> None:
        for _, feed in feeds:
            feed.put([evaluation])
            feed.flush_above(_MOST_WAITING, _PATIENCE_SECONDS)

    try:
        yield take
    finally:
        for sink, feed in feeds:
            feed.close(_CLOSE_SECONDS)
            dropped = sum(exporter.dropped for exporter in feed.exporters.values())
            if dropped:
                taken = sum(exporter.delivered for exporter in feed.exporters.values())
                complaints.append(f"{sink.kind} at {sink.endpoint} did not take {dropped} of {dropped + taken} scores")


def _exporter(sink: Sink) -> ScoreExporter:
    # Imported when asked for, since they need the extra `sinks`.
    from goldspan.collector_processor.sinks import LangfuseScores, MLflowScores, PhoenixScores  # noqa: PLC0415

    exporters: dict[str, Callable[..., ScoreExporter]] = {
        "phoenix": PhoenixScores,
        "mlflow": MLflowScores,
        "langfuse": LangfuseScores,
    }
    return exporters[sink.kind](sink.endpoint, patience=_PATIENCE_SECONDS)
