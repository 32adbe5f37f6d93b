"""Every attribute, event and metric name goldspan emits, declared once.

Names under `gen_ai.`, `error.`, `service.` and `deployment.` are OpenTelemetry's semantic conventions. The others are
goldspan's and begin with the name of the evaluated metric, `tool_parameter_match` by default.
`docs/emitted-names.md` is generated from this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

METRIC = "tool_parameter_match"
"""The metric that the names are shown with. Another metric has the same names after its own."""

AttributeType = Literal["string", "string[]", "double", "int", "boolean"]
InstrumentKind = Literal["histogram", "counter", "updowncounter"]


@dataclass(frozen=True, slots=True)
class SemconvAttribute:
    """An attribute of the semantic conventions."""

    name: str
    type: AttributeType
    meaning: str

    @property
    def shown(self) -> str:
        """The name in telemetry."""
        return self.name


@dataclass(frozen=True, slots=True)
class GoldspanAttribute:
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


@dataclass(frozen=True, slots=True)
class Instrument:
    """An OpenTelemetry metric. Its name begins with the evaluated metric's name, unless `own` says it is complete."""

    name: str
    kind: InstrumentKind
    unit: str
    meaning: str
    attributes: tuple[str, ...] = ()
    own: bool = False

    def of(self, metric: str) -> str:
        """Return the name in telemetry for `metric`."""
        return self.name if self.own else f"{metric}.{self.name}"

    @property
    def shown(self) -> str:
        """The name in telemetry for the main metric."""
        return self.of(METRIC)


# Attributes of a call, on the outermost span of its execution and on its event.

SCORE = GoldspanAttribute("score", "double", "Score of the call, 0 to 1; absent if not evaluated")
LABEL = GoldspanAttribute("label", "string", "`pass`, `fail` or `not_evaluated`; absent for a metric without threshold")
REASON = GoldspanAttribute("reason", "string", "Why it was not evaluated; absent otherwise")
GOLDEN = GoldspanAttribute("golden", "string", "Session key of the golden")
GOLDEN_SET = GoldspanAttribute("golden_set", "string", "Golden set, as `name@version`")
PRESET = GoldspanAttribute("preset", "string", "The preset that scored it; absent for goldspan's own criterion")
REVISION = GoldspanAttribute(
    "revision", "int", "1 for the first result; corrections have higher ones and are events only"
)
EXPECTED_CALL = GoldspanAttribute(
    "expected_call", "string", "The expected call it is aligned with: `turn.index` in the golden, both from 0"
)
MISMATCHED_ARGUMENTS = GoldspanAttribute(
    "mismatched_arguments", "string[]", "Names of arguments with another value than expected"
)
MISSING_ARGUMENTS = GoldspanAttribute(
    "missing_arguments", "string[]", "Names of expected arguments that were not passed"
)
EXTRA_ARGUMENTS = GoldspanAttribute("extra_arguments", "string[]", "Names of arguments that were not expected")
UNEXPECTED = GoldspanAttribute("unexpected", "boolean", "Whether the call is aligned with no expected call")

CALL = (
    SCORE,
    LABEL,
    REASON,
    GOLDEN,
    GOLDEN_SET,
    PRESET,
    REVISION,
    EXPECTED_CALL,
    MISMATCHED_ARGUMENTS,
    MISSING_ARGUMENTS,
    EXTRA_ARGUMENTS,
    UNEXPECTED,
)

# Attributes of a turn, on its root. A tool's span may be the root of a turn, so calls and turns share no key.

