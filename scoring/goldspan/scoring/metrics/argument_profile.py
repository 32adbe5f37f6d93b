"""`tool_parameter_profile`: how an agent's arguments deviate from what is normal for it, as a learnt profile says.

A profile counts sessions: in how many an argument was passed, was a number, had this shape, came from nowhere, was
equal to a field of an earlier result. It holds no values. What few sessions have deviates, the more rarely the worse:

    p = (x + rho) / (n + 1)

`n` sessions were seen, `x` of them had something as rare, less a tolerance for the mistakes among them; `rho` says how
often right calls break a rule of this family that no session broke. For example, `refund.order_id` was a string in all
of 200 sessions: a number there has p = 0.02 / 201. The families, `rho` and tolerances are those that paid on agents
they were not chosen on. A profile cannot see a wrong choice between valid values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from goldspan.scoring import json_values
from goldspan.scoring.grounding.leaves import MAX_LEAVES, argument_name, without_numbers
from goldspan.scoring.metrics.call_scores import CallMetric, CallScore, RunningScore
from goldspan.scoring.metrics.grounding import GENERATED, UNJUDGED, ToolParameterGrounding
from goldspan.scoring.sessions import Capture, Session, ToolCall, Turn
from goldspan.scoring.verdict import Finding, MetricScore, Reason, arguments_of, why_not_known

FEWEST_SESSIONS = 100
"""Of an agent with fewer sessions a profile says nothing: a fifth of what is rare in 20 sessions is normal."""
SYSTEMATIC = 0.3
"""What a larger share of the sessions has is no mistake of one of them."""
_FEWEST_OF_CHECK = 5
_LEVEL = 0.015  # a deviation is reported up to this chance
_MOST_FIELDS = 4_000  # values of earlier results that arguments are compared with, the newest ones
_WORDS_OF_TEXT = 4
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")
_LETTERS = re.compile(r"[^\W\d_]+(?:[ '-][^\W\d_]+)*")


class Family(StrEnum):
    """What is counted of an argument."""

    TYPE = "type"
    PASSED = "passed"
    OTHER_NAME = "other_name"
    SHAPE = "shape"
    SIGN = "sign"
    ORIGIN = "origin"
    EQUALS = "equals"


class _Weight(NamedTuple):
    rho: float
    tolerance: float  # the share of the learnt sessions that may break a rule which is one all the same


_WEIGHTS = {
    Family.TYPE: _Weight(0.02, 0.05),
    Family.PASSED: _Weight(0.02, 0.05),
    Family.SIGN: _Weight(0.02, 0.01),
    Family.ORIGIN: _Weight(0.03, 0.01),
    Family.OTHER_NAME: _Weight(0.1, 0.01),
    Family.SHAPE: _Weight(0.15, 0.01),
    Family.EQUALS: _Weight(0.4, 0.01),
}
_SHARED = (Family.TYPE, Family.SHAPE, Family.SIGN, Family.ORIGIN)
"""Families in which arguments of one name are alike, whatever the tool: `order_id` of `get_order` and of `refund`."""
RARE = "rare"
"""Stands for what fewer than five sessions have."""
NOT_PASSED, USUAL_ORIGIN = "not_passed", "usual_origin"
"""Kinds of findings beside the families: an argument that is always passed, and one that mostly had an origin."""
RULES = (Family.TYPE, NOT_PASSED, Family.ORIGIN)
"""Kinds of findings that break a rule; right calls hardly do."""
_FEWEST_OF_RULE = 20  # if none of so many sessions had a value from nowhere, fewer than one in seven of all have (95 %)
_HERE, _GONE = "always", "not_always"
_FOUND, _NOWHERE = "found", "nowhere"
_EQUAL, _DIFFERS = "equal", "differs"


class Check(NamedTuple):
    """One thing that is counted: of the arguments, or the parts of one, at a place."""

    agent: str
    tool: str
    path: str
    """JSON Pointer into the arguments, with `*` for the elements of a list."""
    family: Family
    field: str = ""
    """For `equals` the field of an earlier call: `get_order/order/id`."""

    @property
    def parent(self) -> Check:
        """What is counted of the types of the object that has this argument."""
        return Check(self.agent, self.tool, self.path.rpartition("/")[0], Family.TYPE)


class Observation(NamedTuple):
    """What one call says of a check."""

    check: Check
    token: str
    path: str
    """The place in this call."""


class Profile(Struct, frozen=True, dict=True):
    """What is normal for agents: for each check, in how many sessions something was seen."""

    sessions: Mapping[str, int] = {}
    """How many sessions were seen of each agent."""
    counts: Mapping[Check, Mapping[str, int]] = {}
    generated: frozenset[str] = frozenset()
    """Arguments whose values the agent makes itself, as `refund.request_id`: they need no origin."""
    off: frozenset[Check] = frozenset()
    """What a person does not want to be judged."""
    pinned: frozenset[Check] = frozenset()
    """What a person wants to be as it mostly was, whatever the counts say."""

    def plus(self, other: Profile) -> Profile:
        """Return what both saw; the sessions must be others."""
        counts = {
            check: dict(Counter(mine) + Counter(other.counts.get(check, {}))) for check, mine in self.counts.items()
        }
        more = {check: theirs for check, theirs in other.counts.items() if check not in counts}
        return Profile(
            dict(Counter(self.sessions) + Counter(other.sessions)),
            {**counts, **more},
            self.generated | other.generated,
            self.off | other.off,
            self.pinned | other.pinned,
        )

    @cached_property
    def deviations(self) -> Deviations:
        """What judges calls by this profile; made once, since every run of every session is judged by it."""
        return Deviations(self)

    def knows(self, agent: str) -> bool:
        """Whether enough sessions of an agent were seen to judge by."""
        return self.sessions.get(agent, 0) >= FEWEST_SESSIONS

    def chance(self, check: Check, token: str) -> float | None:
        """Return how likely a normal session has something as rare; None where too little is known."""
        counts = self.counts.get(check)
        place = check._replace(field="")
        if counts is None or place in self.off:
            return None
        own = counts.get(token, 0)
        if place in self.pinned:
            return None if own == max(counts.values()) else 0.0
        rarities = [_rarity(check.family, counts, token)]
        if not own and check.family in _SHARED:
            rarities.append(_rarity(check.family, self._of_name.get(_of_name(check), {}), token))
        return min((one for one in rarities if one is not None), default=None)

    @cached_property
    def _of_name(self) -> Mapping[Check, Mapping[str, int]]:
        """What was counted of all arguments of a name, for the tools that few sessions call."""
        found: dict[Check, Counter[str]] = {}
        for check, counts in self.counts.items():
            if check.family in _SHARED:
                found.setdefault(_of_name(check), Counter()).update(counts)
        return found


def _of_name(check: Check) -> Check:
    """Return the check of all tools' arguments of a name; an element of a list has the name of its list."""
    steps = check.path.split("/")
    return check._replace(tool="", path="/".join(steps[-2:] if steps[-1] == "*" else steps[-1:]))


