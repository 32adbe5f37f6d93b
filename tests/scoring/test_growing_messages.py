"""Each turn of a conversation repeats the messages before it: they are read once, and nothing is read wrongly."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring.grounding.context import MAX_TEXT, SessionContext
from goldspan.scoring.metrics.grounding import ToolParameterGrounding
from goldspan.scoring.sessions import Capture, Content, Session, ToolCall, Turn

ROLES = ("user", "assistant", "system", "tool")
TEXTS = ("one", "two, [three", '"four"]', "")
SAID: list[Any] = [{"role": role, "content": text} for role in ROLES for text in TEXTS]
ANSWERED: list[Any] = [{"role": "tool", "tool_call_id": "c1", "content": text} for text in ("5", "[6")]
ODD: list[Any] = [{}, "text", 3, [], [{"role": "user", "content": "nested"}]]
MESSAGES: st.SearchStrategy[list[Any]] = st.lists(st.sampled_from([*SAID, *ANSWERED, *ODD]), max_size=3)
HISTORIES = st.lists(st.tuples(st.sampled_from(["goes on", "starts anew", "again"]), MESSAGES), max_size=5)


def passages(turns: list[Any]) -> list[Any]:
    context = SessionContext(Session("s", tuple(turns)))
    return [(one.kind, one.text, one.where) for one in context.conversation.passages] + [context.calls]


@given(HISTORIES, st.sampled_from([None, 1]))
def test_text_is_read_as_the_values_in_it(history: list[tuple[str, list[Any]]], indent: int | None) -> None:
    written: list[Turn] = []
    decoded: list[Turn] = []
    messages: list[Any] = []
    call = ToolCall("f", {"x": 1}, call_id="c1")
    for how, more in history:
        messages = [*(messages if how != "starts anew" else []), *(more if how != "again" else [])]
        written.append(Turn((call,), messages=Content(json.dumps(messages, indent=indent), Capture.CAPTURED)))
        decoded.append(Turn((call,), messages=Content(messages, Capture.CAPTURED)))
    assert passages(written) == passages(decoded)


SAYS_X, SAYS_Y = '{"role": "user", "content": "x"}', '{"role": "user", "content": "y"}'


@pytest.mark.parametrize(
    "text", ["[,{}]", "[] ,{}]", "[{}", "[{},", f"[{SAYS_X}],{{}}]", f"[{SAYS_X}]{SAYS_Y}]", f"[{SAYS_X},{SAYS_Y}"]
)
def test_what_is_no_json_is_not_read_on(text: str) -> None:
    first = Turn(messages=Content(f"[{SAYS_X}]", Capture.CAPTURED))
    alone, after = passages([Turn(messages=Content(text, Capture.CAPTURED))]), passages([first])
    assert passages([first, Turn(messages=Content(text, Capture.CAPTURED))])[:-1] == after[:-1] + alone[:-1]


@pytest.mark.parametrize("of", ["messages", "user_text", "result"])
def test_beyond_a_mebibyte_of_text_a_value_without_origin_is_unknown(of: str) -> None:
    long = Content(json.dumps([{"role": "user", "content": "x" * MAX_TEXT}]), Capture.CAPTURED)
    asked = Content("Order W-1, please", Capture.CAPTURED)
    first = ToolCall("g", {}, start=1, end=2, result=long if of == "result" else Content("ok", Capture.CAPTURED))
    turn = Turn(
        (first, ToolCall("f", {"order": "W-1"}, start=3, end=4), ToolCall("f", {"order": "W-2"}, start=5, end=6)),
        user_text=long if of == "user_text" else asked,
        messages=long if of == "messages" else Content(),
    )
    score = ToolParameterGrounding()(Session("s", (turn,)))
    kinds = [finding.kind for call in score.turns[0].calls[1:] for finding in call.findings]  # type: ignore[union-attr]
    assert kinds == ["unknown" if of == "user_text" else "user", "unknown"]
