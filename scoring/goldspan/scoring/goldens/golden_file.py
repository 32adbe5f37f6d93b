"""goldspan's own golden file: its shape, declared once, and the golden set made of a document that has it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from goldspan.scoring.criterion import Criterion
from goldspan.scoring.criterion_fields import is_mapping
from goldspan.scoring.goldens.chosen_shapes import ChosenMetrics, ChosenPresetShape, with_choices
from goldspan.scoring.goldens.criteria import (
    OF_A_CALL,
    OF_A_GOLDEN,
    OF_A_SET,
    OF_A_TURN,
    Said,
    check_turn_of_whole_session,
    inherit,
)
from goldspan.scoring.goldens.documents import Notes, Where, is_list
from goldspan.scoring.goldens.models import (
    MOST_ALTERNATIVES,
    ExpectedCall,
    Golden,
    GoldenSet,
    GoldenTurn,
    Repeat,
)
from goldspan.scoring.goldens.shapes import Arguments, Field, Fields, ListOf, Number, Text
from goldspan.scoring.goldens.structure_shapes import (
    Aliases,
    Alternatives,
    ByName,
    CallOrGroup,
    Count,
    Scalar,
    Something,
    Truth,
    Whole,
    aliases_of,
    check_call,
    check_repeat,
    counts_of,
)
from goldspan.scoring.sessions import JsonValue

Given = Mapping[str, Any]

FORMAT = 1

CALL = Fields(
    "a call",
    {
        "name": Field(Text(), "the tool's name, as the agent's framework knows it", required=True),
        "args": Field(Arguments(), "the expected arguments by parameter name; others are reported, not judged"),
        "optional": Field(Truth(), "the call may be left out; made, it is scored outside the mean"),
        "forbidden": Field(Truth(), "the call must not be made; no args: whatever they are; name *: whatever tool"),
        "result": Field(Something(), "what the call should return, for metrics that judge it"),
        "criterion": Field(OF_A_CALL, "what differs for this call from the criterion of its turn"),
    },
    never_both=(("optional", "forbidden"),),
    together=check_call,
)
GROUP = Fields(
    "a group",
    {"parallel": Field(ListOf(CALL, "calls"), "calls whose order among themselves is free", required=True)},
)
CALLS = ListOf(CallOrGroup(CALL, GROUP), "calls")
REPEAT = Fields(
    "a repeat",
    {
        "runs": Field(Whole(), "how many runs belong together", required=True),
        "passes": Field(Whole(), "how many of them must pass; all, where it is left out"),
    },
    together=check_repeat,
)
_ANY_OF = "lists of calls of which any would do, in the place of `calls`; the best counts"
_CALL_COUNTS = 'how often tools should be called, for metrics that count: {search: 2, book: "<= 1"}'
TURN = Fields(
    "a turn",
    {
        "user": Field(Text(), "the user's message, by which the turn is found; white space is folded"),
        "turn_id": Field(Text(), "the framework's own id of the turn, by which it is found before `user`"),
        "calls": Field(CALLS, "the calls expected in this turn; none: nothing is expected"),
        "any_of": Field(Alternatives(CALLS), _ANY_OF),
        "call_counts": Field(ByName(Count(), "{search: 2}"), _CALL_COUNTS),
        "criterion": Field(OF_A_TURN, "what differs for this turn from the criterion of its golden"),
    },
    never_both=(("calls", "any_of"),),
)
GOLDEN = Fields(
    "a golden",
    {
        "session": Field(Text(), "the id of the session it belongs to"),
        "session_pattern": Field(Text(), "a glob that matches whole session ids, such as nightly-*-weather"),
        "attribute": Field(
            ByName(Scalar(), "{test.case.name: weather in Paris}"),
            "attributes that the session's spans or resource have: {test.case.name: weather in Paris}",
        ),
        "first_user_text": Field(Text(), "the first message of the user; white space is folded"),
        "turns": Field(ListOf(TURN, "turns"), "what is expected, turn by turn"),
        "calls": Field(CALLS, "what is expected of the whole session, whatever the turn"),
        "any_of": Field(Alternatives(CALLS), _ANY_OF),
        "repeat": Field(REPEAT, "judges the golden over several runs: {runs: 5, passes: 4}"),
        "call_counts": Field(ByName(Count(), "{search: 2}"), _CALL_COUNTS),
        "criterion": Field(OF_A_GOLDEN, "what differs for this golden from the criterion of its set"),
        "metrics": Field(ChosenMetrics(), "what is judged beside tool_parameter_match: names, or thresholds by name"),
        "preset": Field(ChosenPresetShape(), "another system's scorer, in the place of tool_parameter_match"),
        "description": Field(Text(), "for people"),
    },
    one_of=(("session", "session_pattern", "attribute", "first_user_text"), ("turns", "calls", "any_of")),
)
GOLDEN_SET = Fields(
    "a golden set",
    {
        "format": Field(Number(FORMAT, "a newer goldspan may read other formats"), "the format of this file: 1"),
        "golden_set": Field(Text(), "the name of the set, which results carry", required=True),
        "version": Field(Text(), "the version of the set, which results carry; quote numbers"),
        "description": Field(Text(), "for people"),
        "criterion": Field(OF_A_SET, "how calls are aligned, compared and aggregated; goldens inherit it"),
        "metrics": Field(ChosenMetrics(), "what is judged beside tool_parameter_match: names, or thresholds by name"),
        "preset": Field(ChosenPresetShape(), "another system's scorer, in the place of tool_parameter_match"),
        "aliases": Field(Aliases(), "other names that tools have in traces: {get_weather: [weather.get]}"),
        "goldens": Field(ListOf(GOLDEN, "goldens"), "one golden for each session", required=True),
    },
)


def read_golden_set(document: JsonValue, notes: Notes, defaults: Said) -> GoldenSet:
    """Make a golden set of a document; what is wrong with it is noted, and the result then of no use."""
    GOLDEN_SET.check(document, (), notes)
    # Building goes on beside mistakes: criteria are checked while they are merged.
    given: Given = document if is_mapping(document) else {}
    return _Builder(notes, aliases_of(given.get("aliases"))).golden_set(given, defaults)


def content_digest(document: JsonValue) -> str:
    """Return 16 hex digits that are the same for the same content, however it is formatted and ordered."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


