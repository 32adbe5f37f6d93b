"""What the definition promises of every score, over random calls with batches, groups, failures and unknown values."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from goldspan.scoring import Capture, Criterion, ExpectedCall, ToolCall, Turn, score_turn
from goldspan.scoring.verdict import Label

NAN = float("nan")
values = st.sampled_from([0, 1, "a", "A", None, True, [1], {"k": 1}])
arguments = st.dictionaries(st.sampled_from("xyz"), values, max_size=3)
names = st.sampled_from("ffg")
expected_calls = st.lists(
    st.builds(
        ExpectedCall,
        names,
        arguments,
        optional=st.sampled_from([False, False, False, True]),
        forbidden=st.sampled_from([False, False, False, True]),
        group=st.sampled_from([0, 0, 1]),
    ),
    min_size=1,
    max_size=5,
)
known_calls = st.lists(
    st.builds(
        ToolCall, names, arguments, error=st.sampled_from([None, None, "timeout"]), batch=st.sampled_from([0, 1])
    ),
    max_size=5,
)
criteria = st.builds(
    Criterion,
    match_mode=st.sampled_from(["name_only", "name_and_required_args", "name_and_args"]),
    default_strategy=st.sampled_from(["exact", "casefold_exact", "numeric", "contains"]),
    tools=st.sampled_from([{}, {"f": {"args": {"x": {"weight": 2}, "y": {"required": False}}}}]),
    argument_score=st.sampled_from(["all", "mean"]),
    ordered=st.booleans(),
    parallel_calls=st.sampled_from(["any_order", "in_order"]),
    call_score=st.sampled_from(["mean", "all"]),
    turn_score=st.sampled_from(["mean", "all"]),
    extra_arguments=st.sampled_from(["report", "penalize"]),
    failed_calls=st.sampled_from(["count", "ignore"]),
    threshold=st.sampled_from([0.5, 0.8, 1]),
)


@st.composite
def partly_known(draw: st.DrawFn) -> tuple[list[ToolCall], list[ToolCall]]:
    """Calls, and the same with some arguments hidden, one by one or a call's all."""
    calls = draw(known_calls)
    shown: list[ToolCall] = []
    for call in calls:
        hidden = draw(st.sampled_from(["", "", "call", "arguments"]))
        if hidden == "call":
            shown.append(replace(call, arguments=None, capture=Capture.NOT_CAPTURED))
        elif hidden:
            secret = draw(st.sets(st.sampled_from(sorted(call.arguments or "x"))))
            shown.append(replace(call, argument_captures=dict.fromkeys(secret, Capture.REDACTED)))
        else:
            shown.append(call)
    return calls, shown


@given(expected_calls, partly_known(), criteria, st.sampled_from(["report", "penalize"]), st.data())
def test_in_any_order_the_order_of_calls_never_changes_score_or_label(
    expected: Any, actual: Any, criterion: Criterion, extra: Any, data: st.DataObject
) -> None:
    free = criterion.model_copy(update={"ordered": False, "extra_calls": extra})
    calls = actual[1]
    shuffled = data.draw(st.permutations(calls))
    one, other = score_turn(expected, Turn(tuple(calls)), free), score_turn(expected, Turn(tuple(shuffled)), free)
    assert (one.verdict.exact, one.verdict.label) == (other.verdict.exact, other.verdict.label)
    assert (one.calls_evaluated, one.calls_aligned, len(one.unexpected_calls)) == (
        other.calls_evaluated,
        other.calls_aligned,
        len(other.unexpected_calls),
    )


@given(expected_calls, known_calls, criteria, st.data())
def test_a_better_argument_never_lowers_a_score(
    expected: Any, actual: Any, criterion: Criterion, data: st.DataObject
) -> None:
    """Of the calls that stand for expected ones, one gets one argument right.

    Not under `extra_calls: penalize`: the best total may then be one of fewer pairs, and more calls are unexpected.
    """
    before = score_turn(expected, Turn(tuple(actual)), criterion)
    aligned = [found for found in before.calls if found.aligned and found.expected and found.expected.args]
    if not aligned:
        return
    improved = data.draw(st.sampled_from(aligned))
    assert improved.expected is not None
    assert improved.actual_index is not None
    name = data.draw(st.sampled_from(sorted(improved.expected.args)))
    better = list(actual)
    own = better[improved.actual_index]
    better[improved.actual_index] = replace(own, arguments={**own.arguments, name: improved.expected.args[name]})
    after = score_turn(expected, Turn(tuple(better)), criterion)
    assert (after.verdict.exact or 0) >= (before.verdict.exact or 0)


