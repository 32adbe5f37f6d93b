"""`answer_grounding`: whether what an agent tells a person was said or returned before, and that something failed.

results: order #W2890441, delivered on May 3, 84.50 dollars
answer:  "Your order #W2890414 came on May 3 for $84.50."     2 of 3 values: the order is none that was returned
a call of cancel_order failed, and was not made again
answer:  "I have cancelled it."                               a failed call that the answer does not speak of
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from goldspan.scoring.grounding.context import KnownBeforeCall, SessionContext, local_days
from goldspan.scoring.grounding.conversation import Conversation
from goldspan.scoring.grounding.leaves import Kind, Leaf, Origin
from goldspan.scoring.grounding.origins import OriginFinder
from goldspan.scoring.grounding.quantities import CENT, Computed, as_number
from goldspan.scoring.messages import as_text
from goldspan.scoring.metrics.call_scores import SHOWN, Judgement, score_of, total_of
from goldspan.scoring.patterns import regex
from goldspan.scoring.sessions import Capture, Session, ToolCall, Turn
from goldspan.scoring.verdict import MetricScore, Range, Reason

_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_VALUES = regex(
    r"(?P<mail>(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*\w)"
    rf"|(?P<date>\b\d{{4}}-\d\d-\d\d\b|\b(?:{_MONTHS})[a-z]*\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}}\b)?)"
    r"|(?P<id>#?\b(?=[\w-]{0,99}[A-Za-z_])(?=[\w-]{0,99}\d)(?!\d+(?:st|nd|rd|th|[a-z]{1,3}|-[A-Za-z-]+)\b)[\w-]{4,}\b)"
    r"|(?P<number>(?<![\w.#:/-])[$€£¥]?\d(?:[\d,]*\d)?(?:\.\d+)?(?![\w:/-]|\.\d))"
    r"|(?P<name>(?<=[a-z,;] )[A-Z][a-z]+(?: [A-Z][a-z]+)+)"
)
"""What an answer says that has to come from somewhere; a name where it does not begin a sentence."""
_LEAST = 13  # whole numbers below it count things, steps and hours
_OPERANDS = 200  # an amount with a fraction may follow from any two of so many: agents tell differences of prices
_MOST_VALUES = 200
_MOST_SUMMED = 50
_FORM = regex(r"(\d)\1{3}")  # digits of an identifier that shows what identifiers look like: `#W0000000`
_OWNED_UP = regex(
    r"sorry|apolog|unable|fail|error|trouble|problem|issue|unfortunate|however|\bnot?\b|n[o'\u2019]t\b|\?|leider|nicht"
    r"|d[ée]sol|\bpas\b|lo siento|impossib|non |não|抱歉|无法|未能|失败|没有|不|申し訳|ません|죄송|못|не |عذر|खेद|नहीं",
    re.IGNORECASE,
)


class AnswerGrounding(Struct, frozen=True):
    """How many of the values in the answers of an agent were said or returned before; it informs, and fails nothing."""

    name: str = "answer_grounding"
    description: str = (
        "The share of identifiers, numbers, dates and names in answers that were said or returned before."
    )
    range: Range = Range(0.0, 1.0)
    needs: frozenset[str] = frozenset(("context",))
    threshold: None = None
    by_turn: bool = True

    def __call__(self, session: Session, _golden: object = None, /) -> MetricScore:
        """Judge the answer of each turn."""
        context = SessionContext(session)
        turns = [
            _judged(turn, known, context.conversation)
            for turn, known in zip(session.turns, context.answers, strict=True)
        ]
        return replace(score_of(total_of(turns), "value"), turns=[score_of(one, "value") for one in turns])


def _judged(turn: Turn, known: KnownBeforeCall, conversation: Conversation) -> Judgement:
    if turn.answer.capture is not Capture.CAPTURED:
        return Judgement(reason=Reason.INPUT_MISSING)
    text = as_text(turn.answer.value)
    finder = OriginFinder(
        conversation, known.passages, local_days(turn.calls[-1] if turn.calls else ToolCall(""), turn)
    )
    right, wrong = 0, list(_hidden_failures(turn, text))
    values = list(_values(text))
    amounts = [value for _, value in values if isinstance(value, float)]
    for kind, value in values:
        origin = finder.origin(Leaf("/answer", value, {}))
        if origin.kind is Kind.NONE and isinstance(value, float) and not value.is_integer():
            numbers = conversation.latest_numbers(known.passages, _OPERANDS)
            if Computed(numbers).of_two(value) or _is_total(value, amounts):
                origin = Origin(Kind.DERIVED, "arithmetic")
        if origin.kind is not Kind.NONE:
            right += origin.kind not in (Kind.TRIVIAL, Kind.FREE_TEXT, Kind.UNKNOWN, Kind.ASSUMED)
        elif known.complete:
            wrong.append((f"a {kind} comes from nowhere", f"{value} comes from nowhere"))
    return Judgement(right, right + len(wrong), None, len(wrong), tuple(wrong[:SHOWN]))


def _is_total(value: float, amounts: Sequence[float]) -> bool:
    """Whether an amount is the sum of amounts that the answer lists one after the other."""
    for start in range(len(amounts)):
        for stop, total in enumerate(accumulate(amounts[start : start + _MOST_SUMMED]), start + 1):
            if stop > start + 1 and abs(total - value) < CENT:
                return True
    return False


def _values(text: str) -> Iterator[tuple[str, str | float]]:
    seen: set[str] = set()
    for match in _VALUES.finditer(text):
        kind, said = match.lastgroup or "", match[0]
        number = as_number(said) if kind == "number" else None
        counts = number is not None and number == int(number) and number < _LEAST
        is_form = (
            kind == "id" and len({char for char in said if char.isdigit()}) == 1 and _FORM.search(said) is not None
        )
        if said not in seen and not counts and not is_form and len(seen) < _MOST_VALUES:
            seen.add(said)
            words = {"mail": "mail address", "id": "identifier"}
            yield words.get(kind, kind), said if number is None else number


def _hidden_failures(turn: Turn, answer: str) -> Iterator[tuple[str, str]]:
    """Yield what failed last of each tool, if the answer has no word of a failure."""
    last = {call.name: call for call in turn.calls if not call.rejected}
    for call in last.values():
        if call.error is not None and answer.strip() and _OWNED_UP.search(answer) is None:
            words = f"{call.name} failed, and the answer does not say so"
            yield words, words
