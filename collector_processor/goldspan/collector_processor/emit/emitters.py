"""Emits evaluations as events and metric points by OpenTelemetry's API, and counts what happens in goldspan itself."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Generator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from math import isfinite

from opentelemetry import context as otel
from opentelemetry._logs import LoggerProvider, SeverityNumber, get_logger
from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider, UpDownCounter, get_meter
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.attributes import event_attributes, source_attributes, tool_name
from goldspan.collector_processor.emit.evaluation import SHARE, Evaluation, Level
from goldspan.scoring.errors import GoldspanError
from goldspan.scoring.json_values import pointer_name
from goldspan.scoring.metric_results import MetricCall, Range
from goldspan.scoring.results import ArgumentOutcome, CallResult
from goldspan.scoring.sessions import SpanRef
from goldspan.scoring.verdict import Reason

SCOPE = "goldspan"
NO_SPAN = set_span_in_context(INVALID_SPAN, Context())
"""A context without a current span. The SDK would replace an empty context by the current one."""


@cache
def scope_version() -> str:
    """Return the installed version of goldspan; empty if it is not installed as a distribution."""
    try:
        return version("goldspan")
    except PackageNotFoundError:
        return ""


def evaluated_span(target: SpanRef | None) -> Context:
    """Return a context whose current span is the evaluated one, which has ended.

    The span is marked as sampled: the SDK keeps no exemplar of others. Without a target, or with ids that are not
    hexadecimal, no span is current, so that an evaluation never refers to whatever span runs when it is emitted.
    """
    try:
        trace_id, span_id = (int(part, 16) for part in target or ())
    except ValueError:
        return NO_SPAN
    span = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(span), Context())


@contextlib.contextmanager
def suppressed_instrumentation() -> Generator[None]:
    """Switch instrumentations off for the block, as the SDK does in its exporting threads."""
    # The key has no public name. The SDK and every instrumentation import this one.
    suppress = otel._SUPPRESS_INSTRUMENTATION_KEY  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    token = otel.attach(otel.set_value(suppress, value=True))
    try:
        yield
    finally:
        otel.detach(token)


class EventEmitter:
    """Writes events to a logger provider, the global one by default.

    The timestamp is the end of the evaluated span, so that a replay writes the same event. The SDK adds the observed
    timestamp.
    """

    def __init__(self, logger_provider: LoggerProvider | None = None) -> None:
        self._logger = get_logger(SCOPE, scope_version(), logger_provider, names.SCHEMA_URL)

    def emit(self, evaluation: Evaluation) -> None:
        """Write one event. Raises what the provider's processors raise."""
        context = evaluated_span(evaluation.target)
        # Exporting threads suppress instrumentation, and Logfire drops records that are written under it.
        token = otel.attach(context)
        try:
            self._logger.emit(
                event_name=names.EVALUATION_RESULT,
                timestamp=evaluation.timestamp,
                context=context,
                severity_number=SeverityNumber.INFO,
                attributes=event_attributes(evaluation),
            )
        finally:
            otel.detach(token)


_logger = logging.getLogger("goldspan")

PointAttributes = dict[str, str]

_MAX_LOGGED = 100
"""Kinds of failures that are logged at most. Others are only counted."""


