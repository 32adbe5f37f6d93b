"""Matchers as they are written: every mistake with its place, and what is none."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from goldspan.scoring import ExpectedCall, MatcherError, score_turn

NAN = float("nan")


REFUSED = {
    "unknown": ({"$anyof": [1]}, ["x.$anyof: unknown matcher: did you mean `$any_of`?", "{$literal: ...}"]),
    "unlike any": ({"$zzz": 1}, ["x.$zzz: unknown matcher: there are $any_of,", "{$literal: ...}"]),
    "unknown beside others": ({"$a": 1, "b": 2}, ["x.$a: unknown matcher", "x.$a"]),
    "two": ({"$regex": "a", "$options": "i"}, ['found the keys "$regex" and "$options"', "{$literal: ...}"]),
    "deep": ([{"a": {"$gt": 1}}], ["x[0].a.$gt: unknown matcher"]),
    "unknown option": (
        {"$approx": 1, "tolerence": 1},
        ["x.tolerence: unknown option of $approx: did you mean `tolerance`?"],
    ),
    "no options": ({"$casefold": "a", "b": 1}, ["x.b: found it beside $casefold, which takes nothing"]),
    "any_of scalar": ({"$any_of": "a"}, ['x.$any_of: found "a", expected a list of at least one value']),
    "any_of empty": ({"$any_of": []}, ["x.$any_of: found []"]),
    "inside any_of": (
        {"$any_of": [1, {"$rgex": "a"}]},
        ["x.$any_of[1].$rgex: unknown matcher: did you mean `$regex`?"],
    ),
    "regex number": ({"$regex": 1}, ["x.$regex: found 1, expected a regular expression"]),
    "regex broken": ({"$regex": "("}, ["x.$regex", "expected a regular expression of RE2: missing )"]),
    "regex look-ahead": ({"$regex": "(?=a)"}, ["x.$regex", "RE2"]),
    "regex surrogate": ({"$regex": "\ud800"}, ["x.$regex"]),
    "regex long": ({"$regex": "a" * 10_001}, ["x.$regex: found 10001 characters, expected at most 10000"]),
    "regex huge": ({"$regex": "((a{100}){100}){100}"}, ["x.$regex"]),
    "approx text": ({"$approx": "1"}, ['x.$approx: found "1", expected a number']),
    "approx bool": ({"$approx": True}, ["x.$approx: found true"]),
    "approx nan": ({"$approx": NAN}, ["x.$approx"]),
    "negative": ({"$approx": 1, "tolerance": -1}, ["x.tolerance: found -1, expected a number, 0 or more"]),
    "type": ({"$type": "str"}, ['x.$type: found "str": did you mean `string`?']),
    "type null": ({"$type": None}, ['x.$type: found null: expected "null" in quotes']),
    "type list": ({"$type": []}, ["x.$type: found an empty list"]),
    "present": ({"$present": False}, ["x.$present: found false, expected true: for no value write {$absent: true}"]),
    "absent": ({"$absent": 1}, ["x.$absent: found 1, expected true"]),
    "ignore": ({"$ignore": None}, ["x.$ignore: found null, expected true"]),
    "unordered": ({"$unordered": {}}, ["x.$unordered: found {}, expected a list"]),
    "unordered many": (
        {"$unordered": [{"$present": True}] * 201},
        ["x.$unordered: found 201 elements, expected at most"],
    ),
    "from text": ({"$from_result": "f"}, ['x.$from_result: found "f", expected an object']),
    "from nothing": ({"$from_result": {"path": "/a"}}, ["x.$from_result: found null, expected a tool's name"]),
    "from number": ({"$from_result": {"call": 0.1}}, ["x.$from_result.call: found 0.1, expected a tool's name"]),
    "from path": (
        {"$from_result": {"call": "f", "path": "id"}},
        ['x.$from_result.path: found "id", expected a JSON Pointer'],
    ),
    "from field": ({"$from_result": {"call": "f", "key": 1}}, ["x.$from_result.key: unknown field"]),
}


@pytest.mark.parametrize(("expected", "words"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_matcher_is_refused_with_its_place(expected: Any, words: list[str]) -> None:
    with pytest.raises(MatcherError) as caught:
        ExpectedCall("f", {"x": expected})
    assert [word for word in words if word not in str(caught.value)] == []
    with pytest.raises(MatcherError):
        score_turn([{"name": "f", "args": {"x": expected}}], [])


def test_every_mistake_of_a_call_is_named() -> None:
    with pytest.raises(MatcherError) as caught:
        ExpectedCall("f", {"x": {"$rgex": "a"}, "y": [{"$type": "str"}]})
    assert [line.split(":")[1].strip() for line in str(caught.value).splitlines()] == ["x.$rgex", "y[0].$type"]


def test_literal_arguments_are_never_read() -> None:
    call = ExpectedCall("f", {"x": {"$rgex": "("}}, literal=True)
    assert score_turn([call], [{"name": "f", "args": {"x": {"$rgex": "("}}}]).verdict.score == 1


def test_calls_that_mean_the_same_are_equal() -> None:
    assert ExpectedCall("f", {"x": {"$regex": "a"}}) == ExpectedCall("f", {"x": {"$regex": "a"}})
    assert ExpectedCall("f", {"x": {"$regex": "a"}}) != ExpectedCall("f", {"x": {"$regex": "b"}})
    assert ExpectedCall("f", {"x": {"$regex": "a"}}) != ExpectedCall("f", {"x": {"$regex": "a"}}, literal=True)
    assert ExpectedCall("f", {"x": {"$literal": {"$a": 1}}}) == ExpectedCall("f", {"x": {"$a": 1}}, literal=True)


def test_a_call_with_matchers_goes_to_another_process() -> None:
    call = ExpectedCall("f", {"x": {"$regex": "a+"}, "y": [{"$approx": 1, "tolerance": 1}]})
    again = pickle.loads(pickle.dumps(call))
    assert again == call
    assert score_turn([again], [{"name": "f", "args": {"x": "aa", "y": [2]}}]).verdict.score == 1


def test_names_of_arguments_are_no_matchers() -> None:
    assert (
        score_turn([{"name": "f", "args": {"$filter": 1}}], [{"name": "f", "args": {"$filter": 1}}]).verdict.score == 1
    )
