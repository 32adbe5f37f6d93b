"""Real conversations, written as spans by several instrumentations, are read as they were held.

python -m conformance.conversations [--sessions N] [--cases] [FILE]     (with PYTHONPATH=tests)

FILE holds a session a line: `id`, `users` ([calls before, text]) and `calls` (`name`, `args`, `result`, `error`); or it
holds spans by OpenTelemetry's conventions, which are read first. What was said and done is known, so the reading is
judged as that of a recording (`variations`).
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations, product
from pathlib import Path
from random import Random
from typing import Any

from conformance.single_records import Document
from conformance.transformations import new_id
from conformance.variations import (
    BLIND,
    FALSE_DOUBT,
    SILENT,
    Call,
    Case,
    Original,
    Reading,
    ReadTurn,
    Table,
    canonical,
    judged,
    read,
)
from goldspan.mappers import read_sessions
from goldspan.scoring.sessions import Session

_SHARED = next(
    (one / "shared" for one in Path(__file__).resolve().parents if (one / "shared" / "data").is_dir()), Path()
)
DATA = _SHARED / "data" / "trials-dev.jsonl.gz"
SPANS = _SHARED / "data" / "agentrx" / "tau-retail.otlp.jsonl.gz"
SECOND = 1_000_000_000
START = 1_790_000_000 * SECOND
Attributes = dict[str, object]
Message = dict[str, Any]
"""As OpenAI's chat completions have it; each writer makes its own of it."""


@dataclass(frozen=True)
class Asked:
    """A call that the model asked for, and what came of it."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    result: str
    failed: bool
    inside: tuple[tuple[Asked, ...], ...] = ()
    """What the agent that it calls asked for, batch by batch."""

    @property
    def request(self) -> Message:
        function = {"name": self.name, "arguments": json.dumps(self.arguments, ensure_ascii=False)}
        return {"id": self.id, "type": "function", "function": function}


Batches = tuple[tuple[Asked, ...], ...]


@dataclass(frozen=True)
class Said:
    """A user message, what the model asked for, and its answer."""

    user: str
    batches: Batches
    answer: str


@dataclass(frozen=True)
class Conversation:
    """A session as it was held."""

    id: str
    turns: tuple[Said, ...]


def conversations(path: Path) -> Iterator[Conversation]:
    """Read conversations; calls that follow each other are asked for at once, now and then."""
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    lines = list(map(json.loads, text.splitlines()))
    for record in map(_record, read_sessions(lines)) if ".otlp." in path.name else lines:
        if record["users"] and record["calls"]:
            yield conversation(record)


def _record(session: Session) -> Mapping[str, Any]:
    users: list[tuple[int, str]] = []
    calls: list[Mapping[str, Any]] = []
    for turn in session.turns:
        users.append((len(calls), str(turn.user_text.value)))
        calls += [
            {"name": call.name, "args": call.arguments or {}, "result": call.result.value, "error": call.error}
            for call in turn.calls
        ]
    return {"id": session.id, "users": users, "calls": calls}


def conversation(record: Mapping[str, Any]) -> Conversation:
    random = Random(record["id"])
    calls = [
        Asked(f"call_{record['id']}_{number}", one["name"], one["args"], str(one["result"]), bool(one["error"]))
        for number, one in enumerate(record["calls"])
    ]
    ends = [*(before for before, _ in record["users"][1:]), len(calls)]
    turns: list[Said] = []
    first = 0
    for number, ((_, text), end) in enumerate(zip(record["users"], ends, strict=True)):
        cuts = [at for at in range(first + 1, end) if random.random() < 0.7]
        batches = tuple(tuple(calls[a:b]) for a, b in pairwise([first, *cuts, end]) if b > a)
        turns.append(Said(text, batches, f"Here is answer {number} of {record['id']}."))
        first = end
    return Conversation(f"session-{record['id']}", tuple(turns))


# What may differ between two programs that hold the same conversation.


@dataclass(frozen=True)
class Program:
    """How an agent is built: what its model is given, who runs its tools, how failures are told."""

    name: str
    history: Callable[[list[Message]], list[Message]] = list
    models_only: bool = False
    """No spans of agents and tools, and each model call a trace of its own."""
    delegates: bool = False
    """The middle of a turn is the work of another agent, which is called as a tool."""
    failure: str = "status"
    """`status`, or only the result's `text`, or that in a `foreign` language."""
    beside: str = ""
    """Another model call, one of `BESIDE`: a guard before each call, a title after the answer, a call made again."""
    apart: bool = False
    """Such calls are in traces of their own, before and after the agent's."""
    longest: int = 1 << 20
    """Characters of a result that its span keeps."""
    lost: frozenset[str] = frozenset()


