"""What to switch on or change where something was not evaluated: by reason, by dialect."""

from __future__ import annotations

from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects import Advice, Dialect
from goldspan.scoring.sessions import Capture
from goldspan.scoring.verdict import Reason

CAPTURE_WORDS: dict[Capture, str] = {
    Capture.CAPTURED: "captured",
    Capture.NOT_CAPTURED: "not captured",
    Capture.REDACTED: "redacted",
    Capture.TRUNCATED: "cut off by a length limit",
    Capture.UNPARSABLE: "not readable",
}

NAME_THE_SESSION = (
    "Goldens are joined by session id. With goldspan's span processor in the agent's process, run each turn inside "
    '`with session_scope("ID"):` (from goldspan.collector_processor); without, set gen_ai.conversation.id on the '
    "agent's span."
)
"""What helps with every framework."""

HELP: dict[Reason, str] = {
    Reason.ARGUMENTS_NOT_CAPTURED: "Let the instrumentation write tool arguments on its spans.",
    Reason.ARGUMENTS_REDACTED: "Let the redaction pass the arguments that goldens name.",
    Reason.ARGUMENTS_TRUNCATED: (
        "Raise the limit on attribute values: OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT, and its variant for spans, "
        "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT."
    ),
    Reason.ARGUMENTS_UNPARSABLE: "Record the arguments as a JSON object.",
    Reason.CALLS_NOT_VISIBLE: "Add an instrumentation that writes a span for each tool.",
    Reason.GOLDEN_NEVER_SEEN: (
        "`goldspan inspect` lists the session ids in the traces; a golden needs exactly the same id."
    ),
    Reason.AMBIGUOUS_GOLDEN: "Give the session a golden with its exact id, or make one of the patterns narrower.",
    Reason.SESSION_AMBIGUOUS: NAME_THE_SESSION,
    Reason.SAMPLED_OUT: "Sample every trace while goldens are scored: OTEL_TRACES_SAMPLER=always_on.",
    Reason.INPUT_MISSING: (
        "With `turn_join: key` a golden turn is found by its `user` text only: have messages recorded, or join turns "
        "by `auto` or `index`."
    ),
    Reason.INCOMPLETE: "Pass all files of the session to one command.",
    Reason.EVALUATOR_ERROR: "The error is in the metric, not in the traces.",
}
"""What helps where the dialect has no advice of its own. Reasons that the telemetry does not cause have no entry."""


def advice_of(dialect: Dialect | None) -> Advice:
    """Return what a dialect says must be switched on; other packages' dialects need not say anything."""
    advice = getattr(dialect, "advice", None)
    return advice if isinstance(advice, Advice) else Advice()


def argument_advice(registry: DialectRegistry) -> dict[str, str]:
    """Return, by dialect, what must be switched on to have arguments captured."""
    return {dialect.name: text for dialect in registry.dialects if (text := advice_of(dialect).arguments)}
