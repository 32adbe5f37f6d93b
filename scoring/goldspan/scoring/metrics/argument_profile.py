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
from contextlib import suppress
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from goldspan.scoring.errors import FileError
from goldspan.scoring.goldens.documents import MistakeCollector, Unreadable
from goldspan.scoring.goldens.loading import read_document
from goldspan.scoring.grounding.leaves import MAX_LEAVES
from goldspan.scoring.json_values import is_mapping, is_number, is_sequence, pointer_to
from goldspan.scoring.metrics.call_scores import CallMetric, CallScore, RunningScore
from goldspan.scoring.metrics.grounding import UNJUDGED, ToolParameterGrounding
from goldspan.scoring.sessions import Capture, Session, ToolCall, Turn
from goldspan.scoring.verdict import Finding, MetricScore, Reason, arguments_of, why_not_known

FEWEST_SESSIONS = 100
"""Below so many sessions a profile says nothing: a fifth of what is rare in 20 sessions is normal."""
_FEWEST_OF_CHECK = 5
_LEVEL = 0.01
"""A deviation is reported up to this chance."""
_MOST_FIELDS = 4_000
"""Values of earlier results that arguments are compared with, the newest ones."""
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
    tolerance: float
    """The share of the learnt sessions that may break a rule which is one all the same."""


_WEIGHTS = {
    Family.TYPE: _Weight(0.02, 0.05),
    Family.PASSED: _Weight(0.02, 0.05),
    Family.SIGN: _Weight(0.02, 0.01),
    Family.ORIGIN: _Weight(0.03, 0.01),
    Family.OTHER_NAME: _Weight(0.1, 0.01),
    Family.SHAPE: _Weight(0.15, 0.01),
    Family.EQUALS: _Weight(0.4, 0.01),
}
RARE = "rare"
"""Stands for what fewer than five sessions have."""
_HERE, _GONE = "always", "not_always"
_FOUND, _NOWHERE = "found", "nowhere"
_EQUAL, _DIFFERS = "equal", "differs"


class Check(NamedTuple):
    """One thing that is counted: of the arguments, or the parts of one, at a place."""

    tool: str
    path: str
    """JSON Pointer into the arguments, with `*` for the elements of a list."""
    family: Family
    field: str = ""
    """For `equals` the field of an earlier call: `get_order/order/id`."""


class Observation(NamedTuple):
    """What one call says of a check."""

    check: Check
    token: str
    path: str
    """The place in this call."""


class Profile(Struct, frozen=True):
    """What is normal for an agent: for each check, in how many sessions something was seen."""

    sessions: int = 0
    counts: Mapping[Check, Mapping[str, int]] = {}

    def plus(self, other: Profile) -> Profile:
        """Return what both saw; the sessions must be others."""
        counts = {
            check: dict(Counter(mine) + Counter(other.counts.get(check, {}))) for check, mine in self.counts.items()
        }
        more = {check: theirs for check, theirs in other.counts.items() if check not in counts}
        return Profile(self.sessions + other.sessions, {**counts, **more})

    def chance(self, check: Check, token: str) -> float | None:
        """Return how likely a normal session has something as rare; None where too little is known."""
        counts = self.counts.get(check)
        total = sum(counts.values()) if counts else 0
        if counts is None or total < _FEWEST_OF_CHECK:
            return None
        own = counts.get(token, 0)
        as_rare = sum(count for one, count in counts.items() if count <= own or (one == RARE and own <= count))
        rho, tolerance = _WEIGHTS[check.family]
        return (max(0.0, as_rare - tolerance * total) + rho) / (total + 1)


def learn(sessions: Iterable[Session], tools: Mapping[str, Mapping[str, Any]] | None = None) -> Profile:
    """Return the profile of these sessions, in any order; `tools` are schemas by name, else those of telemetry."""
    seen, counts = 0, dict[Check, Counter[str]]()
    for session in sessions:
        seen += bool(session.turns)
        calls = [call for of_turn in _Reading(tools).take(session, 0) for call in of_turn]
        times = Counter(
            (one.check, one.token) for call in calls for one in {(o.check, o.token): o for o in call}.values()
        )
        for (check, token), count in times.items():
            if check.family is Family.PASSED:
                parent = Check(check.tool, check.path.rpartition("/")[0], Family.TYPE)
                always = count == times[parent, "object"]
                counts.setdefault(check, Counter())[_HERE if always else _GONE] += 1
            else:
                counts.setdefault(check, Counter())[token] += 1
    return Profile(seen, _kept(counts))