def trimmed(messages: list[Message]) -> list[Message]:
    """The last six messages, from a user message on where there is one."""
    kept = messages[-6:]
    first = next((at for at, one in enumerate(kept) if one["role"] == "user"), 0)
    return [messages[0], *kept[first:]] if len(messages) > 7 else messages


def summarised(messages: list[Message]) -> list[Message]:
    """All but the last user message and what follows become a summary, which is given as a user message."""
    last = max(at for at, one in enumerate(messages) if one["role"] == "user")
    if last < 3:
        return messages
    text = "Here is a summary of the conversation to date:\n\nThe user asked for several things and got answers."
    return [messages[0], {"role": "user", "content": text}, *messages[last:]]


BESIDE: Mapping[str, Callable[[list[str], list[Message]], list[Message]]] = {
    "a guard": lambda said, _: [told("Is this safe? Say yes or no."), asked(said[-1])],
    "a guard that is given a task": lambda said, _: [
        asked(f"Is this safe? Say yes or no.\n\n<text>\n{said[-1]}\n</text>")
    ],
    "a title": lambda said, _: [told("Write a title."), asked(said[0])],
    "a title of a transcript": lambda _, messages: [
        told("Write a title."),
        asked("\n".join(f"{one['role']}: {one.get('content')}" for one in messages[1:])),
    ],
    "a call made again": lambda _, messages: messages,
}
"""What such a model call is given: of what users said, or of all messages."""


def told(text: str) -> Message:
    return {"role": "system", "content": text}


def asked(text: str) -> Message:
    return {"role": "user", "content": text}


PROGRAMS = (
    Program("agent"),
    Program("trimmed history", history=trimmed),
    Program("summarised history", history=summarised),
    Program("agent as a tool", delegates=True),
    Program("failure in the text", failure="text"),
    Program("failure in another language", failure="foreign", lost=frozenset({"failure"})),
    Program("results cut at 1,000 characters", longest=1_000),
    Program("models only", models_only=True, lost=frozenset({"failure"})),
    *(Program(f"beside: {beside}", beside=beside) for beside in BESIDE),
    *(Program(f"apart: {beside}", beside=beside, apart=True) for beside in BESIDE if beside != "a call made again"),
    *(
        Program(f"models only, beside: {beside}", beside=beside, models_only=True, lost=frozenset({"failure"}))
        for beside in BESIDE
    ),
    Program("models only, trimmed history", history=trimmed, models_only=True, lost=frozenset({"failure", "turns"})),
)


# Writers: the attributes of the three kinds of spans, as an instrumentation has them.


@dataclass(frozen=True)
class Writer:
    """One way to write an agent's, a model's and a tool's span."""

    name: str
    agent: Callable[[str, str, str], Attributes]
    model: Callable[[str, list[Message], Message], Attributes]
    tool: Callable[[str, Asked], Attributes]
    scope: str = "acme"


def as_parts(message: Message) -> Message:
    """Return a message as OpenTelemetry's conventions have it."""
    if message["role"] == "tool":
        answer = {"type": "tool_call_response", "id": message["tool_call_id"], "response": message["content"]}
        return {"role": "tool", "parts": [answer]}
    parts: list[Message] = [{"type": "text", "content": message["content"]}] if message.get("content") else []
    for one in message.get("tool_calls", ()):
        function = one["function"]
        arguments = json.loads(function["arguments"])
        parts.append({"type": "tool_call", "id": one["id"], "name": function["name"], "arguments": arguments})
    return {"role": message["role"], "parts": parts}


