"""The pages about replay say what the code does now."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest

from goldspan.collector_processor.cli.score import score
from goldspan.scoring.verdict import REASON_TEXT, Reason
from rigs.repository import ROOT

DOCS = ROOT / "docs"
WHY = (DOCS / "why-nothing-is-scored.md").read_text("utf-8")
REPLAY = (DOCS / "replay.md").read_text("utf-8")


def generator(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


filled = generator("generated_parts").filled


@pytest.mark.parametrize("name", ["generate_replay_samples"])
def test_what_is_generated_is_up_to_date(name: str) -> None:
    module = generator(name)
    text = module.PAGE.read_text("utf-8")
    assert module.filled(text) == text, f"run: python docs/{name}.py"


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_section_that_quotes_the_table(reason: Reason) -> None:
    section = re.search(rf"^### `{reason}`\n\n(.*?)(?=^##|\Z)", WHY, re.DOTALL | re.MULTILINE)
    assert section is not None
    assert f"*{REASON_TEXT[reason]}.*" in " ".join(section.group(1).split())


def test_every_option_is_documented() -> None:
    page = generator("generate_commands").page()
    options = {option for param in score.params for option in param.opts if option.startswith("-")}
    assert {option for option in options if not re.search(rf"`(?:-v, )?{option}\b", page)} == set()


@pytest.mark.parametrize("page", [WHY, REPLAY])
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page):
        path, _, anchor = target.partition("#")
        other = filled((DOCS / path).read_text("utf-8")) if path else page
        headings = {
            re.sub(r"[^\w\- ]", "", line.lstrip("# ")).lower().replace(" ", "-")
            for line in other.splitlines()
            if line.startswith("#")
        }
        assert not anchor or anchor in headings