def _kept(counts: Mapping[Check, Counter[str]]) -> dict[Check, dict[str, int]]:
    """Leave out relations that are none, and fold what few sessions have: nobody can be told by it."""
    kept: dict[Check, dict[str, int]] = {}
    for check, tokens in counts.items():
        if check.family is Family.EQUALS and tokens[_EQUAL] < 0.95 * tokens.total():
            continue
        folded = Counter[str]()
        for token, count in tokens.items():
            folded[token if count >= 5 or check.family is not Family.SHAPE else RARE] += count
        kept[check] = dict(sorted(folded.items()))
    return kept


class _Reading:
    """The calls of a run as observations; the run may grow."""

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None) -> None:
        self._grounding = ToolParameterGrounding(tools=tools).running()
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
                list(self._of_call(call, score.findings if isinstance(score, MetricScore) else ()))
                for call, score in zip(turn.calls, found, strict=True)
            ]
            self._turns = index + 1
            if index >= same:
                yield calls

    def _of_call(self, call: ToolCall, origins: Sequence[Finding]) -> Iterator[Observation]:
        arguments = arguments_of(call)
        if arguments is None or call.rejected:
            return
        for path, place, value in _parts(arguments):
            if path and path.split("/")[1] in call.argument_captures:
                continue
            for family, token, inner in _tokens(value):
                yield Observation(Check(call.name, f"{path}{inner}", family), token, f"{place}{inner}")
            if (text := _text(value)) is not None:
                equal = self._fields.get(text, {})
                for field in self._known:
                    token = _EQUAL if field in equal else _DIFFERS
                    yield Observation(Check(call.name, path, Family.EQUALS, field), token, place)
        for origin in origins:
            if origin.kind not in UNJUDGED:
                path = re.sub(r"/\d+(?=/|$)", "/*", origin.path)
                yield Observation(
                    Check(call.name, path, Family.ORIGIN), _NOWHERE if origin.failed else _FOUND, origin.path
                )
        self._remember(call, arguments)

    def _remember(self, call: ToolCall, arguments: Mapping[str, Any]) -> None:
        result = call.result.value if call.result.capture is Capture.CAPTURED and call.error is None else None
        for kind, held in (("", result), ("arguments of ", arguments)):
            for path, _, value in _parts(held):
                if (text := _text(value)) is not None and len(self._fields) < _MOST_FIELDS:
                    field = f"{kind}{call.name}{path}"
                    self._fields.setdefault(text, {})[field] = None
                    self._known[field] = None


def _tokens(value: Any) -> Iterator[tuple[Family, str, str]]:
    """Yield what is seen of a value by itself: family, token, and the step to the part that it is about."""
    yield Family.TYPE, _type(value), ""
    if is_mapping(value):
        for name in value:
            yield Family.PASSED, _HERE, pointer_to((str(name),))
    elif isinstance(value, str):
        yield Family.SHAPE, shape(value), ""
    elif is_number(value):
        yield Family.SIGN, "negative" if value < 0 else "positive" if value else "zero", ""


