"""What a session should have done: a golden set of goldens of turns of expected calls; and the golden of each session.

    GoldenSet > Golden > GoldenTurn > ExpectedCall

Everything here is a frozen value. A criterion is resolved when a file is read: what a golden, a turn or a call inherits
is already merged in, and `None` on a turn or a call means "the one above, unchanged".

`GoldenIndex` finds the golden of a session. The most specific key comes first: its id, then attributes of its spans or
resource, then what the user said first, then a pattern of its id.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fnmatch import translate
from fractions import Fraction
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from msgspec.structs import replace as with_fields

from goldspan.scoring.errors import GoldenFileError, Mistake
from goldspan.scoring.matchers.matcher import Expected
from goldspan.scoring.matchers.reading import read_arguments
from goldspan.scoring.sessions import Capture, Content, JsonValue, Session, Turn

if TYPE_CHECKING:
    from goldspan.scoring.criterion import Criterion


def _default_criterion() -> Criterion:
    # Imported for the first golden: a criterion is a pydantic model, which doors without goldens do without.
    from goldspan.scoring.criterion import DEFAULT  # noqa: PLC0415

    return DEFAULT


# What a golden asks for beside its calls: metrics by name, and another system's scorer. Names only, never code.


class MetricChoice(NamedTuple):
    """A metric scored in addition to the main one."""

    name: str
    """Of a metric that is goldspan's own, an installed package's, or registered by code."""
    threshold: Fraction | None = None
    """The least score that passes; None: the metric only informs."""


@dataclass(frozen=True, slots=True)
class PresetChoice:
    """A preset that scores in place of `tool_parameter_match`."""

    name: str
    options: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """By the names the reproduced system gives them."""


MOST_ALTERNATIVES = 100
"""How many alternatives are looked at where `calls` has others; a file with more is refused."""
ANY_TOOL = "*"
"""As the name of a forbidden call: whatever the tool."""


Operator = Literal["==", "!=", "<", "<=", ">", ">="]


class CallCount(NamedTuple):
    """How often a tool should be called: `CallCount(">=", 1)`."""

    operator: Operator
    number: int


CallStatus = Literal["succeeded", "failed", "unrecovered"]
"""How a call ended: `unrecovered` if it failed, and no later call of the tool succeeded."""
CallCounts = Mapping[str, CallCount]
"""By tool. Read by metrics that count; `tool_parameter_match` does not."""


class Repeat(NamedTuple):
    """So many runs of a golden's session belong together, and so many of them must pass."""

    runs: int
    passes: int


class _TakesArguments(type):
    """Lets `arguments=` stand for `args=`, as OpenTelemetry calls them."""

    if not TYPE_CHECKING:  # type checkers know `args`

        def __call__(cls, *values, **named):
            if "arguments" in named:
                if "args" in named or len(values) > 1:
                    raise TypeError("found `args` and `arguments`, which mean the same: leave one")
                named["args"] = named.pop("arguments")
            return super().__call__(*values, **named)


@dataclass(frozen=True, slots=True)
class ExpectedCall(metaclass=_TakesArguments):
    """One call that should have been made: `ExpectedCall("get_weather", {"city": "Paris"})`.

    Only the arguments named in `args` are scored; others that were passed are reported as extra. Raises MatcherError
    for arguments that hold wrong matchers.
    """

    name: str
    args: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue], compare=False)
    """By parameter name: JSON values, with matchers such as `{"$any_of": ["a", "b"]}` wherever a value may stand."""
    criterion: Criterion | None = None
    """None: that of the turn or the golden."""
    optional: bool = False
    """May be left out: scored where it was made, outside the mean, never missed."""
    forbidden: bool = False
    """Must not be made; `args` may narrow what exactly is forbidden, and the name `*` forbids every tool."""
    group: int = 0
    """Neighbours with the same number may be made in any order among themselves. 0: in no group."""
    result: JsonValue = None
    """What the call should return, for metrics that score it; None: anything."""
    agent: str | None = None
    """The agent that makes it; None: any."""
    status: CallStatus | None = None
    """How it ends; None: however. `unrecovered` is for forbidden calls."""
    literal: bool = field(default=False, compare=False)
    """Nothing in `args` is a matcher, whatever it looks like: so are imported goldens."""
    values: Mapping[str, Expected] = field(init=False, repr=False)
    """`args` as they were read: plain JSON, or matchers."""

    @property
    def arguments(self) -> Mapping[str, JsonValue]:
        """The same as `args`."""
        return self.args

    def __post_init__(self) -> None:
        """Read the arguments, once."""
        object.__setattr__(self, "values", self.args if self.literal else read_arguments(self.name, self.args))