TURN_SCORE = GoldspanAttribute(
    "turn.score", "double", "Mean over the turn's expected calls; absent if none was evaluated"
)
TURN_LABEL = GoldspanAttribute(
    "turn.label", "string", "`pass`, `fail` or `not_evaluated`, by the criterion's threshold"
)
TURN_REASON = GoldspanAttribute("turn.reason", "string", "Why the turn was not evaluated; absent otherwise")
TURN_GOLDEN = GoldspanAttribute("turn.golden", "string", GOLDEN.meaning)
TURN_GOLDEN_SET = GoldspanAttribute("turn.golden_set", "string", GOLDEN_SET.meaning)
TURN_PRESET = GoldspanAttribute("turn.preset", "string", PRESET.meaning)
TURN_REVISION = GoldspanAttribute("turn.revision", "int", REVISION.meaning)
TURN_EXPECTED_CALLS = GoldspanAttribute("turn.expected_calls", "int", "Number of expected calls in the mean")
TURN_EVALUATED_CALLS = GoldspanAttribute("turn.evaluated_calls", "int", "How many of them were evaluated")
TURN_MATCHED_CALLS = GoldspanAttribute(
    "turn.matched_calls", "int", "Number of expected calls that are aligned with a call"
)
TURN_MISSING_CALLS = GoldspanAttribute("turn.missing_calls", "int", "Number of expected calls that were not made")
TURN_UNEXPECTED_CALLS = GoldspanAttribute(
    "turn.unexpected_calls", "int", "Number of calls that are aligned with no expected call"
)

TURN = (
    TURN_SCORE,
    TURN_LABEL,
    TURN_REASON,
    TURN_GOLDEN,
    TURN_GOLDEN_SET,
    TURN_PRESET,
    TURN_REVISION,
    TURN_EXPECTED_CALLS,
    TURN_EVALUATED_CALLS,
    TURN_MATCHED_CALLS,
    TURN_MISSING_CALLS,
    TURN_UNEXPECTED_CALLS,
)

# The event.

EVALUATION_RESULT = "gen_ai.evaluation.result"

EVALUATION_NAME = SemconvAttribute("gen_ai.evaluation.name", "string", "The metric: `tool_parameter_match`")
EVALUATION_SCORE = SemconvAttribute("gen_ai.evaluation.score.value", "double", "The score; absent if not evaluated")
EVALUATION_LABEL = SemconvAttribute("gen_ai.evaluation.score.label", "string", LABEL.meaning)
EVALUATION_EXPLANATION = SemconvAttribute(
    "gen_ai.evaluation.explanation", "string", "The difference, by names and counts; values only with `include_values`"
)
CONVERSATION_ID = SemconvAttribute("gen_ai.conversation.id", "string", "The session")
AGENT_NAME = SemconvAttribute("gen_ai.agent.name", "string", "The evaluated agent, if known")
TOOL_NAME = SemconvAttribute("gen_ai.tool.name", "string", "The tool of the evaluated call")
TOOL_CALL_ID = SemconvAttribute("gen_ai.tool.call.id", "string", "The id of that call, if known")
ERROR_TYPE = SemconvAttribute("error.type", "string", "`evaluator_error` if the evaluation itself failed")

EVENT_SEMCONV = (
    EVALUATION_NAME,
    EVALUATION_SCORE,
    EVALUATION_LABEL,
    EVALUATION_EXPLANATION,
    CONVERSATION_ID,
    AGENT_NAME,
    TOOL_NAME,
    TOOL_CALL_ID,
    ERROR_TYPE,
)

RESULT_ID = GoldspanAttribute(
    "result_id", "string", "The same for every delivery and correction of one result: de-duplicate by it"
)
LEVEL = GoldspanAttribute("level", "string", "What is evaluated: `call`, `turn` or `session`")
RUN = GoldspanAttribute("run", "string", "The run of the session: a session id that is used again starts a second run")
CRITERION = GoldspanAttribute("criterion", "string", "Digest of the criterion: compare only scores of one criterion")
TURN_INDEX = GoldspanAttribute("turn_index", "int", "Position of the golden's turn, from 0")
INCOMPLETE = GoldspanAttribute(
    "incomplete", "boolean", "True if the run reached a size or time limit; absent otherwise"
)
WITHDRAWN = GoldspanAttribute(
    "withdrawn", "boolean", "True if this withdraws the earlier result of the same id; absent otherwise"
)

EVENT = (RESULT_ID, LEVEL, RUN, CRITERION, TURN_INDEX, INCOMPLETE, WITHDRAWN)

SESSION_EXPECTED_TURNS = GoldspanAttribute("session.expected_turns", "int", "Number of turns in the session's mean")
SESSION_EVALUATED_TURNS = GoldspanAttribute("session.evaluated_turns", "int", "How many of them were evaluated")
SESSION_EXPECTED_CALLS = GoldspanAttribute("session.expected_calls", "int", "Number of expected calls of all turns")
SESSION_EVALUATED_CALLS = GoldspanAttribute("session.evaluated_calls", "int", "How many of them were evaluated")

