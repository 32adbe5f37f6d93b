"""Tools that frameworks make for themselves, hand-offs among them: calls of theirs are none of the user's (R5)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from goldspan.mappers.span_facts import Role, SpanFacts, ToolFacts
from goldspan.scoring.json_values import is_mapping, is_sequence
from goldspan.scoring.sessions import Capture, Content, ToolCall

PSEUDO_TOOLS: frozenset[str] = frozenset(
    {
        *("transfer_to_agent", "final_answer", "final_result", "handoff", "handoff_to_agent"),
        "strands_structured_output",
        *("delegate_task_to_member", "delegate_task_to_members", "transfer_task_to_member"),
        *("Delegate work to coworker", "delegate_work_to_coworker"),
        *("Ask question to coworker", "ask_question_to_coworker"),
    }
)
"""Tools that frameworks make for themselves, by name; spans that a dialect marks as such need no entry (R5)."""
TO_AN_AGENT = frozenset({"transfer_to_agent", "handoff", "handoff_to_agent"})
"""Those of them whose arguments name an agent: a user's own `handoff` may call a person."""
HAND_OFFS = ("transfer_to_", "handoff_to_")
"""How names of tools begin that hand over to the agent named after it."""


def is_of_framework(call: ToolCall, pseudo_tools: Collection[str], spans: Iterable[SpanFacts]) -> bool:
    """Say whether a call of a turn with these spans is a framework's own, and none of the user's tools."""
    return _is_pseudo(call, pseudo_tools) or _handed_over(call, spans)


def _is_pseudo(call: ToolCall, pseudo_tools: Collection[str]) -> bool:
    if call.name not in pseudo_tools or call.name not in TO_AN_AGENT or call.capture is not Capture.CAPTURED:
        return call.name in pseudo_tools
    return _names_agent(call.arguments, 4)


def _names_agent(arguments: object, depth: int) -> bool:
    """Say whether an argument is an agent's, in any envelope."""
    if not is_mapping(arguments) or not depth:
        return False
    return any("agent" in key.lower() or _names_agent(inner, depth - 1) for key, inner in arguments.items())


def hands_over(name: str, spans: Iterable[SpanFacts]) -> bool:
    """Say whether a tool named like a hand-off may name an agent of the turn: a user may have a `transfer_to_human`."""
    agents = _agents(spans)
    return any(agent is None or re.sub(r"\W", "_", agent.lower()) in name.lower() for agent in agents)


def _agents(spans: Iterable[SpanFacts]) -> list[str | None]:
    """Return the names of agents, by their spans and by their model calls'."""
    return [span.agent for span in spans if span.role is Role.AGENT or (span.role is Role.MODEL and span.agent)]


def _handed_over(call: ToolCall, spans: Iterable[SpanFacts]) -> bool:
    """Say whether a tool named like a hand-off, which took no arguments, went to an agent: it ran, or the result says.

    LangGraph runs a hand-off as a tool, whose result is `{"goto": "booking_agent", ...}`, or in JavaScript a list.
    """
    if not call.name.startswith(HAND_OFFS) or call.arguments:
        return False
    return _is_named(call.name, [*_agents(spans), *_agents_in(call.result)])


def says_handed_over(tool: ToolFacts) -> bool:
    """Say the same of a tool by its result alone: it is read before it may be left out, since it is large."""
    is_like_one = tool.name.startswith(HAND_OFFS) and not tool.arguments.raw
    return is_like_one and _is_named(tool.name, _agents_in(tool.result))


def _is_named(hand_off: str, agents: Iterable[object]) -> bool:
    return hand_off.partition("_to_")[2] in [re.sub(r"\W", "_", one.lower()) for one in agents if isinstance(one, str)]


def _agents_in(content: Content) -> list[object]:
    """Return what may be the names of agents in the result of a hand-off."""
    result = content.value
    if is_mapping(result) and is_mapping(output := result.get("output")):  # LangChain.js wraps it
        result = output
    if isinstance(result, str):
        return [name for said in _IN_WORDS for name in said.findall(result)]
    named: list[object] = []
    for value in result.values() if is_mapping(result) else ():
        named += value if is_sequence(value) else [value]
    return named


_IN_WORDS = (
    re.compile(r"^Transferred to \S+, adopting the role of (\S+) immediately"),  # AutoGen's
    re.compile(r"^Successfully transferred to (\S+?)\.?$"),  # what LangGraph tells the model
    re.compile(r"^Command\(.*\bgoto='([^']+)'\)$", re.DOTALL),  # the repr of LangGraph's result
)
