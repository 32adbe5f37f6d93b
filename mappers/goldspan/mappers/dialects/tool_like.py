"""Anything else that looks like a tool span: instrumentations written by hand, and those nobody has described yet.

A span is taken for a tool's where an attribute says that it is one, or where it names a tool (in an attribute, or in
the span's name: `tool: search`, `execute_tool search`) and holds its arguments as an object. Never where another
dialect's attributes or scope are on it, even if that dialect passed it over, and never on HTTP, RPC or database spans.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from goldspan.mappers.dialects import Advice, Affixes, Attributes, DialectTable, Role, Rule, Source, SpanView, at
from goldspan.mappers.dialects.reading.value_parsing import (
    args_and_kwargs,
    decoded,
    describes_parameters,
    is_redacted,
    is_schema,
    plain_text,
)
from goldspan.scoring.json_values import is_mapping

_KINDS = (
    *("span.type", "span.kind", "span_kind", "spanType", "operation.type", "gen_ai.span.kind"),
    *("agentops.span.kind", "lmnr.span.type", "langwatch.span.type"),
)
_TOOL_WORDS = frozenset({"tool", "Tool", "TOOL", "tool_call", "function_call"})
_NO_OTHER_OPERATION = ("", *_TOOL_WORDS)
_AGENT_WORDS = frozenset({"agent", "Agent", "AGENT"})
_MODEL_WORDS = frozenset({"llm", "LLM", "chat", "chat_model", "generation"})
_NAMES = (
    *("tool.name", "tool_name", "toolName", "tool_call.name", "tool.call.name", "gen_ai.tool.name"),
    *("function.name", "function_name", "function_call.name"),
)
_ARGUMENTS = (
    *("tool.arguments", "tool.args", "tool.input", "tool.call.arguments"),
    *("tool_arguments", "tool_args", "tool_input", "tool_call.arguments", "toolArgs", "toolInput"),
    *("function.arguments", "function.args", "function_arguments", "function_args", "function_call.arguments"),
    *("gen_ai.tool.call.arguments", "arguments", "args", "input", "inputs", "input.value"),
)
_MODEL_INPUTS = ("langwatch.input", "lmnr.span.input", "agentops.entity.input")
_MODEL_OUTPUTS = ("langwatch.output", "lmnr.span.output", "agentops.entity.output")
_PARAMETERS = ("tool.parameters", "tool.params", "tool_parameters", "parameters", "params")
"""The arguments of a call in some instrumentations, and the tool's schema in others."""
_SPAN_NAMES = (
    *("execute_tool ", "execute_tool:", "execute_tool.", "call_tool ", "run_tool ", "tool_call ", "tool_call: "),
    *("tool: ", "tool:", "Tool: ", "Tool:", "tool ", "tool.", "tool/", "tools/call ", "function: ", "function_call "),
)
_OTHER_KEYS = (
    *("openinference.", "traceloop.", "langsmith.", "langfuse.", "mlflow.", "haystack.", "pydantic_ai.", "gcp.vertex."),
    *("ai.operationId", "ai.toolCall", "logfire.", "crewai.", "smolagents.", "claude_code", "interaction."),
    *("http.", "db.", "rpc.", "messaging.", "graphql."),
)
"""Prefixes of attributes that belong to other dialects, or to work inside a tool."""
_OTHER_SCOPES = (
    *("openinference.", "opentelemetry.instrumentation.", "gcp.vertex.", "com.anthropic.", "agent_framework"),
    *("pydantic-ai", "strands.", "langsmith", "logfire", "langfuse", "mlflow", "haystack", "autogen", "openlit"),
    *("semantic_kernel", "mcp-python-sdk", "traceloop.", "uipath", "crewai"),
    *("@arizeai/", "@traceloop/", "@voltagent/", "@mastra/"),
)
_OPERATION = "gen_ai.operation.name"


def _argument_object(value: Any) -> Any:
    """Take an object that is not the tool's schema, or what stands in the place of one that was hidden."""
    if isinstance(value, str) and is_redacted(value.strip()):
        return value
    found = decoded(value)
    return value if is_mapping(found) and not is_schema(found) else None


def _parameters(key: str) -> Callable[[SpanView, Attributes], Any]:
    """Take an object that is not the tool's schema, if no other attribute holds the arguments."""

    def read(_: SpanView, attributes: Attributes) -> Any:
        value = attributes.get(key)
        if describes_parameters(value) or any(_argument_object(attributes.get(one)) is not None for one in _ARGUMENTS):
            return None
        return _argument_object(value)

    return read


_SOURCES = (
    *(Source(key, take=_argument_object) for key in _ARGUMENTS),
    *(Source(key, compute=_parameters(key)) for key in _PARAMETERS),
)