SESSION = (SESSION_EXPECTED_TURNS, SESSION_EVALUATED_TURNS, SESSION_EXPECTED_CALLS, SESSION_EVALUATED_CALLS)

# Metrics.

SERVICE_NAME = SemconvAttribute("service.name", "string", "The agent's service")
ENVIRONMENT = SemconvAttribute("deployment.environment.name", "string", "The agent's environment")
GOLDEN_SET_NAME = GoldspanAttribute("golden_set", "string", "Name of the golden set, without its version")
ARGUMENT = GoldspanAttribute("argument", "string", "Name of the argument; `_other` after the first 200")

_SOURCE = (PRESET.shown, GOLDEN_SET_NAME.shown, SERVICE_NAME.name, ENVIRONMENT.name)

SCORE_BOUNDARIES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
"""Upper bounds, inclusive: exactly 0 and exactly 1 have buckets of their own."""

OTHER = "_other"
NAME_LIMIT = 200
"""So many names of tools, and of arguments, become metric attributes. Later names are `_other`."""

SCORES = Instrument(
    "score",
    "histogram",
    "1",
    "Scores, one point for each result; corrections are not counted",
    (LEVEL.shown, LABEL.shown, TOOL_NAME.name, AGENT_NAME.name, *_SOURCE),
)
NOT_EVALUATED = Instrument(
    "not_evaluated",
    "counter",
    "{result}",
    "Results without a score; a session without a golden counts once, as `no_golden`",
    (REASON.shown, LEVEL.shown, TOOL_NAME.name, AGENT_NAME.name, *_SOURCE),
)
ARGUMENT_MISMATCHES = Instrument(
    "argument_mismatches",
    "counter",
    "{argument}",
    "Expected arguments of aligned calls that are missing or have another value",
    (TOOL_NAME.name, ARGUMENT.shown, AGENT_NAME.name, *_SOURCE),
)
MISSING = Instrument(
    "missing", "counter", "{call}", "Expected calls that were not made", (TOOL_NAME.name, AGENT_NAME.name, *_SOURCE)
)
UNEXPECTED_CALLS = Instrument(
    "unexpected",
    "counter",
    "{call}",
    "Calls that are aligned with no expected call",
    (TOOL_NAME.name, AGENT_NAME.name, *_SOURCE),
)

METRICS = (SCORES, NOT_EVALUATED, ARGUMENT_MISMATCHES, MISSING, UNEXPECTED_CALLS)

# Metrics about goldspan itself.

SELF_REASON = SemconvAttribute("goldspan.reason", "string", "The reason, one of a small closed set")

HELD_SPANS = Instrument(
    "goldspan.spans.held", "updowncounter", "{span}", "Spans held back until their turn is scored", own=True
)
HELD_BYTES = Instrument(
    "goldspan.spans.held_bytes", "updowncounter", "By", "Estimated memory of the held spans", own=True
)
RELEASED_EARLY = Instrument(
    "goldspan.spans.released_early",
    "counter",
    "{span}",
    "Held spans exported without a result: `hold_timeout`, `max_held_bytes`, `max_held_spans`, `failure`",
    (SELF_REASON.name,),
    own=True,
)
DROPPED_SPANS = Instrument(
    "goldspan.spans.dropped",
    "counter",
    "{span}",
    "Spans that were not exported: `export_failed`, `export_timeout`, `failure`, `shutdown`",
    (SELF_REASON.name,),
    own=True,
)
PROBLEMS = Instrument(
    "goldspan.problems",
    "counter",
    "{problem}",
    "Telemetry that could not be used: late, repeated and malformed spans, limits that were reached",
    (SELF_REASON.name,),
    own=True,
)
FAILURES = Instrument(
    "goldspan.failures",
    "counter",
    "{failure}",
    "Contained exceptions: `read`, `engine`, `export`, `events`, `metrics`, `goldens`, `goldspan`",
    (SELF_REASON.name,),
    own=True,
)

SELF = (HELD_SPANS, HELD_BYTES, RELEASED_EARLY, DROPPED_SPANS, PROBLEMS, FAILURES)

# Not emitted, but read: `session_scope` sets it on spans that start.

SESSION_ID = "goldspan.session.id"
