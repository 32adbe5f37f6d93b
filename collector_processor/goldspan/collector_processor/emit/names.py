"""Every attribute, event and metric name goldspan emits, declared once.

Names under `gen_ai.`, `error.`, `service.` and `deployment.` are OpenTelemetry's semantic conventions. The others are
goldspan's and begin with the name of the evaluated metric, `tool_parameter_match` by default.
`docs/emitted-names.md` is generated from this module.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, NamedTuple

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"
"""Of goldspan's scope: the last release of the general conventions that has those of `gen_ai`."""

METRIC = "tool_parameter_match"
"""The metric that the names are shown with. Another metric has the same names after its own."""

AttributeType = Literal["string", "string[]", "double", "int", "boolean"]
InstrumentKind = Literal["histogram", "counter", "updowncounter"]


class SemconvAttribute(NamedTuple):
    """An attribute of the semantic conventions."""

    name: str
    type: AttributeType
    meaning: str
    since: str = ""
    """The release of the general conventions that first has it; empty for `goldspan.reason`, which no metric owns."""
    stable: bool = False
    """Its status there; if not stable, it is in development."""

    @property
    def shown(self) -> str:
        """The name in telemetry."""
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """An attribute of goldspan, after the name of a metric."""

    name: str
    type: AttributeType
    meaning: str

    def of(self, metric: str) -> str:
        """Return the name in telemetry for `metric`."""
        return f"{metric}.{self.name}"

    @property
    def shown(self) -> str:
        """The name in telemetry for the main metric."""
        return self.of(METRIC)


class Instrument(NamedTuple):
    """An OpenTelemetry metric. Its name begins with the evaluated metric's name, or with `goldspan.`."""

    name: str
    kind: InstrumentKind
    unit: str
    meaning: str
    attributes: tuple[str, ...] = ()

    def of(self, metric: str) -> str:
        """Return the name in telemetry for `metric`."""
        return self.name if self.name.startswith("goldspan.") else f"{metric}.{self.name}"

    @property
    def shown(self) -> str:
        """The name in telemetry for the main metric."""
        return self.of(METRIC)


# Attributes of a call, on the outermost span of its execution and on its event.

SCORE = Attribute("score", "double", "Score of the call, 0 to 1; absent if not evaluated")
LABEL = Attribute("label", "string", "`pass`, `fail` or `not_evaluated`; absent for a metric without threshold")
REASON = Attribute("reason", "string", "Why it was not evaluated; absent otherwise")
GOLDEN = Attribute("golden", "string", "Session key of the golden")
GOLDEN_SET = Attribute("golden_set", "string", "Golden set, as `name@version`")
GOLDEN_DIGEST = Attribute(
    "golden_digest", "string", "Digest of the golden set's content: which version of the file scored it"
)
PRESET = Attribute("preset", "string", "The preset that scored it; absent for goldspan's own criterion")
REVISION = Attribute("revision", "int", "1 for the first result; corrections have higher ones and are events only")
EXPECTED_CALL = Attribute(
    "expected_call", "string", "The expected call it is aligned with: `turn.index` in the golden, both from 0"
)
MISMATCHED_ARGUMENTS = Attribute(
    "mismatched_arguments", "string[]", "Names of arguments with another value than expected"
)
MISSING_ARGUMENTS = Attribute("missing_arguments", "string[]", "Names of expected arguments that were not passed")
EXTRA_ARGUMENTS = Attribute("extra_arguments", "string[]", "Names of arguments that were not expected")
UNEXPECTED = Attribute("unexpected", "boolean", "Whether the call is aligned with no expected call")

CALL_VERDICT = (SCORE, LABEL, REASON, GOLDEN, GOLDEN_SET, PRESET, REVISION)
CALL = (*CALL_VERDICT, EXPECTED_CALL, MISMATCHED_ARGUMENTS, MISSING_ARGUMENTS, EXTRA_ARGUMENTS, UNEXPECTED)

# Attributes of a call that a metric without golden judged, beside those of `CALL_VERDICT`.

ARGUMENT_LIMIT = 20
"""A list of a call names so many different arguments."""
FAILED = Attribute("failed_arguments", "string[]", "Names of arguments that lower the score of another metric")
UNGROUNDED = Attribute(
    "ungrounded", "string[]", "Of `tool_parameter_grounding`: arguments with a value that comes from nowhere"
)
INVALID = Attribute(
    "invalid",
    "string[]",
    "Of `tool_parameter_schema`: arguments that the tool's schema does not allow, or that it misses",
)
WHOLE_CALL = "(call)"
"""In the place of an argument, where a finding is about the call as a whole."""
FAILED_ARGUMENTS_OF = {"tool_parameter_grounding": UNGROUNDED, "tool_parameter_schema": INVALID}