def _rarity(family: Family, counts: Mapping[str, int], token: str) -> float | None:
    """Return how likely a normal session has something as rare, by what was counted; None of too few sessions."""
    total, own = sum(counts.values()), counts.get(token, 0)
    if total < _FEWEST_OF_CHECK:
        return None
    as_rare = sum(count for one, count in counts.items() if count <= own or (one == RARE and own <= count))
    rho, tolerance = _WEIGHTS[family]
    return (max(0.0, as_rare - tolerance * total) + rho) / (total + 1)


def learn(sessions: Iterable[Session], tools: Mapping[str, Mapping[str, Any]] | None = None) -> Profile:
    """Return the profile of these sessions, in any order; `tools` are schemas by name, else those of telemetry."""
    learning = Learning(tools)
    for session in sessions:
        learning.add(session)
    return learning.profile


class Learning:
    """A profile in the making: it takes one session after another, each once."""

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """`tools` are schemas by name, in place of those that telemetry declares."""
        self._tools = tools
        self.sessions: Counter[str] = Counter()
        """How many were taken of each agent."""
        self._counts: dict[Check, Counter[str]] = {}

    def add(self, session: Session) -> None:
        """Count a whole session."""
        reading = _Reading(ToolParameterGrounding(tools=self._tools).running(), relations=None)
        self.add_observed(call for of_turn in reading.take(session, 0) for call in of_turn)

    def add_observed(self, calls: Iterable[Iterable[Observation]]) -> None:
        """Count what the calls of a whole session say."""
        times = Counter(one for call in calls for one in {(observed.check, observed.token) for observed in call})
        self.sessions.update({check.agent for check, _ in times})
        for (check, token), count in times.items():
            if check.family is Family.PASSED:
                token = _HERE if count == times[check.parent, "object"] else _GONE  # noqa: PLW2901
            self._counts.setdefault(check, Counter())[token] += 1

    @property
    def profile(self) -> Profile:
        """What is known by now; relations that are none are left out, and what few sessions have is one."""
        kept: dict[Check, dict[str, int]] = {}
        generated: set[str] = set()
        for check, tokens in self._counts.items():
            if check.family is Family.EQUALS and tokens[_EQUAL] < 0.95 * tokens.total():
                continue
            folded = Counter[str]()
            for token, count in tokens.items():
                folded[token if count >= _FEWEST_OF_CHECK or check.family is not Family.SHAPE else RARE] += count
            kept[check] = dict(sorted(folded.items()))
            if check.family is Family.ORIGIN and is_systematic(tokens[_NOWHERE], tokens.total()):
                generated.add(argument_name(check.tool, check.path))
        return Profile(dict(self.sessions), kept, frozenset(generated))


