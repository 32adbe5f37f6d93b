"""What `inspect` says to switch on: it is true of the recording, and in the language of its framework."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance import recordings
from conformance.single_records import Document, documents_of
from conformance.stripped import is_tool_span, without_arguments
from goldspan.collector_processor.replay.hints import HELP, Hint, advice_of
from goldspan.collector_processor.replay.inspection import Inspection, inspect_spans
from goldspan.collector_processor.report.inspection_pages import count_rows
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.installed_dialects import built_in_dialects
from goldspan.mappers.readers.files import read_files, views
from goldspan.scoring.sessions import Capture
from goldspan.scoring.verdict import Reason
from rigs.command_line import Run
from rigs.repository import ROOT
from rigs.trace_requests import START, attribute, request, turn_request, write_lines
from rigs.trace_requests import span as otlp_span

DOCS = ROOT / "docs"
OTHER_LANGUAGES = {"go-": "go", "java-": "java", "js-": "nodejs", "vercel-ai-": "nodejs"}
"""Beginnings of names of recordings that are not in Python."""
WORDS = {
    "python": (
        "session_scope",
        "using_session",
        "set_association",
        "with `",
        "=True",
        "config=",
        "hide_inputs",
        "def ",
    ),
    "nodejs": ("{sessionId", "getActiveSpan", "withAssociationProperties", "setSession", "hideInputs", "traceConfig"),
    "java": ("Span.current", "advisors", "runAsync(userId", "ContextAttributes"),
    "go": ("SpanFromContext", "Runner.Run(", "WithSession"),
}
"""What only users of one language can do something with."""
SWITCHES = {
    "agent-framework-native-nocontent": "ENABLE_SENSITIVE_DATA=true",
    "agno-openllmetry-nocontent": "TRACELOOP_TRACE_CONTENT",
    "crewai-openinference-nocontent": "OPENINFERENCE_HIDE_INPUTS",
    "dspy-openinference-nocontent": "OPENINFERENCE_HIDE_INPUTS",
    "google-adk-v1-nocontent": "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS",
    "google-adk-v2-default": "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY",
    "hand-written-kind-nocontent": "gen_ai.tool.call.arguments",
    "haystack-native-nocontent": "HAYSTACK_CONTENT_TRACING_ENABLED=true",
    "js-langchain-nocontent": "hideInputs of the traceConfig",
    "langchain-traceloop-nocontent": "TRACELOOP_TRACE_CONTENT",
    "langfuse-observe-nocontent": "capture_input=True",
    "llama-index-openinference-nocontent": "OPENINFERENCE_HIDE_INPUTS",
    "openai-agents-logfire-nocontent": "trace_include_sensitive_data",
    "openai-agents-openinference-nocontent": "OPENINFERENCE_HIDE_INPUTS",
    "openai-agents-otel-genai-nocontent": "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY",
    "java-quarkus-langchain4j-nocontent": "quarkus.langchain4j.tracing.include-tool-arguments",
    "js-google-adk-nocontent": "gen_ai.tool.call.arguments",  # its resource does not tell the language
    "openai-agents-traceloop-nocontent": "TRACELOOP_TRACE_CONTENT",
    "py-litellm-nocontent": "turn_off_message_logging",
    "py-google-genai-nocontent": "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY",
    "pydantic-ai-v5-nocontent": "include_content=True",
    "raw-anthropic-otel-genai-nocontent": "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY",
    "raw-anthropic-traceloop-nocontent": "TRACELOOP_TRACE_CONTENT",
    "raw-openai-openinference-nocontent": "OPENINFERENCE_HIDE_OUTPUTS",
    "raw-openai-otel-genai-nocontent": "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY",
    "raw-openai-traceloop-nocontent": "TRACELOOP_TRACE_CONTENT",
    "semantic-kernel-native-nocontent": "SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true",
    "strands-latest-redacted": "gen_ai_unredacted_attributes",
    "vercel-ai-v5-nocontent": "recordInputs",
    "vercel-ai-v6-nocontent": "recordInputs",
}
"""The switch that each recording without content was made without, or with."""
OF_STRIPPED = {
    "go-adk-nocontent": "gcp.vertex.agent.tool_call_args",
    "go-genkit": "Genkit's own spans",
    "java-adk-throw": "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS",
    "java-springai": "spring.ai.tools.observations.include-content=true",
    "java-springai2": "spring.ai.tools.observations.include-content=true",
    "js-genkit": "Genkit's own spans",
    "js-mastra": "hideInput",
    "js-openai-agents": "traceIncludeSensitiveData",
    "js-traceloop": "traceContent",
    "js-voltagent": "VoltAgent",
    "langchain-langsmith": "LANGSMITH_HIDE_INPUTS",
    "strands-default": "written by default",
    "uipath-traced": "hide_input",
    "vercel-ai-v4": "experimental_telemetry",
    "vercel-ai-v7": "in telemetry",
}
"""The switch of recordings whose arguments are taken away on all tool spans."""
WITHOUT_CONTENT = {name for name in recordings.NAMES if "nocontent" in name} - {
    "agno-openinference-nocontent",  # these three keep the arguments of tools
    "go-adk-nocontent",
    "llama-index-openllmetry-nocontent",
}


def inspected(name: str) -> Inspection:
    registry = DialectRegistry()
    return inspect_spans(read_files(recordings.files_of(name), lambda problem: None), registry, [])


def inspected_documents(documents: list[Document]) -> Inspection:
    return inspect_spans(views(documents, lambda problem: None), DialectRegistry(), [])


def language_of(name: str) -> str:
    return next((language for begins, language in OTHER_LANGUAGES.items() if name.startswith(begins)), "python")


def words_of_others(hints: tuple[Hint, ...], language: str) -> Iterator[str]:
    for other, words in WORDS.items():
        if other != language:
            yield from (word for word in words for hint in hints if word in hint.helps)


def says_add_an_instrumentation(hint: Hint) -> bool:
    return "instrumentation that writes" in hint.helps


@pytest.mark.every_recording
@pytest.mark.parametrize("name", recordings.NAMES)
def test_hints_speak_the_language_of_the_recording(name: str) -> None:
    found = inspected(name)
    assert list(words_of_others(found.hints, language_of(name))) == []
    known = any(call.capture is not Capture.NOT_CAPTURED for call in found.calls)
    assert not (known and any(map(says_add_an_instrumentation, found.hints)))


def test_every_recording_without_content_has_its_switch_listed() -> None:
    assert SWITCHES.keys() >= WITHOUT_CONTENT


@pytest.mark.parametrize("name", SWITCHES)
def test_what_a_recording_lacks_is_named_by_the_switch_of_its_framework(name: str) -> None:
    found = inspected(name)
    [hint] = [hint for hint in found.hints if not hint.seen.startswith("no session id")]
    assert hint.seen.startswith(("arguments not captured", "arguments redacted", "no span shows which tools ran"))
    assert SWITCHES[name] in hint.helps


@pytest.mark.parametrize("name", OF_STRIPPED)
def test_without_arguments_on_tool_spans_the_switch_is_named(name: str) -> None:
    whole = documents_of(name)
    tools = [document for document in whole if is_tool_span(document)]
    found = inspected_documents([without_arguments(document) for document in tools])
    hints = [hint for hint in found.hints if hint.seen.startswith("arguments not captured")]
    assert hints
    assert all(OF_STRIPPED[name] in hint.helps for hint in hints)
    assert list(words_of_others(found.hints, language_of(name))) == []
    assert not any(map(says_add_an_instrumentation, found.hints))


@pytest.mark.parametrize("name", ["openai-agents-openinference-nocontent", "google-adk-v2-default", "js-traceloop"])
def test_where_language_and_framework_are_unknown_the_words_are_those_of_opentelemetry(name: str) -> None:
    documents = json.loads(
        json.dumps([without_arguments(document) for document in documents_of(name) if is_tool_span(document)])
    )
    for document in documents:
        _forget(document)
    found = inspected_documents(documents)
    assert any(hint.seen.startswith("no session id") for hint in found.hints)
    assert any(hint.seen.startswith("arguments") for hint in found.hints)
    assert list(words_of_others(found.hints, "")) == []


def _forget(document: dict[str, Any]) -> None:
    """Take away what tells the language, the framework and the session."""
    for resource in document["resourceSpans"]:
        resource["resource"] = {}
        for scope in resource["scopeSpans"]:
            scope["scope"] = {"name": "app"}
            for span in scope["spans"]:
                span["attributes"] = [
                    one
                    for one in span["attributes"]
                    if "session" not in one["key"] and "conversation" not in one["key"] and "thread" not in one["key"]
                ]


def test_the_hint_for_turns_without_visible_calls_claims_no_missing_instrumentation() -> None:
    assert "instrumentation" not in HELP[Reason.CALLS_NOT_VISIBLE]
    found = inspected("py-google-genai-nocontent")
    assert not any(turn.calls_visible for session in found.sessions for turn in session.turns)
    assert not any("tools ran" in hint.seen and "which tools ran" not in hint.seen for hint in found.hints)


def tool_span(scope: str, language: str = "", **attributes: str) -> Document:
    """A tool's span without arguments."""
    said = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.conversation.id": "s"}
    listed = [attribute(key.replace("__", "."), text) for key, text in {**said, **attributes}.items()]
    one = otlp_span("1" * 32, "2" * 16, "", "execute_tool f", start=START, seconds=1, attributes=listed)
    document = request([one], scope)
    resource = {"attributes": [attribute("telemetry.sdk.language", language)] if language else []}
    return {"resourceSpans": [{**document["resourceSpans"][0], "resource": resource}]}


