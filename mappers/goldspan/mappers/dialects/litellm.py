"""LiteLLM's own spans of model calls, written by its SDK and its proxy with the callback `otel`.

https://docs.litellm.ai/docs/observability/opentelemetry_integration . Calls are flattened under `gen_ai.completion.`,
numbered by call, beside messages without them. There are no spans of tools, and without content nothing shows whether
the model requested any.
"""

from __future__ import annotations

from typing import Any

from goldspan.mappers.dialects.reading.advice import Advice
from goldspan.mappers.dialects.reading.dialect_table import DialectTable, Rule, Source
from goldspan.mappers.dialects.reading.message_encodings import flat_messages, nested, numbered
from goldspan.mappers.dialects.reading.messages import last_answer, requests_in
from goldspan.mappers.dialects.reading.value_parsing import decoded
from goldspan.mappers.span_facts import Role
from goldspan.mappers.spans import Attributes, SpanView
from goldspan.scoring.json_values import is_dict

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
_OWN_KEYS = (_CALL_ID, "metadata.user_api_key_hash")
"""Either is on each of its spans, by version."""


def _leaves(attributes: Attributes, prefix: str) -> dict[str, Any]:
    start = len(prefix)
    return {key[start:]: value for key, value in attributes.items() if type(key) is str and key.startswith(prefix)}


def _flattened_calls(_: SpanView, attributes: Attributes) -> Any:
    """Return the answer with the calls that its messages lack; nothing if they hold them, or if there are none."""
    answers = numbered(nested(_leaves(attributes, _COMPLETION)))
    calls = [{"function": call} for answer in answers if is_dict(call := answer.get("function_call"))]
    messages = attributes.get(_OUTPUT)
    if not calls or requests_in(messages):
        return None
    text = last_answer(messages).value or answers[0].get("content") or ""
    return [{"role": "assistant", "content": text, "tool_calls": calls}]


def _definitions(_: SpanView, attributes: Attributes) -> Any:
    tools = numbered(nested(_leaves(attributes, _FUNCTION)))
    return [{**tool, "parameters": decoded(tool.get("parameters"))} for tool in tools] or None


LITELLM = DialectTable(
    name="litellm",
    title="LiteLLM",
    docs="https://docs.litellm.ai/docs/observability/opentelemetry_integration",
    advice=Advice(
        framework="LiteLLM",
        language="python",
        arguments=(
            "Leave litellm.turn_off_message_logging and the callback's message_logging as they are by default, and "
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT unset or SPAN_ONLY."
        ),
        session=(
            'Run each turn inside `with session_scope("..."):` of goldspan.collector_processor; or set '
            'LITELLM_OTEL_V2=true and pass completion(..., litellm_session_id="...").'
        ),
        checked="litellm 1.109.1",
    ),
    rules=(
        *(Rule(Role.MODEL, _CALL_TYPE, _CALL_TYPES, also=(own,), without=_CONTENT, silent=True) for own in _OWN_KEYS),
        *(Rule(Role.MODEL, _CALL_TYPE, _CALL_TYPES, also=(own,)) for own in _OWN_KEYS),
        Rule(
            Role.MODEL,
            "gen_ai.operation.name",
            frozenset({"chat", "generate_content", "text_completion"}),
            also=(_CALL_ID,),
        ),
    ),
    output=(
        Source(_COMPLETION, compute=_flattened_calls),
        Source(_OUTPUT),
        Source(compute=flat_messages(_COMPLETION)),
    ),
    input=(Source(_INPUT), Source(compute=flat_messages("gen_ai.prompt."))),
    tool_definitions=(Source(_FUNCTION, compute=_definitions),),
)
