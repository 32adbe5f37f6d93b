"""Every attribute, event and metric name goldspan emits, declared once.

The names under `gen_ai.`, `error.`, `service.` and `deployment.` are OpenTelemetry's semantic conventions. The others
are goldspan's: they stand under the name of the metric that was evaluated, `tool_parameter_match` unless another was
asked for. `docs/emitted-names.md` is made from this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

METRIC = "tool_parameter_match"
"""The metric the names are shown with; another metric has the same names under its own."""

AttributeType = Literal["string", "string[]", "double", "int", "boolean"]
InstrumentKind = Literal["histogram", "counter", "updowncounter"]


@dataclass(frozen=True, slots=True)
class Semconv:
    """An attribute that semantic conventions define."""

    name: str
    type: AttributeType
    meaning: str

    @property
    def shown(self) -> str:
        """The name as it is written in telemetry."""
        return self.name


@dataclass(frozen=True, slots=True)
class Ours:
    """An attribute of goldspan's own, under the name of a metric."""

    name: str
    type: AttributeType
    meaning: str

    def of(self, metric: str) -> str:
        """Return the name as it is written for `metric`."""
        return f"{metric}.{self.name}"

    @property
    def shown(self) -> str:
        """The name as it is written for the main metric."""
        return self.of(METRIC)


@dataclass(frozen=True, slots=True)
class Instrument:
    """A metric: `name` stands under the evaluated metric's name unless `own` says that it is whole."""

    name: str
    kind: InstrumentKind
    unit: str
    meaning: str
    attributes: tuple[str, ...] = ()
    own: bool = False

    def of(self, metric: str) -> str:
        """Return the name as it is written for `metric`."""
        return self.name if self.own else f"{metric}.{self.name}"

    @property
    def shown(self) -> str:
        """The name as it is written for the main metric."""
        return self.of(METRIC)


# Attributes of a call: on the outermost span of its execution, and on its event.

SCORE = Ours("score", "double", "Score of the call, 0 to 1; absent where it was not evaluated")
LABEL = Ours("label", "string", "`pass`, `fail` or `not_evaluated`; absent for a metric that was given no threshold")
REASON = Ours("reason", "string", "Why it was not evaluated; absent where it was")
GOLDEN = Ours("golden", "string", "Session key of the golden it was compared with")
GOLDEN_SET = Ours("golden_set", "string", "Golden set, as `name@version`")
PRESET = Ours("preset", "string", "The preset that scored it; absent for goldspan's own criterion")
REVISION = Ours("revision", "int", "1 for the first result; a correction has a higher one and comes as an event only")
EXPECTED_CALL = Ours(
    "expected_call", "string", "Which expected call it stands for: `turn.index` in the golden, both from 0"
)
MISMATCHED_ARGUMENTS = Ours("mismatched_arguments", "string[]", "Names of arguments with another value than expected")
MISSING_ARGUMENTS = Ours("missing_arguments", "string[]", "Names of expected arguments that were not passed")
EXTRA_ARGUMENTS = Ours("extra_arguments", "string[]", "Names of arguments that were passed and not expected")
UNEXPECTED = Ours("unexpected", "boolean", "Whether the call stands for no expected one")

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

# Attributes of a turn, on its root. A tool's span may be a turn's root, so no key is shared with a call's.

TURN_SCORE = Ours("turn.score", "double", "Mean over the turn's expected calls; absent where none was evaluated")
TURN_LABEL = Ours("turn.label", "string", "`pass`, `fail` or `not_evaluated`, against the criterion's threshold")
TURN_REASON = Ours("turn.reason", "string", "Why the turn was not evaluated; absent where it was")
TURN_GOLDEN = Ours("turn.golden", "string", GOLDEN.meaning)
TURN_GOLDEN_SET = Ours("turn.golden_set", "string", GOLDEN_SET.meaning)
TURN_PRESET = Ours("turn.preset", "string", PRESET.meaning)
TURN_REVISION = Ours("turn.revision", "int", REVISION.meaning)
TURN_EXPECTED_CALLS = Ours("turn.expected_calls", "int", "How many expected calls count towards the mean")
TURN_EVALUATED_CALLS = Ours("turn.evaluated_calls", "int", "How many of these were evaluated")
TURN_MATCHED_CALLS = Ours("turn.matched_calls", "int", "How many expected calls have a partner")
TURN_MISSING_CALLS = Ours("turn.missing_calls", "int", "How many expected calls have none")
TURN_UNEXPECTED_CALLS = Ours("turn.unexpected_calls", "int", "How many actual calls stand for no expected one")

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

EVALUATION_NAME = Semconv("gen_ai.evaluation.name", "string", "The metric: `tool_parameter_match`")
EVALUATION_SCORE = Semconv("gen_ai.evaluation.score.value", "double", "The score; absent where nothing was evaluated")
EVALUATION_LABEL = Semconv("gen_ai.evaluation.score.label", "string", LABEL.meaning)
EVALUATION_EXPLANATION = Semconv(
    "gen_ai.evaluation.explanation", "string", "What was found, by name and count; values only with `include_values`"
)
CONVERSATION_ID = Semconv("gen_ai.conversation.id", "string", "The session")
AGENT_NAME = Semconv("gen_ai.agent.name", "string", "The agent that was judged, where known")
TOOL_NAME = Semconv("gen_ai.tool.name", "string", "The tool of the call that was judged")
TOOL_CALL_ID = Semconv("gen_ai.tool.call.id", "string", "The id of that call, where known")
ERROR_TYPE = Semconv("error.type", "string", "`evaluator_error` where the evaluation itself failed")

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

