"""What was said and returned before each call of a session."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from goldspan.scoring.grounding.conversation import Conversation, Passage
from goldspan.scoring.messages import Message, MessageResult, as_text, read_messages, result_text
from goldspan.scoring.sessions import Capture, Content, Session, ToolCall, Turn

MAX_TEXT = 1 << 20
"""Characters of context that are read of one session; beyond it the context is not complete."""


class KnownBeforeCall(Struct, frozen=True, gc=False):
    """What was known when a call was made."""

    passages: int
    """So many passages of the session's conversation were before it."""
    complete: bool
    """All of it was captured: a value that is not in it came from nowhere."""
    captured: bool
    """Anything of it was captured."""
    cut: bool = False
    """There was more than is read of one session."""


class _Progress(Struct, gc=False):
    """How far a session was read, beside what is indexed."""

    counts: dict[str, int]  # how many messages each role has
    lacking: bool  # something was not captured
    size: int = 0  # characters of text that were read
    cut: bool = False  # there was more text
    read_before: tuple[str, tuple[Message, ...]] = ("", ())  # the messages of the turn before, as text and read
    unanswered: str = ""  # what the agent said last
    spoken: int = 0  # so many messages of the user were seen
    calls: int = 0


class _Mark(Struct, frozen=True, gc=False):
    """Where a session stood before one of its turns."""

    turns: int
    passages: int
    said: int
    progress: _Progress


class SessionContext:
    """The conversation of a session, and what of it was before each of its calls.

    Messages of a turn repeat earlier ones; each is indexed once. What an agent said counts only once a person has
    answered it: a value's own earlier use by the agent does not ground it.
    """

    def __init__(self, session: Session) -> None:
        self.conversation = Conversation()
        self._said: dict[tuple[str, str], None] = {}
        """Kinds and texts of passages; without a kind, the ids of calls whose results are among them."""
        self._at = _Progress({"user": 0, "assistant": 0, "system": 0}, session.incomplete)
        self.calls: list[list[KnownBeforeCall]] = []
        self.answers: list[KnownBeforeCall] = []
        """What was known when each turn was answered."""
        self._marks = deque([self._mark()], maxlen=2)
        self._first = self._marks[0]
        self.go_on(session.turns, 0)

    def go_on(self, turns: Sequence[Turn], same: int) -> None:
        """Take in the turns of the session as they are now; the first `same` are known.

        All that the last turn added can be taken back. If an earlier one changed, the session is read again.
        """
        if same < len(self.calls):
            mark = next((one for one in self._marks if one.turns == same), self._first)
            del self.calls[mark.turns :], self.answers[mark.turns :]
            self.conversation.go_back(mark.passages)
            while len(self._said) > mark.said:
                self._said.popitem()
            self._at = replace(mark.progress, counts=dict(mark.progress.counts))
            self._marks = deque([mark], maxlen=2)
        for turn in turns[len(self.calls) :]:
            self._marks.append(self._mark())
            self.calls.append(self._turn(turn, self._at.calls))
            self._at.calls += len(turn.calls)

    @property
    def size(self) -> int:
        """Characters of text that were read."""
        return self._at.size

    def _mark(self) -> _Mark:
        at = replace(self._at, counts=dict(self._at.counts))
        return _Mark(len(self.calls), len(self.conversation), len(self._said), at)

    def _turn(self, turn: Turn, calls_before: int) -> list[KnownBeforeCall]:
        messages = self._read(turn.messages)
        opening = _opening(messages, turn.calls)
        heard = turn.user_text.capture is Capture.CAPTURED
        spoken = sum(one.role == "user" for one in messages[:opening]) or self._at.spoken + heard
        if heard or spoken > self._at.spoken:
            self._add("assistant", self._at.unanswered)
            self._at.unanswered, self._at.spoken = "", max(spoken, self._at.spoken)
        self._messages(messages[:opening])
        if heard:
            self._add("user", _text(turn.user_text))
        self._at.lacking = self._at.lacking or _lacks_words(turn, messages) or not (heard or messages)
        contexts = self._calls(turn.calls, _answers_by_call(messages), calls_before)
        self._messages(messages[opening:])
        known = len(self.conversation)
        self.answers.append(
            KnownBeforeCall(known, not self._at.lacking and turn.calls_visible, known > 0, self._at.cut)
        )
        if turn.answer.capture is Capture.CAPTURED:
            self._at.unanswered = _text(turn.answer)
        self._at.lacking = self._at.lacking or not turn.calls_visible or turn.has_doubtful_calls
        return contexts

    def _calls(
        self, calls: Sequence[ToolCall], answers: Mapping[str, MessageResult], calls_before: int
    ) -> list[KnownBeforeCall]:
        """Add the results of a turn's calls in the order of their ends, and return what was before each call."""
        contexts: dict[int, KnownBeforeCall] = {}
        asked = _asked(calls)
        ended = [max(call.end, when) for call, when in zip(calls, asked, strict=True)]
        waiting = deque(sorted(range(len(calls)), key=lambda index: (ended[index], index)))
        unseen = False
        for first, together in sorted(_groups(calls), key=lambda group: (asked[group[0]], group[0])):
            when = asked[first]
            while waiting and (ended[waiting[0]], waiting[0]) < (when, first):
                unseen = not self._result(calls[waiting[0]], answers, calls_before + waiting[0] + 1) or unseen
                waiting.popleft()
            known = len(self.conversation)
            for index in together:
                contexts[index] = KnownBeforeCall(known, not (self._at.lacking or unseen), known > 0, self._at.cut)
        for index in waiting:
            self._result(calls[index], answers, calls_before + index + 1)
        return [contexts[index] for index in range(len(calls))]

    def _read(self, content: Content) -> tuple[Message, ...]:
        """Read the messages of a turn; of those that begin with the messages of the turn before, only the others."""
        raw = content.raw
        if not isinstance(raw, str) or content.capture is not Capture.CAPTURED:
            return read_messages(content)
        if len(raw) > MAX_TEXT:
            self._at.cut = True
            return ()
        before, messages = self._at.read_before
        more: tuple[Message, ...] = ()
        if before and raw.startswith(before[:-1]) and raw[len(before) - 1 : len(before)] == ",":
            more = read_messages(Content(f"[{raw[len(before) :]}", Capture.CAPTURED))
        messages = (*messages, *more) if more else read_messages(content)
        self._at.read_before = (raw, messages) if messages and raw[0] == "[" and raw[-1] == "]" else ("", ())
        return messages

    def _messages(self, messages: Sequence[Message]) -> None:
        last_of_user = max((at for at, one in enumerate(messages) if one.role == "user"), default=-1)
        for at, message in enumerate(messages):
            for result in message.results:
                if ("", result.call_id) in self._said:
                    continue  # it is what the call returned
                where = f"result of call {result.call_id}" if result.call_id else "result of a call"
                self._add("tool_result", result_text(result), where)
            if message.role != "assistant" or at < last_of_user:
                self._add(message.role or "user", message.text)

    def _result(self, call: ToolCall, answers: Mapping[str, MessageResult], number: int) -> bool:
        """Add the result of a call; whether it is known. One that was only requested may have no result."""
        where = f"result of {call.name} (call {number})"
        if call.result.capture is Capture.CAPTURED:
            self._add("tool_result", _text(call.result), where)
            if call.call_id:
                self._said["", call.call_id] = None
        elif (answer := answers.get(call.call_id or "")) is not None:
            self._add("tool_result", result_text(answer), where)
        elif not call.rejected:
            self._add("tool_result", call.error or "", where)
            self._at.lacking = self._at.lacking or not call.requested
            return False
        return True

    def _add(self, kind: str, text: str, where: str = "") -> None:
        kind = kind if kind in ("user", "assistant", "system", "tool_result") else "tool_result"
        if not text or (kind, text) in self._said:
            return
        self._said[kind, text] = None
        if self._at.size + len(text) > MAX_TEXT:
            text = text[: MAX_TEXT - self._at.size]
            self._at.lacking = self._at.cut = True
        self._at.size += len(text)
        if kind in self._at.counts:
            self._at.counts[kind] += 1
            where = where or f"{'message' if kind == 'system' else f'{kind} message'} {self._at.counts[kind]}"
        if text:
            self.conversation.add(Passage(kind, text, where))