@dataclass(frozen=True, slots=True)
class GoldenTurn:
    """What one turn should have done. No calls means nothing is expected of it."""

    calls: tuple[ExpectedCall, ...] = ()
    user: str | None = None
    """The user's message, a key to find the turn by."""
    turn_id: str | None = None
    """The dialect's own id of the turn, such as ADK's invocation id: a key that beats `user`."""
    criterion: Criterion | None = None
    """None: that of the golden."""
    alternatives: tuple[tuple[ExpectedCall, ...], ...] = ()
    """Other lists of calls that would do as well as `calls`; the best counts."""
    call_counts: CallCounts = field(default_factory=dict[str, CallCount])


@dataclass(frozen=True, slots=True)
class Golden:
    """What one session should have done, as turns or as one list of calls for the whole session."""

    session: str | None = None
    """The session id it belongs to; None where another field finds the session."""
    turns: tuple[GoldenTurn, ...] = ()
    calls: tuple[ExpectedCall, ...] | None = None
    """Not None: every call of the session in one list, whatever the turn (session scope); `turns` is then empty."""
    session_pattern: str | None = None
    """A glob that matches whole session ids, case-sensitive: `nightly-*-weather`."""
    attribute: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Attributes of a turn's root, or of what is below it, that all have these values."""
    first_user_text: str | None = None
    """The first message of the user, up to white space."""
    criterion: Criterion = field(default_factory=_default_criterion)
    golden_set: str = ""
    """`name@version` of the set it comes from; the name alone where the set has no version."""
    digest: str = ""
    """The set's content digest."""
    source: str = ""
    """File and line, for reports and mistakes."""
    metrics: tuple[MetricChoice, ...] = ()
    """The metrics scored in addition to `tool_parameter_match`."""
    preset: PresetChoice | None = None
    """Scores in place of `tool_parameter_match`."""
    alternatives: tuple[tuple[ExpectedCall, ...], ...] = ()
    """Where `calls` is not None: other lists that would do as well; the best counts."""
    repeat: Repeat | None = None
    """Judges the golden over several runs of its session."""
    call_counts: CallCounts = field(default_factory=dict[str, CallCount])
    """For the whole session."""
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other names that tools have in traces, and the name each has in the golden."""

    @property
    def key(self) -> str:
        """What names the golden in reports and telemetry: what it is joined by, the session id above all."""
        if self.session is not None:
            return self.session
        if self.session_pattern is not None:
            return self.session_pattern
        if self.attribute:
            return ", ".join(f"{name}={value}" for name, value in self.attribute.items())
        return self.first_user_text or ""

    def with_threshold(self, threshold: Decimal) -> Golden:
        """Return the golden with this threshold for its turns and its session, whatever its criteria say."""
        update = {"threshold": threshold}
        turns = tuple(
            turn if turn.criterion is None else replace(turn, criterion=turn.criterion.model_copy(update=update))
            for turn in self.turns
        )
        return replace(self, turns=turns, criterion=self.criterion.model_copy(update=update))

    def all_calls(self) -> Iterator[ExpectedCall]:
        """Yield every call that it names, in all turns and alternatives."""
        yield from chain(self.calls or (), *self.alternatives)
        for turn in self.turns:
            yield from chain(turn.calls, *turn.alternatives)


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """A named, versioned file of goldens."""

    name: str
    version: str | None = None
    digest: str = ""
    """16 hex digits: a hash of the content, whatever the formatting and the order of keys."""
    criterion: Criterion = field(default_factory=_default_criterion)
    """What its goldens inherit."""
    goldens: tuple[Golden, ...] = ()
    source: str = ""
    """The file."""

    @property
    def label(self) -> str:
        """`name@version`, or the name alone where the set has no version."""
        return self.name if self.version is None else f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Several goldens match one session equally well: reason `ambiguous_golden`."""

    goldens: tuple[Golden, ...]


