"""The declared names: the page that lists them, and that nothing else is ever written."""

from __future__ import annotations

import runpy

import pytest

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.evaluation import event_attributes, span_attributes
from rigs import evaluation_examples as given
from rigs.repository import ROOT

DOCS = ROOT / "docs"


def test_the_page_has_every_declared_name() -> None:
    page = runpy.run_path(str(DOCS / "generate_emitted_names.py"))["page"]()
    declared = (
        *(names.CALL + names.TURN + names.EVENT_SEMCONV + names.EVENT + names.SESSION),
        *(names.METRICS + names.SELF),
    )
    assert [name.shown for name in declared if f"| `{name.shown}` | " not in page] == []


@pytest.mark.parametrize("detail", [given.ALIGNED, given.MISSING, given.UNEXPECTED, given.TURN, given.SESSION])
def test_only_declared_names_are_written_and_with_their_type(detail: object) -> None:
    declared = {
        attribute.shown: attribute.type
        for attribute in (*names.CALL, *names.TURN, *names.EVENT_SEMCONV, *names.EVENT, *names.SESSION)
    }
    types = {"string": str, "string[]": tuple, "double": float, "int": int, "boolean": bool}
    evaluation = given.evaluation(detail, preset="axion", incomplete=True)  # type: ignore[arg-type]
    written = span_attributes(evaluation) | event_attributes(evaluation)
    assert {key: type(value) for key, value in written.items()} == {key: types[declared[key]] for key in written}


def test_no_name_is_declared_twice_within_one_signal() -> None:
    for group in (
        names.CALL + names.TURN,
        names.EVENT_SEMCONV + names.EVENT + names.SESSION,
        names.METRICS + names.SELF,
    ):
        shown = [name.shown for name in group]
        assert len(shown) == len(set(shown))