def _text(content: Content) -> str:
    raw = content.raw
    return raw if isinstance(raw, str) and len(raw) > MAX_TEXT else as_text(content.value)


_HIDDEN = (Capture.REDACTED, Capture.TRUNCATED, Capture.UNPARSABLE)


def _lacks_words(turn: Turn, messages: Sequence[Message]) -> bool:
    """Whether words of a turn are missing: hidden, or not read from what was captured."""
    hidden = turn.messages.capture in _HIDDEN or turn.user_text.capture in _HIDDEN
    return hidden or (turn.messages.capture is Capture.CAPTURED and bool(turn.messages.raw) and not messages)


def _answers_by_call(messages: Sequence[Message]) -> dict[str, MessageResult]:
    return {one.call_id: one for message in messages for one in message.results if one.call_id}


def _opening(messages: Sequence[Message], calls: Sequence[ToolCall]) -> int:
    """Return how many messages were before the first call of a turn: up to the message that asks for it."""
    ids = {call.call_id for call in calls if call.call_id}
    for at, message in enumerate(messages):
        if any(request.call_id in ids for request in message.requests):
            return at
    return max((at + 1 for at, one in enumerate(messages) if one.role == "user"), default=len(messages))


def _groups(calls: Sequence[ToolCall]) -> list[tuple[int, list[int]]]:
    """Return the calls that were asked for together, by position: a batch, or one call. Each with its first call."""
    groups: dict[int, list[int]] = {}
    for index, call in enumerate(calls):
        groups.setdefault(call.batch or -index - 1, []).append(index)
    return [(group[0], group) for group in groups.values()]


def _asked(calls: Sequence[ToolCall]) -> list[int]:
    """Return when each call was asked for: when the first of its batch began.

    A batch without times was asked for when all calls before it had ended.
    """
    asked = [0] * len(calls)
    latest = 0
    for _, together in _groups(calls):
        starts = [calls[index].start for index in together if calls[index].start]
        when = min(starts, default=latest)
        for index in together:
            asked[index] = when
        latest = max(latest, when, *(calls[index].end for index in together))
    return asked


def local_days(call: ToolCall, turn: Turn) -> tuple[date, ...]:
    """Return the days that it was somewhere on Earth when a call was made, that of UTC first; none without a time."""
    nanoseconds = call.start or turn.start
    return _local_days(nanoseconds // _NANOSECONDS_OF_AN_HOUR) if nanoseconds else ()


_NANOSECONDS_OF_AN_HOUR = 3_600_000_000_000


@lru_cache(256)
def _local_days(hours: int) -> tuple[date, ...]:
    """Return the days, from the hours since 1970: those of two moments in one hour are the same."""
    try:
        moment = datetime.fromtimestamp(hours * 3600, UTC)
        shifts = (timedelta(0), timedelta(hours=-12), timedelta(hours=14))
        return tuple(dict.fromkeys((moment + shift).date() for shift in shifts))
    except (ValueError, OverflowError, OSError):
        return ()
