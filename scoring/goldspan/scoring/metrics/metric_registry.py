"""Metrics by name: goldspan's own, those of installed packages, and those that code registered.

A package offers metrics in the entry-point group `goldspan.metrics`. One is imported when its name is asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from inspect import isawaitable, signature
from typing import Any, Protocol, TypeVar, cast

from goldspan.scoring.criterion import MAIN_METRIC
from goldspan.scoring.errors import MetricError
from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.metric_results import MetricScore, Range
from goldspan.scoring.metrics.grounding import ToolParameterGrounding
from goldspan.scoring.metrics.judge import ACCURACY
from goldspan.scoring.metrics.repetition import ToolCallRepetition
from goldspan.scoring.metrics.schema import ToolParameterSchema
from goldspan.scoring.metrics.trajectory import TRAJECTORY_METRICS
from goldspan.scoring.results import SessionResult
from goldspan.scoring.session_score import score_run
from goldspan.scoring.sessions import Session

MetricAnswer = MetricScore | SessionResult | float | bool | None
"""What a metric may answer: a number, True for 1 and False for 0, None for not evaluated, or more in words."""

_MetricT = TypeVar("_MetricT", bound="Metric")
MetricFunction = (
    Callable[[Session, Golden], MetricAnswer | Awaitable[MetricAnswer]]
    | Callable[[Session], MetricAnswer | Awaitable[MetricAnswer]]
)
"""A function of a session and its golden, or of a session alone: it then scores sessions without golden, too."""

GOLDEN, CONTEXT, TOOL_DEFINITIONS = "golden", "context", "tool_definitions"
"""What a metric may need: a golden; the messages and results before a call; the definitions of the agent's tools."""


class Metric(Protocol):
    """Turns one run of a session and its golden into a score."""

    @property
    def name(self) -> str:
        """What its results are called in telemetry and reports, in snake_case."""
        ...

    @property
    def description(self) -> str:
        """One line about what a score means."""
        ...

    @property
    def range(self) -> Range:
        """The scores it can give."""
        ...

    def __call__(self, session: Session, golden: Golden, /) -> MetricAnswer | Awaitable[MetricAnswer]:
        """Judge a run of a session that is over. What it raises is the reason `evaluator_error`, and stops nothing.

        A metric may also have `needs`, some of `golden`, `context` and `tool_definitions` (without it: `golden`), and
        `threshold`, which applies where the user chose none. One that needs no golden is called with `None` for
        sessions without golden. With a true `by_turn` its scores of turns are given before the session is over.
        `with_tools(schemas)` returns the metric that judges by these schemas of tools, by name.
        """
        ...


def needs_of(one: Metric) -> frozenset[str]:
    """Return what a metric needs."""
    return frozenset(getattr(one, "needs", (GOLDEN,)))


_WAITS = "it waits for something, which needs an event loop: `goldspan score`, the exporter and the gateway have one"

MetricRunner = Callable[[Metric, Session, Golden | None], MetricAnswer]
"""Runs a metric that is not goldspan's own and returns its answer; raises what it raises."""


@dataclass(frozen=True, slots=True)
class FunctionMetric:
    """A function of session and golden, sync or async, as a metric."""

    name: str
    description: str
    range: Range
    function: MetricFunction
    needs: frozenset[str] = frozenset((GOLDEN,))

    def __call__(self, session: Session, golden: Golden | None, /) -> MetricAnswer | Awaitable[MetricAnswer]:
        """Call the function."""
        function: Callable[..., MetricAnswer | Awaitable[MetricAnswer]] = self.function
        return function(session, golden) if GOLDEN in self.needs else function(session)


def metric(
    *,
    name: str | None = None,
    description: str | None = None,
    range: tuple[float, float] = (0.0, 1.0),  # noqa: A002
) -> Callable[[MetricFunction], FunctionMetric]:
    """Make a metric of a function: `@metric(name="tools_known", range=(0, 10))`.

    Without `name` it has the function's, without `description` the first line of the function's docstring.

    Raises:
        MetricError: the name is none that telemetry can carry, or the range is empty.

    """

    def decorate(function: MetricFunction) -> FunctionMetric:
        own = cast("str", getattr(function, "__name__", type(function).__name__))
        about = (getattr(function, "__doc__", None) or "").strip().partition("\n")[0]
        return checked_metric(
            FunctionMetric(
                name or own, about if description is None else description, Range(*range), function, _needs(function)
            )
        )

    return decorate


def _needs(function: MetricFunction) -> frozenset[str]:
    """Return what a function needs: one of a single parameter reads a session alone, and may read all of it."""
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in callables have none
        return frozenset((GOLDEN,))
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    several = len(places) > 1 or any(one.kind is one.VAR_POSITIONAL for one in parameters)
    return frozenset((GOLDEN,) if several else (CONTEXT, TOOL_DEFINITIONS))


def as_metric(given: Metric | MetricFunction) -> Metric:
    """Return a metric as it is, and make one of a plain function.

    Raises:
        MetricError: it is neither.

    """
    if all(hasattr(given, name) for name in ("name", "description", "range")):
        return checked_metric(cast("Metric", given))
    if not callable(given) or isinstance(given, type):
        raise MetricError(f"found {given!r}, expected a metric or a function of a session and its golden")
    return metric()(given)