@dataclass(frozen=True, slots=True)
class _LooksLikeTool(Rule):
    """A tool span is recognised by a name in one attribute and an object in another."""

    kinds: tuple[str, ...] = _KINDS
    """Attributes that may say so, too."""

    def narrowed(self, keys: frozenset[str], scope: str) -> Self | None:
        if self.key not in keys or scope.startswith(_OTHER_SCOPES):
            return None
        return replace(self, key="", kinds=tuple(filter(keys.__contains__, self.kinds)))

    def holds(self, span: SpanView, attributes: Attributes) -> bool:
        if self.key and self.key not in attributes:
            return False
        words = [word for key in self.kinds if isinstance(word := attributes.get(key), str)]
        has_tool_kind = not _TOOL_WORDS.isdisjoint(words)
        if not has_tool_kind and attributes.get(_OPERATION, "") not in _NO_OTHER_OPERATION:
            return False  # true of most spans, so checked before the look at every attribute
        if _belongs_to_other_dialect(span, attributes):
            return False
        if has_tool_kind:
            return True
        named = any(isinstance(attributes.get(key), str) for key in _NAMES) or (
            span.name.startswith(_SPAN_NAMES) and span.name not in _SPAN_NAMES
        )
        return named and any(is_mapping(decoded(source.value(span, attributes))) for source in _SOURCES)


@dataclass(frozen=True, slots=True)
class _OfAKind(Rule):
    """An agent's or a model's span is recognised by the word for its kind."""

    def narrowed(self, keys: frozenset[str], scope: str) -> Self | None:
        return None if self.key not in keys or scope.startswith(_OTHER_SCOPES) else self

    def holds(self, span: SpanView, attributes: Attributes) -> bool:
        return Rule.holds(self, span, attributes) and not _belongs_to_other_dialect(span, attributes)


def _belongs_to_other_dialect(span: SpanView, attributes: Attributes) -> bool:
    return span.scope_name.startswith(_OTHER_SCOPES) or any(
        isinstance(key, str) and key.startswith(_OTHER_KEYS)  # pyright: ignore[reportUnnecessaryIsInstance]
        for key in attributes
    )


TOOL_LIKE = DialectTable(
    name="tool_like",
    title="Anything else that looks like a tool span",
    docs="https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/#execute-tool-span",
    advice=Advice(
        framework="spans written by hand",
        arguments=(
            "Set gen_ai.tool.call.arguments on the tool's span, with gen_ai.operation.name=execute_tool and "
            "gen_ai.tool.name: OpenTelemetry's conventions."
        ),
        session="Set gen_ai.conversation.id on the agent's span.",
        checked="OpenTelemetry's conventions",
    ),
    rules=(
        *(_OfAKind(Role.AGENT, key, _AGENT_WORDS) for key in _KINDS),
        *(_OfAKind(Role.MODEL, key, _MODEL_WORDS) for key in _KINDS),
        *(_LooksLikeTool(Role.TOOL, key) for key in (*_NAMES, *_KINDS, *_ARGUMENTS, *_PARAMETERS)),
    ),
    tool_name=(*_NAMES, "agentops.entity.name"),
    span_name_affixes=Affixes(prefixes=_SPAN_NAMES, suffixes=(".tool",)),
    arguments=(
        *_SOURCES,
        Source("lmnr.span.input", take=_argument_object),
        Source("langwatch.input", take=at("value")),
        Source("agentops.entity.input", unwrap=args_and_kwargs),
    ),
    call_id=(
        *(Source(key) for key in ("gen_ai.tool.call.id", "tool.call_id", "tool.call.id", "tool_call_id")),
        *(Source(key) for key in ("tool_call.id", "tool.id", "toolCallId", "call_id")),
    ),
    result=(
        *(Source(key) for key in ("tool.result", "tool.output", "tool_result", "tool_output", "tool.response")),
        *(Source(key) for key in ("gen_ai.tool.call.result", "output", "result", "output.value")),
        Source("langwatch.output", take=at("value")),
        *map(Source, _MODEL_OUTPUTS),
    ),
    error_flags=(
        *(("tool.status", word) for word in ("error", "failed", "failure")),
        *(("tool.success", False), ("tool.is_error", True), ("is_error", True)),
    ),
    output=tuple(Source(key) for key in (*_MODEL_OUTPUTS, "gen_ai.output.messages", "output", "output.value")),
    input=tuple(Source(key) for key in (*_MODEL_INPUTS, "gen_ai.input.messages", "input", "input.value")),
    user_text=(Source("input", take=plain_text), Source("input.value", take=plain_text)),
    answer=(Source("output", take=plain_text), Source("output.value", take=plain_text)),
    agent=("agent.name", "gen_ai.agent.name"),
    session_keys=("lmnr.association.properties.session_id", "langwatch.thread.id"),
)
