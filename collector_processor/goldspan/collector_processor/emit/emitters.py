"""Emits evaluations as events and metric points by OpenTelemetry's API, and counts what happens in goldspan itself."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter as Counter_
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from math import isfinite

from opentelemetry import context as otel
from opentelemetry._logs import LoggerProvider, SeverityNumber, get_logger, get_logger_provider
from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider, UpDownCounter, get_meter
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.evaluation import (
    SHARE,
    Evaluation,
    Level,
    counted_of,
    event_attributes,
    source_attributes,
    tool_name,
)
from goldspan.mappers.span_facts import ResourceFacts
from goldspan.scoring.errors import GoldspanError
from goldspan.scoring.sessions import SpanRef
from goldspan.scoring.verdict import Range, Reason

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


@lru_cache(maxsize=256)
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
        self._provider = logger_provider

    def flush_provider(self, seconds: float) -> None:
        """Let the provider send what was written. Raises what its processors raise."""
        provider = self._provider or get_logger_provider()
        flush: Callable[[int], object] | None = getattr(provider, "force_flush", None)
        if flush is not None:
            flush(int(1000 * seconds))

    def emit(self, evaluation: Evaluation) -> None:
        """Write the event of a result that has one. Raises what the provider's processors raise."""
        if not evaluation.has_event:
            return
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

    def flush(self, seconds: float) -> bool:
        """Do nothing: the logger provider's owner flushes it."""
        del seconds
        return True

    close = flush


_logger = logging.getLogger("goldspan")

PointAttributes = dict[str, str]
_Counts = dict[tuple[Counter, tuple[tuple[str, str], ...]], tuple[int, Context]]
"""What is to be counted, by attributes, with the context of the first: adding 3 once costs less than 1 three times."""

_MAX_LOGGED = 100
"""Kinds of failures that are logged at most. Others are only counted."""