@given(expected_calls, known_calls, criteria, st.sampled_from(["report", "penalize"]), values, st.data())
def test_an_expected_argument_more_that_was_not_passed_never_raises_a_score(
    expected: Any, actual: Any, criterion: Criterion, extra: Any, value: Any, data: st.DataObject
) -> None:
    judging = criterion.model_copy(update={"extra_calls": extra if criterion.match_mode == "name_only" else "report"})
    needed = [index for index, call in enumerate(expected) if not (call.optional or call.forbidden)]
    if not needed:
        return
    place = data.draw(st.sampled_from(needed))
    more = list(expected)
    more[place] = dataclasses.replace(more[place], args={**more[place].args, "absent": value})
    before, after = (score_turn(calls, Turn(tuple(actual)), judging) for calls in (expected, more))
    assert before.verdict.exact is not None
    assert after.verdict.exact is not None
    assert after.verdict.exact <= before.verdict.exact


@given(expected_calls, partly_known(), criteria)
def test_what_is_learned_never_turns_a_pass_or_a_failure_into_the_other(
    expected: Any, actual: Any, criterion: Criterion
) -> None:
    calls, shown = actual
    then, now = (score_turn(expected, Turn(tuple(each)), criterion).verdict for each in (shown, calls))
    assert then.label in (now.label, Label.NOT_EVALUATED)


def test_an_unknown_call_that_stands_for_none_may_still_be_the_right_one() -> None:
    expected = [{"name": "f", "args": {"x": 1, "y": 1}}]
    lost = ToolCall("f", None, Capture.REDACTED)
    turn = score_turn(expected, Turn((ToolCall("f", {"x": 1, "y": 2}), lost)))
    assert turn.verdict.score == 0.5
    assert (turn.verdict.label, turn.verdict.reason) == ("not_evaluated", "arguments_redacted")
    other = score_turn(expected, Turn((ToolCall("f", {"x": 1, "y": 2}), replace(lost, name="g"))))
    assert other.verdict.label == "fail"


def test_where_no_other_argument_may_be_there_a_call_that_is_unknown_is_not_right() -> None:
    lost = Turn((ToolCall("f", None, Capture.NOT_CAPTURED),))
    assert score_turn([{"name": "f"}], lost).verdict.label == "pass"
    assert score_turn([{"name": "f"}], lost, {"match_mode": "name_and_args"}).verdict.label == "not_evaluated"


with_nan = st.recursive(
    st.just(NAN),
    lambda inner: (
        st.tuples(st.lists(values, max_size=2), inner).map(lambda pair: [*pair[0], pair[1]])
        | st.tuples(arguments, inner).map(lambda pair: {**pair[0], "k": pair[1]})
    ),
    max_leaves=4,
)


@given(with_nan, with_nan | values, st.sampled_from(["exact", "casefold_exact", "numeric", "contains", "similarity"]))
@pytest.mark.parametrize("matcher", [None, "$literal", "$any_of"])
def test_nan_equals_nothing_wherever_it_stands(matcher: Any, expected: Any, actual: Any, strategy: str) -> None:
    wanted = expected if matcher is None else {matcher: [expected] if matcher == "$any_of" else expected}
    for found in (expected, actual):
        turn = score_turn(
            [{"name": "f", "args": {"x": wanted}}],
            [{"name": "f", "args": {"x": found}}],
            {"default_strategy": strategy},
        )
        assert turn.verdict.score == 0


PROGRAM = """
import json
from goldspan.scoring import score_sessions, Capture, Session, ToolCall, Turn
names = ["f", "g", "h"]
args = [{"x": n % 2, "y": [n % 5, {"k": None}], "z": "a b"[: n % 4]} for n in range(12)]
calls = tuple(ToolCall(names[n % 3], args[n], batch=n // 4) for n in range(12))
lost = tuple(ToolCall(names[n % 3], None, Capture.REDACTED) for n in range(3))
args = [{"y": [(n + 1) % 5, {"k": None}], "x": {"$any_of": [n % 2, 7]}} for n in range(9)]
wanted = [{"name": names[n % 3], "args": args[n]} for n in range(9)]
turns = [{"any_of": [[*wanted[:2], {"parallel": wanted[2:]}, {"name": "*", "forbidden": True}], wanted]},
         {"calls": [{"name": "f", "args": {"x": 1, "z": {"$regex": "a.*"}}}, {"name": "g", "optional": True}]}]
goldens = {"golden_set": "g", "version": "1", "aliases": {"f": ["ff"]}, "goldens": [
    {"session_pattern": "s*", "repeat": {"runs": 2}, "turns": turns}, {"session": "never", "calls": wanted}]}
sessions = [Session(name, (Turn(calls), Turn(calls[:2] + lost))) for name in ("s1", "s2", "t")]
for options in ({}, {"metrics": ["trajectory_f1=0.5", "trajectory_precision"]}, {"preset": "uipath"}):
    for criterion in ({"ordered": False}, {"default_strategy": "contains", "argument_score": "mean"}):
        result = score_sessions(goldens, sessions, criterion, **options)
        print(json.dumps(result.to_json()), result)
"""


def test_the_same_bytes_in_every_process_whatever_its_hash_seed() -> None:
    def run(seed: str) -> bytes:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=True).stdout

    outputs = {run(seed) for seed in ("0", "1", "2", "4242", "random")}
    assert len(outputs) == 1
    assert b'"aligned"' in outputs.pop()
