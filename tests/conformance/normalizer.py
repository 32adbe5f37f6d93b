"""What the Collector's `gen_ai_normalizer` processor makes of a recording, by its documented tables.

The processor renames the attributes of OpenInference and OpenLLMetry to OpenTelemetry's conventions, and rebuilds
OpenInference's flat messages. It changes span attributes only: names, kinds, scopes, events and resources stay.
https://github.com/open-telemetry/opentelemetry-collector-contrib/tree/main/processor/genainormalizerprocessor
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Value = dict[str, Any]
Attributes = dict[str, Value]
"""Attributes of a span as OTLP/JSON writes their values, in the order of the span."""

_KINDS = {
    "openinference": {
        "llm": "chat",
        "embedding": "embeddings",
        "chain": "invoke_agent",
        "retriever": "retrieval",
        "reranker": "retrieval",
        "tool": "execute_tool",
        "agent": "invoke_agent",
        "prompt": "text_completion",
    },
    "openllmetry": {
        "workflow": "invoke_workflow",
        "task": "invoke_agent",
        "agent": "invoke_agent",
        "tool": "execute_tool",
        "completion": "text_completion",
        "chat": "chat",
        "rerank": "retrieval",
        "embedding": "embeddings",
    },
}
_OPERATION = "gen_ai.operation.name"
_FINISH = "gen_ai.response.finish_reasons"
_RENAMES = {
    "openinference": {
        "llm.token_count.prompt": "gen_ai.usage.input_tokens",
        "llm.token_count.completion": "gen_ai.usage.output_tokens",
        "llm.model_name": "gen_ai.request.model",
        "llm.provider": "gen_ai.provider.name",
        "embedding.model_name": "gen_ai.request.model",
        "tool.name": "gen_ai.tool.name",
        "tool.description": "gen_ai.tool.description",
        "tool_call.function.arguments": "gen_ai.tool.call.arguments",
        "tool_call.id": "gen_ai.tool.call.id",
        "reranker.model_name": "gen_ai.request.model",
        "agent.name": "gen_ai.agent.name",
        "session.id": "gen_ai.conversation.id",
        "openinference.span.kind": _OPERATION,
    },
    "openllmetry": {
        "llm.usage.prompt_tokens": "gen_ai.usage.input_tokens",
        "llm.usage.completion_tokens": "gen_ai.usage.output_tokens",
        "llm.request.model": "gen_ai.request.model",
        "llm.response.model": "gen_ai.response.model",
        "llm.request.max_tokens": "gen_ai.request.max_tokens",
        "llm.request.temperature": "gen_ai.request.temperature",
        "llm.request.top_p": "gen_ai.request.top_p",
        "llm.top_k": "gen_ai.request.top_k",
        "llm.frequency_penalty": "gen_ai.request.frequency_penalty",
        "llm.presence_penalty": "gen_ai.request.presence_penalty",
        "llm.chat.stop_sequences": "gen_ai.request.stop_sequences",
        "llm.request.functions": "gen_ai.tool.definitions",
        "llm.response.finish_reason": _FINISH,
        "llm.response.stop_reason": _FINISH,
        "llm.request.type": _OPERATION,
        "traceloop.span.kind": _OPERATION,
        "traceloop.entity.name": "gen_ai.agent.name",
        "traceloop.entity.input": "gen_ai.input.messages",
        "traceloop.entity.output": "gen_ai.output.messages",
    },
}
SOURCES = tuple(_RENAMES)

_STRINGS = {
    *("gen_ai.request.model", "gen_ai.response.model", "gen_ai.provider.name", "gen_ai.tool.name", "gen_ai.agent.name"),
    *("gen_ai.tool.description", "gen_ai.tool.call.id", "gen_ai.conversation.id", _OPERATION),
}
_LISTS = {_FINISH, "gen_ai.request.stop_sequences"}
_INTEGERS = {"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.request.max_tokens"}


@dataclass(frozen=True)
class Normalizer:
    """The processor with its options; each source is applied in turn, with the same ones."""

    remove_originals: bool = False
    overwrite: bool = False
    sources: tuple[str, ...] = SOURCES
    rebuild_messages: bool = True
    """Its first releases leave OpenInference's flat messages as they are."""

    def document(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return a request of OTLP/JSON as the processor passes it on."""
        return _with_spans(document, self._span)

    def _span(self, span: dict[str, Any]) -> dict[str, Any]:
        attributes: Attributes = {one["key"]: one["value"] for one in span.get("attributes", ())}
        for source in self.sources:
            if source == "openinference" and self.rebuild_messages:
                self._rebuild_messages(attributes)
            self._rename(attributes, source)
        return {**span, "attributes": [{"key": key, "value": value} for key, value in attributes.items()]}

    def _rename(self, attributes: Attributes, source: str) -> None:
        for old in [key for key in attributes if key in _RENAMES[source]]:
            new = _RENAMES[source][old]
            if new in attributes and not self.overwrite:
                continue
            value = _of_the_type(new, attributes[old])
            if value is None:
                continue
            if new == _OPERATION:
                kind = value["stringValue"]
                value = {"stringValue": _KINDS[source].get(kind.lower(), kind)}
            attributes[new] = value
            if self.remove_originals:
                del attributes[old]

    def _rebuild_messages(self, attributes: Attributes) -> None:
        for side in ("input", "output"):
            target = f"gen_ai.{side}.messages"
            if target in attributes and not self.overwrite:
                continue
            messages: dict[int, _Message] = {}
            pattern = re.compile(rf"llm\.{side}_messages\.(\d+)\.message\.(.+)")
            for key, value in attributes.items():
                if found := pattern.fullmatch(key):
                    messages.setdefault(int(found[1]), _Message()).take(key, found[2], as_text(value))
            if not messages:
                continue
            built = [message.built(output=side == "output") for _, message in sorted(messages.items())]
            attributes[target] = {"stringValue": json.dumps(built, separators=(",", ":"), ensure_ascii=False)}
            if self.remove_originals:
                for key in [key for message in messages.values() for key in message.represented()]:
                    del attributes[key]


_ROLES = {"system", "user", "assistant", "tool"}


class _Message:
    """One message of OpenInference, collected from its flat attributes; each field with the key it came from."""

    def __init__(self) -> None:
        self.fields: dict[str, tuple[str, str]] = {}
        self.calls: dict[int, dict[str, tuple[str, str]]] = {}
        self.contents: dict[int, dict[str, tuple[str, str]]] = {}

    def take(self, key: str, field: str, value: str) -> None:
        if field in {"role", "name", "content", "tool_call_id"}:
            self.fields[field] = (value, key)
        elif found := re.fullmatch(r"tool_calls\.(\d+)\.tool_call\.(.*)", field):
            call = self.calls.setdefault(int(found[1]), {})
            if found[2] in {"id", "function.name", "function.arguments"}:
                call[found[2]] = (value, key)
        elif found := re.fullmatch(r"contents\.(\d+)\.message_content\.(.*)", field):
            content = self.contents.setdefault(int(found[1]), {})
            if found[2] in {"type", "text"}:
                content[found[2]] = (value, key)

    def built(self, *, output: bool) -> dict[str, Any]:
        name = self._field("name")
        message = {"role": self._role(output=output), **({"name": name} if name else {}), "parts": self._parts()}
        return {**message, "finish_reason": ""} if output else message

    def represented(self) -> Iterator[str]:
        """Yield the keys that the message is built from; all others stay on the span."""
        shown = {"result": {"content", "tool_call_id"}, "content": {"content"}}.get(self._source(), set())
        yield from (key for field, (_, key) in self.fields.items() if field in {"role", "name", *shown})
        if self._source() == "calls":
            yield from (key for call in self.calls.values() for _, key in call.values())
        elif self._source() == "contents":
            yield from (key for one in self.contents.values() if _is_text(one) for _, key in one.values())

    def _source(self) -> str:
        if self._field("tool_call_id"):
            return "result"
        if self.calls:
            return "calls"
        if self._field("content"):
            return "content"
        return "contents" if any(map(_is_text, self.contents.values())) else ""

    def _parts(self) -> list[dict[str, Any]]:
        match self._source():
            case "result":
                call_id, text = self._field("tool_call_id"), self._field("content")
                return [{"type": "tool_call_response", "id": call_id, "response": text}]
            case "calls":
                return [_call_part(call) for _, call in sorted(self.calls.items())]
            case "content":
                return [{"type": "text", "content": self._field("content")}]
            case _:
                contents = [one for _, one in sorted(self.contents.items()) if _is_text(one)]
                return [{"type": "text", "content": one["text"][0]} for one in contents]

    def _role(self, *, output: bool) -> str:
        if self._field("tool_call_id") and not output:
            return "tool"
        role = self._field("role")
        if role in _ROLES and not (output and role == "tool"):
            return role
        return "assistant" if self.calls else "user"

    def _field(self, name: str) -> str:
        return self.fields.get(name, ("", ""))[0]


def _is_text(content: dict[str, tuple[str, str]]) -> bool:
    return bool(content.get("text", ("", ""))[0]) and content.get("type", ("", ""))[0] in {"", "text"}


def _call_part(call: dict[str, tuple[str, str]]) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "tool_call"}
    if call_id := call.get("id", ("", ""))[0]:
        part["id"] = call_id
    part["name"] = call.get("function.name", ("", ""))[0]
    if text := call.get("function.arguments", ("", ""))[0]:
        arguments = _parsed(text)
        if arguments is not None:
            part["arguments"] = arguments
    return part


def _parsed(text: str) -> Any:
    """Parse JSON as Go does: every number is a float, and a whole one is written without a fraction."""
    try:
        return json.loads(text, parse_int=_number, parse_float=_number)
    except ValueError:
        return text


def _number(text: str) -> float | int:
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


def as_text(value: Value) -> str:
    """Return a value as the text that the processor makes of it."""
    kind, inner = next(iter(value.items()), ("stringValue", ""))
    if kind == "boolValue":
        return "true" if inner else "false"
    return inner if isinstance(inner, str) else json.dumps(inner)


def _of_the_type(key: str, value: Value) -> Value | None:
    """Return the value with the type that the conventions give the key; none where it has another."""
    kind = next(iter(value), "")
    if key in _STRINGS:
        return {"stringValue": as_text(value)} if kind not in {"arrayValue", "kvlistValue", "bytesValue"} else None
    if key in _LISTS:
        return {"arrayValue": {"values": [value]}} if kind == "stringValue" else value
    if key in _INTEGERS and kind == "stringValue":
        return {"intValue": value[kind]} if re.fullmatch(r"[+-]?\d+", value[kind]) else None
    return value


def _with_spans(document: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    if "resourceSpans" not in document:
        return document
    return {
        **document,
        "resourceSpans": [
            {
                **resource,
                "scopeSpans": [
                    {**scope, "spans": [change(span) for span in scope.get("spans", ())]}
                    for scope in resource.get("scopeSpans", ())
                ],
            }
            for resource in document["resourceSpans"]
        ],
    }
