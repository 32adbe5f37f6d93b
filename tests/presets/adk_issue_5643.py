"""goldspan's criterion beside a reading of ADK issue 5643, from which its names come.

    python tests/presets/adk_issue_5643.py

The issue has no code. The vectors compute one reading of its text in twelve configurations; where goldspan's documented
rules decide otherwise, the case is listed with the rule.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from goldspan.scoring import Criterion, score_turn

VECTORS = Path(__file__).with_name("derived") / "adk-issue5643.json.gz"

GREEDY = "S2: partners are those of the best total, not the first of the name"
PAIRS = "S2: the highest score counts before the number of pairs"
READING = "match_mode: keys are present, with whatever values; else an aligned call could only score 1"
BOOLEANS = "equality: true is not 1"
DECIMALS = "S6: numbers are decimals as written, of any size"

RULES = {"bool_vs_int": BOOLEANS, "bool_vs_int_zero": BOOLEANS, "large_int": DECIMALS}
"""Cases that are about values; the others that differ are about which pairs may align, and which do."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case in one configuration."""

    id: str
    configuration: dict[str, Any]
    derived: float | None
    ours: float | None

    @property
    def fits(self) -> bool:
        """Whether both give the same score."""
        if self.derived is None or self.ours is None:
            return self.derived is self.ours
        return abs(self.derived - self.ours) < 1e-9

    @property
    def rule(self) -> str:
        """The rule by which goldspan's score is another one."""
        if self.id in RULES:
            return RULES[self.id]
        if self.configuration.get("reading") == "literal":
            return READING
        return GREEDY if self.configuration["alignment"] == "greedy" else PAIRS


def cases() -> Iterator[Case]:
    """Every case, scored."""
    with gzip.open(VECTORS, "rt", encoding="utf-8") as file:
        vectors = json.load(file)["vectors"]
    for vector in vectors:
        configuration = {key: value for key, value in vector["config"].items() if value is not None}
        said = {key: value for key, value in configuration.items() if key not in {"alignment", "reading"}}
        result = score_turn(vector["expected_calls"], vector["actual_calls"], Criterion(**said))
        yield Case(vector["case_id"], configuration, vector["score"], result.verdict.score)


def main() -> None:
    """Print what fits, and the list of what does not."""
    everything = list(cases())
    other = [case for case in everything if not case.fits]
    table = Table("case", "configuration", "reading", "goldspan", "rule")
    for case in sorted(other, key=lambda case: (case.rule, case.id)):
        words = " ".join(str(value).lower() for value in case.configuration.values())
        table.add_row(case.id, words, f"{case.derived:.4g}", f"{case.ours:.4g}", case.rule)
    Console(width=170).print(table, f"{len(everything) - len(other)} of {len(everything)} fit")


if __name__ == "__main__":
    main()
