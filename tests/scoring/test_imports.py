"""What an import of the room brings along."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import goldspan.scoring
from goldspan.mappers import read_sessions

HEAVY = ["pydantic", "ruamel", "rapidfuzz"]


def loaded_by(statement: str) -> list[str]:
    program = f"import json, sys; {statement}; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("from goldspan.scoring import Session, ToolCall, Turn", []),
        ("from goldspan.scoring import score_turn; score_turn([{'name': 'f'}], [])", ["pydantic"]),
        ("from goldspan.scoring import Criterion; Criterion(default_strategy='contains')", ["pydantic"]),
    ],
)
def test_nothing_is_imported_before_it_is_needed(statement: str, heavy: list[str]) -> None:
    assert loaded_by(statement) == heavy


def test_names_are_offered_before_they_are_imported() -> None:
    assert set(goldspan.scoring.__all__) <= set(dir(goldspan.scoring))
    assert not hasattr(goldspan.scoring, "score_everything")


def test_every_pattern_that_is_compiled_on_use_can_be() -> None:
    """`hasattr` compiles them, and lets pass what is wrong with one."""
    assert read_sessions([]) == []
    modules = [module for name, module in sys.modules.items() if name.startswith("goldspan.")]
    patterns = [value for module in modules for value in list(vars(module).values()) if hasattr(value, "finditer")]
    assert len(patterns) > 50