GENAI = Writer(
    "OpenTelemetry's conventions",
    lambda session, user, answer: {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "helper",
        "gen_ai.conversation.id": session,
    },
    lambda session, given, reply: {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.conversation.id": session,
        "gen_ai.input.messages": [as_parts(one) for one in given],
        "gen_ai.output.messages": [{**as_parts(reply), "finish_reason": "stop"}],
    },
    lambda session, call: {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.call.id": call.id,
        "gen_ai.tool.call.arguments": dict(call.arguments),
        "gen_ai.tool.call.result": call.result,
    },
)


def flattened(prefix: str, messages: Sequence[Message]) -> Attributes:
    """Return messages as OpenInference has them."""
    made: Attributes = {}
    for at, message in enumerate(messages):
        key = f"{prefix}.{at}.message"
        made[f"{key}.role"] = message["role"]
        if message.get("content"):
            made[f"{key}.content"] = message["content"]
        if "tool_call_id" in message:
            made[f"{key}.tool_call_id"] = message["tool_call_id"]
        for number, one in enumerate(message.get("tool_calls", ())):
            call = f"{key}.tool_calls.{number}.tool_call"
            made[f"{call}.id"] = one["id"]
            made[f"{call}.function.name"] = one["function"]["name"]
            made[f"{call}.function.arguments"] = one["function"]["arguments"]
    return made


OPENINFERENCE = Writer(
    "OpenInference",
    lambda session, user, answer: {
        "openinference.span.kind": "AGENT",
        "session.id": session,
        "input.value": user,
        "output.value": answer,
    },
    lambda session, given, reply: {
        "openinference.span.kind": "LLM",
        "session.id": session,
        "llm.model_name": "m",
        **flattened("llm.input_messages", given),
        **flattened("llm.output_messages", [reply]),
    },
    lambda session, call: {
        "openinference.span.kind": "TOOL",
        "session.id": session,
        "tool.name": call.name,
        "tool_call.id": call.id,
        "input.value": dict(call.arguments),
        "input.mime_type": "application/json",
        "output.value": call.result,
    },
)


def numbered(prefix: str, messages: Sequence[Message]) -> Attributes:
    """Return messages as OpenLLMetry had them."""
    made: Attributes = {}
    for at, message in enumerate(messages):
        key = f"{prefix}.{at}"
        made[f"{key}.role"] = message["role"]
        for name in ("content", "tool_call_id"):
            if message.get(name):
                made[f"{key}.{name}"] = message[name]
        for number, one in enumerate(message.get("tool_calls", ())):
            call = f"{key}.tool_calls.{number}"
            made[f"{call}.id"] = one["id"]
            made[f"{call}.name"] = one["function"]["name"]
            made[f"{call}.arguments"] = one["function"]["arguments"]
    return made


OPENLLMETRY = Writer(
    "OpenLLMetry",
    lambda session, user, answer: {
        "traceloop.span.kind": "workflow",
        "traceloop.entity.name": "helper",
        "traceloop.association.properties.session_id": session,
        "traceloop.entity.input": {"args": [user], "kwargs": {}},
        "traceloop.entity.output": answer,
    },
    lambda session, given, reply: {
        "llm.request.type": "chat",
        "gen_ai.request.model": "m",
        "traceloop.association.properties.session_id": session,
        **numbered("gen_ai.prompt", given),
        **numbered("gen_ai.completion", [reply]),
        "gen_ai.completion.0.finish_reason": "tool_calls" if reply.get("tool_calls") else "stop",
    },
    lambda session, call: {
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": call.name,
        "traceloop.association.properties.session_id": session,
        "traceloop.entity.input": {"args": [], "kwargs": dict(call.arguments)},
        "traceloop.entity.output": json.dumps(call.result),
    },
    scope="traceloop.tracer",
)


