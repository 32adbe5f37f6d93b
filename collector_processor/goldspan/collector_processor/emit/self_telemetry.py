"""What goldspan says of itself: how much it holds, what it let go early, and what it contained."""

from __future__ import annotations

import logging

from opentelemetry.metrics import Counter, Meter, MeterProvider, UpDownCounter, get_meter

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.scope import NO_SPAN, SCOPE, scope_version
from goldspan.scoring.errors import GoldspanError

_logger = logging.getLogger("goldspan")
_CAUSES = 100
"""Different failures that are logged; the rest are only counted."""


class SelfTelemetry:
    """The `goldspan.*` instruments of a door, and its log. Nothing here raises.

    Points are recorded without a span: they are about the process, not about what is traced.
    """

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        meter = get_meter(SCOPE, scope_version(), meter_provider)
        held, size = names.HELD_SPANS, names.HELD_BYTES
        self._held = meter.create_up_down_counter(held.name, unit=held.unit, description=held.meaning)
        self._held_bytes = meter.create_up_down_counter(size.name, unit=size.unit, description=size.meaning)
        self._released_early = _counter(meter, names.RELEASED_EARLY)
        self._dropped = _counter(meter, names.DROPPED_SPANS)
        self._problems = _counter(meter, names.PROBLEMS)
        self._failures = _counter(meter, names.FAILURES)
        self._logged: set[tuple[str, str]] = set()

    def held(self, spans: int, size: int) -> None:
        """Say by how much the number of held spans and their estimated bytes changed."""
        self._add(self._held, spans)
        self._add(self._held_bytes, size)

    def released_early(self, spans: int, reason: str) -> None:
        """Count held spans that left without waiting for their result."""
        self._add(self._released_early, spans, reason)

    def dropped(self, spans: int, reason: str) -> None:
        """Count spans that the inner exporter did not take."""
        self._add(self._dropped, spans, reason)

    def problems(self, count: int, code: str) -> None:
        """Count what the engine could not use."""
        self._add(self._problems, count, code)

    def failure(self, where: str, error: BaseException) -> None:
        """Count a contained exception; the first of each kind and place is logged with its traceback."""
        cause = (where, type(error).__qualname__)
        if cause not in self._logged and len(self._logged) < _CAUSES:
            self._logged.add(cause)
            _logger.warning("%s failed; later failures of this kind are counted only", where, exc_info=error)
        self._add(self._failures, 1, where)

    def unusable_goldens(self, error: BaseException) -> None:
        """Log why nothing will be scored, and count it."""
        unexpected = None if isinstance(error, GoldspanError) else error
        _logger.warning("the goldens cannot be used, so nothing is scored: %s", error, exc_info=unexpected)
        self._add(self._failures, 1, "goldens")

    def _add(self, counter: Counter | UpDownCounter, amount: int, reason: str | None = None) -> None:
        if not amount:
            return
        try:  # a meter must not break the door that it measures
            counter.add(amount, None if reason is None else {names.SELF_REASON.name: reason}, NO_SPAN)
        except Exception:
            _logger.debug("a point about goldspan itself could not be recorded", exc_info=True)


def _counter(meter: Meter, instrument: names.Instrument) -> Counter:
    return meter.create_counter(instrument.name, unit=instrument.unit, description=instrument.meaning)