# Attributes of a turn, on its root. A tool's span may be the root of a turn, so calls and turns share no key.

TURN_SCORE = Attribute("turn.score", "double", "Mean over the turn's expected calls; absent if none was evaluated")
TURN_LABEL = Attribute("turn.label", "string", "`pass`, `fail` or `not_evaluated`, by the criterion's threshold")
TURN_REASON = Attribute("turn.reason", "string", "Why the turn was not evaluated; absent otherwise")
TURN_GOLDEN = Attribute("turn.golden", "string", GOLDEN.meaning)
TURN_GOLDEN_SET = Attribute("turn.golden_set", "string", GOLDEN_SET.meaning)
TURN_PRESET = Attribute("turn.preset", "string", PRESET.meaning)
TURN_REVISION = Attribute("turn.revision", "int", REVISION.meaning)
TURN_EXPECTED_CALLS = Attribute("turn.expected_calls", "int", "Number of expected calls in the mean")
TURN_EVALUATED_CALLS = Attribute("turn.evaluated_calls", "int", "How many of them were evaluated")
TURN_ALIGNED_CALLS = Attribute(
    "turn.aligned_calls", "int", "Number of expected calls that are aligned with a call, right or wrong"
)
TURN_RIGHT_CALLS = Attribute("turn.right_calls", "int", "Number of expected calls with the score 1")
TURN_MISSING_CALLS = Attribute("turn.missing_calls", "int", "Number of expected calls that are aligned with no call")
TURN_UNEXPECTED_CALLS = Attribute(
    "turn.unexpected_calls", "int", "Number of calls that are aligned with no expected call"
)

TOOL_LIMIT = 20
"""A list of a turn names so many different tools; the counts beside it are whole."""
TURN_MISSING_TOOLS = Attribute(
    "turn.missing_tools", "string[]", f"Tools of the missing calls: the first {TOOL_LIMIT} different names"
)
TURN_WRONG_TOOLS = Attribute(
    "turn.wrong_tools",
    "string[]",
    "Tools of the expected calls whose aligned call, or nearest call where it is missing, has wrong arguments: the "
    f"first {TOOL_LIMIT} different names",
)

TURN_DOUBTS = Attribute(
    "doubts", "string[]", "What the telemetry contradicts in the reading of the turn, by code; absent if nothing"
)

TURN_VERDICT = (TURN_SCORE, TURN_LABEL, TURN_REASON, TURN_GOLDEN, TURN_GOLDEN_SET, TURN_PRESET, TURN_REVISION)
_EXPECTED = (TURN_EXPECTED_CALLS, TURN_EVALUATED_CALLS, TURN_ALIGNED_CALLS, TURN_RIGHT_CALLS, TURN_MISSING_CALLS)
TURN = (*TURN_VERDICT, *_EXPECTED, TURN_UNEXPECTED_CALLS, TURN_MISSING_TOOLS, TURN_WRONG_TOOLS, TURN_DOUBTS)

# The event.

EVALUATION_RESULT = "gen_ai.evaluation.result"

EVALUATION_NAME = SemconvAttribute("gen_ai.evaluation.name", "string", "The metric: `tool_parameter_match`", "1.38.0")
EVALUATION_SCORE = SemconvAttribute(
    "gen_ai.evaluation.score.value", "double", "The score; absent if not evaluated", "1.38.0"
)
EVALUATION_LABEL = SemconvAttribute("gen_ai.evaluation.score.label", "string", LABEL.meaning, "1.38.0")
EVALUATION_EXPLANATION = SemconvAttribute(
    "gen_ai.evaluation.explanation",
    "string",
    "The difference, by names and counts; values only with `include_values`",
    "1.38.0",
)
CONVERSATION_ID = SemconvAttribute("gen_ai.conversation.id", "string", "The session", "1.34.0")
AGENT_NAME = SemconvAttribute("gen_ai.agent.name", "string", "The evaluated agent, if known", "1.31.0")
TOOL_NAME = SemconvAttribute("gen_ai.tool.name", "string", "The tool of the evaluated call", "1.31.0")
TOOL_CALL_ID = SemconvAttribute("gen_ai.tool.call.id", "string", "The id of that call, if known", "1.31.0")
RESPONSE_ID = SemconvAttribute(
    "gen_ai.response.id", "string", "The model's response that requested the call, if its span names one", "1.26.0"
)
ERROR_TYPE = SemconvAttribute(
    "error.type", "string", "`evaluator_error` if the evaluation itself failed", "1.22.0", stable=True
)