def is_systematic(sessions: int, of: int) -> bool:
    """Whether so many of the sessions in which a thing can be have it that it is no mistake of theirs."""
    return sessions >= _FEWEST_OF_CHECK and sessions > SYSTEMATIC * of


class _Reading:
    """The calls of a run as observations; the run may grow."""

    def __init__(
        self, grounding: RunningScore, relations: Mapping[tuple[str, str], Mapping[str, Sequence[str]]] | None
    ):
        """`relations` are the fields to compare with, by agent and tool and by place; None: all there are."""
        self._grounding = grounding
        self._relations = relations
        self._wanted: frozenset[str] | None = None  # the fields that relations are with; None: all
        if relations is not None:
            self._wanted = frozenset(
                field for paths in relations.values() for fields in paths.values() for field in fields
            )
        self._turns = 0
        self._fields: dict[str, dict[str, None]] = {}
        """By value as text the fields of earlier results and arguments that have it."""
        self._known: dict[str, None] = {}

    def take(self, session: Session, same: int) -> Iterator[list[list[Observation]]]:
        """Yield the observations of each call of the turns after the first `same`."""
        if same < self._turns:
            self._fields, self._known, self._turns = {}, {}, 0
        grounded = self._grounding(session)
        for index in range(self._turns, len(session.turns)):
            turn, origins = session.turns[index], grounded.turns[index]
            found = origins.calls if isinstance(origins, MetricScore) else ()
            calls = [
                self._of_call(call, turn.agent or "", score.findings if isinstance(score, MetricScore) else ())
                for call, score in zip(turn.calls, found, strict=True)
            ]
            self._turns = index + 1
            if index >= same:
                yield calls

    def _of_call(self, call: ToolCall, agent: str, origins: Sequence[Finding]) -> list[Observation]:
        arguments = arguments_of(call)
        if arguments is None or call.rejected:
            return []
        agent = call.agent or agent
        observed = list(observations(call, agent, origins))
        fields = self._known if self._relations is None else self._relations.get((agent, call.name), {})
        for path, place, value in _parts(arguments) if fields else ():
            wanted = self._known if self._relations is None else self._relations[agent, call.name].get(path, ())
            if wanted and (text := _text(value)) is not None:
                equal = self._fields.get(text, {})
                observed += [
                    Observation(
                        Check(agent, call.name, path, Family.EQUALS, field),
                        _EQUAL if field in equal else _DIFFERS,
                        place,
                    )
                    for field in wanted
                    if field in self._known
                ]
        if self._relations is None or self._relations:
            self._remember(call, arguments)
        return observed

    def _remember(self, call: ToolCall, arguments: Mapping[str, Any]) -> None:
        result = call.result.value if call.result.capture is Capture.CAPTURED and call.error is None else None
        for kind, held in ((call.name, result), (f"arguments of {call.name}", arguments)):
            if self._wanted is not None and not any(field.startswith(kind) for field in self._wanted):
                continue
            for path, _, value in _parts(held):
                field = f"{kind}{path}"
                if self._wanted is not None and field not in self._wanted:
                    continue
                if (text := _text(value)) is not None and len(self._fields) < _MOST_FIELDS:
                    self._fields.setdefault(text, {})[field] = None
                    self._known[field] = None


