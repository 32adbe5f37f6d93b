"""The public exporter: wraps the user's exporter, checks options, and has the pipeline behind it made.

The pipeline is made when the first trace begins, in a thread of its own (`MadeOnUse`): importing the engine and
reading goldens takes some tenths of a second, in which an agent waits for its model. Only options that the engine has
to check are read by the constructor.
"""

from __future__ import annotations

import gc
import logging
import os
import time
import weakref
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Never, TypedDict

from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from goldspan.collector_processor.daemon_threads import BoundedCalls
from goldspan.collector_processor.in_process.made_on_use import MadeOnUse
from goldspan.collector_processor.in_process.otlp_receiver import EVENTS, OtlpReceiver
from goldspan.collector_processor.in_process.otlp_span_exporter import OtlpSpanExporter
from goldspan.scoring.errors import SettingsError

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider

    from goldspan.collector_processor.in_process.setup import Goldens
    from goldspan.collector_processor.in_process.span_pipeline import SpanPipeline
    from goldspan.scoring.criterion import Criterion
    from goldspan.scoring.metrics.session_metrics import MetricSource
    from goldspan.scoring.tool_definitions import Definitions

_logger = logging.getLogger("goldspan")

SHUTDOWN_TIMEOUT = 30.0
"""Seconds that the end of a process waits for the inner exporter, as BatchSpanProcessor does."""
_GRACE = 0.2  # seconds that the inner exporter has for its shutdown when no time is left