@pytest.mark.parametrize(
    ("calls", "told"),
    [([("f", {}), ("g", {})], True), ([("f", {})], False), ([("f", {}), ("g", None)], False)],
    ids=["two calls", "one call", "arguments of one are missing"],
)
def test_where_no_model_is_recorded_batches_are_said_to_come_from_times(
    calls: list[tuple[str, dict[str, Any] | None]], told: bool, run: Run, tmp_path: Path
) -> None:
    text = run("inspect", write_lines(tmp_path / "traces.jsonl", turn_request("s", *calls))).stdout
    assert ("no model's answer shows which calls were requested together in 1 of 1 turns" in text) is told
    assert ("Nothing is missing" in text) is (len(calls) == 1)


def test_where_models_are_recorded_nothing_is_said_of_batches() -> None:
    seen = [hint.seen for hint in inspected("openai-agents-openinference-batch").hints]
    assert not any("requested together" in text for text in seen)


@pytest.mark.parametrize(
    ("document", "helps"),
    [
        (tool_span("my-service", koog__event__id="1"), "setVerbose(true)"),
        (
            tool_span("my-service", koog__event__id="1", gen_ai__tool__call__arguments="HIDDEN:non-empty"),
            "setVerbose(true)",
        ),
        (tool_span("ai.koog"), "setVerbose(true)"),
        (tool_span("my-app", "rust", gen_ai__tool__call__outcome="success"), ".record_content_telemetry(true)"),
        (tool_span("opentelemetry.instrumentation.botocore.bedrock-runtime", "python"), "and export logs"),
        (tool_span("opentelemetry.instrumentation.nobody_knows", "python"), "OpenTelemetry's instrumentations"),
        (tool_span("litellm", "python"), "litellm.turn_off_message_logging"),
        (tool_span("opentelemetry.instrumentation.crewai", "python"), "TRACELOOP_TRACE_CONTENT"),
    ],
)
def test_advice_is_that_of_what_wrote_the_span(document: Document, helps: str, run: Run, tmp_path: Path) -> None:
    """By its scope, or by its attributes where the scope has the name of the user's service."""
    found = inspected_documents([document])
    [hint] = found.hints
    assert helps in hint.helps
    assert ("Traceloop" in hint.helps or "TRACELOOP" in hint.helps) is ("TRACELOOP" in helps)
    goldens = tmp_path / "goldens.json"
    golden = {"session": "s", "turns": [{"calls": [{"name": "f", "args": {"a": 1}}]}]}
    goldens.write_text(json.dumps({"golden_set": "g", "goldens": [golden]}), "utf-8")
    if hint.seen.startswith("arguments not captured"):
        told = run("score", write_lines(tmp_path / "t.jsonl", document), "--goldens", goldens).stdout
        assert helps in " ".join(told.split())