class GoldenIndex:
    """The goldens of some sets, found by session.

    An exact session id beats attributes, these the first text of the user, and that every pattern. Two goldens with
    one and the same join are refused (GoldenFileError names both places), as are two sets with one name and version;
    different patterns or attributes that fit one session are found out when that session comes.
    """

    def __init__(self, sets: Iterable[GoldenSet] = (), *, sample: float = 0.0) -> None:
        self.sets = tuple(sets)
        self.sample = sample
        """The share of the sessions without golden that is wanted, too: for metrics that need no golden."""
        self.goldens = tuple(golden for one in self.sets for golden in one.goldens)
        if mistakes := duplicates_in(self.sets):
            raise GoldenFileError(*mistakes)
        joins: dict[str, list[tuple[str, Golden]]] = defaultdict(list)
        for golden in self.goldens:
            how, key = joined_by(golden)
            joins[how].append((key, golden))
        self._exact = dict(joins["session"])
        self._texts = {key: golden for key, golden in joins["first user text"] if key}
        self._by_attribute = _by_first_attribute(golden for _, golden in joins["attributes"])
        self._patterns = [(re.compile(translate(key)), golden) for key, golden in joins["session pattern"]]
        self._any_pattern = re.compile("|".join(pattern.pattern for pattern, _ in self._patterns) or "(?!)")
        self.join_attributes = tuple(sorted({name for golden in self.goldens for name in golden.attribute}))
        """Attributes that goldens match by: readers of spans must keep them."""

    def with_threshold(self, threshold: Decimal) -> GoldenIndex:
        """Return the same goldens, each with this threshold in the place of its own."""
        return GoldenIndex(
            (
                dataclasses.replace(one, goldens=tuple(golden.with_threshold(threshold) for golden in one.goldens))
                for one in self.sets
            ),
            sample=self.sample,
        )

    def with_sample(self, sample: float) -> GoldenIndex:
        """Return the same goldens, which also want this share of the sessions without golden."""
        return self if sample == self.sample else GoldenIndex(self.sets, sample=sample)

    def find(self, session: Session) -> Golden | Ambiguous | None:
        """Return the golden of a session, all goldens that match it equally well, or None."""
        if (golden := self._exact.get(session.id)) is not None:
            return golden
        wanting = self._by_attributes(session) or self._by_text(session)
        wanting = wanting or tuple(golden for pattern, golden in self._patterns if pattern.match(session.id))
        return Ambiguous(wanting) if len(wanting) > 1 else next(iter(wanting), None)

    def wants(self, session_id: str) -> bool:
        """Return whether to score a session with this id: a golden may belong to it, or it is in the sample.

        Any session may match by its attributes or its first text, where goldens use these.
        """
        return self._may_have_golden(session_id) or self.samples(session_id)

    def wants_trace(self, trace_id: str, *, named: bool) -> bool:
        """Return whether to score a trace as a session of its own id; `named`: its spans name other sessions.

        Such a trace is its own session only where the names contradict each other, and no sample has that: see
        `samples_run`.
        """
        return self._may_have_golden(trace_id) or ((self.sample >= 1 or not named) and self.samples(trace_id))

    def _may_have_golden(self, session_id: str) -> bool:
        return (
            session_id in self._exact
            or bool(self._texts or self._by_attribute)
            or self._any_pattern.match(session_id) is not None
        )

    @property
    def wants_any(self) -> bool:
        """Whether any session may be scored: there are goldens, or a sample."""
        return bool(self.goldens) or self.sample > 0

    def samples(self, session_id: str) -> bool:
        """Return whether a session is scored though it may have no golden: the same ones on every machine."""
        if not 0 < self.sample < 1:
            return self.sample >= 1
        digest = blake2b(session_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "big") < self.sample * 2.0**64

    def samples_run(self, run: Session) -> bool:
        """Return whether a run without golden is scored. No sample below 1 has one that names several sessions."""
        return self.samples(run.id) and (self.sample >= 1 or not run.ambiguous)

    def _by_attributes(self, session: Session) -> tuple[Golden, ...]:
        has = {name: _scalar(value) for name, value in session.attributes.items() if name in self.join_attributes}
        first = (self._by_attribute.get(name, {}).get(value, ()) for name, value in has.items())
        return tuple(
            golden
            for candidates in first
            for golden in candidates
            if all(has.get(name) == _scalar(value) for name, value in golden.attribute.items())
        )

    def _by_text(self, session: Session) -> tuple[Golden, ...]:
        if not self._texts or not session.turns:
            return ()
        texts = dict.fromkeys(map(_folded, user_texts(session.turns[0].user_text)))
        return tuple(self._texts[text] for text in texts if text in self._texts)

    def never_seen(self, seen: Iterable[Golden]) -> tuple[Golden, ...]:
        """Return the goldens that are not among those seen, in the order of the files."""
        met = {(golden.golden_set, golden.key) for golden in seen}
        return tuple(golden for golden in self.goldens if (golden.golden_set, golden.key) not in met)