_EVALUATION = (EVALUATION_NAME, EVALUATION_SCORE, EVALUATION_LABEL, EVALUATION_EXPLANATION)
EVENT_SEMCONV = (*_EVALUATION, CONVERSATION_ID, AGENT_NAME, TOOL_NAME, TOOL_CALL_ID, RESPONSE_ID, ERROR_TYPE)

RESULT_ID = Attribute(
    "result_id", "string", "The same for every delivery and correction of one result: de-duplicate by it"
)
LEVEL = Attribute("level", "string", "What is evaluated: `call`, `turn` or `session`")
RUN = Attribute("run", "string", "The run of the session: a session id that is used again starts a second run")
CRITERION = Attribute("criterion", "string", "Digest of the criterion: compare only scores of one criterion")
TURN_INDEX = Attribute("turn_index", "int", "Position of the golden's turn, from 0")
INCOMPLETE = Attribute("incomplete", "boolean", "True if the run reached a size or time limit; absent otherwise")
WITHDRAWN = Attribute(
    "withdrawn", "boolean", "True if this withdraws the earlier result of the same id; absent otherwise"
)

EVENT = (RESULT_ID, LEVEL, RUN, GOLDEN_DIGEST, CRITERION, TURN_INDEX, INCOMPLETE, WITHDRAWN)

SESSION_EXPECTED_TURNS = Attribute("session.expected_turns", "int", "Number of turns in the session's mean")
SESSION_EVALUATED_TURNS = Attribute("session.evaluated_turns", "int", "How many of them were evaluated")
SESSION_EXPECTED_CALLS = Attribute("session.expected_calls", "int", "Number of expected calls of all turns")
SESSION_EVALUATED_CALLS = Attribute("session.evaluated_calls", "int", "How many of them were evaluated")

SESSION = (SESSION_EXPECTED_TURNS, SESSION_EVALUATED_TURNS, SESSION_EXPECTED_CALLS, SESSION_EVALUATED_CALLS)

# Metrics.

SERVICE_NAME = SemconvAttribute("service.name", "string", "The agent's service", "1.21.0", stable=True)
SERVICE_VERSION = SemconvAttribute("service.version", "string", "The agent's version", "1.21.0", stable=True)
ENVIRONMENT = SemconvAttribute(
    "deployment.environment.name", "string", "The agent's environment", "1.27.0", stable=True
)
GOLDEN_SET_NAME = Attribute("golden_set", "string", "Name of the golden set, without its version")
ARGUMENT = Attribute("argument", "string", "Name of the argument; `_other` beyond 200 of a service")

FINDING = Attribute(
    "finding", "string", "What is wrong with it: `none` for no origin, `missing`, `unknown`, `type`, ..."
)

COUNTED_BY = Attribute("counted_by", "string", "The metric that counted it, such as `score`")
DOUBT = Attribute("doubt", "string", "What is in doubt: the code of the contradiction")
DIALECT = Attribute("dialect", "string", "The dialect whose reading is in doubt")

_POINT = tuple(
    one.shown for one in (TOOL_NAME, AGENT_NAME, PRESET, GOLDEN_SET_NAME, SERVICE_NAME, SERVICE_VERSION, ENVIRONMENT)
)

SCORE_BOUNDARIES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
"""Upper bounds, inclusive: exactly 0 and exactly 1 have buckets of their own."""

OTHER = "_other"
NAME_LIMIT = 200
"""So many names of tools, and of arguments, of each service become metric attributes. Others are `_other`."""

SCORES = Instrument(
    "score",
    "histogram",
    "1",
    "Scores, one point for each result, once its session is complete",
    (LEVEL.shown, LABEL.shown, *_POINT),
)
NOT_EVALUATED = Instrument(
    "not_evaluated",
    "counter",
    "{result}",
    "Results without a score; a session without a golden counts once, as `no_golden`",
    (REASON.shown, LEVEL.shown, *_POINT),
)
ARGUMENT_MISMATCHES = Instrument(
    "argument_mismatches",
    "counter",
    "{argument}",
    "Expected arguments of aligned calls that are missing or have another value",
    (ARGUMENT.shown, *_POINT),
)
FAILED_ARGUMENTS = Instrument(
    "failed_arguments",
    "counter",
    "{argument}",
    "Arguments that lower the score of a metric that needs no golden, by what is wrong",
    (ARGUMENT.shown, FINDING.shown, *_POINT),
)
MISSING = Instrument("missing", "counter", "{call}", "Expected calls that were not made", _POINT)
UNEXPECTED_CALLS = Instrument("unexpected", "counter", "{call}", "Calls that are aligned with no expected call", _POINT)