@pytest.mark.parametrize(("name", "said"), [("langchain-openinference", False), ("mcp-native", True)])
def test_other_spans_are_spoken_of_where_something_is_missing(name: str, *, said: bool) -> None:
    found = inspected(name)
    assert found.not_recognised
    assert ("not recognised" in dict(count_rows(found))) is said


def test_the_page_of_switches_has_every_advice() -> None:
    page = runpy.run_path(str(DOCS / "generate_switches.py"))["page"]()
    advice = [one for dialect in built_in_dialects() for one in advice_of(dialect)]
    assert advice
    assert [one for one in advice if f"\n| {one.framework} | " not in page or one.checked not in page] == []


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("name", "switch"),
    [
        ("google-adk-v2-default", "CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"),
        ("vercel-ai-v6-nocontent", "experimental_telemetry"),
        ("agent-framework-native-nocontent", "ENABLE_SENSITIVE_DATA=true"),
    ],
)
def test_score_names_the_switch_of_the_stack_that_it_read(
    name: str, switch: str, jobs: int, run: Run, tmp_path: Path
) -> None:
    [session, *_] = inspected(name).sessions
    calls = [{"name": call.name, "args": {"city": "Paris"}} for call in session.turns[0].calls]
    goldens = tmp_path / "goldens.json"
    golden = {"session": session.id, "turns": [{"calls": calls}]}
    goldens.write_text(json.dumps({"format": 1, "golden_set": "g", "goldens": [golden]}), "utf-8")
    told = run("score", *recordings.files_of(name), "--goldens", goldens, "--jobs", jobs).stdout.partition(
        "what to do"
    )[2]
    hint = Hint("", " ".join(told.split()))
    assert switch in hint.helps
    assert list(words_of_others((hint,), language_of(name))) == []


def test_a_call_that_was_made_twice_says_what_to_write_if_that_is_right(run: Run, tmp_path: Path) -> None:
    call = ("book_flight", {"flight": "DY 1"})
    traces = write_lines(tmp_path / "t.jsonl", turn_request("a", call, call))
    golden = {"golden_set": "g", "goldens": [{"session": "a", "calls": [{"name": call[0], "args": call[1]}]}]}
    for more, code in (({}, 1), ({"reads": ["book_flight"]}, 0), ({"criterion": {"repeated_writes": "report"}}, 0)):
        (tmp_path / "g.json").write_text(json.dumps(golden | more), "utf-8")
        result = run("score", traces, "--goldens", "g.json")
        assert result.exit_code == code
        said = " ".join(result.stdout.split())
        assert ("the same call succeeded before (1): book_flight ran again with the same arguments." in said) is bool(
            code
        )
