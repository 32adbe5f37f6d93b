"""The file of a profile: counts by agent, tool and place, as people review them, and what two of them differ in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from math import erfc, sqrt
from pathlib import Path
from typing import Any, NamedTuple

from goldspan.scoring.errors import FileError
from goldspan.scoring.goldens.documents import MistakeCollector, Unreadable, read_document
from goldspan.scoring.json_values import is_mapping, is_number, is_sequence
from goldspan.scoring.metrics.argument_profile import Check, Family, Profile

FORMAT = 1
_FIELDS = ("format", "generated", "agents")
_MARKS = ("off", "pin")
_COUNTED = "expected a number of sessions for each"


def profile_document(profile: Profile) -> dict[str, Any]:
    """Return a profile as the document of its file."""
    agents: dict[str, Any] = {
        agent: {"sessions": count, "tools": {}} for agent, count in sorted(profile.sessions.items())
    }

    def place(check: Check) -> dict[str, Any]:
        tools = agents.setdefault(check.agent, {"sessions": 0, "tools": {}})["tools"]
        found: dict[str, Any] = tools.setdefault(check.tool, {}).setdefault(check.path or "/", {})
        return found

    for check, counts in sorted(profile.counts.items()):
        if check.field:
            place(check).setdefault(str(check.family), {})[check.field] = dict(counts)
        else:
            place(check)[str(check.family)] = dict(counts)
    for mark, checks in (("off", profile.off), ("pin", profile.pinned)):
        for check in sorted(checks):
            place(check).setdefault(mark, []).append(str(check.family))
    return {"format": FORMAT, "generated": sorted(profile.generated), "agents": agents}


def load_profile(path: str | Path) -> Profile:
    """Read the file of a profile, YAML or JSON. Raises FileError with everything that is wrong with it.

    At any place `off: [shape]` says what is not judged there, `pin: [type]` what has to be as it mostly was.
    """
    notes = MistakeCollector(str(path))
    found = Profile()
    with suppress(Unreadable):
        found = _profile_of(read_document(Path(path), notes), notes)
    if notes.mistakes:
        raise FileError(*notes.in_order())
    return found


def _profile_of(document: object, notes: MistakeCollector) -> Profile:
    if not is_mapping(document) or document.get("format") != FORMAT:
        raise notes.unreadable(f"expected format: {FORMAT} and agents, as `goldspan profile learn` writes them")
    for name in document:
        if name not in _FIELDS:
            notes.add((name,), f"unknown field: expected {', '.join(_FIELDS)}")
    generated = _generated(document.get("generated") or (), notes)
    agents = list(_mapping(document, "agents", (), notes))
    sessions = {agent: _sessions_of(agent, known, notes) for agent, known in agents}
    counts: dict[Check, Mapping[str, int]] = {}
    marks: dict[str, set[Check]] = {mark: set() for mark in _MARKS}
    for place, families in chain.from_iterable(_places_of(agent, known, notes) for agent, known in agents):
        where = ("agents", place.agent, "tools", place.tool, place.path or "/")
        counts.update(_counts_at(place, families, where, notes))
        for mark, marked in marks.items():
            marked.update(place._replace(family=Family(one)) for one in _families(families.get(mark, ()), where, notes))
    return Profile(sessions, counts, generated, frozenset(marks["off"]), frozenset(marks["pin"]))


def _generated(named: object, notes: MistakeCollector) -> frozenset[str]:
    if is_sequence(named) and all(isinstance(one, str) for one in named):
        return frozenset(named)
    notes.add(("generated",), "expected a list of arguments, as refund.request_id")
    return frozenset()


def _sessions_of(agent: str, known: object, notes: MistakeCollector) -> int:
    seen = known.get("sessions") if is_mapping(known) else None
    if not is_number(seen) or seen < 0:
        notes.add(("agents", agent, "sessions"), "expected the number of sessions that were seen")
    return int(seen) if is_number(seen) else 0


def _places_of(agent: str, known: object, notes: MistakeCollector) -> Iterator[tuple[Check, Mapping[str, Any]]]:
    """Yield the places in the arguments of an agent's tools, each with what the file says there."""
    for tool, places in _mapping(known, "tools", ("agents", agent), notes):
        for path, families in places.items() if is_mapping(places) else ():
            place = Check(agent, tool, "" if path == "/" else path, Family.TYPE)
            yield place, families if is_mapping(families) else {}