DOUBTED_TURNS = Instrument(
    "doubted_turns",
    "counter",
    "{turn}",
    "Turns whose reading their own telemetry contradicts, once for each contradiction",
    (DOUBT.shown, DIALECT.shown, *_POINT),
)

SUPERSEDED = Instrument(
    "superseded",
    "counter",
    "{result}",
    "What other metrics counted and later spans changed, under the attributes it was counted by: subtract it",
    tuple(one.shown for one in (COUNTED_BY, LEVEL, LABEL, REASON, ARGUMENT, FINDING, DOUBT, DIALECT)) + _POINT,
)

METRICS = (SCORES, NOT_EVALUATED, ARGUMENT_MISMATCHES, MISSING, UNEXPECTED_CALLS, DOUBTED_TURNS, SUPERSEDED)
METRICS_WITHOUT_GOLDEN = (FAILED_ARGUMENTS,)
"""Of metrics that need no golden, beside `SCORES` and `NOT_EVALUATED`."""

# Metrics about goldspan itself.

SELF_REASON = SemconvAttribute("goldspan.reason", "string", "The reason, one of a small closed set")


def _self_counter(name: str, unit: str, meaning: str) -> Instrument:
    return Instrument(f"goldspan.{name}", "counter", f"{{{unit}}}", meaning, (SELF_REASON.name,))


HELD_SPANS = Instrument("goldspan.spans.held", "updowncounter", "{span}", "Spans held back until their turn is scored")
HELD_BYTES = Instrument("goldspan.spans.held_bytes", "updowncounter", "By", "Estimated memory of the held spans")
RELEASED_EARLY = _self_counter(
    "spans.released_early",
    "span",
    "Held spans exported without a result: `hold_timeout`, `max_held_bytes`, `max_held_spans`, `failure`",
)
DROPPED_SPANS = _self_counter(
    "spans.dropped",
    "span",
    "Spans that were not exported: `export_failed`, `export_timeout`, `failure`, `queue_full`, `refused`, `shutdown`",
)
DROPPED_EVENTS = _self_counter(
    "events.dropped",
    "event",
    "Events that goldspan could not deliver itself: `queue_full`, `refused`, `shutdown`",
)
PROBLEMS = _self_counter(
    "problems",
    "problem",
    "Telemetry that could not be used: late, repeated and malformed spans, limits that were reached",
)
FAILURES = _self_counter(
    "failures",
    "failure",
    "Contained exceptions: `read`, `engine`, `export`, `events`, `metrics`, `goldens`, `goldspan`",
)

SELF = (HELD_SPANS, HELD_BYTES, RELEASED_EARLY, DROPPED_SPANS, DROPPED_EVENTS, PROBLEMS, FAILURES)

_OWN = frozenset(
    one.name for one in (*CALL, *TURN, *EVENT, *SESSION, *METRICS, *METRICS_WITHOUT_GOLDEN, FAILED, UNGROUNDED, INVALID)
)


def is_own(name: str, metrics: Collection[str]) -> bool:
    """Tell whether an attribute or an instrument has a name under which goldspan writes the scores of these metrics.

    Under `tool_parameter_match` that is every name. Under other metrics, which users name, it is a declared one.
    Backends such as Prometheus know a dot as an underscore, so both count.
    """
    stored = name.replace(".", "_")
    if METRIC in metrics and stored.startswith(METRIC) and stored[len(METRIC) : len(METRIC) + 1] in ("", "_"):
        return True
    return any(stored in _stored_names(metric) for metric in metrics)


@cache
def _stored_names(metric: str) -> frozenset[str]:
    return frozenset(f"{metric}.{own}".replace(".", "_") for own in _OWN)


class MetricNames(dict[Attribute, str]):
    """The names of attributes for one metric, each made once."""

    def __init__(self, metric: str) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, attribute: Attribute) -> str:
        name = self[attribute] = attribute.of(self._metric)
        return name


@lru_cache(maxsize=64)
def names_of(metric: str) -> MetricNames:
    """Return the names of attributes for `metric`."""
    return MetricNames(metric)


# Not emitted, but read: `session_scope` sets it on spans that start.

SESSION_ID = "goldspan.session.id"