class MetricEmitter:
    """Records evaluations with a meter provider, the global one by default.

    Only first results are recorded. Attributes never hold session ids, trace ids or values of arguments. They hold the
    `name_limit` names of tools and of arguments of each service that `KnownNames` shows, and the names of the agents in
    `agent_names`; with None likewise so many of all.
    """

    def __init__(
        self,
        meter_provider: MeterProvider | None = None,
        *,
        agent_names: Collection[str] | None = (),
        name_limit: int = names.NAME_LIMIT,
    ) -> None:
        self._meter = get_meter(SCOPE, scope_version(), meter_provider, names.SCHEMA_URL)
        self._agents = None if agent_names is None else frozenset(agent_names)
        self.known_names = KnownNames(name_limit)
        self._instruments: dict[str, _Instruments] = {}

    def record(self, final: Iterable[Evaluation], superseded: Iterable[Evaluation] = ()) -> None:
        """Record evaluations that are final, and those that were recorded and do not hold any longer.

        Corrections are not recorded as such. What is counted is added up by attributes first. If the meter provider
        raises, the other evaluations are recorded, and then the first exception is raised.
        """
        counts: _Counts = {}
        raised: list[Exception] = []
        for evaluation in final:
            if evaluation.revision == 1 and not evaluation.withdrawn:
                try:
                    self._record(evaluation, counts)
                except Exception as error:  # noqa: BLE001 - the meter provider is the user's
                    raised.append(error)
        for evaluation in superseded:
            self._supersede(evaluation, counts)
        for (counter, point), (count, context) in counts.items():
            try:
                counter.add(count, dict(point), context)
            except Exception as error:  # noqa: BLE001 - as above
                raised.append(error)
        if raised:
            raise raised[0]

    def _record(self, evaluation: Evaluation, counts: _Counts) -> None:
        instruments, context = (
            self._instruments_of(evaluation.metric, evaluation.range),
            evaluated_span(evaluation.target),
        )
        for instrument, point in self._points_of(evaluation):
            if instrument is names.SCORES:
                instruments.scores.record(evaluation.verdict.score or 0, point, context)
            else:
                _count(counts, instruments.counters[instrument.name], point, context)

    def _supersede(self, evaluation: Evaluation, counts: _Counts) -> None:
        counter = self._instruments_of(evaluation.metric, evaluation.range).counters[names.SUPERSEDED.name]
        by = names.names_of(evaluation.metric)[names.COUNTED_BY]
        for instrument, point in self._points_of(evaluation):
            _count(counts, counter, {**point, by: instrument.name}, evaluated_span(evaluation.target))

    def _points_of(self, evaluation: Evaluation) -> Iterator[tuple[names.Instrument, PointAttributes]]:
        metric, tool = evaluation.metric, tool_name(evaluation.detail)
        key = names.names_of(metric)
        service, known = evaluation.resource.service_name, self.known_names
        tool = None if tool is None else known.shown(service, "tool", tool, tool)
        agent = evaluation.agent
        if self._agents is not None:
            agent = agent if agent in self._agents else None
        elif agent is not None:
            agent = known.shown(service, "agent", agent, agent)
        common = _common_attributes(metric, evaluation.golden_set, evaluation.resource, evaluation.preset, tool, agent)
        for name, first, second in counted_of(evaluation):
            instrument, by = _COUNTED_BY[name]
            point = {key[attribute]: value for attribute, value in zip(by, (first, second), strict=False) if value}
            if names.ARGUMENT in by:
                point[key[names.ARGUMENT]] = self._argument(service, tool, first)
            if instrument in _OF_EACH_RESULT:
                point[key[names.LEVEL]] = str(evaluation.level)
            yield instrument, common | point

    def _argument(self, service: str | None, tool: str | None, argument: str) -> str:
        return self.known_names.shown(service, "argument", f"{tool or ''}\n{argument}", argument)

    def record_no_golden(self, sessions: int, metric: str = names.METRIC) -> None:
        """Count sessions without a golden. Nothing else is emitted for them."""
        reason = {names.REASON.of(metric): Reason.NO_GOLDEN.value, names.LEVEL.of(metric): Level.SESSION.value}
        self._instruments_of(metric).counters[names.NOT_EVALUATED.name].add(sessions, reason, NO_SPAN)

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
        self.counters = {one.name: _counter(meter, one, metric) for one in _COUNTERS}


_COUNTED_BY: dict[str, tuple[names.Instrument, tuple[names.Attribute, ...]]] = {
    instrument.name: (instrument, by)
    for instrument, by in (
        (names.SCORES, (names.LABEL,)),
        (names.NOT_EVALUATED, (names.REASON,)),
        (names.DOUBTED_TURNS, (names.DOUBT, names.DIALECT)),
        (names.FAILED_ARGUMENTS, (names.ARGUMENT, names.FINDING)),
        (names.MISSING, ()),
        (names.UNEXPECTED_CALLS, ()),
        (names.ARGUMENT_MISMATCHES, (names.ARGUMENT,)),
    )
}
"""The instruments of what is counted, and the attributes that have the values beside it."""
_OF_EACH_RESULT = (names.SCORES, names.NOT_EVALUATED)
_COUNTERS = tuple(one for one in (*names.METRICS, *names.METRICS_WITHOUT_GOLDEN) if one is not names.SCORES)


def _count(counts: _Counts, counter: Counter, attributes: PointAttributes, context: Context) -> None:
    point = (counter, tuple(attributes.items()))
    count, first = counts.get(point, (0, context))
    counts[point] = (count + 1, first)


def _counter(meter: Meter, instrument: names.Instrument, metric: str = names.METRIC) -> Counter:
    return meter.create_counter(instrument.of(metric), unit=instrument.unit, description=instrument.meaning)


