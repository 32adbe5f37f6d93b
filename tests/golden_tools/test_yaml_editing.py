"""Edits of YAML in place: the values become what was meant, and nothing else is touched."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.collector_processor.golden_tools.writing import yaml_text
from goldspan.collector_processor.golden_tools.yaml_editing import (
    Edit,
    InsertItem,
    RemoveValue,
    SetValue,
    edit_document,
    edit_yaml,
)
from goldspan.scoring.goldens.documents import MistakeCollector, read_yaml

WRITTEN = """\
# a set
golden_set: w   # its name
goldens:
  # the first
  - session: s-1
    turns:
      - user: 'Hi'
        calls:
          - {name: a, args: {x: 'one', y: [1, 2]}}  # on its line
          # about b
          - name: b
            args:
              text: |
                two
                lines

              # about z
              z: "012"

          # about c
          - {name: c}
      - {user: Thanks}

  - session: s-2
    calls: []
# the end
"""
CALLS = ("goldens", 0, "turns", 0, "calls")


def read(text: str) -> Any:
    notes = MistakeCollector("edited.yaml")
    document = read_yaml(text, notes)
    assert notes.mistakes == []
    return document


EDITS: dict[str, tuple[Edit, str, str]] = {
    "a value in a line": (SetValue((*CALLS, 0, "args", "x"), "NO"), "x: 'one'", 'x: "NO"'),
    "an item": (SetValue((*CALLS, 0, "args", "y", 1), None), "[1, 2]", "[1, null]"),
    "a list": (SetValue((*CALLS, 0, "args", "y"), []), "y: [1, 2]", "y: []"),
    "quoted text": (SetValue((*CALLS, 1, "args", "z"), "12:30"), 'z: "012"', 'z: "12:30"'),
    "text over lines": (
        SetValue((*CALLS, 1, "args", "text"), "one line"),
        "text: |\n                two\n                lines\n",
        "text: one line\n",
    ),
    "a new key in a line": (SetValue((*CALLS, 2, "optional"), True), "- {name: c}", "- {name: c, optional: true}"),
    "a new key in a block": (
        SetValue((*CALLS, 1, "args", "new"), {"a": [1]}),
        '              z: "012"\n',
        '              z: "012"\n              new: {a: [1]}\n',
    ),
    "a new key in an object of its own line": (
        SetValue(("goldens", 0, "turns", 1, "calls"), [{"name": "d"}]),
        "{user: Thanks}",
        "{user: Thanks, calls: [{name: d}]}",
    ),
    "a key gone from a line": (RemoveValue((*CALLS, 0, "args", "y")), ", y: [1, 2]", ""),
    "the first key gone from a line": (RemoveValue((*CALLS, 0, "args", "x")), "x: 'one', ", ""),
    "a key gone from a block": (
        RemoveValue((*CALLS, 1, "args", "z")),
        '              # about z\n              z: "012"\n',
        "",
    ),
    "the key behind a dash": (RemoveValue(("goldens", 0, "turns", 0, "user")), "user: 'Hi'\n        calls:", "calls:"),
    "the only key": (RemoveValue(("goldens", 0, "turns", 1, "user")), "{user: Thanks}", "{}"),
    "an item gone with its comment": (
        RemoveValue((*CALLS, 2)),
        "          # about c\n          - {name: c}\n",
        "",
    ),
    "an item put in between": (
        InsertItem((*CALLS, 1), {"name": "new"}),
        "  # on its line\n",
        "  # on its line\n          - {name: new}\n",
    ),
    "an item put before all": (
        InsertItem((*CALLS, 0), {"name": "new"}),
        "        calls:\n          - {name: a",
        "        calls:\n          - {name: new}\n          - {name: a",
    ),
    "an item put behind all": (
        InsertItem((*CALLS, 3), {"name": "new", "args": {"text": "a\nb\n"}}),
        "          - {name: c}\n",
        "          - {name: c}\n          - name: new\n            args:\n              text: |\n                a\n"
        "                b\n",
    ),
    "an item put into a list of one line": (InsertItem((*CALLS, 0, "args", "y", 1), "x"), "[1, 2]", "[1, x, 2]"),
    "an item put behind a list of one line": (InsertItem((*CALLS, 0, "args", "y", 2), "x"), "[1, 2]", "[1, 2, x]"),
    "an item put into an empty list": (
        InsertItem(("goldens", 1, "calls", 0), {"name": "d"}),
        "calls: []",
        "calls: [{name: d}]",
    ),
}


@pytest.mark.parametrize(("edit", "before", "after"), EDITS.values(), ids=EDITS)
def test_an_edit_touches_what_it_is_about(edit: Edit, before: str, after: str) -> None:
    assert WRITTEN.count(before) == 1
    edited = edit_yaml(WRITTEN, edit)
    assert edited == WRITTEN.replace(before, after)
    assert read(edited) == edit_document(read(WRITTEN), edit)


def test_a_file_without_a_line_break_at_its_end_gets_one() -> None:
    assert edit_yaml("a:\n  - 1", InsertItem(("a", 1), 2)) == "a:\n  - 1\n  - 2\n"


def test_nothing_becomes_something() -> None:
    assert edit_yaml("a:\nb: 1\n", SetValue(("a",), 2)) == "a: 2\nb: 1\n"
    assert edit_yaml("a:  # nothing\n", SetValue(("a",), 2)) == "a: 2  # nothing\n"
    assert edit_yaml("a:\n  -\n  - 1\n", SetValue(("a", 0), 2)) == "a:\n  - 2\n  - 1\n"
    assert edit_yaml("{a: , b}\n", SetValue(("a",), 2)) == "{a: 2 , b}\n"


@pytest.mark.parametrize(
    "edit", [RemoveValue(("goldens", 7)), RemoveValue(("nothing",)), InsertItem(("golden_set", 0), 1)]
)
def test_a_place_that_is_not_there_is_an_error(edit: Edit) -> None:
    with pytest.raises(LookupError):
        edit_yaml(WRITTEN, edit)


def test_a_document_that_is_edited_is_another_one() -> None:
    document = read(WRITTEN)
    kept = copy.deepcopy(document)
    edit_document(document, RemoveValue((*CALLS, 0)))
    assert document == kept


KEYS = st.text("ab:#- \n'\"é", max_size=4)
LEAVES = st.none() | st.integers() | st.text("ab:#- \n'\"{}[],é", max_size=6)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)


@st.composite
def edits(draw: st.DrawFn) -> tuple[Any, Edit]:
    """A golden set and an edit somewhere in the arguments of its calls."""
    calls = draw(
        st.lists(st.fixed_dictionaries({"name": st.just("f"), "args": st.dictionaries(KEYS, VALUES)}), min_size=1)
    )
    document = {"golden_set": "x", "goldens": [{"session": "s", "turns": [{"user": "u", "calls": calls}]}]}
    way: tuple[Any, ...] = CALLS
    around: Any = calls
    while True:
        last = draw(st.sampled_from(range(len(around)) if isinstance(around, list) else list(around)))
        inner = around[last]
        if not (isinstance(inner, dict | list) and inner and draw(st.booleans())):
            break
        way, around = (*way, last), inner
    kinds = [SetValue((*way, last), draw(VALUES)), RemoveValue((*way, last))]
    if isinstance(around, list):
        kinds.append(InsertItem((*way, draw(st.integers(0, len(around)))), draw(VALUES)))
    else:
        kinds.append(SetValue((*way, draw(KEYS)), draw(VALUES)))
    return document, draw(st.sampled_from(kinds))


@given(edits())
def test_any_edit_of_any_written_set_does_what_it_says(given_edit: tuple[Any, Edit]) -> None:
    document, edit = given_edit
    assert read(edit_yaml(yaml_text(document), edit)) == edit_document(document, edit)