class MetricEmitter:
    """Records evaluations with a meter provider, the global one by default.

    Only first results are recorded. Attributes never hold session ids, trace ids or values of arguments. They hold the
    first `name_limit` names of tools and of arguments, and the names of the agents in `agent_names`.
    """

    def __init__(
        self,
        meter_provider: MeterProvider | None = None,
        *,
        agent_names: Collection[str] = (),
        name_limit: int = names.NAME_LIMIT,
    ) -> None:
        self._meter = get_meter(SCOPE, scope_version(), meter_provider, names.SCHEMA_URL)
        self._agents = frozenset(agent_names)
        self._name_limit = name_limit
        self._tools = set[str]()
        self._arguments = set[str]()
        self._instruments: dict[str, _Instruments] = {}

    def record(self, evaluation: Evaluation) -> None:
        """Record one evaluation. Corrections are not recorded."""
        if evaluation.revision != 1 or evaluation.withdrawn:
            return
        metric = evaluation.metric
        instruments = self._instruments_of(metric, evaluation.range)
        context = evaluated_span(evaluation.target)
        common = self._common_attributes(evaluation)
        level = {names.LEVEL.of(metric): evaluation.level.value}
        detail = evaluation.detail
        unexpected = isinstance(detail, CallResult) and detail.unexpected
        if (score := evaluation.verdict.score) is not None:
            label = evaluation.verdict.label
            labelled = {} if label is None else {names.LABEL.of(metric): label.value}
            instruments.scores.record(score, common | level | labelled, context)
        elif not unexpected and evaluation.verdict.reason is not None:
            reason = {names.REASON.of(metric): evaluation.verdict.reason.value}
            instruments.not_evaluated.add(1, common | level | reason, context)
        if isinstance(detail, CallResult):
            self._count_call(instruments, metric, detail, common, context)
        elif isinstance(detail, MetricCall):
            tool = common.get(names.TOOL_NAME.name, "")
            for finding in detail.failures:
                argument = pointer_name("/".join(finding.path.split("/")[:2])) or names.WHOLE_CALL
                shown = _shown(f"{tool}\n{argument}", self._arguments, self._name_limit, argument)
                found = {names.ARGUMENT.of(metric): shown, names.FINDING.of(metric): finding.kind}
                instruments.failed_arguments.add(1, common | found, context)

    def record_no_golden(self, sessions: int, metric: str = names.METRIC) -> None:
        """Count sessions without a golden. Nothing else is emitted for them."""
        reason = {names.REASON.of(metric): Reason.NO_GOLDEN.value, names.LEVEL.of(metric): Level.SESSION.value}
        self._instruments_of(metric).not_evaluated.add(sessions, reason, NO_SPAN)

    def _count_call(
        self, instruments: _Instruments, metric: str, call: CallResult, common: PointAttributes, context: Context
    ) -> None:
        if call.missing:
            instruments.missing.add(1, common, context)
        elif call.unexpected:
            instruments.unexpected.add(1, common, context)
        else:
            tool = common.get(names.TOOL_NAME.name, "")
            for outcome in (ArgumentOutcome.MISMATCHED, ArgumentOutcome.MISSING):
                for argument in call.arguments_with(outcome):
                    shown = _shown(f"{tool}\n{argument}", self._arguments, self._name_limit, argument)
                    instruments.argument_mismatches.add(1, common | {names.ARGUMENT.of(metric): shown}, context)

    def _common_attributes(self, evaluation: Evaluation) -> PointAttributes:
        set_name, at, _ = evaluation.golden_set.rpartition("@")
        attributes: PointAttributes = {}
        if evaluation.golden_set:
            attributes[names.GOLDEN_SET_NAME.of(evaluation.metric)] = set_name if at else evaluation.golden_set
        attributes.update(source_attributes(evaluation.resource))
        if evaluation.preset is not None:
            attributes[names.PRESET.of(evaluation.metric)] = evaluation.preset
        if (
            isinstance(evaluation.detail, CallResult | MetricCall)
            and (tool := tool_name(evaluation.detail)) is not None
        ):
            attributes[names.TOOL_NAME.name] = _shown(tool, self._tools, self._name_limit, tool)
        if evaluation.agent is not None and evaluation.agent in self._agents:
            attributes[names.AGENT_NAME.name] = evaluation.agent
        return attributes

    def _instruments_of(self, metric: str, scores: Range = SHARE) -> _Instruments:
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
        self.failed_arguments = _counter(meter, names.FAILED_ARGUMENTS, metric)
        self.missing = _counter(meter, names.MISSING, metric)
        self.unexpected = _counter(meter, names.UNEXPECTED_CALLS, metric)


def _counter(meter: Meter, instrument: names.Instrument, metric: str = names.METRIC) -> Counter:
    return meter.create_counter(instrument.of(metric), unit=instrument.unit, description=instrument.meaning)


def _boundaries(scores: Range) -> Sequence[float] | None:
    """Scale the boundaries to a metric's range. None, which means the SDK's defaults, if the range is infinite."""
    least, most = scores
    if not (isfinite(least) and isfinite(most)):
        return None
    return [least + (most - least) * boundary for boundary in names.SCORE_BOUNDARIES]


def _shown(name: str, known: set[str], limit: int, shown: str) -> str:
    """Return `shown` for the first `limit` different names only: a model may invent any number of tool names."""
    if len(known) < limit:
        known.add(name)
    return shown if name in known else names.OTHER


class SelfTelemetry:
    """Counts held and dropped spans, unusable telemetry and failures, and logs failures. Never raises.

    Points have no exemplar: they are about the process, not about a span.
    """

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        meter = get_meter(SCOPE, scope_version(), meter_provider, names.SCHEMA_URL)
        held, size = names.HELD_SPANS, names.HELD_BYTES
        self._held = meter.create_up_down_counter(held.name, unit=held.unit, description=held.meaning)
        self._held_bytes = meter.create_up_down_counter(size.name, unit=size.unit, description=size.meaning)
        counted = (names.RELEASED_EARLY, names.DROPPED_SPANS, names.PROBLEMS, names.FAILURES)
        self._counters = {instrument.name: _counter(meter, instrument) for instrument in counted}
        self._logged: set[tuple[str, str]] = set()

    def held(self, spans: int, size: int) -> None:
        """Record by how much the number and the estimated bytes of held spans changed."""
        self._add(self._held, spans)
        self._add(self._held_bytes, size)

    def count(self, what: names.Instrument, amount: int, reason: str) -> None:
        """Count spans that were released early or dropped, unusable telemetry, or failures."""
        self._add(self._counters[what.name], amount, reason)

    def failure(self, where: str, error: BaseException) -> None:
        """Count a contained exception, and log the first of each place and type with its traceback."""
        cause = (where, type(error).__qualname__)
        if cause not in self._logged and len(self._logged) < _MAX_LOGGED:
            self._logged.add(cause)
            _logger.warning("%s failed; later failures of this kind are counted only", where, exc_info=error)
        self.count(names.FAILURES, 1, where)

    def unusable_goldens(self, error: BaseException) -> None:
        """Count goldens that cannot be used, and log why."""
        unexpected = None if isinstance(error, GoldspanError) else error
        _logger.warning("the goldens cannot be used, so nothing is scored: %s", error, exc_info=unexpected)
        self.count(names.FAILURES, 1, "goldens")

    def _add(self, counter: Counter | UpDownCounter, amount: int, reason: str | None = None) -> None:
        if not amount:
            return
        try:  # a broken meter must not stop exports
            counter.add(amount, None if reason is None else {names.SELF_REASON.name: reason}, NO_SPAN)
        except Exception:
            _logger.debug("could not record a point about goldspan itself", exc_info=True)
