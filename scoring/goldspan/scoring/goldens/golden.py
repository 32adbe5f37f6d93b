"""What a session should have done: a golden set of goldens of turns of expected calls.

    GoldenSet > Golden > GoldenTurn > ExpectedCall

Everything here is a frozen value. A criterion is resolved when a file is read: what a golden, a turn or a call inherits
is already merged in, and `None` on a turn or a call means "the one above, unchanged".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple

from goldspan.scoring.criterion import Criterion
from goldspan.scoring.matchers.matcher import Expected
from goldspan.scoring.matchers.reading import read_arguments
from goldspan.scoring.sessions import JsonValue

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
    criterion: Criterion = field(default_factory=Criterion)
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
    criterion: Criterion = field(default_factory=Criterion)
    """What its goldens inherit."""
    goldens: tuple[Golden, ...] = ()
    source: str = ""
    """The file."""

    @property
    def label(self) -> str:
        """`name@version`, or the name alone where the set has no version."""
        return self.name if self.version is None else f"{self.name}@{self.version}"