@lru_cache(maxsize=1024)
def _common_attributes(
    metric: str, golden_set: str, source: ResourceFacts, preset: str | None, tool: str | None, agent: str | None
) -> PointAttributes:
    """Return the attributes of every point of such an evaluation. Not to be changed: they are kept."""
    key = names.names_of(metric)
    set_name, at, _ = golden_set.rpartition("@")
    attributes: PointAttributes = {}
    if golden_set:
        attributes[key[names.GOLDEN_SET_NAME]] = set_name if at else golden_set
    attributes |= source_attributes(source)
    if preset is not None:
        attributes[key[names.PRESET]] = preset
    if tool is not None:
        attributes[names.TOOL_NAME.name] = tool
    if agent is not None:
        attributes[names.AGENT_NAME.name] = agent
    return attributes


def _boundaries(scores: Range) -> Sequence[float] | None:
    """Scale the boundaries to a metric's range. None, which means the SDK's defaults, if the range is infinite."""
    least, most = scores
    if not (isfinite(least) and isfinite(most)):
        return None
    return [least + (most - least) * boundary for boundary in names.SCORE_BOUNDARIES]


class KnownNames:
    """Which names become attributes: of each service so many of a kind, and of more those that occur most.

    A model may invent any number of names. The first ones are known; a name that occurs twice as often as the rarest
    known one takes its place, as often as there are places, so that there are twice as many series at most.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts: dict[tuple[str, str], Counter_[str]] = {}
        self._known: dict[tuple[str, str], set[str]] = {}
        self._replaced = Counter_[tuple[str, str]]()

    def shown(self, service: str | None, kind: str, name: str, shown: str) -> str:
        """Return `shown` if the name of this kind is known, else what stands for all others."""
        place = (service or "", kind)
        if place not in self._known and len(self._known) >= _MAX_PLACES:
            return names.OTHER
        counts, known = self._counts.setdefault(place, Counter_()), self._known.setdefault(place, set())
        if name in counts or len(counts) < _COUNTED * self._limit:
            counts[name] += 1
        if name in known:
            return shown
        if len(known) < self._limit:
            known.add(name)
            return shown
        count = counts[name]
        if count > 1 and not count & (count - 1) and self._replaced[place] < self._limit:  # looked at now and then
            rarest = min(known, key=counts.__getitem__)
            if count >= 2 * counts[rarest]:
                self._replaced[place] += 1
                known.discard(rarest)
                known.add(name)
                return shown
        return names.OTHER

    def folded(self) -> Iterator[tuple[str, str, str, int]]:
        """Yield service, kind, name and count of the names that are not shown, where they are counted."""
        for (service, kind), counts in list(self._counts.items()):
            known = self._known[service, kind]
            yield from (
                (service, kind, name.replace("\n", "."), count)
                for name, count in counts.copy().most_common()
                if name not in known
            )


_MAX_PLACES = 10_000
"""Services and kinds of names. What further services name is among the others."""
_COUNTED = 4  # so many times as many names as are known are counted


class SelfTelemetry:
    """Counts held and dropped spans, unusable telemetry and failures, and logs failures. Never raises.

    Points have no exemplar: they are about the process, not about a span.
    """

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        meter = get_meter(SCOPE, scope_version(), meter_provider, names.SCHEMA_URL)
        held, size = names.HELD_SPANS, names.HELD_BYTES
        self._held = meter.create_up_down_counter(held.name, unit=held.unit, description=held.meaning)
        self._held_bytes = meter.create_up_down_counter(size.name, unit=size.unit, description=size.meaning)
        counted = (names.RELEASED_EARLY, names.DROPPED_SPANS, names.DROPPED_EVENTS, names.PROBLEMS, names.FAILURES)
        self._counters = {instrument.name: _counter(meter, instrument) for instrument in counted}
        self._logged: set[tuple[str, str]] = set()

    def held(self, spans: int, size: int) -> None:
        """Record by how much the number and the estimated bytes of held spans changed."""
        self._add(self._held, spans)
        self._add(self._held_bytes, size)

    def count(self, what: names.Instrument, amount: int, reason: str) -> None:
        """Count spans that were released early or dropped, dropped events, unusable telemetry, or failures."""
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