@contextmanager
def _without_collections() -> Generator[None]:
    """Import without looking for cycles: modules are no garbage, and all that the agent has would be searched."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class ExporterOptions(TypedDict, total=False):
    """The options of `ToolParameterMatchExporter` beside `goldens`, described there."""

    criterion: Criterion | None
    preset: str | Mapping[str, object] | None
    metrics: Iterable[MetricSource] | None
    metric_timeout: float
    sample: float
    tools: Definitions | None
    profile: str | Path | None
    hold: Literal["on", "off"] | bool
    hold_timeout: float
    settle: float
    run_idle: float
    session_gap: float
    max_held_spans: int
    max_held_bytes: int
    include_values: bool
    agent_names: Collection[str]
    events: str
    emit: Literal["findings", "failures", "all"]
    logger_provider: LoggerProvider | None
    meter_provider: MeterProvider | None


class ToolParameterMatchExporter(SpanExporter):
    """Scores the tool calls in the spans it gets, and exports every span by `inner`, with the scores as attributes.

    Use it where only an exporter can be set. Elsewhere `ToolParameterMatchSpanProcessor` does more. Only the
    constructor raises, and only for invalid options (`SettingsError`). If the goldens cannot be used, it logs one
    warning and exports every span as it is.
    """

    def __init__(
        self,
        inner: SpanExporter | str,
        *,
        goldens: Goldens | None = None,
        criterion: Criterion | None = None,
        preset: str | Mapping[str, object] | None = None,
        metrics: Iterable[MetricSource] | None = None,
        metric_timeout: float = 5.0,
        sample: float = 1.0,
        tools: Definitions | None = None,
        profile: str | Path | None = None,
        hold: Literal["on", "off"] | bool = "on",
        hold_timeout: float = 20.0,
        settle: float = 1.0,
        run_idle: float = 60.0,
        session_gap: float = 3600.0,
        max_held_spans: int = 10_000,
        max_held_bytes: int = 64 * 1024 * 1024,
        include_values: bool = False,
        agent_names: Collection[str] = (),
        events: str = "provider",
        emit: Literal["findings", "failures", "all"] = "findings",
        logger_provider: LoggerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        **unknown: Never,
    ) -> None:
        """Wrap `inner`.

        Args:
            inner: The exporter that gets every span, once. Or `otlp`: goldspan sends spans itself by OTLP/HTTP, at a
                fraction of the cost, as the `OTEL_EXPORTER_OTLP_*` variables say; or the URL of the receiver.
            goldens: A golden file or directory, several of them, or the result of `load_goldens`. None: sessions are
                scored by metrics that need no golden.
            criterion: The default for golden files that have no criterion of their own.
            preset: Another system's scorer, in place of `tool_parameter_match`. A mapping has `name` and options.
            metrics: Metrics: names, import paths (`pkg.module:function`) or functions. None: with goldens no more than
                `tool_parameter_match`, without goldens all of goldspan's own that need none.
            metric_timeout: Seconds that one of your own metrics may take for one session.
            sample: The share of the sessions without golden that metrics without golden score. It is chosen by the
                session id: the same sessions in every process.
            tools: Definitions of the agent's tools, or a JSON file with them, in place of those in telemetry.
            profile: The file of a profile, what is normal for the agent: `tool_parameter_profile` judges by it.
            hold: `off` holds no span: scores are events and metrics only. Booleans are accepted, as YAML reads them.
            hold_timeout: Seconds that a span waits for its result at most.
            settle: Seconds without news of a turn whose root has ended, after which the turn is scored.
            run_idle: Seconds without news of a session, after which the session is scored.
            session_gap: Seconds between two turns of one session id after which the second turn starts another run.
            max_held_spans: Spans that wait at once. Beyond it the oldest are exported without a score.
            max_held_bytes: The same for their estimated memory.
            include_values: Explanations have the values of arguments, not only their names.
            agent_names: Agents whose names become metric attributes.
            events: `provider`: events are log records of the logger provider. `otlp`: goldspan sends them itself by
                OTLP/HTTP, at a seventh of the cost, as the `OTEL_EXPORTER_OTLP_*` variables say. Or the URL of the
                receiver, such as `http://localhost:4318`.
            emit: Which results are told by an event. `findings`: all of goldens, and of metrics without golden those in
                which something was found; the counters count the rest. `failures`: of goldens no call that passes
                either, since its span has the score. `all`: every result.
            logger_provider: Gets the events. None: the global one.
            meter_provider: Gets the metric points. None: the global one.
            unknown: None: a name that is no option is refused, with the one that is meant.

        """
        _check_names(unknown, {"goldens", *ExporterOptions.__annotations__})
        _check_above_zero(
            hold_timeout=hold_timeout,
            settle=settle,
            run_idle=run_idle,
            session_gap=session_gap,
            metric_timeout=metric_timeout,
            max_held_spans=max_held_spans,
            max_held_bytes=max_held_bytes,
        )
        _check_share(sample)
        _check_kinds(include_values, metrics=metrics, agent_names=agent_names)
        if isinstance(inner, str):
            inner = OtlpSpanExporter(inner, meter_provider=meter_provider)
        _check_exporter(inner)
        self._inner = inner
        self._shut_down = self._collects = False
        nested, goldens = isinstance(inner, ToolParameterMatchExporter), _in_this_folder(goldens)
        receiver = None if events == "provider" else OtlpReceiver.of(EVENTS, events, os.environ)
        holds, emitted = _is_on(hold), _choice("emit", emit, ("findings", "failures", "all"))

        def make() -> SpanPipeline:
            # The engine is imported here: a program that makes no span of an agent need not load it.
            from goldspan.collector_processor.in_process.setup import make_pipeline  # noqa: PLC0415

            return make_pipeline(
                inner,
                target=target(inner) or type(inner).__qualname__,
                scores=not nested,
                goldens=goldens,
                criterion=criterion,
                preset=preset,
                metrics=metrics,
                metric_timeout=metric_timeout,
                sample=sample,
                tools=tools,
                profile=profile,
                hold=holds,
                hold_timeout=hold_timeout,
                settle=settle,
                run_idle=run_idle,
                session_gap=session_gap,
                max_held_spans=max_held_spans,
                max_held_bytes=max_held_bytes,
                include_values=include_values,
                agent_names=agent_names,
                events=receiver,
                emit=emitted,
                logger_provider=logger_provider,
                meter_provider=meter_provider,
            )

        self._pipeline = MadeOnUse(make, "spans are exported without scores")
        if any(option is not None for option in (preset, metrics, tools, profile)):
            with _without_collections():
                self._pipeline.end(make())  # only the engine can check these options
        self._calls = BoundedCalls("goldspan-flush")
        weakref.finalize(self, self._calls.close)
        if nested:
            _logger.warning(
                "a ToolParameterMatchExporter is wrapped in another one: the outer one only passes spans on. "
                "Give ToolParameterMatchSpanProcessor the plain exporter."
            )
        else:
            self._warn_of_same_target()
        _exporters.add(self)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export the spans that need not wait for a score. Returns the inner exporter's result for these."""
        pipeline = self._made()
        return self._inner.export(spans) if pipeline is None else pipeline.export(spans)

    def start(self) -> None:
        """Load the engine and the goldens now. Without it that begins, in a thread, with the first trace."""
        self._pipeline.get()

    def add_log_record(self, record: object) -> None:
        """Queue a log record of the SDK, which may have content that spans lack. Never raises and never blocks."""
        self._pipeline.tell(lambda pipeline: pipeline.add_log_record(record))

    def root_started(self, span: Span) -> None:
        """Note the root of a trace, which may name the session long before a span of it ends."""
        self._pipeline.tell(lambda pipeline: pipeline.root_started(span))

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Score what there is, export every held span and flush the inner exporter."""
        return self.flush_spans_since(time.monotonic(), timeout_millis / 1000)

    def flush_spans_since(self, since: float, seconds: float) -> bool:
        """Flush, as `force_flush`; a SystemExit that the spans since then cause is raised."""
        end = time.monotonic() + seconds
        return self.run_within(seconds, lambda: self._flush(end, since))

    def run_within(
        self, seconds: float, call: Callable[[], bool], meanwhile: Callable[[], object] = lambda: None
    ) -> bool:
        """Make a call that may hang in the inner exporter. False if it has not ended after so many seconds.

        `meanwhile` is called on this thread once the call has begun.
        """
        if (made := self._pipeline.made) and made.is_entered:
            return call()
        return self._calls.run(call, seconds, meanwhile) is True

    def flush_events(self, seconds: float) -> None:
        """Let the logger provider send the events that were written."""
        if made := self._pipeline.made:
            try:
                made.events.flush_provider(seconds)
            except Exception as error:  # noqa: BLE001 - log record processors are the user's
                self._failed("events", error)

    def collect(self) -> None:
        """Keep all spans from now on for `end_of_input`, which has to follow."""
        self._collects = True
        if made := self._pipeline.made:
            made.collects = True

    def end_of_input(self, seconds: float = SHUTDOWN_TIMEOUT, on_emitted: Callable[[], object] = lambda: None) -> bool:
        """Score and export everything as if no span would follow. More spans may follow. False: not done in time."""
        end = time.monotonic() + seconds
        self._collects = False
        if (pipeline := self._pipeline.made) is None:  # nothing was exported
            on_emitted()
            return True

        def flush() -> bool:
            return pipeline.flush(max(0.0, end - time.monotonic()), end_of_input=True, on_emitted=on_emitted)

        return self.run_within(seconds, flush)

    def shutdown(self, timeout_millis: float = 1000 * SHUTDOWN_TIMEOUT) -> None:
        """Score and export everything, and shut the inner exporter down. May be called again."""
        if self._shut_down:
            return
        self._shut_down = True
        end = time.monotonic() + timeout_millis / 1000
        try:
            self.end_of_input(timeout_millis / 1000)
        except BaseException as error:  # noqa: BLE001 - SystemExit too: a BatchSpanProcessor's export is not seen here
            self._failed("export", error)
        if made := self._pipeline.made:
            made.close()
        self._calls.close()
        # The calls' thread may hang in an export, which this ends. Meanwhile events are sent: receivers that are away
        # are waited for once. That ends by itself; what is dropped then is counted before the process ends.
        ending, left = BoundedCalls("goldspan-shutdown"), max(_GRACE, end - time.monotonic())
        ending.run(lambda: self._shut_inner_down(end), left, lambda: made and made.events.close(left))
        ending.close()

    def _made(self) -> SpanPipeline | None:
        """Return the pipeline, as far as the exporter has ended or is about to. None: it cannot be made."""
        is_new = self._pipeline.made is None
        if (made := self._pipeline.get()) is None:
            return None
        made.collects |= self._collects  # it may have been made in its own thread since
        if is_new and self._shut_down:
            made.close()
        return made

    def _failed(self, where: str, error: BaseException) -> None:
        if made := self._pipeline.get():
            made.telemetry.failure(where, error)

    def _flush(self, end: float, since: float) -> bool:
        flushed, made = True, self._pipeline.made
        if made:
            flushed = made.flush(max(0.0, end - time.monotonic()), exits_from=since)
        try:
            if made:
                flushed = made.events.flush(max(0.0, end - time.monotonic())) and flushed
            inner_flushed = self._inner.force_flush(max(0, int((end - time.monotonic()) * 1000)))
        except Exception as error:  # noqa: BLE001 - the inner exporter is the user's
            self._failed("export", error)
            return False
        return flushed and inner_flushed is not False  # many exporters return nothing

    def _shut_inner_down(self, end: float) -> bool:
        try:
            shutdown: Callable[..., None] = self._inner.shutdown
            if "timeout_millis" in signature(shutdown).parameters:
                shutdown(timeout_millis=max(0.0, (end - time.monotonic()) * 1000))
            else:
                shutdown()
        except Exception as error:  # noqa: BLE001 - the inner exporter is the user's
            self._failed("export", error)
        return True

    def warn_of_second_exporter(self, span: Span) -> None:
        """Warn if the span's tracer provider has another exporter that sends to the same place. Never raises."""
        try:
            found = _exporters_in([getattr(span, "_span_processor", None)])
            second = next((exporter for exporter in found if same_target(exporter, self._inner)), None)
        except Exception:
            _logger.debug("could not inspect the tracer provider", exc_info=True)
            return
        if second is not None:
            _logger.warning(
                "%s is on the tracer provider beside goldspan and also sends to %s: every span arrives twice, once "
                "without scores. Remove it. If a framework adds it, set OTEL_TRACES_EXPORTER=none or the framework's "
                "own variable.",
                type(second).__qualname__,
                target(second) or "the same exporter",
            )

    def _warn_of_same_target(self) -> None:
        for other in list(_exporters):
            if not other._shut_down and same_target(other._inner, self._inner):  # noqa: SLF001 - the same class
                _logger.warning(
                    "two goldspan exporters send to %s: on one tracer provider, every span is exported and every "
                    "result counted twice. Keep one of them.",
                    target(self._inner) or type(self._inner).__qualname__,
                )
                return