RESULT_ID = Ours("result_id", "string", "The same for every delivery and correction of one result: de-duplicate by it")
LEVEL = Ours("level", "string", "What is judged: `call`, `turn` or `session`")
RUN = Ours("run", "string", "Which pass through the session: an id used again is a second run")
CRITERION = Ours("criterion", "string", "Digest of the criterion: compare scores of one criterion only")
TURN_INDEX = Ours("turn_index", "int", "Position of the golden's turn, from 0")
INCOMPLETE = Ours("incomplete", "boolean", "True where a bound or a time limit touched the run; absent else")
WITHDRAWN = Ours("withdrawn", "boolean", "True where this takes the earlier result of the same id back; absent else")

EVENT = (RESULT_ID, LEVEL, RUN, CRITERION, TURN_INDEX, INCOMPLETE, WITHDRAWN)

SESSION_EXPECTED_TURNS = Ours("session.expected_turns", "int", "How many turns count towards the session's mean")
SESSION_EVALUATED_TURNS = Ours("session.evaluated_turns", "int", "How many of these were evaluated")
SESSION_EXPECTED_CALLS = Ours("session.expected_calls", "int", "Expected calls of all turns")
SESSION_EVALUATED_CALLS = Ours("session.evaluated_calls", "int", "How many of these were evaluated")

SESSION = (SESSION_EXPECTED_TURNS, SESSION_EVALUATED_TURNS, SESSION_EXPECTED_CALLS, SESSION_EVALUATED_CALLS)

# Metrics.

SERVICE_NAME = Semconv("service.name", "string", "The source's service")
ENVIRONMENT = Semconv("deployment.environment.name", "string", "The source's environment")
GOLDEN_SET_NAME = Ours("golden_set", "string", "Name of the golden set, without its version")
ARGUMENT = Ours("argument", "string", "Name of the argument; after the first 200 of them `_other`")

_SOURCE = (PRESET.shown, GOLDEN_SET_NAME.shown, SERVICE_NAME.name, ENVIRONMENT.name)

SCORE_BOUNDARIES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
"""Upper-inclusive: exactly 0 and exactly 1 each have a bucket of their own."""

OTHER = "_other"
NAME_LIMIT = 200
"""How many tools, and how many arguments of tools, become metric attributes; later ones are `_other`."""

SCORES = Instrument(
    "score",
    "histogram",
    "1",
    "Scores, once for each result; corrections are not counted again",
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
    "Expected arguments of aligned calls that were passed with another value or not at all",
    (TOOL_NAME.name, ARGUMENT.shown, AGENT_NAME.name, *_SOURCE),
)
MISSING = Instrument(
    "missing", "counter", "{call}", "Expected calls that were not made", (TOOL_NAME.name, AGENT_NAME.name, *_SOURCE)
)
UNEXPECTED_CALLS = Instrument(
    "unexpected",
    "counter",
    "{call}",
    "Calls that stand for no expected one",
    (TOOL_NAME.name, AGENT_NAME.name, *_SOURCE),
)

METRICS = (SCORES, NOT_EVALUATED, ARGUMENT_MISMATCHES, MISSING, UNEXPECTED_CALLS)

# What goldspan says of itself.

SELF_REASON = Semconv("goldspan.reason", "string", "Why; a small closed set of words")

HELD_SPANS = Instrument(
    "goldspan.spans.held", "updowncounter", "{span}", "Spans that wait for their turn's result", own=True
)
HELD_BYTES = Instrument("goldspan.spans.held_bytes", "updowncounter", "By", "Estimated memory of these", own=True)
RELEASED_EARLY = Instrument(
    "goldspan.spans.released_early",
    "counter",
    "{span}",
    "Held spans that left before their result: `hold_timeout`, `max_held_bytes`, `max_held_spans`, `failure`",
    (SELF_REASON.name,),
    own=True,
)
DROPPED_SPANS = Instrument(
    "goldspan.spans.dropped",
    "counter",
    "{span}",
    "Spans the inner exporter did not take: `export_failed`, `export_timeout`, `failure`, `shutdown`",
    (SELF_REASON.name,),
    own=True,
)
PROBLEMS = Instrument(
    "goldspan.problems",
    "counter",
    "{problem}",
    "What the engine could not use, by its code: late and repeated spans, bad spans, bounds that were hit",
    (SELF_REASON.name,),
    own=True,
)
FAILURES = Instrument(
    "goldspan.failures",
    "counter",
    "{failure}",
    "Exceptions contained in this process: `read`, `engine`, `export`, `events`, `metrics`, `goldens`, `goldspan`",
    (SELF_REASON.name,),
    own=True,
)

SELF = (HELD_SPANS, HELD_BYTES, RELEASED_EARLY, DROPPED_SPANS, PROBLEMS, FAILURES)

# Read, not emitted: the key that `session_scope` stamps on spans as they start.

SESSION_ID = "goldspan.session.id"
