"""The same cases as each preset scores them, for `docs/presets.md`.

python tests/presets/side_by_side.py      writes the table into the page
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

from goldspan.scoring.presets import score_with_preset
from goldspan.scoring.presets.shapes import is_dict, kind_of

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "presets.md"
BEGIN, END = "<!-- begin side by side: tests/presets/side_by_side.py writes it -->", "<!-- end side by side -->"


class Column(NamedTuple):
    """A preset with the options it is shown with."""

    title: str
    preset: str
    options: dict[str, Any]


COLUMNS = (
    Column("ADK parameter match", "adk_parameter_match", {}),
    Column("ADK exact", "adk_trajectory", {"match_type": "EXACT"}),
    Column("ADK in order", "adk_trajectory", {"match_type": "IN_ORDER"}),
    Column("ADK any order", "adk_trajectory", {"match_type": "ANY_ORDER"}),
    Column("UiPath args", "uipath", {"evaluator": "args"}),
    Column("Axion names", "axion", {}),
    Column("Axion exact", "axion", {"check_parameters": True}),
    Column("Axion subset", "axion", {"check_parameters": True, "parameter_matching_strategy": "subset"}),
    Column("Axion fuzzy", "axion", {"check_parameters": True, "parameter_matching_strategy": "fuzzy"}),
    Column("LangChain unordered", "langchain", {"trajectory_match_mode": "unordered"}),
    Column(
        "LangChain superset",
        "langchain",
        {"trajectory_match_mode": "superset", "tool_args_match_mode": "superset"},
    ),
    Column("Ragas accuracy", "ragas", {}),
    Column("Ragas F1", "ragas", {"metric": "ToolCallF1"}),
    Column("tau2", "tau2", {}),
    Column("BFCL", "bfcl", {}),
)

CASES = (
    "exact_single",
    "nothing_at_all",
    "no_goldens_some_actuals",
    "goldens_no_actuals",
    "empty_expected_args_extra_actual",
    "missing_actual_arg",
    "mixed_three_of_four_args",
    "nested_missing_key",
    "list_order",
    "two_calls_reordered",
    "three_calls_rotated",
    "missing_middle_call",
    "extra_call_between",
    "dup_expected_one_actual",
    "dup_distinct_swapped",
    "dup_retry_then_right",
    "greedy_vs_optimal_subset",
    "int_vs_float_equal",
    "bool_vs_int",
    "numeric_string",
    "float_near",
    "none_vs_none",
    "none_vs_missing",
    "case_value",
    "similar_text_close",
    "name_with_space",
    "unicode_nfc_nfd",
)

BFCL_TYPES: dict[type[object], str] = {
    bool: "boolean",
    int: "integer",
    float: "float",
    str: "string",
    list: "array",
    dict: "dict",
}


def cases() -> dict[str, tuple[list[Any], list[Any]]]:
    """Expected and actual calls by case: those of the recorded answers, and none at all."""
    document = json.loads(gzip.decompress((HERE / "vectors" / "axion.json.gz").read_bytes()))
    recorded = {vector["case_id"]: (vector["expected_calls"], vector["actual_calls"]) for vector in document["vectors"]}
    return {**recorded, "nothing_at_all": ([], [])}


def for_bfcl(call: dict[str, Any]) -> dict[str, Any]:
    """An expected call as BFCL would write it: one alternative per argument, and the types of these."""

    def alternative(value: object) -> object:
        return {key: [inner] for key, inner in value.items()} if is_dict(value) else value

    args: dict[str, Any] = call["args"]
    return {
        "name": call["name"],
        "any_of": {key: [alternative(value)] for key, value in args.items()},
        "types": {key: BFCL_TYPES.get(kind_of(value), "any") for key, value in args.items()},
        "required": list(args),
    }


def shown(column: Column, expected: list[Any], actual: list[Any]) -> str:
    """A score with two digits; `n.e.`: not evaluated; `error`: the system raises."""
    golden = [for_bfcl(call) for call in expected] if column.preset == "bfcl" else expected
    result = score_with_preset(column.preset, golden, actual, **column.options)
    if result.score is None:
        return "error" if result.error else "n.e."
    return f"{result.score:.2f}".rstrip("0").rstrip(".")


def compact(calls: list[Any]) -> str:
    """Calls on one line: `f(x=1), g()`."""
    texts = (
        f"{call['name']}({', '.join(f'{key}={json.dumps(value)}' for key, value in call['args'].items())})"
        for call in calls
    )
    return ", ".join(texts) or "nothing"


def table() -> str:
    """Both tables: the cases, and what each preset makes of them."""
    known = cases()
    lines = ["| case | expected | actual |", "|---|---|---|"]
    lines += [f"| {case} | `{compact(known[case][0])}` | `{compact(known[case][1])}` |" for case in CASES]
    lines += ["", f"| case | {' | '.join(column.title for column in COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    lines += [f"| {case} | {' | '.join(shown(column, *known[case]) for column in COLUMNS)} |" for case in CASES]
    return "\n".join(lines)


def with_table(page: str) -> str:
    """The page with the tables between its two marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
