"""The judge: what a model is asked, what its answers mean, and what happens when it does not answer."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.collector_processor.judge import Judge, JudgeAnswer, Question, load_judge_options
from goldspan.scoring import Capture, Content, Label, Reason, Session, ToolCall, Turn, score_sessions
from goldspan.scoring.errors import FileError, SettingsError
from goldspan.scoring.metrics.judge import parse_answer, preset_prompt
from goldspan.scoring.verdict import MetricResult
from rigs.command_line import runner
from rigs.model_server import ModelServer, Response, model_server, rated
from rigs.repository import FIXTURES, ROOT
from rigs.span_facts import captured

RECORDED = json.loads((FIXTURES / "judge/strands.json").read_text("utf-8"))
SYSTEM_PROMPT_OF_STRANDS = "edb454b20e97198228037ea7a99da58358f651492ec3b043559615c100dad6bb"
"""SHA-256 of the system prompt in the wheel of strands-agents-evals 1.7.0."""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as found:
        yield found


def judge(server: ModelServer, **options: Any) -> Judge:
    return Judge("scripted", base_url=server.url, sleep=lambda _: None, **options)


def session(*calls: ToolCall, user: str = "Weather in Paris, please", name: str = "s") -> Session:
    return Session(name, (Turn(calls, user_text=captured(user)),))


def calls(number: int) -> list[ToolCall]:
    return [ToolCall("get_weather", {"city": f"city {index}"}) for index in range(number)]


def accuracy(judged: Any, *sessions: Session) -> MetricResult:
    return score_sessions(None, sessions or [session(*calls(1))], metrics=[judged]).sessions[0].metrics[0]


# What is asked ---------------------------------------------------------------------------------------------------


def nanoseconds(written: str) -> int:
    return round(datetime.fromisoformat(written).astimezone(UTC).timestamp() * 1_000_000) * 1_000


def strands_session(recorded: dict[str, Any]) -> Session:
    return Session(recorded["session_id"], tuple(strands_turn(trace["spans"]) for trace in recorded["traces"]))


def strands_turn(spans: list[dict[str, Any]]) -> Turn:
    agents = [span for span in spans if span["span_type"] == "invoke_agent"]
    tools = {span["span_info"]["span_id"]: span["available_tools"] for span in agents}
    root = agents[0] if agents else {}
    return Turn(
        tuple(
            ToolCall(
                span["tool_call"]["name"],
                span["tool_call"]["arguments"],
                start=nanoseconds(span["span_info"]["start_time"]),
                end=nanoseconds(span["span_info"]["end_time"]),
                agent=span["agent_span_id"],
                error=span["tool_result"]["error"],
                result=captured(span["tool_result"]["content"]),
            )
            for span in spans
            if span["span_type"] == "execute_tool"
        ),
        user_text=captured(root.get("user_prompt", "")),
        answer=captured(root.get("agent_response", "")),
        tool_definitions=captured(json.dumps(tools if len(tools) > 1 else root.get("available_tools"))),
    )


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: case["case_id"])
def test_the_preset_asks_what_strands_asked(case: dict[str, Any], server: ModelServer) -> None:
    labels = iter([call["label"] for call in case["per_call"] or ()])
    server.answer = lambda body: Response(tool_arguments=json.dumps({"reasoning": "r", "score": next(labels, "Yes")}))
    custom = {name: case["config"][name] for name in ("system_prompt",) if name in case["config"]}
    result = accuracy(judge(server, preset="strands", concurrency=1, **custom), strands_session(case["session"]))
    wanted = [call["judge_prompt"] for call in case["per_call"] or ()]
    assert server.prompts()[: len(wanted)] == wanted
    for request in server.requests:
        assert request["messages"][0] == {
            "role": "system",
            "content": custom.get("system_prompt", preset_prompt("strands")[0]),
        }
        (tool,) = request["tools"]
        (spec,) = RECORDED["judge_tool_spec"]
        assert tool["function"] == {
            "name": spec["name"],
            "description": spec["description"],
            "parameters": spec["inputSchema"]["json"],
        }
        assert request["temperature"] == 0
    if wanted:
        assert (result.score, result.passed) == (case["score"], case["test_pass"])


def test_there_are_recorded_prompts_to_hold_against() -> None:
    assert sum(len(case["per_call"] or ()) for case in RECORDED["cases"]) == 102
    assert hashlib.sha256(preset_prompt("strands")[0].encode()).hexdigest() == SYSTEM_PROMPT_OF_STRANDS


def test_goldspan_shows_what_was_before_the_call(server: ModelServer) -> None:
    weather = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
    first = ToolCall("find_city", {"q": "capital"}, start=1, end=2, result=captured("Paris"))
    second = ToolCall("get_weather", {"city": "Paris"}, start=1_760_000_000_000_000_000, end=1_760_000_000_000_000_001)
    turn = Turn((first, second), user_text=captured("Weather in the capital?"), tool_definitions=captured([weather]))
    accuracy(judge(server, concurrency=1), Session("s", (turn,)))
    before, after = server.prompts()
    assert "Paris" not in before
    assert 'get_weather({"city": "Paris"})' in after
    assert re.search(r"result of find_city.*\nParis\n", after)
    assert "Weather in the capital?" in after
    assert '"properties"' in after
    assert "2025-10-09" in after
    request = server.requests[0]
    assert request["response_format"]["json_schema"]["schema"]["required"] == ["reasoning", "score"]
    assert (request["temperature"], request["model"]) == (0, "scripted")


def test_nothing_is_asked_about_what_was_not_captured(server: ModelServer) -> None:
    hidden = ToolCall("f", None, Capture.REDACTED)
    result = accuracy(judge(server), session(hidden, ToolCall("f", {"x": 1}, rejected=True)))
    assert (server.requests, result.label, result.reason) == ([], Label.NOT_EVALUATED, Reason.ARGUMENTS_REDACTED)
    alone = accuracy(judge(server), Session("s", (Turn((ToolCall("f", {"x": 1}),)),)))
    assert (server.requests, alone.reason) == ([], Reason.INPUT_MISSING)


def test_only_calls_that_grounding_did_not_settle_are_asked_about(server: ModelServer) -> None:
    server.script(rated("No", "Berlin was never named"))
    good, bad = ToolCall("get_weather", {"city": "Paris"}), ToolCall("get_weather", {"city": "Berlin"})
    result = accuracy(judge(server, when="ungrounded"), session(good, bad))
    assert [call.score for turn in result.turns for call in turn.calls] == [1, 0]
    assert [call.findings[0].kind for turn in result.turns for call in turn.calls] == ["grounded", "no"]
    assert len(server.requests) == 1
    assert 'get_weather({"city": "Berlin"})' in server.prompts()[0]


def test_only_what_is_in_doubt_is_asked_about(server: ModelServer) -> None:
    calls = (
        ToolCall("get_weather", {"city": "Paris", "number_of_days": 1}, result=captured("sunny")),
        ToolCall("get_weather", {"city": "Paris"}, result=captured("sunny")),
        ToolCall("get_weather", {"city": "Berlin"}, result=captured("sunny")),
        ToolCall("list_cities", {}, result=captured("none")),
    )
    accuracy(judge(server, when="doubtful"), session(*calls))
    asked = sorted(prompt.rpartition("# Call")[2].strip() for prompt in server.prompts())
    assert len(asked) == 2
    assert '"Berlin"' in asked[0] or '"Berlin"' in asked[1]


@pytest.mark.parametrize("result", [captured("sunny"), Content()], ids=["grounding fails", "grounding does not know"])
def test_a_call_that_grounding_fails_or_cannot_judge_is_asked_about(result: Content, server: ModelServer) -> None:
    good, bad = ToolCall("f", {"city": "Paris"}, result=result), ToolCall("f", {"city": "Berlin"}, result=result)
    accuracy(judge(server, when="ungrounded"), session(good, bad))
    (asked,) = server.prompts()
    assert '"Berlin"' in asked


def test_tools_of_an_earlier_turn_are_shown(server: ModelServer) -> None:
    first = Turn(
        user_text=captured("Hi"), tool_definitions=captured([{"name": "get_weather", "description": "Weather"}])
    )
    second = Turn(tuple(calls(1)), user_text=captured("Weather, please"))
    accuracy(judge(server, preset="strands"), Session("s", (first, second)))
    assert server.prompts()[0].startswith("## Available tool-calls\n- get_weather: Weather\n")


def test_a_long_conversation_is_cut_at_its_beginning(server: ModelServer) -> None:
    turn = Turn(
        tuple(calls(1)), user_text=captured("the end"), messages=captured([{"role": "user", "content": "x " * 50_000}])
    )
    accuracy(judge(server), Session("s", (turn,)))
    (asked,) = server.prompts()
    assert len(asked) < 62_000
    assert "the end" in asked
    assert "beginning of the conversation is left out" in asked


def test_tools_of_a_file_are_shown(server: ModelServer) -> None:
    tools = {"get_weather": {"type": "object", "properties": {"city": {"type": "string", "description": "A town"}}}}
    accuracy(judge(server, preset="strands").with_tools(tools))
    assert "    - city (string): A town" in server.prompts()[0]


# What answers mean -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "accurate"),
    [
        ('{"reasoning": "r", "score": "Yes"}', True),
        ('{"score": "no"}', False),
        ('```json\n{"reasoning": "r", "score": "No."}\n```', False),
        ('<think>{"score": "Yes"} or {no}?</think> I say {"reasoning": "r", "score": "No"}', False),
        ('{"reasoning": "r", "score": "Yes", "of": {"score": "No"}}', True),
        ({"score": True}, True),
        (False, False),
        (JudgeAnswer(True, "r"), True),
        ("Yes", None),
        ('{"score": "Maybe"}', None),
        ('{"score": 1}', None),
        ("[" * 5_000, None),
        ('{"a":' * 5_000, None),
        ("", None),
        (None, None),
        ([], None),
    ],
)
def test_an_answer_is_read(said: object, accurate: bool | None) -> None:
    found = parse_answer(said)
    assert (None if found is None else found.accurate) is accurate


@given(st.text() | st.recursive(st.none() | st.text() | st.floats(), lambda inner: st.dictionaries(st.text(), inner)))
def test_whatever_is_said_is_read_or_not(said: object) -> None:
    assert parse_answer(said) is None or isinstance(parse_answer(said), JudgeAnswer)


@given(st.booleans(), st.text(), st.text(), st.text())
def test_an_answer_within_a_text_is_found(accurate: bool, reasoning: str, before: str, after: str) -> None:
    answer = json.dumps({"reasoning": reasoning, "score": "Yes" if accurate else "No"})
    said = f"{before.replace('{', '')}{answer}{after.replace('{', '')}"
    assert parse_answer(said) == JudgeAnswer(accurate, reasoning)


def test_no_fails_and_its_reason_is_told_with_values_only(server: ModelServer) -> None:
    server.script(rated("Yes"), rated("No", "nobody said Berlin"))
    result = accuracy(judge(server, concurrency=1), session(*calls(2)))
    assert (result.score, result.label) == (0.5, Label.FAIL)
    assert result.verdict.explanation == "1 of 2 calls; get_weather: the model answers No"
    assert "nobody said Berlin" in result.verdict.detailed
    first, second = result.turns[0].calls
    assert (first.label, second.label) == (Label.PASS, Label.FAIL)
    assert [finding.detailed for finding in second.failures] == ["the model answers No: nobody said Berlin"]


def test_an_answer_may_come_as_text_or_by_a_tool(server: ModelServer) -> None:
    server.script(Response(tool_arguments='{"reasoning": "r", "score": "No"}'))
    assert accuracy(judge(server)).score == 0
    server.script(Response([{"type": "text", "text": '{"score": "No"}'}]))
    assert accuracy(judge(server)).score == 0


# When it does not answer -----------------------------------------------------------------------------------------


def failed(result: MetricResult) -> str:
    assert (result.label, result.reason) == (Label.NOT_EVALUATED, Reason.EVALUATOR_ERROR)
    return result.verdict.explanation


def test_garbage_is_answered_with_how_to_answer(server: ModelServer) -> None:
    server.script(Response("Maybe."), rated("Yes"))
    assert accuracy(judge(server)).passed
    first, second = server.requests
    assert len(first["messages"]) == 2
    assert second["messages"][2] == {"role": "assistant", "content": "Maybe."}
    assert "JSON" in second["messages"][3]["content"]


GARBAGE = [
    (Response("Maybe."), "neither Yes nor No"),
    (Response(None), "neither Yes nor No"),
    (Response(body=b""), "no JSON"),
    (Response(body=b"<html>"), "no JSON"),
    (Response(body=b"[" * 60_000), "no JSON"),
    (Response(body=b'{"choices": []}'), "no chat completion"),
    (Response(body=b'{"choices": [{"message": 1}]}'), "no chat completion"),
    (Response(body=b"\xff\xfe\x00"), "no JSON"),
    (Response(body=b"x", headers={"Content-Encoding": "gzip"}), "no JSON"),
    (Response(status=500, body=b"oops"), "HTTP 500"),
]


@pytest.mark.parametrize(("response", "words"), GARBAGE, ids=[words for _, words in GARBAGE])
def test_garbage_for_ever_is_no_answer(response: Response, words: str, server: ModelServer) -> None:
    server.script(response)
    assert words in failed(accuracy(judge(server, attempts=2)))
    assert len(server.requests) == 2


def test_a_refused_request_is_not_repeated_and_hides_the_key(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", "sk-secret")
    server.script(Response(status=401, body=b'{"error": "bad key sk-secret"}'))
    asked = judge(server, api_key_env="THE_KEY")
    result = accuracy(asked)
    assert failed(result) == "1 of 1 call without an answer; HTTP 401"
    assert "bad key ***" in result.verdict.detailed
    assert len(server.requests) == 1
    assert server.headers[0]["Authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in f"{result!r} {vars(asked)!r} {asked.options!r}"


@pytest.mark.parametrize(
    ("header", "waits"),
    [("7", [7.0]), ("0", [0.0]), ("3600", []), ("soon", None), ("Wed, 21 Oct 2015 07:28:00 GMT", [0.0])],
)
def test_too_many_requests_are_sent_later(header: str, waits: list[float] | None, server: ModelServer) -> None:
    server.script(Response(status=429, headers={"Retry-After": header}), rated("Yes"))
    slept: list[float] = []
    result = accuracy(Judge("scripted", base_url=server.url, sleep=slept.append))
    if waits is None:
        assert 0 < slept[0] <= 0.5
    else:
        assert slept == waits
    assert result.passed if slept else failed(result) == "1 of 1 call without an answer; HTTP 429"


def test_a_server_that_says_nothing_is_left(server: ModelServer) -> None:
    server.script(Response(delay=2.0))
    began = time.monotonic()
    assert "TimeoutError" in failed(accuracy(judge(server, timeout=0.2, attempts=2)))
    assert time.monotonic() - began < 1.5
    assert len(server.requests) == 2


def test_no_server_at_all() -> None:
    asked = Judge("scripted", base_url="http://127.0.0.1:1/v1", sleep=lambda _: None)
    assert "no response" in failed(accuracy(asked))


def test_a_model_that_is_away_is_not_asked_about_every_call(server: ModelServer) -> None:
    server.script(Response(status=503, body=b""))
    now = [0.0]
    asked = Judge(
        "scripted", base_url=server.url, sleep=lambda _: None, clock=lambda: now[0], attempts=2, concurrency=1
    )
    assert "is not asked for a while" in failed(accuracy(asked, session(*calls(20))))
    assert len(server.requests) == 10
    server.script(rated("Yes"))
    now[0] += 61
    assert accuracy(asked).passed


def test_what_has_no_answer_passes_nothing_and_hides_no_failure(server: ModelServer) -> None:
    server.script(rated("Yes"), Response(status=400, body=b""))
    assert "1 of 2 calls without an answer" in failed(accuracy(judge(server, concurrency=1), session(*calls(2))))
    server.script(rated("No"), Response(status=400, body=b""))
    result = accuracy(judge(server, concurrency=1), session(*calls(2)))
    assert (result.label, result.score) == (Label.FAIL, 0)
    assert "1 without an answer" in result.verdict.explanation


# Budget, cache, concurrency --------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_budget_of_calls_is_never_exceeded(concurrency: int, server: ModelServer) -> None:
    asked = judge(server, budget={"calls": 3}, concurrency=concurrency)
    words = failed(accuracy(asked, session(*calls(8))))
    assert words.startswith("5 of 8 calls without an answer")
    assert "the budget of 3 calls is used up" in words
    assert (len(server.requests), asked.usage.calls, asked.usage.unanswered) == (3, 3, 5)


def test_repeated_requests_count(server: ModelServer) -> None:
    server.script(Response("Maybe."))
    assert "budget of 2 calls" in failed(accuracy(judge(server, budget={"calls": 2}, attempts=5)))
    assert len(server.requests) == 2


@pytest.mark.parametrize(("reported", "asked_for"), [(1_000, 2), (None, 3)])
def test_a_budget_of_tokens(reported: int | None, asked_for: int, server: ModelServer) -> None:
    server.answer = lambda body: Response('{"score": "Yes"}', tokens=reported)
    asked = judge(server, budget={"tokens": 1_500}, concurrency=1)
    assert "1500 tokens is used up" in failed(accuracy(asked, session(*calls(20))))
    assert len(server.requests) == asked_for if reported else asked_for < len(server.requests) < 20
    assert asked.usage.tokens <= 1_500 + (reported or 0)


def test_a_budget_of_seconds(server: ModelServer) -> None:
    now = [0.0]

    def slow(body: dict[str, Any]) -> Response:
        now[0] += 4
        return rated("Yes")

    server.answer = slow
    asked = Judge("scripted", base_url=server.url, clock=lambda: now[0], budget={"seconds": 10}, concurrency=1)
    assert "10 seconds is used up" in failed(accuracy(asked, session(*calls(9))))
    assert len(server.requests) == 3
    now[0] += 1_000
    assert asked.usage.seconds == 12


def test_a_budget_is_there_again(server: ModelServer) -> None:
    now = [0.0]
    options = {"budget": {"calls": 2, "tokens": 10_000, "every": 60}, "concurrency": 1}
    asked = Judge("scripted", base_url=server.url, clock=lambda: now[0], **options)
    assert failed(accuracy(asked, session(*calls(3))))
    now[0] += 59
    assert failed(accuracy(asked, session(*calls(3))))
    now[0] += 1
    assert accuracy(asked, session(*calls(3))).passed
    assert len(server.requests) == 3


def test_several_questions_are_asked_at_once(server: ModelServer) -> None:
    server.answer = lambda body: Response('{"score": "Yes"}', delay=0.1)
    assert accuracy(judge(server, concurrency=3), session(*calls(9))).passed
    assert server.most_at_once == 3


def test_answers_are_kept_in_memory(server: ModelServer) -> None:
    asked = judge(server)
    assert accuracy(asked).passed
    assert accuracy(asked, session(*calls(1), name="another")).passed
    assert (len(server.requests), asked.usage.from_cache) == (1, 1)


def test_answers_are_kept_in_a_file_of_their_owner(server: ModelServer, tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    server.script(rated("No", "invented"))
    first = accuracy(judge(server, cache=path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    later = accuracy(judge(server, cache=path, budget={"calls": 1}))
    assert (later.verdict, len(server.requests)) == (first.verdict, 1)


@pytest.mark.parametrize("change", [{"preset": "strands"}, {"system_prompt": "X"}, {"request": {"seed": 1}}])
def test_another_question_has_another_answer(change: dict[str, Any], server: ModelServer, tmp_path: Path) -> None:
    for options in ({}, change):
        accuracy(judge(server, cache=tmp_path / "answers.sqlite", **options))
    assert len(server.requests) == 2


def test_what_failed_is_asked_again(server: ModelServer, tmp_path: Path) -> None:
    server.script(Response(status=400), rated("Yes"))
    path = tmp_path / "answers.sqlite"
    assert failed(accuracy(judge(server, cache=path)))
    assert accuracy(judge(server, cache=path)).passed


def test_a_cache_that_breaks_costs_only_its_answers(server: ModelServer, tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    asked = judge(server, cache=path)
    with sqlite3.connect(path) as other:
        other.execute("DROP TABLE answers")
    assert accuracy(asked).passed


def test_a_cache_that_is_none_is_refused(server: ModelServer, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello " * 1_000)
    with pytest.raises(SettingsError, match=r"notes\.txt cannot be used"):
        judge(server, cache=path)


# Models ----------------------------------------------------------------------------------------------------------


def test_a_function_is_a_model() -> None:
    asked: list[Question] = []

    def model(question: Question) -> bool:
        asked.append(question)
        return "city 0" in question.prompt.rpartition("# Call")[2]

    result = accuracy(Judge(model, concurrency=1), session(*calls(2)))
    assert (result.score, len(asked)) == (0.5, 2)


@pytest.mark.parametrize("answer", [{"score": "Yes"}, '{"score": "Yes"}', JudgeAnswer(True), True])
def test_an_async_function_is_a_model_too(answer: Any) -> None:
    async def model(question: Question) -> Any:
        await asyncio.sleep(0)
        return answer

    assert accuracy(Judge(model), session(*calls(3))).passed
    assert accuracy(Judge(lambda question: model(question))).passed  # noqa: PLW0108 - not async itself

    async def in_a_loop() -> float | None:
        return (await Judge(model).score(session(*calls(3)))).score  # type: ignore[return-value]

    assert asyncio.run(in_a_loop()) == 1


def test_async_questions_wait_together() -> None:
    at_once = most = 0

    async def model(question: Question) -> bool:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.05)
        at_once -= 1
        return True

    assert accuracy(Judge(model, concurrency=4), session(*calls(8))).passed
    assert most == 4


def test_a_function_that_raises_or_hangs_is_no_answer() -> None:
    stuck = threading.Event()

    def hangs(question: Question) -> bool:
        return stuck.wait(10)

    async def waits(question: Question) -> bool:
        await asyncio.sleep(10)
        return True

    def leaves(question: Question) -> bool:
        raise SystemExit

    assert "RuntimeError raised" in failed(accuracy(Judge(leaves, sleep=lambda _: None)))
    for model in (hangs, waits):
        began, threads = time.monotonic(), threading.active_count()
        asked = Judge(model, timeout=0.1, attempts=2, concurrency=2, sleep=lambda _: None)
        assert "no answer within 0.1 seconds" in failed(accuracy(asked, session(*calls(6))))
        assert time.monotonic() - began < 3
        assert threading.active_count() <= threads + 3
    stuck.set()


def test_a_model_of_pydantic_ai() -> None:
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart  # noqa: PLC0415 - only here
    from pydantic_ai.models.function import AgentInfo, FunctionModel  # noqa: PLC0415 - only here

    seen: list[Any] = []

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append((messages, info))
        (tool,) = info.output_tools
        return ModelResponse(parts=[ToolCallPart(tool.name, {"reasoning": "invented", "score": "No"})])

    asked = Judge(FunctionModel(reply), client="pydantic_ai", preset="strands")
    result = accuracy(asked)
    assert (result.score, result.turns[0].calls[0].findings[0].detailed) == (0, "the model answers No: invented")
    ((messages, info),) = seen
    assert messages[0].parts[0].content == preset_prompt("strands")[0]
    assert info.model_settings["temperature"] == 0
    assert asked.usage.tokens > 0


# Options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "`model` is missing"),
        ({"model": "m"}, "`base_url` is missing"),
        ({"model": 3}, "found a int"),
        ({"model": "m", "base_url": "ftp://x"}, "base_url: found"),
        ({"model": "m", "base_url": "https://u:p@localhost/v1"}, "api_key_env"),
        (
            {"model": "m", "base_url": "http://h", "api_key_env": "NOT_SET_ANYWHERE"},
            "NOT_SET_ANYWHERE holds no API key",
        ),
        ({"model": "m", "base_url": "http://h", "budget": {"call": 3}}, "did you mean `calls`"),
        ({"model": "m", "base_url": "http://h", "budgett": {}}, "did you mean `budget`"),
        ({"model": "m", "base_url": "http://h", "when": "never"}, "expected `always`, `ungrounded` or `doubtful`"),
        ({"model": "m", "base_url": "http://h", "concurrency": 0}, "concurrency"),
        ({"model": "m", "base_url": "http://h", "client": "litellm"}, "goes with the client `openai`"),
        ({"model": "m", "client": "litellm"}, r"pip install 'goldspan\[litellm\]'"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        Judge(**options)


def test_a_file_of_options_is_refused_with_every_mistake(tmp_path: Path) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text("model: m\nbase_url: http://h/v1\nwhen: never\nbudget:\n  call: 3\n")
    with pytest.raises(FileError) as caught:
        load_judge_options(path)
    assert [(mistake.line, mistake.path) for mistake in caught.value.mistakes] == [(3, "when"), (5, "budget.call")]
    for content in ("", "[]", "model: m", "base_url: http://h"):
        path.write_text(content)
        with pytest.raises(FileError, match=r"judge\.yaml"):
            load_judge_options(path)


# The command line ------------------------------------------------------------------------------------------------

EXAMPLES = ROOT / "examples"


def test_score_asks_a_model(server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = runner(tmp_path, monkeypatch)
    options = {"model": "scripted", "base_url": server.url, "cache": "answers.sqlite", "budget": {"calls": 100}}
    (tmp_path / "judge.json").write_text(json.dumps(options))
    arguments = ("score", EXAMPLES / "traces/langchain.otlp.json", "--judge", "judge.json", "--format", "json")
    first = run(*arguments)
    (judged,) = [
        one for one in json.loads(first.stdout)["sessions"][0]["metrics"] if one["name"] == "tool_parameter_accuracy"
    ]
    assert (judged["score"], judged["label"], judged["threshold"]) == (1, "pass", 1)
    asked = len(server.requests)
    assert asked > 0
    assert f"judge: {asked} questions: {asked} calls of the model" in first.stderr
    second = run(*arguments)
    assert (second.stdout, len(server.requests)) == (first.stdout, asked)
    assert f"{asked} answered from the cache" in second.stderr


def test_sessions_are_judged_at_the_same_time(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"model": "scripted", "base_url": server.url, "concurrency": 8}
    (tmp_path / "judge.json").write_text(json.dumps(options))
    server.answer = lambda body: Response('{"score": "Yes"}', delay=0.1, at_once=8)
    traces = [EXAMPLES / f"traces/{name}.otlp.json" for name in ("langchain", "strands", "google-adk")]
    result = runner(tmp_path, monkeypatch)("score", *traces, "--judge", "judge.json", "--format", "json")
    judged = [
        metric
        for found in json.loads(result.stdout)["sessions"]
        for metric in found["metrics"]
        if metric["name"] == "tool_parameter_accuracy"
    ]
    assert [one["label"] for one in judged] == ["pass"] * 3
    assert len(server.requests) == 15  # 5 calls each
    assert server.most_at_once == 8


def test_score_takes_tools_and_goldens_beside_a_judge(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runner(tmp_path, monkeypatch)
    (tmp_path / "judge.yaml").write_text(f"model: scripted\nbase_url: {server.url}\npreset: strands\n")
    schema = {"type": "object", "properties": {"city": {"description": "A town"}}}
    (tmp_path / "tools.json").write_text(json.dumps([{"name": "get_weather", "parameters": schema}]))
    server.script(rated("No"))
    result = run(
        *("score", EXAMPLES / "traces/langchain.otlp.json", "--goldens", EXAMPLES / "goldens.yaml"),
        *("--judge", "judge.yaml", "--tools", "tools.json"),
    )
    assert result.exit_code == 1
    assert "tool_parameter_accuracy" in result.stdout
    assert all(
        "- get_weather: No description\n  Parameters:\n    - city (any): A town" in one for one in server.prompts()
    )


@pytest.mark.parametrize("content", [None, "model: m\nbase_url: 3\n", "modell: m\n", "{"])
def test_score_refuses_a_wrong_file(content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if content is not None:
        (tmp_path / "judge.yaml").write_text(content)
    result = runner(tmp_path, monkeypatch)("score", EXAMPLES / "traces", "--judge", "judge.yaml")
    assert result.exit_code == 2
    assert "judge.yaml" in result.stderr
