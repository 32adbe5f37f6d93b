"""LiteLLM's own spans of model calls, written by its SDK and its proxy with the callback `otel`.

https://docs.litellm.ai/docs/observability/opentelemetry_integration . Calls are flattened under `gen_ai.completion.`,
numbered by call, beside messages without them. There are no spans of tools, and without content nothing shows whether
the model requested any.

Within a span of someone else LiteLLM writes no span of its own, but these attributes on that one, each call over those
before. What the models said then stands in `raw_gen_ai_request` alone, as Python writes the provider's answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from goldspan.mappers.dialects import Attributes, DialectTable, Role, Rule, Source, SpanView
from goldspan.mappers.dialects.reading.model_messages import flat_messages, last_answer, nested, requests_in
from goldspan.mappers.dialects.reading.value_parsing import decoded
from goldspan.scoring.json_values import is_dict, is_list

_CALL_TYPE, _CALL_ID = "llm.request.type", "litellm.call_id"
_INPUT, _OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
_COMPLETION, _FUNCTION = "gen_ai.completion.", "llm.request.functions."
_CALL_TYPES = frozenset(
    prefix + name
    for prefix in ("", "a")
    for name in (
        *("completion", "text_completion", "responses", "anthropic_messages"),
        *("generate_content", "generate_content_stream"),
    )
)
_CONTENT = (_INPUT, "gen_ai.prompt.0.role")
_STREAMING = "llm.is_streaming"  # an attribute that the newer conventions do not have
_OWN_KEYS = (_CALL_ID, "metadata.user_api_key_hash")  # either is on each of its spans, by version


_WRITERS = (("litellm", ""), ("", "litellm_request"), ("", "chat "))
"""Its scope, or how its spans begin: so they are told from those of others that it writes on."""
_CALLS = (
    *((_CALL_TYPE, _CALL_TYPES, own) for own in _OWN_KEYS),
    ("gen_ai.operation.name", frozenset({"chat", "generate_content", "text_completion"}), _CALL_ID),
)


def _rules_of_calls(key: str, values: frozenset[str], own: str) -> Iterator[Rule]:
    yield Rule(Role.MODEL, key, values, also=(own,), without=_CONTENT, silent=True)
    for scope, name in _WRITERS:
        yield Rule(Role.MODEL, key, values, also=(own,), scope=scope, name_prefix=name)
    # Someone else's span. There is no `raw_gen_ai_request` in the newer conventions, and nothing in that of a stream.
    yield Rule(Role.AGENT, key, values, also=(own,), without=(_STREAMING,), hides_calls=True)
    agent = "invoke_agent"
    yield Rule(Role.AGENT, _STREAMING, frozenset({"True"}), also=(own,), name_prefix=agent, hides_calls=True)
    yield Rule(Role.AGENT, key, values, also=(own,), name_prefix=agent)


_CHAT_PROVIDERS = (
    *("openai", "azure", "azure_ai", "custom_openai", "openai_like", "litellm_proxy", "hosted_vllm", "vllm"),
    *("openrouter", "groq", "mistral", "deepseek", "xai", "together_ai", "fireworks_ai", "perplexity"),
    *("databricks", "github", "lm_studio", "nvidia_nim", "cerebras", "sambanova", "huggingface"),
)
_PROVIDERS = {
    "choices": _CHAT_PROVIDERS,
    "content": ("anthropic", "azure_ai", "vertex_ai"),
    "candidates": ("gemini", "vertex_ai", "vertex_ai_beta"),
    "output": ("None", "openai", "azure", "bedrock", "bedrock_converse"),
}
"""Who answers under which name; None where the Responses API names no provider."""
_RAW_ANSWERS = tuple(f"llm.{one}.{field}" for field, providers in _PROVIDERS.items() for one in providers)
_RAW_MESSAGES = tuple(
    f"llm.{one}.{field}"
    for field, providers in (
        ("messages", (*_CHAT_PROVIDERS, "anthropic", "vertex_ai", "bedrock", "bedrock_converse")),
        ("contents", _PROVIDERS["candidates"]),
        ("input", ("None", "openai", "azure")),
    )
    for one in providers
)


def _numbered(attributes: Attributes, prefix: str) -> list[dict[str, Any]]:
    """Return the objects that are numbered under a prefix."""
    leaves = {key[len(prefix) :]: value for key, value in attributes.items() if str(key).startswith(prefix)}
    found = nested(leaves)
    return list(filter(is_dict, found)) if is_list(found) else []


def _flattened_calls(_: SpanView, attributes: Attributes) -> Any:
    """Return the answer with the calls that its messages lack; nothing if they hold them, or if there are none."""
    answers = _numbered(attributes, _COMPLETION)
    calls = [{"function": call} for answer in answers if is_dict(call := answer.get("function_call"))]
    messages = attributes.get(_OUTPUT)
    if not calls or requests_in(messages):
        return None
    text = last_answer(messages).value or answers[0].get("content") or ""
    return [{"role": "assistant", "content": text, "tool_calls": calls}]


def _definitions(_: SpanView, attributes: Attributes) -> Any:
    tools = _numbered(attributes, _FUNCTION)
    return [{**tool, "parameters": decoded(tool.get("parameters"))} for tool in tools] or None


LITELLM = DialectTable(
    name="litellm",
    title="LiteLLM",
    docs="https://docs.litellm.ai/docs/observability/opentelemetry_integration",
    rules=(
        *(Rule(Role.MODEL, key, name_prefix="raw_gen_ai_request") for key in _RAW_ANSWERS),
        Rule(Role.MODEL, scope="litellm", name_prefix="raw_gen_ai_request", silent=True),
        *(rule for call in _CALLS for rule in _rules_of_calls(*call)),
    ),
    output=(
        Source(_COMPLETION, compute=_flattened_calls),
        Source(_OUTPUT),
        Source(compute=flat_messages(_COMPLETION)),
        *map(Source, _RAW_ANSWERS),
    ),
    input=(Source(_INPUT), Source(compute=flat_messages("gen_ai.prompt.")), *map(Source, _RAW_MESSAGES)),
    tool_definitions=(Source(_FUNCTION, compute=_definitions),),
)