def _mapping(holder: Any, name: str, where: tuple[str, ...], notes: MistakeCollector) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a field that is an object."""
    found = holder.get(name, {}) if is_mapping(holder) else None
    if not is_mapping(found):
        notes.add((*where, name), "expected an object by name")
    else:
        yield from ((str(key), value) for key, value in found.items())


def _families(marked: object, where: tuple[str, ...], notes: MistakeCollector) -> Iterator[str]:
    for one in marked if is_sequence(marked) else (marked,):
        if one in tuple(Family):
            yield str(one)
        else:
            notes.add(where, f"unknown family {one}: expected {', '.join(Family)}")


def _counts_at(
    place: Check, families: Mapping[str, Any], where: tuple[str, ...], notes: MistakeCollector
) -> Iterator[tuple[Check, Mapping[str, int]]]:
    """Yield what a file counts at one place."""
    for family, found in families.items():
        if family in _MARKS:
            continue
        if family not in tuple(Family):
            notes.add((*where, family), f"unknown family: expected {', '.join(Family)}, off or pin")
            continue
        named = found if family == Family.EQUALS and is_mapping(found) else {"": found}
        for field, tokens in named.items():
            if is_mapping(tokens) and all(is_number(one) and one >= 0 for one in tokens.values()):
                counts = {str(token): int(times) for token, times in tokens.items()}
                yield place._replace(family=Family(family), field=str(field)), counts
            else:
                notes.add((*where, family), _COUNTED)


# Drift: what two profiles differ in.


class Drift(NamedTuple):
    """What two profiles of an agent differ in, and how often chance alone makes such a difference."""

    check: Check
    token: str
    before: tuple[int, int]
    """In so many of so many sessions."""
    after: tuple[int, int]
    chance: float

    def __str__(self) -> str:
        (one, of), (other, of_other) = self.before, self.after
        name = f"{self.check.tool}{self.check.path}"
        field = f" {self.check.field}" if self.check.field else ""
        return (
            f"{name}: {self.check.family}{field} {self.token} in {one:,} of {of:,} sessions, "
            f"then in {other:,} of {of_other:,}"
        )


def drift(before: Profile, after: Profile, *, level: float = 0.05) -> list[Drift]:
    """Return what differs beyond chance between two profiles, what differs most first.

    Two shares are compared by their difference; of a check's tokens the smallest chance counts, times their number
    (Bonferroni), and across checks so many are reported that a share of `level` of them is chance (Benjamini and
    Hochberg).
    """
    found = [
        min(differing, key=lambda one: one.chance)
        for check in before.counts.keys() | after.counts.keys()
        if (differing := list(_differences(check, before, after)))
    ]
    found.sort(key=lambda one: (one.chance, one.check))
    kept = 0
    for rank, one in enumerate(found, 1):
        if one.chance <= level * rank / len(found):
            kept = rank
    return found[:kept]


def _differences(check: Check, before: Profile, after: Profile) -> Iterator[Drift]:
    """Yield the difference of each token of a check, both of whose profiles saw the tool."""
    old, new = before.counts.get(check, {}), after.counts.get(check, {})
    of, of_other = _seen(check, before), _seen(check, after)
    tokens = old.keys() | new.keys()
    for token in tokens if of and of_other else ():
        one, other = old.get(token, 0), new.get(token, 0)
        pooled = (one + other) / (of + of_other)
        spread = sqrt(pooled * (1 - pooled) * (1 / of + 1 / of_other)) if 0 < pooled < 1 else 0.0
        z = abs(one / of - other / of_other) / spread if spread else 0.0
        yield Drift(check, token, (one, of), (other, of_other), min(1.0, erfc(z / sqrt(2)) * len(tokens)))


def _seen(check: Check, profile: Profile) -> int:
    """Return in how many sessions the check could say something: those that have the object above."""
    if check.family in (Family.EQUALS, Family.ORIGIN):
        return sum(profile.counts.get(check, {}).values())
    above = profile.counts.get(check.parent if check.path else check._replace(family=Family.TYPE), {})
    return sum(above.values())