def constructed(message: Message) -> Message:
    """Return a message as LangChain serialises it."""
    kinds = {"system": "SystemMessage", "user": "HumanMessage", "assistant": "AIMessage", "tool": "ToolMessage"}
    kwargs: Message = {"content": message.get("content") or "", "type": message["role"]}
    if "tool_call_id" in message:
        kwargs["tool_call_id"] = message["tool_call_id"]
    if message.get("tool_calls"):
        kwargs["tool_calls"] = [
            {
                "name": one["function"]["name"],
                "args": json.loads(one["function"]["arguments"]),
                "id": one["id"],
                "type": "tool_call",
            }
            for one in message["tool_calls"]
        ]
    kind = ["langchain", "schema", "messages", kinds[message["role"]]]
    return {"lc": 1, "type": "constructor", "id": kind, "kwargs": kwargs}


def tool_message(call: Asked) -> Message:
    return {"role": "tool", "tool_call_id": call.id, "content": call.result}


LANGSMITH = Writer(
    "LangSmith",
    lambda session, user, answer: {
        "langsmith.span.kind": "chain",
        "langsmith.trace.name": "helper",
        "langsmith.metadata.session_id": session,
        "gen_ai.prompt": {"messages": [{"role": "user", "content": user}]},
    },
    lambda session, given, reply: {
        "langsmith.span.kind": "llm",
        "langsmith.trace.name": "Model",
        "gen_ai.operation.name": "chat",
        "langsmith.metadata.session_id": session,
        "gen_ai.prompt": {"messages": [[constructed(one) for one in given]]},
        "gen_ai.completion": {"generations": [[{"text": "", "message": constructed(reply)}]]},
    },
    lambda session, call: {
        "langsmith.span.kind": "tool",
        "langsmith.trace.name": call.name,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.call.id": call.id,
        "langsmith.metadata.session_id": session,
        "gen_ai.prompt": dict(call.arguments),
        "gen_ai.completion": {"output": constructed(tool_message(call))["kwargs"]},
    },
)

UNKNOWN = Writer(
    "keys that nobody knows",
    lambda session, user, answer: {"step.kind": "run", "step.in": user, "step.out": answer, "session.id": session},
    lambda session, given, reply: {
        "step.kind": "llm_call",
        "step.in": {"messages": given},
        "step.out": {"message": reply},
        "session.id": session,
    },
    lambda session, call: {
        "step.kind": "tool_run",
        "step.tool": call.name,
        "step.call": call.id,
        "step.in": dict(call.arguments),
        "step.out": call.result,
        "session.id": session,
    },
)

WRITERS = (GENAI, OPENINFERENCE, OPENLLMETRY, LANGSMITH, UNKNOWN)


# Writing a conversation.


