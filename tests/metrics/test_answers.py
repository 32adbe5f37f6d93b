"""`answer_grounding`: what an answer says that nobody said and no tool returned."""

from __future__ import annotations

import json

import pytest

from goldspan.scoring import Capture, Content, Session, ToolCall, Turn, score_sessions
from goldspan.scoring.metrics.answers import AnswerGrounding
from goldspan.scoring.verdict import MetricScore

RESULT = {
    "id": "#W2890441",
    "status": "delivered",
    "date": "2024-05-03",
    "paid": 84.5,
    "refund": 30.25,
    "of": "Yusuf Rossi",
}


def text(value: object) -> Content:
    return Content(value, Capture.CAPTURED)


def answered(answer: str, *more: Turn, error: str | None = None, result: bool = True) -> MetricScore:
    """Judge the answer of a turn with one call."""
    call = ToolCall(
        "get_order",
        {"user": "u_17"},
        start=1_715_000_000_000_000_000,
        end=1_715_000_001_000_000_000,
        result=text(json.dumps(RESULT)) if result else Content(None, Capture.NOT_CAPTURED),
        error=error,
    )
    return AnswerGrounding()(
        Session("s", (Turn((call,), user_text=text("Where is my order? I am u_17."), answer=text(answer)), *more))
    )


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ("Your order #W2890441 came on May 3, 2024 for $84.50.", ""),
        ("Your order #W2890414 came on May 3.", "#W2890414"),
        ("It came on May 8, 2024.", "May 8, 2024"),
        ("You paid $94.50.", "94.5"),
        ("After the refund you paid $54.25.", ""),
        ("It was taken by Yusuf Rossi.", ""),
        ("It was taken by Mary Shelley.", "Mary Shelley"),
        ("Write to help@shop.example.", "help@shop.example"),
        ("There are 2 steps, and it takes 5 minutes on the 2nd day.", ""),
    ],
)
def test_each_value_of_an_answer_comes_from_somewhere(answer: str, wrong: str) -> None:
    (turn,) = answered(answer).turns
    assert isinstance(turn, MetricScore)
    if wrong:
        assert turn.detailed.endswith(f"{wrong} comes from nowhere")
        assert wrong not in turn.explanation, "values are said only where they are wanted"
        assert turn.score is not None
        assert turn.score < 1
    else:
        assert turn.score in (1, None)


def test_a_failure_must_not_be_presented_as_success() -> None:
    hidden = answered("All done, your order is cancelled.", error="refused")
    assert hidden.score == 0
    assert hidden.explanation == "0 of 1 value; get_order failed, and the answer does not say so"
    assert answered("I could not cancel it.", error="refused").score is None
    assert answered("All done, your order is cancelled.").score is None


def test_unknown_is_not_wrong() -> None:
    assert answered("Your order is #W2890414.", result=False).score is None
    unheard = Session("s", (Turn((), user_text=text("hello")),))
    assert AnswerGrounding()(unheard).score is None


def test_an_earlier_answer_counts_once_a_person_replied() -> None:
    later = Turn((), user_text=text("and now?"), answer=text("Still #W2890414."))
    score = answered("Your order is #W2890414.", later)
    assert [one.score for one in score.turns if isinstance(one, MetricScore)] == [0, 1]


def test_it_is_chosen_by_name_and_fails_nothing() -> None:
    turn = Turn((), user_text=text("Where is it?"), answer=text("Your order is #W2890414."))
    result = score_sessions(None, Session("s", (turn,)), metrics=["answer_grounding"])
    (metric,) = result.sessions[0].metrics
    assert (metric.name, metric.score, metric.label) == ("answer_grounding", 0.0, None)
    assert result.passed
