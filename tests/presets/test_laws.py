"""What holds for every preset, whatever it is given."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from goldspan.scoring.presets import PRESETS, PresetResult, score_with_preset
from goldspan.scoring.verdict import Label

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "adk_parameter_match": [{}, {"threshold": 0.5}],
    "adk_trajectory": [{"match_type": kind, "ignore_args": bare} for kind in (0, 1, 2) for bare in (False, True)],
    "axion": [
        {"check_parameters": True, "parameter_matching_strategy": how, "strict_order": strict, "scoring": scoring}
        for how in ("exact", "subset", "fuzzy")
        for strict in (False, True)
        for scoring in ("recall", "precision", "f1")
    ],
    "bfcl": [
        {"func_description": {"name": "a", "parameters": {"properties": {"x": {"type": kind}}, "required": []}}}
        for kind in ("string", "integer", "float", "any", "dict")
    ],
    "langchain": [
        {"trajectory_match_mode": mode, "tool_args_match_mode": args}
        for mode in ("strict", "unordered", "subset", "superset")
        for args in ("exact", "ignore", "subset", "superset")
    ],
    "ragas": [{}, {"strict_order": False}, {"metric": "ToolCallF1"}],
    "tau2": [{}],
    "uipath": [
        {"evaluator": evaluator, "strict": strict}
        for evaluator in ("args", "order", "count", "output")
        for strict in (False, True)
    ],
}
CASES = [(preset, options) for preset, all_options in OPTIONS.items() for options in all_options]

texts = st.sampled_from(["a", "b", "", "x", "A b", "ß", "é", "tool_calls"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
calls = st.fixed_dictionaries(
    {"name": texts, "args": st.dictionaries(texts, values, max_size=3)},
    optional={"id": texts, "output": texts, "compare_args": st.none() | st.lists(texts, max_size=2)},
)
call_lists = st.lists(calls, max_size=4)

shared = settings(max_examples=max(25, settings().max_examples // 2))
"""Each example is scored by every preset with all of its options: to make one takes longer than to score it."""


def check(result: PresetResult, preset: str) -> None:
    assert result.name == preset
    assert (result.label is Label.NOT_EVALUATED) == (result.score is None)
    assert (result.reason is None) == (result.score is not None)
    assert result.score is None or isinstance(result.score, float)
    assert json.loads(json.dumps(result.to_json()))["name"] == preset


def test_every_preset_is_tried() -> None:
    assert set(OPTIONS) == set(PRESETS)


@shared
@given(expected=values | st.lists(values | calls, max_size=3), actual=values | st.lists(values | calls, max_size=3))
def test_nothing_given_makes_it_raise(expected: Any, actual: Any) -> None:
    for preset, options in CASES:
        note(f"{preset}: {options}")
        check(score_with_preset(preset, expected, actual, **options), preset)


@shared
@given(expected=call_lists, actual=call_lists)
def test_calls_are_scored_and_left_as_they_were(expected: list[Any], actual: list[Any]) -> None:
    before = repr((expected, actual))
    for preset, options in CASES:
        note(f"{preset}: {options}")
        result = score_with_preset(preset, expected, actual, **options)
        check(result, preset)
        assert repr((expected, actual)) == before
        assert repr(score_with_preset(preset, expected, actual, **options)) == repr(result)


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "bfcl"])
@given(expected=st.lists(calls, min_size=1, max_size=4))
def test_a_copy_of_what_was_expected_is_right(preset: str, expected: list[dict[str, Any]]) -> None:
    plain = [{"name": call["name"] or "a", "args": call["args"]} for call in expected]
    options = {"trajectory_match_mode": "unordered"} if preset == "langchain" else {}
    assert score_with_preset(preset, plain, copy.deepcopy(plain), **options).score == 1.0 or "nan" in repr(plain)


HASHED = """
from goldspan.scoring.presets import score_with_preset
words = {f"k{i}": i * 0.1 for i in range(1, 40)}
others = {f"k{i}": i * 0.1 + 0.01 for i in range(1, 40, 2)}
print(repr(score_with_preset("axion", words, others, probe="similarity").score))
calls = [{"name": n, "args": words} for n in "abc"]
print(score_with_preset("ragas", calls, calls[::-1], metric="ToolCallF1"))
print(score_with_preset("uipath", calls, calls[::-1]))
"""


def test_hash_seeds_change_nothing() -> None:
    def printed(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", HASHED], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert len({printed(seed) for seed in ("0", "1", "2", "42")}) == 1
