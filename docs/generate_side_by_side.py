"""Print the same calls as goldspan and each preset score them."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from goldspan.scoring import score_turn
from goldspan.scoring.json_values import is_dict
from goldspan.scoring.presets import score_with_preset

VECTORS = Path(__file__).resolve().parents[1] / "tests/presets/vectors"


class Column(NamedTuple):
    """A system with the options it is shown with: a preset, or goldspan itself with fields of its criterion."""

    title: str
    preset: str | None
    options: dict[str, Any]


COLUMNS = (
    Column("goldspan", None, {}),
    Column("goldspan, `ordered: false`", None, {"ordered": False}),
    Column("ADK parameter match", "adk_parameter_match", {}),
    Column("ADK exact", "adk_trajectory", {"match_type": "EXACT"}),
    Column("UiPath args", "uipath", {"evaluator": "args"}),
    Column("Axion exact", "axion", {"check_parameters": True}),
    Column("Axion fuzzy", "axion", {"check_parameters": True, "parameter_matching_strategy": "fuzzy"}),
    Column("LangChain unordered", "langchain", {"trajectory_match_mode": "unordered"}),
    Column("Ragas accuracy", "ragas", {}),
    Column("Ragas F1", "ragas", {"metric": "ToolCallF1"}),
    Column("tau2", "tau2", {}),
    Column("BFCL", "bfcl", {}),
)

CASES = {
    "exact_single": "all right",
    "mixed_three_of_four_args": "one argument of four is wrong",
    "missing_actual_arg": "an argument is left out",
    "empty_expected_args_extra_actual": "an unexpected argument",
    "missing_middle_call": "a call is left out",
    "goldens_no_actuals": "no call at all",
    "extra_call_between": "an unexpected call",
    "no_goldens_some_actuals": "nothing expected",
    "two_calls_reordered": "another order",
    "dup_retry_then_right": "wrong, then right",
    "best_partner": "the first is not the best partner",
    "dup_expected_one_actual": "expected twice, called once",
    "int_vs_float_equal": "5 and 5.0",
    "bool_vs_int": "true and 1",
    "numeric_string": '5 and "5"',
    "none_vs_missing": "null and left out",
    "case_value": "upper and lower case",
}
"""Cases on which systems disagree, with their titles."""

BFCL_TYPES: dict[type[object], str] = {
    bool: "boolean",
    int: "integer",
    float: "float",
    str: "string",
    list: "array",
    dict: "dict",
}


def cases() -> dict[str, tuple[list[Any], list[Any]]]:
    """Return expected and actual calls by case: those of the recorded answers, and a few more."""

    def f(x: int, y: int) -> dict[str, Any]:
        return {"name": "f", "args": {"x": x, "y": y}}

    document = json.loads(gzip.decompress((VECTORS / "axion.json.gz").read_bytes()))
    recorded = {vector["case_id"]: (vector["expected_calls"], vector["actual_calls"]) for vector in document["vectors"]}
    return {**recorded, "nothing_at_all": ([], []), "best_partner": ([f(1, 1), f(1, 2)], [f(1, 2), f(1, 9)])}


def for_bfcl(call: dict[str, Any]) -> dict[str, Any]:
    """Write an expected call as BFCL would: one alternative per argument, and the types of these."""

    def alternative(value: object) -> object:
        return {key: [inner] for key, inner in value.items()} if is_dict(value) else value

    args: dict[str, Any] = call["args"]
    return {
        "name": call["name"],
        "any_of": {key: [alternative(value)] for key, value in args.items()},
        "types": {key: BFCL_TYPES.get(type(value), "any") for key, value in args.items()},
        "required": list(args),
    }


def shown(column: Column, expected: list[Any], actual: list[Any]) -> str:
    """Return a score with two digits; `n.e.`: not evaluated; `error`: the system raises."""
    if column.preset is None:
        score, raises = score_turn(expected, actual, column.options).verdict.score, False
    else:
        golden = [for_bfcl(call) for call in expected] if column.preset == "bfcl" else expected
        result = score_with_preset(column.preset, golden, actual, **column.options)
        score, raises = result.score, bool(result.error)
    if score is None:
        return "error" if raises else "n.e."
    return f"{score:.2f}".rstrip("0").rstrip(".")


def compact(calls: list[Any]) -> str:
    """Write calls on one line: `f(x=1), g()`."""
    texts = (
        f"{call['name']}({', '.join(f'{key}={json.dumps(value)}' for key, value in call['args'].items())})"
        for call in calls
    )
    return ", ".join(texts) or "nothing"


def page() -> str:
    """Return both tables: the cases, and the scores of each system."""
    known = cases()
    lines = ["| case | expected | actual |", "|---|---|---|"]
    lines += [
        f"| {title} | `{compact(known[case][0])}` | `{compact(known[case][1])}` |" for case, title in CASES.items()
    ]
    lines += ["", f"| case | {' | '.join(column.title for column in COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    lines += [
        f"| {title} | {' | '.join(shown(column, *known[case]) for column in COLUMNS)} |"
        for case, title in CASES.items()
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
