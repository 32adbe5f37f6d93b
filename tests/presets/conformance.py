"""Compare the presets with what the systems themselves answered, and print a table per system.

    python tests/presets/conformance.py [VECTORS...]

VECTORS are files (or folders of them) of recorded answers, told apart by their content; without any, those in
`vectors/` and, where it is there, the benchmark data that does not belong to the repository. Exit code 1: something
differs.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from goldspan.scoring.presets import score_with_preset

HERE = Path(__file__).resolve().parent
VECTORS = HERE / "vectors"
DATA = HERE.parents[2] / "shared" / "data"
"""Published benchmark data; it may be used from there and is not part of the repository."""

PYDANTIC_LINK = re.compile(r"\n +For further information visit \S+")
"""Depends on the release of pydantic, whichever system it is installed for."""


@dataclass(frozen=True, slots=True)
class Case:
    """One recorded answer and the way to ask for ours."""

    system: str
    name: str
    recorded: Mapping[str, Any]
    ask: Callable[[], Mapping[str, Any]]

    def differences(self) -> list[str]:
        """Where our answer is not the recorded one."""
        answer = self.ask()
        return [
            f"{what}: {answer.get(what)!r} instead of {value!r}"
            for what, value in self.recorded.items()
            if comparable(answer.get(what)) != comparable(value)
        ]


@dataclass(slots=True)
class Row:
    """What is printed of a system."""

    compared: set[str] = field(default_factory=set[str])
    cases: int = 0
    differing: list[str] = field(default_factory=list[str])


def comparable(value: Any) -> Any:
    if isinstance(value, str):
        return PYDANTIC_LINK.sub("", value)
    return None if value in ((), []) else value


def read_cases(path: Path) -> list[Case]:
    """The cases of one file."""
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text("utf-8")
    if ".jsonl" not in path.name:
        return list(vector_cases(json.loads(text)))
    rows = [json.loads(line) for line in text.splitlines() if line]
    for fits, reader in READERS:
        if rows and all(key in rows[0] for key in fits):
            return list(reader(rows, path))
    return []


def vector_cases(document: Mapping[str, Any]) -> Iterator[Case]:
    system = document.get("system")
    reader = {
        "google-adk": adk_case,
        "google-adk-pr6726": adk_case,
        "uipath": uipath_case,
        "axion": axion_case,
        "bfcl-eval": bfcl_case,
    }.get(str(system))
    if reader is not None:
        for vector in document["vectors"]:
            yield reader(vector)


def recorded(vector: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    return {key: vector[key] for key in fields if key in vector}


def adk_case(vector: Mapping[str, Any]) -> Case:
    preset = "adk_parameter_match" if vector["metric"] == "tool_parameter_match" else "adk_trajectory"
    sides = "invocations" if "expected_invocations" in vector else "calls"

    def ask() -> Mapping[str, Any]:
        expected, actual = vector[f"expected_{sides}"], vector[f"actual_{sides}"]
        if sides == "calls" and expected == actual == []:
            expected = actual = [[]]  # one invocation without calls
        return score_with_preset(preset, expected, actual, **vector["config"]).to_json()

    fields = ("score", "status", "explanation", "per_call", "per_invocation")
    name = f"{vector['case_id']} {vector['config']}"
    return Case(f"{preset} ({vector['version']})", name, recorded(vector, fields), ask)


def uipath_case(vector: Mapping[str, Any]) -> Case:
    actual = vector["actual_spans"] if "actual_spans" in vector else vector["actual_calls"]
    expected = vector.get("criteria", vector["expected_calls"])

    def ask() -> Mapping[str, Any]:
        return score_with_preset(
            "uipath", expected, actual, evaluator=vector["evaluator"], **vector["config"]
        ).to_json()

    answer = recorded(vector, ("score", "explanation", "per_call")) | {"status": vector["score_type"]}
    name = f"{vector['evaluator']} {vector['case_id']} {vector['config']} {vector.get('input_encoding', '')}"
    return Case(f"uipath {vector['evaluator']} ({vector['version']})", name, answer, ask)


def axion_case(vector: Mapping[str, Any]) -> Case:
    expected, actual = vector["expected_calls"], vector["actual_calls"]
    if "value_called" in vector:
        expected, actual = vector["value_expected"], vector["value_called"]

    def ask() -> Mapping[str, Any]:
        return score_with_preset("axion", expected, actual, **vector["config"]).to_json()

    answer = recorded(vector, ("score", "explanation", "per_call"))
    return Case(f"axion ({vector['version']})", f"{vector['case_id']} {vector['config']}", answer, ask)


def bfcl_case(vector: Mapping[str, Any]) -> Case:
    def ask() -> Mapping[str, Any]:
        return score_with_preset(
            "bfcl", vector["possible_answer"], vector["model_output"], **vector["config"]
        ).to_json()

    fields = ("score",) if vector["raises"] else ("score", "explanation")
    return Case("bfcl with documentation", vector["case_id"], recorded(vector, fields), ask)


def langchain_cases(rows: list[dict[str, Any]], path: Path) -> Iterator[Case]:
    def ask(row: Mapping[str, Any]) -> Callable[[], Mapping[str, Any]]:
        return lambda: score_with_preset("langchain", row["expected"], row["actual"], **row["config"]).to_json()

    for row in rows:
        yield Case("langchain (agentevals)", f"{row['test']} {row['config']}", {"score": row["score"]}, ask(row))


def ragas_cases(rows: list[dict[str, Any]], path: Path) -> Iterator[Case]:
    def ask(row: Mapping[str, Any]) -> Callable[[], Mapping[str, Any]]:
        options = {key: row[key] for key in ("metric", "strict_order")}
        return lambda: score_with_preset("ragas", row["expected"], row["actual"], **options).to_json()

    for row in rows:
        yield Case("ragas", row["test"], {"score": row["score"]}, ask(row))


def tau2_cases(rows: list[dict[str, Any]], path: Path) -> Iterator[Case]:
    """One case per recorded verdict, which is one per expected call."""

    def ask(row: Mapping[str, Any], index: int) -> Callable[[], Mapping[str, Any]]:
        def answer() -> Mapping[str, Any]:
            per_call = score_with_preset("tau2", row["expected"], row["actual"]).per_call
            return per_call[index] if per_call else {}

        return answer

    for row in rows:
        official: dict[str, Any] = row["official"]
        for index, verdict in enumerate(official.get("action_match") or []):
            yield Case("tau2", f"{row['session_id']} {index}", {"action_match": verdict}, ask(row, index))


def bfcl_cases(rows: list[dict[str, Any]], path: Path) -> Iterator[Case]:
    """Verdicts on calls made from goldens, which lie in a file beside."""
    goldens = {
        golden["session_id"].removeprefix("bfcl/"): golden["expected"]
        for golden in map(
            json.loads, gzip.decompress((path.parent / "bfcl-goldens.jsonl.gz").read_bytes()).splitlines()
        )
    }

    def ask(row: Mapping[str, Any]) -> Callable[[], Mapping[str, Any]]:
        def answer() -> Mapping[str, Any]:
            result = score_with_preset("bfcl", goldens[row["id"]], row["calls"], test_category=row["cat"])
            if not isinstance(result.explanation, Mapping):
                return {}
            return {key: result.explanation.get(key) for key in ("valid", "error_type")}

        return answer

    for row in rows:
        yield Case("bfcl", f"{row['id']} {row['kind']}", recorded(row, ("valid", "error_type")), ask(row))


READERS: tuple[tuple[tuple[str, ...], Callable[[list[dict[str, Any]], Path], Iterable[Case]]], ...] = (
    (("metric", "strict_order", "score"), ragas_cases),
    (("config", "expected", "actual", "score"), langchain_cases),
    (("expected", "actual", "official"), tau2_cases),
    (("calls", "kind", "valid"), bfcl_cases),
)
"""Keys that tell the form of a file of lines, and its reader."""


def files(paths: Iterable[Path]) -> list[Path]:
    """Files as they are; of folders what may hold recorded answers."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(one for one in path.iterdir() if ".json" in one.suffixes or ".jsonl" in one.suffixes)
        else:
            found.append(path)
    return found


def tabulate(cases: Iterable[Case]) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for case in cases:
        row = rows.setdefault(case.system, Row())
        row.compared |= case.recorded.keys()
        row.cases += 1
        if differences := case.differences():
            row.differing.append(f"{case.name}: {'; '.join(differences)}")
    return rows


def main(arguments: list[str]) -> int:
    given = [Path(argument) for argument in arguments] or [path for path in (VECTORS, DATA) if path.is_dir()]
    rows = tabulate(case for path in files(given) for case in read_cases(path))
    table = Table("system", "compared", "cases", "equal", "different", title="presets beside the systems themselves")
    for system, row in sorted(rows.items()):
        equal = row.cases - len(row.differing)
        table.add_row(system, ", ".join(sorted(row.compared)), *map(str, (row.cases, equal, len(row.differing))))
    console = Console()
    console.print(table)
    for system, row in sorted(rows.items()):
        for difference in row.differing:
            console.print(f"{system}: {difference}", markup=False, highlight=False)
    return 1 if not rows or any(row.differing for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