def _parts(value: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield a value and its parts, each with its path, `*` for elements of lists, and its place."""
    waiting: list[tuple[str, str, Any]] = [("", "", value)]
    for path, place, one in waiting:
        yield path, place, one
        if len(waiting) > MAX_LEAVES:
            continue
        if is_mapping(one):
            named = ((pointer_to((str(name),)), inner) for name, inner in one.items())
            waiting += [(f"{path}{_step(step)}", f"{place}{step}", inner) for step, inner in named]
        elif is_sequence(one):
            waiting += [(f"{path}/*", f"{place}/{index}", inner) for index, inner in enumerate(one)]


def _step(step: str) -> str:
    """Fold keys that are ids: with a digit in them."""
    return "/*" if any(map(str.isdigit, step)) else step


def _type(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if is_number(value):
        return "number"
    return "string" if isinstance(value, str) else "object" if is_mapping(value) else "array"


def _text(value: object) -> str | None:
    """Return what equal values have in common; None of what says little: flags, one character, prose."""
    if isinstance(value, bool) or not (isinstance(value, str) or is_number(value)):
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


FORMAT = 1
_FIELDS = ("format", "sessions", "tools")


def profile_document(profile: Profile) -> dict[str, Any]:
    """Return a profile as the document of its file: counts by tool, place and family."""
    tools: dict[str, Any] = {}
    for (tool, path, family, field), counts in sorted(profile.counts.items()):
        of_path = tools.setdefault(tool, {}).setdefault(path or "/", {})
        if field:
            of_path.setdefault(str(family), {})[field] = dict(counts)
        else:
            of_path[str(family)] = dict(counts)
    return {"format": FORMAT, "sessions": profile.sessions, "tools": tools}


def load_profile(path: str | Path) -> Profile:
    """Read the file of a profile, YAML or JSON. Raises FileError with everything that is wrong with it.

    At any place `off: [shape, equals]` says which families are not judged there.
    """
    notes = MistakeCollector(str(path))
    found = Profile()
    with suppress(Unreadable):
        found = _profile_of(read_document(Path(path), notes), notes)
    if notes.mistakes:
        raise FileError(*notes.in_order())
    return found


def _profile_of(document: object, notes: MistakeCollector) -> Profile:
    if not is_mapping(document) or document.get("format") != FORMAT or not is_mapping(document.get("tools")):
        raise notes.unreadable(
            f"expected format: {FORMAT}, sessions and tools, as `goldspan profile learn` writes them"
        )
    for name in document:
        if name not in _FIELDS:
            notes.add((name,), f"unknown field: expected {', '.join(_FIELDS)}")
    counts = {
        check: tokens
        for tool, places in document["tools"].items()
        for path, families in (places.items() if is_mapping(places) else ())
        if is_mapping(families)
        for check, tokens in _counts_at(tool, path, families, notes)
    }
    sessions = document.get("sessions")
    if not is_number(sessions):
        notes.add(("sessions",), "expected the number of sessions that were seen")
    return Profile(int(sessions) if is_number(sessions) else 0, counts)


def _counts_at(
    tool: str, path: str, families: Mapping[str, Any], notes: MistakeCollector
) -> Iterator[tuple[Check, Mapping[str, int]]]:
    """Yield what a file counts at one place, without the families that are off."""
    off = families.get("off", ())
    for family, found in families.items():
        where = ("tools", tool, path, family)
        if family == "off" or (is_sequence(off) and family in off):
            continue
        if family not in tuple(Family):
            notes.add(where, f"unknown family: expected {', '.join(Family)} or off")
            continue
        named = found if family == Family.EQUALS and is_mapping(found) else {"": found}
        for field, tokens in named.items():
            if is_mapping(tokens) and all(is_number(one) and one >= 0 for one in tokens.values()):
                check = Check(tool, "" if path == "/" else path, Family(family), field)
                yield check, {str(token): int(times) for token, times in tokens.items()}
            else:
                notes.add(where, "expected a number of sessions for each")


class ToolParameterProfile(CallMetric, frozen=True):
    """How many arguments are as they are normally passed."""

    profile: Profile = Profile()
    tools: Mapping[str, Mapping[str, Any]] | None = None
    """The schemas of all tools by name; None: those that telemetry declares."""
    name: str = "tool_parameter_profile"
    description: str = "The share of arguments that do not deviate from what is normal for this agent."
    needs: frozenset[str] = frozenset(("context", "tool_definitions"))
    threshold: Fraction | None = None

    def running(self) -> RunningScore:
        """Return what judges one run while it grows."""
        return _RunningProfile(self.profile, self.tools)


class _RunningProfile(RunningScore):
    def __init__(self, profile: Profile, tools: Mapping[str, Mapping[str, Any]] | None) -> None:
        super().__init__("argument")
        self._profile = profile
        self._reading = _Reading(tools)
        self._names = _names_of(profile)
        self._first = 0
        self._observed: list[list[list[Observation]]] = []

    def _begin(self, session: Session, same: int) -> int:
        self._first = same
        self._observed = list(self._reading.take(session, same)) if self._profile.sessions >= FEWEST_SESSIONS else []
        return same

    def _judged(self, index: int, turn: Turn) -> Sequence[CallScore]:
        if not self._observed:
            return [CallScore(call, reason=Reason.INPUT_MISSING) for call in turn.calls]
        return [
            self._score(call, seen) for call, seen in zip(turn.calls, self._observed[index - self._first], strict=True)
        ]

    def _score(self, call: ToolCall, seen: Sequence[Observation]) -> CallScore:
        arguments = arguments_of(call)
        if call.rejected or arguments is None:
            return CallScore(call, reason=Reason.NOTHING_EXPECTED if call.rejected else why_not_known(call))
        found: dict[str, tuple[float, Finding]] = {}
        for chance, finding in self._deviations(call, seen):
            if finding.path not in found or chance < found[finding.path][0]:
                found[finding.path] = chance, finding
        places = {one.path for one in seen if one.path} | found.keys()
        findings = tuple(finding for _, finding in sorted(found.values(), key=lambda one: (one[0], one[1].path)))
        return CallScore(call, len(places) - len(findings), len(places), findings)

    def _deviations(self, call: ToolCall, seen: Sequence[Observation]) -> Iterator[tuple[float, Finding]]:
        names = self._names.get(call.name)
        if names is None:
            return
        yield from _not_passed(names, seen)
        for one in seen:
            if one.check.family is Family.PASSED:
                chance = self._other_name(one, names)
            else:
                chance = self._profile.chance(one.check, one.token)
            if chance is not None and chance <= _LEVEL:
                yield chance, Finding(one.path, str(one.check.family), self._words(one), failed=True)

    def _other_name(self, one: Observation, names: _Names) -> float | None:
        """Return the chance of an argument that no session has: by how many names only one session has."""
        if one.check.path in names or one.check.path.endswith("/*"):
            return None
        parent = one.check.path.rpartition("/")[0]
        beside = [sum(counts.values()) for above, counts in names.values() if above == parent]
        if not beside or max(beside) < _FEWEST_OF_CHECK:
            return None
        single = sum(counts[_HERE] == 1 for above, counts in names.values() if above == parent)
        return (single + _WEIGHTS[Family.OTHER_NAME].rho) / (max(beside) + 1)

    def _words(self, one: Observation) -> str:
        counts = self._profile.counts.get(one.check, {})
        total = sum(counts.values())
        most = max(counts, key=lambda token: counts[token], default="")
        match one.check.family:
            case Family.EQUALS:
                return f"not {one.check.field}, as in {counts[_EQUAL]:,} of {total:,} sessions"
            case Family.ORIGIN:
                return f"from nowhere; it had an origin in {counts[_FOUND]:,} of {total:,} sessions"
            case Family.PASSED:
                return "no session has an argument of this name"
            case family:
                return f"{family} {one.token}; {most} in {counts[most]:,} of {total:,} sessions"


_Names = Mapping[str, tuple[str, Mapping[str, int]]]
"""By path what is passed there: the path above, and in how many sessions it always was, and not."""


def _not_passed(names: _Names, seen: Sequence[Observation]) -> Iterator[tuple[float, Finding]]:
    passed = {one.check.path for one in seen if one.check.family is Family.PASSED}
    here = {one.check.path for one in seen if one.check.family is Family.TYPE}
    for path, (parent, counts) in names.items():
        chance = _of_absence(counts) if path not in passed and parent in here else None
        if chance is not None and chance <= _LEVEL:
            message = f"passed in {counts[_HERE]:,} of {sum(counts.values()):,} sessions, and not here"
            yield chance, Finding(path, "not_passed", message, failed=True)


def _names_of(profile: Profile) -> dict[str, _Names]:
    """Return by tool what is passed at which path."""
    found: dict[str, dict[str, tuple[str, Mapping[str, int]]]] = {}
    for check, counts in profile.counts.items():
        if check.family is Family.PASSED:
            parent = check.path.rpartition("/")[0]
            objects = profile.counts.get(Check(check.tool, parent, Family.TYPE), {}).get("object", 0)
            always = counts.get(_HERE, 0)
            found.setdefault(check.tool, {})[check.path] = parent, {_HERE: always, _GONE: max(objects - always, 0)}
    return dict(found)


def _of_absence(counts: Mapping[str, int]) -> float | None:
    total = sum(counts.values())
    if total < _FEWEST_OF_CHECK:
        return None
    rho, tolerance = _WEIGHTS[Family.PASSED]
    return (max(0.0, counts[_GONE] - tolerance * total) + rho) / (total + 1)