def import_metric(path: str) -> Metric:
    """Import a user's own metric: `pkg.module:function`. This runs code: never pass a name from a golden file.

    `adk:pkg.module:function` is a function of another system, made a metric by what the entry-point group
    `goldspan.metric_adapters` has under that name.

    Raises:
        MetricError: there is no such module or name in it, or what is there is no metric.

    """
    module_name, _, attribute = path.partition(":")
    if ":" in attribute:
        return _adapted(module_name, attribute)
    if not module_name or not attribute:
        raise MetricError(f"{path!r} is no import path; expected one such as `pkg.module:function`")
    try:
        module = import_module(module_name)
    except Exception as error:  # a module of the user's may raise anything
        raise MetricError(f"{path}: {module_name} cannot be imported: {type(error).__name__}: {error}") from error
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            near = get_close_matches(part, dir(found), n=1)
            hint = f": did you mean `{near[0]}`?" if near else ""
            raise MetricError(f"{path}: there is no `{part}` in {module_name}{hint}")
        found = getattr(found, part)
    return as_metric(found)


def _adapted(system: str, path: str) -> Metric:
    adapters = {one.name: one for one in entry_points(group=ADAPTER_GROUP)}
    if system not in adapters:
        known = ", ".join(f"`{one}:`" for one in sorted(adapters)) or "none"
        raise MetricError(f"{system}:{path}: nothing adapts metrics of `{system}`; known are {known}")
    try:
        adapt: Callable[[str], Metric] = adapters[system].load()
    except ImportError as error:
        raise MetricError(f"{system}:{path}: {error}") from error
    return checked_metric(adapt(path))


def checked_metric(one: _MetricT) -> _MetricT:
    """Return a metric whose name and range can be emitted. Raises MetricError for another."""
    if not (one.name.isidentifier() and one.name.isascii()):
        raise MetricError(f"found the metric name {one.name!r}, expected letters, digits and _, as in `tools_known`")
    least, most = one.range
    if not least < most:
        raise MetricError(f"{one.name}: found the range {least} to {most}, expected the least score before the most")
    return one


def run_in_this_thread(metric: Metric, session: Session, golden: Golden | None) -> MetricAnswer:
    """Run a metric in this thread. One that is async may not wait for anything: doors run those in a loop.

    Raises whatever the metric raises, and RuntimeError if it waits for something.
    """
    answer = metric(session, cast("Golden", golden))
    if not isawaitable(answer):
        return answer
    steps = cast("Generator[Any, None, MetricAnswer]", answer.__await__())
    try:
        next(steps)
    except StopIteration as end:
        return cast("MetricAnswer", end.value)
    except RuntimeError as error:
        if "event loop" in str(error):
            raise RuntimeError(_WAITS) from error
        raise
    steps.close()
    raise RuntimeError(_WAITS)


ENTRY_POINT_GROUP = "goldspan.metrics"
ADAPTER_GROUP = "goldspan.metric_adapters"
"""Each takes an import path and returns a metric of goldspan's."""


class ToolParameterMatch:
    """How well the arguments of tool calls match those that were expected; scored by the golden's criterion."""

    name = MAIN_METRIC
    description = "The share of expected arguments that were passed as expected, over calls, turns and the session."
    range = Range(0.0, 1.0)

    def __call__(self, session: Session, golden: Golden) -> SessionResult:
        """Judge a session."""
        return score_run(golden, session)


WITHOUT_GOLDEN: tuple[Metric, ...] = (ToolParameterSchema(), ToolParameterGrounding(), ToolCallRepetition())
"""goldspan's own metrics that need no golden: what is scored where there are no goldens and nothing else is chosen."""

_BUILT_IN: tuple[Metric, ...] = (ToolParameterMatch(), *TRAJECTORY_METRICS, *WITHOUT_GOLDEN)
BUILT_IN_METRICS: dict[str, Metric] = {one.name: one for one in _BUILT_IN}
"""goldspan's own metrics by name, except for the judge, which needs a model."""
OWN_NAMES = frozenset((*BUILT_IN_METRICS, ACCURACY))
"""The names of goldspan's own metrics, whose explanations hold no values of arguments."""

_METRICS: dict[str, Metric] = dict(BUILT_IN_METRICS)


def register_metric(metric: Metric | MetricFunction) -> Metric:
    """Make a metric known by its name, for goldens and `find_metric`; it is returned, so that this decorates functions.

    Raises:
        MetricError: another has that name, or it is no metric.

    """
    one = as_metric(metric)
    known = _METRICS.setdefault(one.name, one)
    if known is not one and known != one:
        raise MetricError(f"a metric called `{one.name}` is registered already: give yours another name")
    return known


def find_metric(name: str) -> Metric:
    """Return the metric of a name.

    Raises:
        MetricError: there is none (the message has the nearest name), or its package cannot be imported.

    """
    if name in _METRICS:
        return _METRICS[name]
    offered = _offered()
    if name not in offered:
        raise MetricError(f"no metric is called `{name}`; {nearest_metric(name)}")
    try:
        found = as_metric(offered[name].load())
    except Exception as error:  # a package may raise anything
        raise MetricError(f"metric `{name}` of {offered[name].value} cannot be loaded: {error}") from error
    if found.name != name:
        raise MetricError(f"{offered[name].value} is called `{found.name}`, and its entry point `{name}`")
    return _METRICS.setdefault(name, found)


def metric_names() -> tuple[str, ...]:
    """Return the names of all metrics, sorted; none is imported for this."""
    return tuple(sorted({*_METRICS, *_offered()}))


def nearest_metric(name: str) -> str:
    """Ask whether the nearest metric was meant, or list those there are."""
    known = metric_names()
    near = get_close_matches(name, known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"known are {', '.join(f'`{one}`' for one in known)}"


def _offered() -> dict[str, EntryPoint]:
    return {one.name: one for one in entry_points(group=ENTRY_POINT_GROUP)}