class _Builder:
    def __init__(self, notes: Notes, aliases: Mapping[str, str]) -> None:
        self.notes, self.aliases = notes, aliases

    def golden_set(self, given: Given, defaults: Said) -> GoldenSet:
        said = self.said(given, defaults, ())
        built = GoldenSet(
            name=given.get("golden_set", ""),
            version=given.get("version"),
            digest="" if self.notes.mistakes else content_digest(given),
            criterion=self.criterion(said),
            source=self.notes.source(()),
        )
        goldens = [
            with_choices(self.golden(built, one, said, where), one, given)
            for where, one in _objects(given.get("goldens"), ("goldens",))
        ]
        return replace(built, goldens=tuple(goldens))

    def golden(self, owner: GoldenSet, given: Given, above: Said, where: Where) -> Golden:
        said = self.said(given, above, where)
        turns = tuple(self.turn(one, said, there) for there, one in _objects(given.get("turns"), (*where, "turns")))
        lists = self.lists(given, said, where)
        if said.get("scope") == "session" and prod(1 + len(turn.alternatives) for turn in turns) > MOST_ALTERNATIVES:
            message = f"with `scope: session` the alternatives of its turns make more than {MOST_ALTERNATIVES} together"
            self.notes.add((*where, "turns"), f"{message}: leave some out, or say `any_of` once for the golden")
        wrong = bool(self.notes.mistakes)
        return Golden(
            session=given.get("session"),
            session_pattern=given.get("session_pattern"),
            attribute={} if wrong else given.get("attribute", {}),
            first_user_text=given.get("first_user_text"),
            turns=turns,
            calls=lists[0] if lists else None,
            alternatives=lists[1:],
            criterion=owner.criterion if said is above else self.criterion(said),
            golden_set=owner.label,
            digest=owner.digest,
            source=self.notes.source(where),
            repeat=None if wrong or "repeat" not in given else _repeat(given["repeat"]),
            call_counts={} if wrong else counts_of(given.get("call_counts")),
            aliases=self.aliases,
        )

    def turn(self, given: Given, above: Said, where: Where) -> GoldenTurn:
        said = self.said(given, above, where)
        if above.get("scope") == "session":
            check_turn_of_whole_session(given.get("criterion"), (*where, "criterion"), self.notes)
        lists = self.lists(given, said, where)
        return GoldenTurn(
            calls=lists[0] if lists else (),
            user=given.get("user"),
            turn_id=given.get("turn_id"),
            criterion=None if said is above else self.criterion(said),
            alternatives=lists[1:],
            call_counts={} if self.notes.mistakes else counts_of(given.get("call_counts")),
        )

    def lists(self, given: Given, above: Said, where: Where) -> tuple[tuple[ExpectedCall, ...], ...]:
        """Return the list of calls, or the alternatives to choose from; empty where there is neither."""
        if "calls" in given:
            return (self.calls(given["calls"], above, (*where, "calls")),)
        lists = given.get("any_of")
        if not is_list(lists):
            return ()
        return tuple(self.calls(one, above, (*where, "any_of", index)) for index, one in enumerate(lists))

    def calls(self, items: JsonValue, above: Said, where: Where) -> tuple[ExpectedCall, ...]:
        calls: list[ExpectedCall] = []
        for group, (there, one) in enumerate(_objects(items, where), start=1):
            if "parallel" in one:
                inside = _objects(one["parallel"], (*there, "parallel"))
                calls += [replace(self.call(call, above, place), group=group) for place, call in inside]
            else:
                calls.append(self.call(one, above, there))
        return tuple(calls)

    def call(self, given: Given, above: Said, where: Where) -> ExpectedCall:
        said = self.said(given, above, where)
        name = given.get("name", "")
        return ExpectedCall(
            self.aliases.get(name, name) if isinstance(name, str) else "",
            self.args(given),
            None if said is above else self.criterion(said),
            optional=given.get("optional") is True,
            forbidden=given.get("forbidden") is True,
            result=given.get("result"),
        )

    def args(self, given: Given) -> Given:
        return {} if self.notes.mistakes else given.get("args", {})

    def said(self, given: Given, above: Said, where: Where) -> Said:
        return inherit(above, given["criterion"], (*where, "criterion"), self.notes) if "criterion" in given else above

    def criterion(self, said: Said) -> Criterion:
        return Criterion() if self.notes.mistakes else Criterion.parse(said)


def _repeat(given: Given) -> Repeat:
    return Repeat(given["runs"], given.get("passes", given["runs"]))


def _objects(items: JsonValue, where: Where) -> Iterator[tuple[Where, Given]]:
    """Yield the objects in a list; anything else there is a mistake that the shape noted."""
    for index, item in enumerate(items if is_list(items) else []):
        if is_mapping(item):
            yield (*where, index), item
