"""Evaluations as metric points: a histogram of scores, and counters of what no score says."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from math import isfinite

from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider, UpDownCounter, get_meter

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.attributes import tool_name
from goldspan.collector_processor.emit.evaluation import Evaluation, Level
from goldspan.collector_processor.emit.instrumentation import NO_SPAN, SCOPE, judged_span, scope_version
from goldspan.mappers.facts import ResourceFacts
from goldspan.scoring.errors import GoldspanError
from goldspan.scoring.results import CallResult, Outcome, Range, Reason

PointAttributes = dict[str, str]

_SHARE = Range(0.0, 1.0)


class MetricEmitter:
    """Records points through a meter provider, the global one unless another is given.

    Only first results are counted. Sessions, traces and values of arguments are never attributes; tools and arguments
    are, up to `name_limit` of each; agents only those of `agent_names`.
    """

    def __init__(
        self,
        meter_provider: MeterProvider | None = None,
        *,
        agent_names: Collection[str] = (),
        name_limit: int = names.NAME_LIMIT,
    ) -> None:
        self._meter = get_meter(SCOPE, scope_version(), meter_provider)
        self._agents = frozenset(agent_names)
        self._tools = _FirstNames(name_limit)
        self._arguments = _FirstNames(name_limit)
        self._instruments: dict[str, _Instruments] = {}

    def record(self, evaluation: Evaluation) -> None:
        """Record one evaluation; corrections record nothing."""
        if evaluation.revision != 1 or evaluation.withdrawn:
            return
        metric = evaluation.metric
        instruments = self._of(metric, evaluation.range)
        context = judged_span(evaluation.target)
        base = self._common(evaluation)
        level = {names.LEVEL.of(metric): evaluation.level.value}
        detail = evaluation.detail
        unexpected = isinstance(detail, CallResult) and detail.unexpected
        if (score := evaluation.verdict.score) is not None:
            label = evaluation.verdict.label
            labelled = {} if label is None else {names.LABEL.of(metric): label.value}
            instruments.scores.record(score, base | level | labelled, context)
        elif not unexpected and evaluation.verdict.reason is not None:
            reason = {names.REASON.of(metric): evaluation.verdict.reason.value}
            instruments.not_evaluated.add(1, base | level | reason, context)
        if isinstance(detail, CallResult):
            self._count_call(instruments, metric, detail, base, context)

    def record_no_golden(self, sessions: int, metric: str = names.METRIC) -> None:
        """Count sessions that no golden wanted: all that is ever said of them."""
        reason = {names.REASON.of(metric): Reason.NO_GOLDEN.value, names.LEVEL.of(metric): Level.SESSION.value}
        self._of(metric).not_evaluated.add(sessions, reason, NO_SPAN)

    def _count_call(
        self, instruments: _Instruments, metric: str, call: CallResult, base: PointAttributes, context: Context
    ) -> None:
        if call.missing:
            instruments.missing.add(1, base, context)
        elif call.unexpected:
            instruments.unexpected.add(1, base, context)
        else:
            tool = base.get(names.TOOL_NAME.name, "")
            for outcome in (Outcome.MISMATCHED, Outcome.MISSING):
                for argument in call.arguments_with(outcome):
                    shown = argument if self._arguments.admits(f"{tool}\n{argument}") else names.OTHER
                    instruments.argument_mismatches.add(1, base | {names.ARGUMENT.of(metric): shown}, context)

    def _common(self, evaluation: Evaluation) -> PointAttributes:
        set_name, at, _ = evaluation.golden_set.rpartition("@")
        attributes = _source(evaluation.resource)
        attributes[names.GOLDEN_SET_NAME.of(evaluation.metric)] = set_name if at else evaluation.golden_set
        if evaluation.preset is not None:
            attributes[names.PRESET.of(evaluation.metric)] = evaluation.preset
        if isinstance(evaluation.detail, CallResult) and (tool := tool_name(evaluation.detail)) is not None:
            attributes[names.TOOL_NAME.name] = tool if self._tools.admits(tool) else names.OTHER
        if evaluation.agent is not None and evaluation.agent in self._agents:
            attributes[names.AGENT_NAME.name] = evaluation.agent
        return attributes

    def _of(self, metric: str, scores: Range = _SHARE) -> _Instruments:
        if metric not in self._instruments:
            self._instruments[metric] = _Instruments(self._meter, metric, _boundaries(scores))
        return self._instruments[metric]


class _Instruments:
    """The instruments of one evaluated metric."""

    def __init__(self, meter: Meter, metric: str, boundaries: Sequence[float] | None) -> None:
        self.scores: Histogram = meter.create_histogram(
            names.SCORES.of(metric),
            unit=names.SCORES.unit,
            description=names.SCORES.meaning,
            explicit_bucket_boundaries_advisory=boundaries,
        )
        self.not_evaluated = _counter(meter, names.NOT_EVALUATED, metric)
        self.argument_mismatches = _counter(meter, names.ARGUMENT_MISMATCHES, metric)
        self.missing = _counter(meter, names.MISSING, metric)
        self.unexpected = _counter(meter, names.UNEXPECTED_CALLS, metric)


def _counter(meter: Meter, instrument: names.Instrument, metric: str) -> Counter:
    return meter.create_counter(instrument.of(metric), unit=instrument.unit, description=instrument.meaning)


def _boundaries(scores: Range) -> Sequence[float] | None:
    """Spread the boundaries over the scores a metric can give; where these have no end, the SDK's have to do."""
    least, most = scores
    if not (isfinite(least) and isfinite(most)):
        return None
    return [least + (most - least) * boundary for boundary in names.SCORE_BOUNDARIES]


def _source(resource: ResourceFacts) -> PointAttributes:
    attributes: PointAttributes = {}
    if resource.service_name is not None:
        attributes[names.SERVICE_NAME.name] = resource.service_name
    if resource.environment is not None:
        attributes[names.ENVIRONMENT.name] = resource.environment
    return attributes


class _FirstNames:
    """Admits the first `limit` different names and no others: a model may call tools by any name it invents."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def admits(self, name: str) -> bool:
        if name in self._known:
            return True
        if len(self._known) >= self._limit:
            return False
        self._known.add(name)
        return True


# What goldspan says of itself: how much it holds, what it let go early, and what it contained.

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
        self._released_early = _counter_self_telemetry(meter, names.RELEASED_EARLY)
        self._dropped = _counter_self_telemetry(meter, names.DROPPED_SPANS)
        self._problems = _counter_self_telemetry(meter, names.PROBLEMS)
        self._failures = _counter_self_telemetry(meter, names.FAILURES)
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


def _counter_self_telemetry(meter: Meter, instrument: names.Instrument) -> Counter:
    return meter.create_counter(instrument.name, unit=instrument.unit, description=instrument.meaning)
