"""A text of a megabyte costs a hundred times one of ten kilobytes, whatever it repeats: one session stops no other."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from time import process_time

import pytest

from goldspan.scoring import Session, ToolCall, Turn
from goldspan.scoring.metrics.answers import AnswerGrounding
from goldspan.scoring.metrics.grounding import ToolParameterGrounding
from goldspan.scoring.sessions import Capture, Content
from goldspan.scoring.verdict import MetricScore

SHORT, TIMES = 2000, 8
PIECES = (
    *"aä0 :/-.,'@#%€${([=\n\t下周五月日年午点半万百日만한시по",  # noqa: RUF001
    *("und", "Uhr", " de ", " at ", "ที่", "वन", "twenty ", " hundred", "00", "1,", "2-", "x.", "T1", "a@", "May "),
)


def judged(metric: Callable[[Session], MetricScore], text: str) -> float:
    """Return the seconds that a metric takes for a session in which everyone says this."""

    def said(value: object) -> Content:
        return Content(value, Capture.CAPTURED)

    call = ToolCall("book", {"note": text[:SHORT], "when": "2026-05-05", "guests": 4}, result=said(text))
    user = said(f"Für vier Personen am 5. Mai, 下周五下午3点 {text}")
    session = Session("s", (Turn((call,), user_text=user, answer=said(f"Booked W123-x at {text}")),))
    began = process_time()
    metric(session)
    return process_time() - began


@pytest.mark.parametrize("metric", [ToolParameterGrounding(), AnswerGrounding()], ids=lambda one: one.name)
@pytest.mark.parametrize("seed", range(5))
def test_a_text_that_repeats_something_takes_linear_time(metric: Callable[[Session], MetricScore], seed: int) -> None:
    judged(metric, "warm")
    random = Random(seed)
    for _ in range(4):
        piece = "".join(random.choices(PIECES, k=random.choice((1, 1, 2, 3))))
        once = judged(metric, piece * (SHORT // len(piece)))
        many = judged(metric, piece * (TIMES * SHORT // len(piece)))
        assert many < TIMES**1.6 * max(once, 0.005), piece