def observations(call: ToolCall, agent: str, origins: Sequence[Finding]) -> Iterator[Observation]:
    """Yield what the arguments of a call say by themselves, and what is known of their origins."""
    tool, hidden = call.name, call.argument_captures
    for path, place, value in _parts(arguments_of(call)):
        if hidden and path and path.split("/")[1] in hidden:
            continue
        yield Observation(Check(agent, tool, path, Family.TYPE), _type(value), place)
        if isinstance(value, str):
            yield Observation(Check(agent, tool, path, Family.SHAPE), shape(value), place)
        elif json_values.is_number(value):
            yield Observation(Check(agent, tool, path, Family.SIGN), _sign(value), place)
        for name in value if json_values.is_mapping(value) else ():
            step = json_values.pointer_to((str(name),))
            yield Observation(Check(agent, tool, f"{path}{step}", Family.PASSED), _HERE, f"{place}{step}")
    for origin in origins:
        if origin.kind not in UNJUDGED or origin.message == GENERATED:
            token = _NOWHERE if origin.failed or origin.message == GENERATED else _FOUND
            path = without_numbers(origin.path)
            yield Observation(Check(agent, tool, path, Family.ORIGIN), token, origin.path)


def _parts(value: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield a value and its parts, each with its path, `*` for elements of lists, and its place."""
    waiting: list[tuple[str, str, Any]] = [("", "", value)]
    for path, place, one in waiting:
        yield path, place, one
        if isinstance(one, (str, int, float)) or len(waiting) > MAX_LEAVES:
            continue
        if json_values.is_mapping(one):
            for name, inner in one.items():
                step = json_values.pointer_to((str(name),))
                # Keys with a digit in them are ids.
                waiting.append((f"{path}{'/*' if any(map(str.isdigit, step)) else step}", f"{place}{step}", inner))
        elif json_values.is_sequence(one):
            waiting += [(f"{path}/*", f"{place}/{index}", inner) for index, inner in enumerate(one)]


def _sign(value: float) -> str:
    return "negative" if value < 0 else "positive" if value else "zero"


def _type(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    return "number" if json_values.is_number(value) else "object" if json_values.is_mapping(value) else "array"


def _text(value: object) -> str | None:
    """Return what equal values have in common; None of what says little: flags, one character, prose."""
    if isinstance(value, bool) or not (isinstance(value, str) or json_values.is_number(value)):
        return None
    text = str(value).strip().casefold() if isinstance(value, str) else f"{float(value):.9g}"
    return text if len(text) > 1 and len(text.split()) <= _WORDS_OF_TEXT else None


def shape(text: str) -> str:
    """Return what texts of one kind have in common: `A-9999` of "W-1234", `w@w.w` of an address, `text` of prose."""
    if _DATE.fullmatch(text):
        return "date"
    if len(text.split()) > _WORDS_OF_TEXT:
        return "text"
    if not text:
        return "empty"
    is_code = any(char.isdigit() for char in text) and text.upper() == text and any(char.isalpha() for char in text)
    if is_code and re.fullmatch(r"#?[A-Z0-9]{5,}", text):
        return f"code of {len(text)}"
    worded = _LETTERS.sub(lambda found: found[0][0].upper() if found[0].isupper() and len(found[0]) < 4 else "w", text)
    return re.sub(r"\d+", lambda found: "9" * min(len(found[0]), 12), worded)[:60]


class ToolParameterProfile(CallMetric, frozen=True):
    """How many arguments are as they are normally passed."""

    profile: Profile = Profile()
    tools: Mapping[str, Mapping[str, Any]] | None = None
    """The schemas of all tools by name; None: those that telemetry declares."""
    name: str = "tool_parameter_profile"
    description: str = "The share of arguments that do not deviate from what is normal for this agent."
    needs: frozenset[str] = frozenset(("context", "tool_definitions"))
    threshold: Fraction | None = None

    def running(self, beside: Mapping[str, RunningScore] | None = None) -> RunningScore:
        """Return what judges one run while it grows; origins are those that another metric found already, if any."""
        own = ToolParameterGrounding(tools=self.tools, generated=self.profile.generated)
        return _RunningProfile(self.profile, (beside or {}).get(own.name) or own.running())


class _RunningProfile(RunningScore):
    def __init__(self, profile: Profile, grounding: RunningScore) -> None:
        super().__init__("argument")
        self._deviations = profile.deviations
        self._reading = _Reading(grounding, self._deviations.relations)
        self._first = 0
        self._observed: list[list[list[Observation]]] = []

    def _begin(self, session: Session, same: int) -> int:
        self._first = same
        self._observed = list(self._reading.take(session, same))
        return same

    def _judged(self, index: int, turn: Turn) -> Sequence[CallScore]:
        seen = self._observed[index - self._first]
        return [self._deviations.judged(call, one) for call, one in zip(turn.calls, seen, strict=True)]


class Deviations:
    """Judges calls by a profile."""

    def __init__(self, profile: Profile) -> None:
        """Take the profile."""
        self._profile = profile
        self._chances: dict[tuple[Check, str], float | None] = {}
        self._names: dict[tuple[str, str], dict[str, tuple[Check, dict[str, int]]]] = {}
        """By agent and tool, and by path: the object above, and in how many sessions it had this, and not always."""
        self.relations: dict[tuple[str, str], dict[str, list[str]]] = {}
        """By agent and tool, and by path: the fields of earlier calls that it mostly equals."""
        for check, counts in profile.counts.items():
            if check.field:
                self.relations.setdefault((check.agent, check.tool), {}).setdefault(check.path, []).append(check.field)
            if check.family is Family.PASSED and check not in profile.off:
                objects = profile.counts.get(check.parent, {}).get("object", 0)
                always = counts.get(_HERE, 0)
                names = self._names.setdefault((check.agent, check.tool), {})
                names[check.path] = check.parent, {_HERE: always, _GONE: max(objects - always, 0)}

    def judged(self, call: ToolCall, seen: Sequence[Observation]) -> CallScore:
        """Judge a call by what was observed of it: the findings are the deviations, the rarest first, one a place."""
        arguments = arguments_of(call)
        if call.rejected or arguments is None:
            return CallScore(call, reason=Reason.NOTHING_EXPECTED if call.rejected else why_not_known(call))
        agent = seen[0].check.agent if seen else ""
        if not self._profile.knows(agent):
            return CallScore(call, reason=Reason.INPUT_MISSING)
        found: dict[str, tuple[float, Finding]] = {}
        if names := self._names.get((agent, call.name)):
            for chance, finding in (*self._not_passed(names, seen), *self._deviating(names, seen)):
                if finding.path not in found or chance < found[finding.path][0]:
                    found[finding.path] = chance, finding
        places = {one.path for one in seen if one.path} | found.keys()
        rarest = sorted(found.values(), key=lambda one: (one[0], one[1].path))
        findings = tuple(_with_value(finding, arguments) for _, finding in rarest)
        return CallScore(call, len(places) - len(findings), len(places), findings)

    def _deviating(self, names: _Names, seen: Sequence[Observation]) -> Iterator[tuple[float, Finding]]:
        for one in seen:
            key = one.check, one.token
            if key not in self._chances:
                if len(self._chances) > _MOST_CHANCES:
                    self._chances.clear()
                passed = one.check.family is Family.PASSED
                self._chances[key] = self._other_name(one, names) if passed else self._profile.chance(*key)
            if (chance := self._chances[key]) is not None and chance <= _LEVEL:
                yield chance, Finding(one.path, self._kind(one.check), self._words(one), failed=True)

    def _kind(self, check: Check) -> str:
        """Return the kind of a deviation; a value from nowhere breaks a rule only if none of many sessions had one."""
        counts = self._profile.counts.get(check, {})
        is_rule = counts.get(_FOUND, 0) >= _FEWEST_OF_RULE and not counts.get(_NOWHERE)
        return USUAL_ORIGIN if check.family is Family.ORIGIN and not is_rule else str(check.family)

    def _other_name(self, one: Observation, names: _Names) -> float | None:
        """Return the chance of an argument that hardly a session has: by how many sessions have one as rare."""
        if one.check.path.endswith("/*") or one.check in self._profile.off:
            return None
        objects = self._profile.counts.get(one.check.parent, {}).get("object", 0)
        if objects < _FEWEST_OF_CHECK:
            return None
        of_name = {
            path: self._having(parent, path) for path, (parent, _) in names.items() if parent == one.check.parent
        }
        own = max(1, of_name.get(one.check.path, 0))
        rho, tolerance = _WEIGHTS[Family.OTHER_NAME]
        as_rare = sum(sessions for sessions in of_name.values() if sessions <= own)
        return (max(0.0, as_rare - tolerance * objects) + rho) / (objects + 1)

    def _having(self, parent: Check, path: str) -> int:
        """Return how many sessions have an argument."""
        return sum(self._profile.counts[parent._replace(path=path, family=Family.PASSED)].values())

    def _not_passed(self, names: _Names, seen: Sequence[Observation]) -> Iterator[tuple[float, Finding]]:
        passed = {one.check.path for one in seen if one.check.family is Family.PASSED}
        here = {one.check for one in seen if one.check.family is Family.TYPE}
        for path, (parent, counts) in names.items():
            total = sum(counts.values())
            if path in passed or parent not in here or total < _FEWEST_OF_CHECK:
                continue
            rho, tolerance = _WEIGHTS[Family.PASSED]
            chance = (max(0.0, counts[_GONE] - tolerance * total) + rho) / (total + 1)
            if chance <= _LEVEL or parent._replace(path=path, family=Family.PASSED) in self._profile.pinned:
                message = f"passed in {counts[_HERE]:,} of {total:,} sessions, and not here"
                yield chance, Finding(path, NOT_PASSED, message, failed=True)

    def _words(self, one: Observation) -> str:
        counts = self._profile.counts.get(one.check, {})
        total = sum(counts.values())
        most = max(counts, key=lambda token: counts[token], default="")
        match one.check.family:
            case Family.EQUALS:
                return f"not {one.check.field}, as in {counts[_EQUAL]:,} of {total:,} sessions"
            case Family.ORIGIN:
                return f"from nowhere; it had an origin in {counts.get(_FOUND, 0):,} of {total:,} sessions"
            case Family.PASSED:
                return f"an argument of this name is in {json_values.counted(total, 'session')}"
            case family:
                return f"{family} {one.token}; {most} in {counts[most]:,} of {total:,} sessions"


def _with_value(finding: Finding, arguments: Mapping[str, Any]) -> Finding:
    try:
        value = json_values.shown(json_values.value_at(arguments, json_values.steps_of(finding.path)))
    except LookupError:
        return finding
    return replace(finding, detailed=f"{value}: {finding.message}")


_Names = Mapping[str, tuple[Check, Mapping[str, int]]]
_MOST_CHANCES = 100_000
