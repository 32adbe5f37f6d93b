"""What a user may set about reconstruction."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_SESSION_KEYS: tuple[str, ...] = (
    "goldspan.session.id",
    "agentevals.eval.case.id",
    "gen_ai.conversation.id",
    "session.id",
    "gcp.vertex.agent.session_id",
    "langfuse.session.id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
    "langsmith.metadata.session_id",
    "langsmith.metadata.thread_id",
    "ai.telemetry.metadata.sessionId",
    "ai.settings.context.sessionId",
    "mlflow.trace.session",
)
"""Session attributes in the order of precedence (R6). `mcp.session.id` is a transport's, never one of them."""

PSEUDO_TOOLS: frozenset[str] = frozenset(
    {
        *("transfer_to_agent", "final_answer", "final_result", "handoff"),
        *("delegate_task_to_member", "delegate_task_to_members", "transfer_task_to_member"),
        *("Delegate work to coworker", "delegate_work_to_coworker"),
        *("Ask question to coworker", "ask_question_to_coworker"),
    }
)
"""Tools that frameworks make for themselves, by name; spans that a dialect marks as such need no entry (R5)."""


@dataclass(frozen=True, slots=True)
class AssemblySettings:
    """How spans become sessions; the defaults suit every dialect that goldspan knows."""

    session_keys: tuple[str, ...] = DEFAULT_SESSION_KEYS
    session_gap: float = 3600.0
    """Seconds without a turn after which a session id used again is a new run."""
    pseudo_tools: frozenset[str] = PSEUDO_TOOLS

    @property
    def session_gap_ns(self) -> int:
        """The gap in nanoseconds, the unit of span times."""
        return int(self.session_gap * 1_000_000_000)


DEFAULT_ASSEMBLY = AssemblySettings()
"""What applies where nothing is set."""