@dataclass
class Written:
    """The spans of one conversation, written one after the other."""

    conversation: Conversation
    writer: Writer
    program: Program
    second: Writer | None = None
    """Writes spans of its own for models and tools, beside those of the first."""
    documents: list[Document] = field(default_factory=list[Document])
    clock: int = START
    number: int = 0

    def span(self, trace: str, parent: str, name: str, attributes: Attributes, **more: Any) -> tuple[str, Message]:
        """Add a span that ends now; whoever has spans inside sets its end later."""
        self.number += 1
        span_id = new_id(self.conversation.id, self.number)
        self.clock += SECOND // 10
        record: Message = {
            "traceId": trace,
            "spanId": span_id,
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(self.clock),
            "attributes": [{"key": key, "value": attribute(value)} for key, value in attributes.items()],
            **more,
        }
        if parent:
            record["parentSpanId"] = parent
        self.clock += SECOND // 10
        record["endTimeUnixNano"] = str(self.clock)
        self.add(self.writer, record)
        return span_id, record

    def add(self, writer: Writer, record: Message) -> None:
        scope = {"scope": {"name": writer.scope}, "spans": [record]}
        self.documents.append({"resourceSpans": [{"resource": {}, "scopeSpans": [scope]}]})

    def written_again(self, record: Message, attributes_of: Callable[[Writer], Attributes]) -> None:
        """Let the second writer write what a span is of, too: a microsecond later, at the same place."""
        if self.second is None:
            return
        self.number += 1
        times = {key: str(int(record[key]) + 1000) for key in ("startTimeUnixNano", "endTimeUnixNano")}
        attributes = [{"key": key, "value": attribute(value)} for key, value in attributes_of(self.second).items()]
        changed = {"spanId": new_id(self.conversation.id, self.number), "attributes": attributes, **times}
        self.add(self.second, {**record, **changed})

    def trace_id(self) -> str:
        return new_id(self.conversation.id, "trace", self.number, size=16)

    def write(self) -> list[Document]:
        messages: list[Message] = [{"role": "system", "content": "You help customers. Follow the policy."}]
        for turn in self.conversation.turns:
            self.clock += 5 * SECOND
            messages.append({"role": "user", "content": turn.user})
            if self.program.models_only:
                self.steps(messages, turn.batches, turn.answer, "", "")
                continue
            if self.program.apart:
                self.beside(messages, "", "", is_last=False)
            trace = self.trace_id()
            attributes = self.writer.agent(self.conversation.id, turn.user, turn.answer)
            root, record = self.span(trace, "", "helper", attributes)
            self.steps(messages, turn.batches, turn.answer, trace, root)
            self.clock += SECOND // 10
            record["endTimeUnixNano"] = str(self.clock)
            if self.program.apart:
                self.beside(messages, "", "", is_last=True)
        return self.documents

    def steps(self, messages: list[Message], batches: Batches, answer: str, trace: str, parent: str) -> None:
        for batch in batches:
            if not self.program.apart:
                self.beside(messages, trace, parent, is_last=False)
            requests = [call.request for call in batch]
            self.model(messages, {"role": "assistant", "content": None, "tool_calls": requests}, trace, parent)
            for call in batch:
                self.tool(call, trace, parent)
            messages += [tool_message(self.told(call)) for call in batch]
        self.model(messages, {"role": "assistant", "content": answer}, trace, parent)
        if not self.program.apart:
            self.beside(messages, trace, parent, is_last=True)

    def beside(self, messages: list[Message], trace: str, parent: str, *, is_last: bool) -> None:
        """Add a model call that is no step of the conversation, if the program makes such ones."""
        what = self.program.beside
        if not what or is_last != ("title" in what):
            return
        given = BESIDE[what]([one["content"] for one in messages if one["role"] == "user"], messages)
        failed = {"status": {"code": 2, "message": "overloaded"}} if given is messages else {}
        attributes = self.writer.model(
            self.conversation.id, given, {"role": "assistant", "content": "" if failed else "yes"}
        )
        self.span(trace or self.trace_id(), parent, "chat m", attributes, **failed)

    def model(self, messages: list[Message], reply: Message, trace: str, parent: str) -> None:
        given = self.program.history(list(messages))
        attributes = self.writer.model(self.conversation.id, given, reply)
        _, record = self.span(trace or self.trace_id(), parent, "chat m", attributes)
        self.written_again(record, lambda writer: writer.model(self.conversation.id, given, reply))
        messages.append(reply)

    def tool(self, call: Asked, trace: str, parent: str) -> None:
        if self.program.models_only:
            return
        told = self.told(call)
        status = {"code": 2, "message": told.result[:120]} if call.failed and self.program.failure == "status" else {}
        kept = replace(told, result=told.result[: self.program.longest])
        attributes = self.writer.tool(self.conversation.id, kept)
        span_id, record = self.span(trace, parent, f"execute_tool {call.name}", attributes, status=status)
        if not call.inside:
            self.written_again(record, lambda writer: writer.tool(self.conversation.id, kept))
        if call.inside:
            inner, agent = self.span(trace, span_id, "specialist", self.writer.agent("", "", call.result))
            task = {"role": "user", "content": str(call.arguments["task"])}
            self.steps(
                [{"role": "system", "content": "You look things up."}, task], call.inside, call.result, trace, inner
            )
            self.clock += SECOND // 10
            agent["endTimeUnixNano"] = record["endTimeUnixNano"] = str(self.clock)

    def told(self, call: Asked) -> Asked:
        foreign = self.program.failure == "foreign" and call.failed
        return replace(call, result=_FAILURES[len(call.id) % len(_FAILURES)]) if foreign else call


