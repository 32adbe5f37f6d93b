"""The page on presets: its table is computed, and each preset and option is there."""

from __future__ import annotations

import re

import pytest

from goldspan.scoring.presets import PRESETS
from presets import side_by_side

PAGE = side_by_side.PAGE.read_text("utf-8")


def test_the_table_is_what_the_systems_give() -> None:
    assert side_by_side.with_table(PAGE) == PAGE
    assert PAGE.count(side_by_side.BEGIN) == PAGE.count(side_by_side.END) == 1


def section(preset: str) -> str:
    found = re.search(rf"^## `{preset}`$(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found.group(1)


def test_every_preset_has_its_section_and_its_column() -> None:
    assert set(re.findall(r"^## `(\w+)`$", PAGE, re.MULTILINE)) == set(PRESETS)
    assert {column.preset for column in side_by_side.COLUMNS} == {None, *PRESETS}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_option_is_listed_with_its_default(preset: str) -> None:
    listed = dict(re.findall(r"^\| `(\w+)` \|([^|]*)\|", section(preset), re.MULTILINE))
    defaults = {name: field.default for name, field in PRESETS[preset].options.model_fields.items()}
    assert {name: text.strip().strip("`").lower() for name, text in listed.items()} == {
        name: "" if value is None else str(getattr(value, "name", value)).lower() for name, value in defaults.items()
    }
