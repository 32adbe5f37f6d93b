"""The page on presets: its table is computed, and each preset and option is there."""

from __future__ import annotations

import re
import runpy

import pytest

from goldspan.scoring.presets import PRESETS
from rigs.repository import ROOT

PAGE = (ROOT / "docs/presets.md").read_text("utf-8")
SIDE_BY_SIDE = runpy.run_path(str(ROOT / "docs/generate_side_by_side.py"))


def test_the_table_is_what_the_systems_give() -> None:
    rows = SIDE_BY_SIDE["page"]().splitlines()
    assert "| one argument of four is wrong | 0.75 | 0.75 | 0.75 | 0 | 0 | 0 | 1 | 0 | 0.75 | 0 | 0 | 0 |" in rows
    assert "| nothing expected | n.e. | n.e. | n.e. | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 1 | error |" in rows
    assert sum(row.startswith("| ") for row in rows) == 2 * (len(SIDE_BY_SIDE["CASES"]) + 1)


def section(preset: str) -> str:
    found = re.search(rf"^## `{preset}`$(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found.group(1)


def test_every_preset_has_its_section_and_its_column() -> None:
    assert set(re.findall(r"^## `(\w+)`$", PAGE, re.MULTILINE)) == set(PRESETS)
    assert {column.preset for column in SIDE_BY_SIDE["COLUMNS"]} == {None, *PRESETS}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_option_is_listed_with_its_default(preset: str) -> None:
    listed = dict(re.findall(r"^\| `(\w+)` \|([^|]*)\|", section(preset), re.MULTILINE))
    defaults = {name: field.default for name, field in PRESETS[preset].options.model_fields.items()}
    assert {name: text.strip().strip("`").lower() for name, text in listed.items()} == {
        name: "" if value is None else str(getattr(value, "name", value)).lower() for name, value in defaults.items()
    }