_exporters: weakref.WeakSet[ToolParameterMatchExporter] = weakref.WeakSet()


def _in_this_folder(goldens: Goldens | None) -> Goldens | None:
    """Make paths absolute: the program may change its folder before they are read."""
    if isinstance(goldens, str | Path):
        return Path(goldens).absolute()
    if isinstance(goldens, list | tuple):
        return [Path(one).absolute() if isinstance(one, str | Path) else one for one in goldens]
    return goldens


def _check_names(options: Collection[str], known: Collection[str]) -> None:
    """Raise `SettingsError` for the name of an option that there is not."""
    for name in options:
        if name not in known:
            from difflib import get_close_matches  # noqa: PLC0415 - for the mistake alone

            near = get_close_matches(name, known, n=1)
            expected = f"did you mean `{near[0]}`?" if near else f"expected one of {', '.join(sorted(known))}"
            raise SettingsError(f"{name}: unknown option; {expected}")


def _check_exporter(inner: object) -> None:
    """Raise `SettingsError` for what exports no spans: all of them would be lost."""
    if isinstance(inner, type):
        found, instead = f"the class {inner.__name__}", f"an exporter: call it, {inner.__name__}()"
    elif isinstance(inner, SpanProcessor):
        found = f"a {type(inner).__name__}"
        instead = "the exporter that it was given, such as OTLPSpanExporter(): goldspan takes the processor's place"
    elif not callable(getattr(inner, "export", None)):
        found = "None" if inner is None else f"a {type(inner).__name__}"
        instead = "an exporter such as OTLPSpanExporter(), 'otlp', or the URL of an OTLP/HTTP receiver"
    else:
        return
    raise SettingsError(f"exporter: found {found}, expected {instead}")