def duplicates_in(sets: Sequence[GoldenSet], first: dict[tuple[str, str], str] | None = None) -> list[Mistake]:
    """List duplicates: a session or a pattern in two goldens, a set's name and version.

    `first` has the places of the names that other sets have; those of these sets are added.
    """
    goldens = [golden for one in sets for golden in one.goldens]
    named: list[tuple[str, object, str]] = [("golden set", one.label, one.source) for one in sets]
    for one in goldens:
        how, key = joined_by(one)
        named.append((f"golden for the {how}", key, one.source))
    first = {} if first is None else first
    mistakes: list[Mistake] = []
    for what, name, source in named:
        if not name or not isinstance(name, str):
            continue
        if (what, name) in first:
            file, _, line = source.rpartition(":")
            place = (file, int(line)) if file and line.isdigit() else (source, None)
            message = f"a second {what} {name}, the first is {first[what, name]}: remove or rename one of them"
            mistakes.append(Mistake(place[0], "", message, place[1]))
        first.setdefault((what, name), source)
    return mistakes


def joined_by(golden: Golden) -> tuple[str, str]:
    """Return how a golden finds its sessions, in words, and by what."""
    if golden.session is not None:
        return "session", golden.session
    if golden.session_pattern is not None:
        return "session pattern", golden.session_pattern
    if golden.attribute:
        attributes = sorted(golden.attribute.items())
        return "attributes", ", ".join(f"{name}={json.dumps(value)}" for name, value in attributes)
    return "first user text", "" if golden.first_user_text is None else _folded(golden.first_user_text)


def _by_first_attribute(goldens: Iterable[Golden]) -> dict[str, dict[tuple[type, Any], list[Golden]]]:
    """Return goldens that attributes join, by the name and the value of the first of these."""
    found: dict[str, dict[tuple[type, Any], list[Golden]]] = {}
    for golden in goldens:
        name, value = next(iter(golden.attribute.items()))
        found.setdefault(name, {}).setdefault(_scalar(value), []).append(golden)
    return found


def _scalar(value: object) -> tuple[type, Any]:
    """Return what is equal exactly where two attributes are: 1 equals 1.0, and true does not equal 1."""
    if isinstance(value, (bool, str)):
        return type(value), value
    return (float, value) if isinstance(value, (int, float)) else (object, str(value))


TurnKey = tuple[Literal["turn id", "user text"], str]


def key_of(expected: GoldenTurn) -> TurnKey | None:
    """Return the key of a golden turn: its turn id, else its user text; user texts may differ in white space."""
    if expected.turn_id is not None:
        return "turn id", expected.turn_id
    return None if expected.user is None else ("user text", _folded(expected.user))


def keys_of(turn: Turn) -> tuple[TurnKey, ...]:
    """Return every key that a golden turn may have for this turn."""
    ids: tuple[TurnKey, ...] = () if turn.turn_id is None else (("turn id", turn.turn_id),)
    return (*ids, *(("user text", _folded(text)) for text in user_texts(turn.user_text)))


def user_texts(content: Content) -> tuple[str, ...]:
    """Return what may be the text of a user's message: as it was written, and as far as that is JSON, the text in it.

    Of a list of messages, in the shapes of OpenTelemetry, OpenAI and Gemini, the last one of a user counts.
    """
    if content.capture is not Capture.CAPTURED:
        return ()
    texts = (content.raw if isinstance(content.raw, str) else None, _text_in(content.value))
    return tuple(text for text in texts if text is not None)


def _text_in(value: JsonValue) -> str | None:
    if isinstance(value, Mapping):
        message = cast("Mapping[str, Any]", value)
        return next((text for key in ("text", "content", "parts") if (text := _text_in(message.get(key)))), None)
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        for item in reversed(items):
            if isinstance(item, Mapping) and cast("Mapping[str, Any]", item).get("role") == "user":
                return _text_in(item)
        return " ".join(filter(None, map(_text_in, items))) or None
    return value if isinstance(value, str) else None


def _folded(text: str) -> str:
    return " ".join(text.split())


def with_golden_tool_names(turn: Turn, golden: Golden) -> Turn:
    """Replace aliases of tools by the names they have in the golden."""
    names = golden.aliases
    if not any(call.name in names for call in turn.calls):
        return turn
    calls = (
        with_fields(call, name=names[call.name], alias=call.name) if call.name in names else call for call in turn.calls
    )
    return with_fields(turn, calls=tuple(calls))
