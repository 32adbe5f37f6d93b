"""goldspan's own golden file: its shape, declared once, and the golden set made of a document that has it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
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
from goldspan.scoring.goldens.models import ExpectedCall, Golden, GoldenSet, GoldenTurn
from goldspan.scoring.goldens.shapes import Arguments, Field, Fields, ListOf, Number, Text
from goldspan.scoring.sessions import JsonValue

Given = Mapping[str, Any]

FORMAT = 1

CALL = Fields(
    "a call",
    {
        "name": Field(Text(), "the tool's name, as the agent's framework knows it", required=True),
        "args": Field(Arguments(), "the expected arguments by parameter name; others are reported, not judged"),
        "criterion": Field(OF_A_CALL, "what differs for this call from the criterion of its turn"),
    },
    later=("any_of", "forbidden", "optional", "parallel"),
)
TURN = Fields(
    "a turn",
    {
        "user": Field(Text(), "the user's message, by which the turn is found; white space is folded"),
        "turn_id": Field(Text(), "the framework's own id of the turn, by which it is found before `user`"),
        "calls": Field(ListOf(CALL, "calls"), "the calls expected in this turn; none: nothing is expected"),
        "criterion": Field(OF_A_TURN, "what differs for this turn from the criterion of its golden"),
    },
    later=("any_of", "parallel"),
)
GOLDEN = Fields(
    "a golden",
    {
        "session": Field(Text(), "the id of the session it belongs to"),
        "session_pattern": Field(Text(), "a glob that matches whole session ids, such as nightly-*-weather"),
        "turns": Field(ListOf(TURN, "turns"), "what is expected, turn by turn"),
        "calls": Field(ListOf(CALL, "calls"), "what is expected of the whole session, whatever the turn"),
        "criterion": Field(OF_A_GOLDEN, "what differs for this golden from the criterion of its set"),
        "metrics": Field(ChosenMetrics(), "what is judged beside tool_parameter_match: names, or thresholds by name"),
        "preset": Field(ChosenPresetShape(), "another system's scorer, in the place of tool_parameter_match"),
        "description": Field(Text(), "for people"),
    },
    one_of=(("session", "session_pattern"), ("turns", "calls")),
    later=("any_of", "attribute", "first_user_text", "repeat"),
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
        "goldens": Field(ListOf(GOLDEN, "goldens"), "one golden for each session", required=True),
    },
    later=("aliases",),
)


def read_golden_set(document: JsonValue, notes: Notes, defaults: Said) -> GoldenSet:
    """Make a golden set of a document; what is wrong with it is noted, and the result then of no use."""
    GOLDEN_SET.check(document, (), notes)
    # Building goes on beside mistakes: criteria are checked while they are merged.
    return _Builder(notes).golden_set(document if is_mapping(document) else {}, defaults)


def content_digest(document: JsonValue) -> str:
    """Return 16 hex digits that are the same for the same content, however it is formatted and ordered."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


class _Builder:
    def __init__(self, notes: Notes) -> None:
        self.notes = notes

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
            for where, one in _objects(given, "goldens", ())
        ]
        return replace(built, goldens=tuple(goldens))

    def golden(self, owner: GoldenSet, given: Given, above: Said, where: Where) -> Golden:
        said = self.said(given, above, where)
        return Golden(
            session=given.get("session"),
            session_pattern=given.get("session_pattern"),
            turns=tuple(self.turn(one, said, there) for there, one in _objects(given, "turns", where)),
            calls=self.calls(given, said, where) if "calls" in given else None,
            criterion=owner.criterion if said is above else self.criterion(said),
            golden_set=owner.label,
            digest=owner.digest,
            source=self.notes.source(where),
        )

    def turn(self, given: Given, above: Said, where: Where) -> GoldenTurn:
        said = self.said(given, above, where)
        if above.get("scope") == "session":
            check_turn_of_whole_session(given.get("criterion"), (*where, "criterion"), self.notes)
        return GoldenTurn(
            calls=self.calls(given, said, where),
            user=given.get("user"),
            turn_id=given.get("turn_id"),
            criterion=None if said is above else self.criterion(said),
        )

    def calls(self, given: Given, above: Said, where: Where) -> tuple[ExpectedCall, ...]:
        return tuple(self.call(one, above, there) for there, one in _objects(given, "calls", where))

    def call(self, given: Given, above: Said, where: Where) -> ExpectedCall:
        said = self.said(given, above, where)
        criterion = None if said is above else self.criterion(said)
        return ExpectedCall(given.get("name", ""), self.args(given), criterion)

    def args(self, given: Given) -> Given:
        return {} if self.notes.mistakes else given.get("args", {})

    def said(self, given: Given, above: Said, where: Where) -> Said:
        return inherit(above, given["criterion"], (*where, "criterion"), self.notes) if "criterion" in given else above

    def criterion(self, said: Said) -> Criterion:
        return Criterion() if self.notes.mistakes else Criterion.parse(said)


def _objects(given: Given, name: str, where: Where) -> Iterator[tuple[Where, Given]]:
    """Yield the objects in a list; anything else there is a mistake that the shape noted."""
    items = given.get(name)
    for index, item in enumerate(items if is_list(items) else []):
        if is_mapping(item):
            yield (*where, name, index), item
