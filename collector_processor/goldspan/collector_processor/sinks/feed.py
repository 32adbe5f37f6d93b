"""Results of a door that makes no log records of them, given to back-ends as scores."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable, Mapping

from goldspan.collector_processor.evaluation import Evaluation
from goldspan.collector_processor.sinks.exporter import ScoreExporter
from goldspan.collector_processor.sinks.score import score_from

_logger = logging.getLogger("goldspan")


class Feed:
    """Gives each result to several exporters of scores, by name. Never blocks, never raises."""

    def __init__(self, exporters: Mapping[str, ScoreExporter]) -> None:
        self.exporters = dict(exporters)

    def take(self, evaluations: Iterable[Evaluation]) -> None:
        """Queue the scores of these results."""
        if not self.exporters:
            return
        try:
            scores = [score for evaluation in evaluations if (score := score_from(evaluation)) is not None]
            for exporter in self.exporters.values():
                exporter.put(scores)
        except Exception:
            _logger.warning("results could not be given to back-ends as scores", exc_info=True)

    def make_room(self, waiting: int, seconds: float) -> None:
        """Send what waits wherever it is more than this: for doors that may wait themselves."""
        for exporter in self.exporters.values():
            if exporter.waiting > waiting:
                exporter.force_flush(int(seconds * 1000))

    def close(self, seconds: float) -> None:
        """Keep trying for so long at most, then give up what is left."""
        end = time.monotonic() + seconds
        for exporter in self.exporters.values():
            with contextlib.suppress(Exception):
                exporter.shutdown(max(0, int((end - time.monotonic()) * 1000)))