def _check_above_zero(**options: object) -> None:
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise SettingsError(f"{name}: found {value!r}, expected a number above 0")


def _check_share(sample: object) -> None:
    if isinstance(sample, bool) or not isinstance(sample, (int, float)) or not 0 < sample <= 1:
        raise SettingsError(f"sample: found {sample!r}, expected a number above 0 and at most 1, such as 0.1")


def _check_kinds(include_values: object, **lists: object) -> None:
    """Refuse a text where it would mean something else: "off" is true, and a name is a list of letters."""
    if not isinstance(include_values, bool):
        raise SettingsError(f"include_values: found {include_values!r}, expected True or False")
    for name, value in lists.items():
        if isinstance(value, str):
            raise SettingsError(f"{name}: found {value!r}, expected a list such as [{value!r}]")


def _choice(name: str, found: str, expected: tuple[str, ...]) -> str:
    if found not in expected:
        raise SettingsError(f"{name}: found {found!r}, expected {' or '.join(map(repr, expected))}")
    return found


def _is_on(hold: object) -> bool:
    if hold not in ("on", "off", True, False):
        raise SettingsError(f"hold: found {hold!r}, expected 'on' or 'off'")
    return hold in ("on", True)


# Exporters that send the same spans to the same place. Neither processors nor exporters have a public name for what
# they wrap. What is read of their private attributes only decides whether a warning is logged.


def target(exporter: SpanExporter) -> str | None:
    """Return where an exporter sends to: all OTLP exporters have `_endpoint`. None: unknown."""
    endpoint = getattr(exporter, "_endpoint", None)
    return endpoint if isinstance(endpoint, str) else None


def same_target(one: SpanExporter, other: SpanExporter) -> bool:
    """Whether spans that both get arrive twice."""
    to = target(other)
    return one is other or (to is not None and target(one) == to)


def _exporters_in(parts: list[object]) -> Iterator[SpanExporter]:
    """Walk through processors inside processors: Logfire nests six."""
    seen: dict[int, object] = {}  # keeps each part alive, so that no id is used twice
    while parts:
        part = parts.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        if isinstance(part, SpanExporter):
            yield part  # but not what it wraps: goldspan would find its own inner exporter
        elif isinstance(part, (tuple, list)):
            parts += part
        elif isinstance(part, SpanProcessor):
            parts += vars(part).values()
            parts.append(getattr(getattr(part, "_batch_processor", None), "_exporter", None))