ODD_NAMES = (
    *("chat", "invoke_agent", "execute_tool", "handoff", "transfer_to_agent", "agent", "search.web", "tool", "model"),
    *(
        "functions.get",
        "weather tool",
        "get-weather",
        "response",
        "user",
        "Task",
        "submit",
        "output",
        "workflow",
        "名前",
    ),
)
ODD_ARGUMENTS: tuple[Mapping[str, Any], ...] = (
    *(
        {},
        {"args": [1], "kwargs": {"a": 1}},
        {"args": [], "kwargs": {"a": 1}},
        {"kwargs": {"a": 1}},
        {"input": {"x": 1}},
    ),
    *({"input": "plain"}, {"input": '{"x": 1}'}, {"arguments": {"x": 1}}, {"name": "Bob", "arguments": {"x": 1}}),
    *(
        {"tool_name": "other", "arguments": {"x": 1}},
        {"type": "json", "value": {"a": 1}},
        {"type": "text", "value": "x"},
    ),
    *({"type": "object", "properties": {"a": {"type": "string"}}}, {"schema": {"type": "object", "properties": {}}}),
    *({"messages": [{"role": "user", "content": "hi"}]}, {"message": {"role": "assistant", "content": "x"}}),
    *({"role": "user", "content": "hi"}, {"content": [{"type": "text", "text": "a"}]}, {"value": {"a": 1}}),
    *({"data": {"content": "x", "tool_call_id": "y"}}, {"error": "disk full"}, {"output": "o"}, {"id": "call_1"}),
    *({"tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}, {"q": "***"}),
    *({"text": '{"a": 1}'}, {"text": "[1, 2]"}, {"note": "null"}, {"x": None}, {"q": "[REDACTED]"}, {"n": 10**30}),
    *({"s": "b" * 1000}, {"a.b": 1}, {"0": "zero"}, {"s": "ends with..."}, {"e": ""}, {"e": {}}, {"session_id": "s-9"}),
)
ODD_RESULTS = (
    *(
        "",
        "null",
        "{}",
        "[]",
        '{"error": null, "a": 1}',
        '{"error": "not found"}',
        "12",
        '"quoted"',
        "None",
        "{'a': 1}",
    ),
    *('{"content": [{"type": "text", "text": "x"}]}', '[{"type": "text", "text": "hello"}]', "0 errors", "user: hello"),
    *('{"messages": [{"role": "user", "content": "hi"}]}', '{"tool_call_id": "abc", "content": "z"}', "true"),
    '{"role": "assistant", "tool_calls": [{"id": "q", "function": {"name": "f", "arguments": "{}"}}]}',
)
ODD_MESSAGES = (
    *("Error: it does not work", '{"role": "assistant"}', '{"a": 1}', "[1, 2]", "tool: run it", "null", "1", "go on"),
    *("<system>be nice</system>", "The tool returned an error, try again", "Tool result: ok", "a" * 4000),
)


def odd_conversations() -> Iterator[Conversation]:
    """Yield plain conversations with one thing in each that could be taken for something else."""
    plain: Message = {"name": "find", "args": {"what": "a table"}, "result": "found", "error": None}
    changes = [
        *({"name": name} for name in ODD_NAMES),
        *({"args": arguments} for arguments in ODD_ARGUMENTS),
        *({"result": result} for result in ODD_RESULTS),
    ]
    for number, change in enumerate(changes):
        calls = [plain, {**plain, "name": "other", **change}, plain]
        yield conversation({"id": f"odd-{number}", "users": [[0, "Find a table"], [2, "And a chair"]], "calls": calls})
    for number, text in enumerate(ODD_MESSAGES):
        calls = [plain, {**plain, "name": "other"}]
        yield conversation({"id": f"said-{number}", "users": [[0, "Find a table"], [1, text]], "calls": calls})


_FAILURES = (
    "Die Buchung ist leider nicht gelungen: nicht genug Plätze.",
    "Erreur : la réservation a échoué, il n'y a plus de places.",
    "エラー: 予約できませんでした。空席がありません。",
    "خطأ: تعذر الحجز، لا توجد مقاعد كافية.",
)


def attribute(value: object) -> dict[str, object]:
    return {"stringValue": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}


def delegated(held: Conversation) -> Conversation:
    """Give all but the first batch of a turn to another agent."""

    def turn(said: Said, number: int) -> Said:
        if len(said.batches) < 3:
            return said
        task = f"Do what is left of step {number} of {held.id}."
        call = Asked(f"call_d_{held.id}_{number}", "ask_specialist", {"task": task}, "All done.", failed=False)
        return replace(said, batches=(said.batches[0], (replace(call, inside=said.batches[1:]),)))

    return replace(held, turns=tuple(turn(said, number) for number, said in enumerate(held.turns)))


def expected(held: Conversation, program: Program) -> Reading:
    """Return what is to be read, whoever wrote it."""
    told = program.failure != "foreign"

    def batches(asked: Batches) -> Iterator[tuple[Call, ...]]:
        for batch in asked:
            made = [Call(one.name, canonical(one.arguments), one.failed and told) for one in batch]
            yield tuple(sorted(made, key=lambda call: (call.name, call.arguments, call.failed)))
            for one in batch:
                yield from batches(one.inside)

    turns = tuple(ReadTurn(tuple(batches(turn.batches)), held.id) for turn in held.turns)
    failures = tuple(call.result for turn in held.turns for batch in turn.batches for call in batch if call.failed)
    return Reading(turns, tuple(turn.user for turn in held.turns), failures)


def cases_of(held: Conversation) -> Iterator[Case]:
    """Write a conversation by every writer for every program, and read it."""
    for program, writer in product(PROGRAMS, WRITERS):
        session = delegated(held) if program.delegates else held
        if session is held and program.delegates:
            continue
        documents = Written(session, writer, program).write()
        source = Original(held.id, documents, expected(session, program), requested=True, played=None)
        yield judged(source, f"{program.name}: {writer.name}", read(documents), documents, set(program.lost))


def cases_of_two_writers(held: Conversation) -> Iterator[Case]:
    """Write a conversation by every two writers at once, and read it."""
    for program, (first, second) in product(PROGRAMS, permutations(WRITERS, 2)):
        if program.name in ("agent", "models only", "failure in the text"):
            documents = Written(held, first, program, second).write()
            source = Original(held.id, documents, expected(held, program), requested=True, played=None)
            label = f"{program.name}: {first.name}, {second.name}"
            yield judged(source, label, read(documents), documents, set(program.lost))


def main(arguments: Sequence[str]) -> int:
    """Print the table; exit 1 if a case is silent."""
    parser = argparse.ArgumentParser(description="real conversations in the words of several writers")
    parser.add_argument("--sessions", type=int, default=40, help="how many, spread over the file")
    parser.add_argument("--cases", action="store_true", help="print each case that is silent, blind or a false doubt")
    parser.add_argument("file", nargs="?", type=Path, default=DATA)
    given = parser.parse_args(arguments)
    held = list(conversations(given.file))
    table, silent = Table(), 0
    for one in held[:: max(1, len(held) // given.sessions)]:
        for found in cases_of(one):
            table.add(found)
            silent += found.outcome == SILENT
            if given.cases and found.outcome in (SILENT, BLIND, FALSE_DOUBT):
                print(f"{found.outcome:12} {found.recording:28} {found.transformation}: {found.silent or found.doubts}")
    print("\n".join(table.lines()))
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
