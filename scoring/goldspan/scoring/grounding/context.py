"""What was said and returned before each call of a session."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime

from msgspec import Struct

from goldspan.scoring.grounding.conversation import Conversation, Passage
from goldspan.scoring.messages import Message, as_text, read_messages
from goldspan.scoring.sessions import Capture, Session, ToolCall, Turn

MAX_TEXT = 1 << 20
"""Characters of context that are read of one session; beyond it the context is not complete."""


class CallContext(Struct, frozen=True, gc=False):
    """What was known when a call was made."""

    passages: int
    """So many passages of the session's conversation were before it."""
    complete: bool
    """All of it was captured: a value that is not in it came from nowhere."""
    captured: bool
    """Anything of it was captured."""


class SessionContext:
    """The conversation of a session, and what of it was before each of its calls.

    Messages of a turn repeat earlier ones; each is indexed once. What an agent said counts only once a person has
    answered it: a value's own earlier use by the agent does not ground it.
    """

    def __init__(self, session: Session) -> None:
        self.conversation = Conversation()
        self._said: set[tuple[str, str]] = set()
        self._counts = {"user": 0, "assistant": 0, "system": 0}
        self._size = 0
        self._lacking = session.incomplete
        self.calls: list[list[CallContext]] = [list(self._turn(turn)) for turn in session.turns]

    def _turn(self, turn: Turn) -> Iterator[CallContext]:
        messages = read_messages(turn.messages)
        opening = _opening(messages, turn.calls)
        self._messages(messages[:opening])
        if turn.user_text.capture is Capture.CAPTURED:
            self._add("user", as_text(turn.user_text.value))
        visible = bool(messages) or turn.user_text.capture is Capture.CAPTURED
        answered = {call_id for message in messages for call_id, _ in message.results if call_id}
        contexts: dict[int, CallContext] = {}
        ended = sorted(enumerate(turn.calls), key=lambda one: (one[1].end, one[0]))
        waiting = [deque(one for one in ended if one[1].end), deque(one for one in ended if not one[1].end)]
        for index, call in sorted(enumerate(turn.calls), key=lambda one: (one[1].start, one[0])):
            for queue in waiting:
                while queue and _precedes(queue[0], (index, call)):
                    self._result(queue.popleft()[1], answered)
            contexts[index] = CallContext(
                len(self.conversation), visible and not self._lacking, visible or len(self.conversation) > 0
            )
        for _, left in (*waiting[0], *waiting[1]):
            self._result(left, answered)
        self._messages(messages[opening:])
        if turn.answer.capture is Capture.CAPTURED:
            self._add("assistant", as_text(turn.answer.value))
        self._lacking = self._lacking or not visible
        return iter([contexts[index] for index in range(len(turn.calls))])

    def _messages(self, messages: Sequence[Message]) -> None:
        last_of_user = max((at for at, one in enumerate(messages) if one.role == "user"), default=-1)
        for at, message in enumerate(messages):
            if message.role != "assistant" or at < last_of_user:
                self._add(message.role or "user", message.text)
            for call_id, text in message.results:
                self._add("tool_result", text, f"result of call {call_id}" if call_id else "result of a call")

    def _result(self, call: ToolCall, answered: set[str]) -> None:
        if call.result.capture is Capture.CAPTURED:
            self._add("tool_result", as_text(call.result.value), f"result of {call.name}")
        elif not call.requested and not call.rejected and call.call_id not in answered:
            self._lacking = True

    def _add(self, kind: str, text: str, where: str = "") -> None:
        kind = kind if kind in ("user", "assistant", "system", "tool_result") else "tool_result"
        if not text or (kind, text) in self._said:
            return
        self._said.add((kind, text))
        if self._size + len(text) > MAX_TEXT:
            text = text[: MAX_TEXT - self._size]
            self._lacking = True
        self._size += len(text)
        if kind in self._counts:
            self._counts[kind] += 1
            where = where or f"{'message' if kind == 'system' else f'{kind} message'} {self._counts[kind]}"
        if text:
            self.conversation.add(Passage(kind, text, where))


def _opening(messages: Sequence[Message], calls: Sequence[ToolCall]) -> int:
    """Return how many messages were before the first call of a turn: up to the message that asks for it."""
    ids = {call.call_id for call in calls if call.call_id}
    for at, message in enumerate(messages):
        if ids.intersection(message.requests):
            return at
    return max((at + 1 for at, one in enumerate(messages) if one.role == "user"), default=len(messages))


def _precedes(earlier: tuple[int, ToolCall], later: tuple[int, ToolCall]) -> bool:
    """Whether a call had ended when another began; where times are unknown, order and batch tell."""
    (first, one), (second, other) = earlier, later
    if one.end and other.start:
        return one.end <= other.start and first != second
    return first < second and not (other.batch and one.batch == other.batch)


def day_of(call: ToolCall, turn: Turn) -> date | None:
    """Return the day of a call in UTC; None if it has no time."""
    nanoseconds = call.start or turn.start
    try:
        return datetime.fromtimestamp(nanoseconds / 1_000_000_000, UTC).date() if nanoseconds else None
    except (ValueError, OverflowError, OSError):
        return None
