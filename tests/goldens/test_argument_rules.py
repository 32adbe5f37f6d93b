"""What a golden set says once for all its goldens: how arguments are compared, which tools read, what is forbidden."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from goldspan.scoring import CriterionFileError, GoldenFileError, Session, ToolCall, Turn, score_session, score_turn
from goldspan.scoring.goldens import Golden, load_criterion, load_goldens


def golden_of(*calls: Any, **of_set: Any) -> Golden:
    """The one golden of a set."""
    return load_goldens({"golden_set": "g", **of_set, "goldens": [{"session": "s", "calls": list(calls)}]}).goldens[0]


def written(rule: Any, value: Any, key: str = "f.x", **others: Any) -> Any:
    """What a rule makes of a golden's value."""
    [call] = golden_of({"name": "f", "args": {"x": value, **others}}, arguments={key: rule}).calls or ()
    return call.args["x"]


def label(golden: Golden, *calls: ToolCall) -> str:
    return str(score_session(golden, Session("s", (Turn(calls),))).verdict.label)


@pytest.mark.parametrize(
    ("rule", "value", "made"),
    [
        ({"$unordered": True}, ["a"], {"$unordered": ["a"]}),
        ({"$unordered": True}, "a", "a"),
        ({"$key_facts": True}, "W1", {"$key_facts": "W1"}),
        ({"$generated": "uuid"}, "1", {"$generated": "uuid"}),
        ({"$generated": True}, "req_8f3a2b", {"$generated": "req_8f3a2b"}),
        ({"$ignore": True}, 1, {"$ignore": True}),
        ({"$approx": True, "tolerance": 1}, 5, {"$approx": 5, "tolerance": 1}),
        ({"$any_of": ["b", "a"]}, "a", {"$any_of": ["a", "b"]}),
        ({"optional": True}, 1, {"$any_of": [1, {"$absent": True}]}),
        ({"$casefold": True, "optional": True}, "A", {"$any_of": [{"$casefold": "A"}, {"$absent": True}]}),
        ({"$casefold": True}, {"$regex": "a"}, {"$regex": "a"}),
        ({"$casefold": True}, [{"$literal": 1}], [{"$literal": 1}]),
    ],
)
def test_a_rule_is_written_into_the_calls_that_have_the_argument(rule: Any, value: Any, made: Any) -> None:
    assert written(rule, value) == made


@pytest.mark.parametrize(
    ("key", "args", "made"),
    [
        ("f.id", {"x": 1}, {"x": 1, "id": {"$generated": "uuid"}}),
        ("f.id", {"id": "1"}, {"id": {"$generated": "uuid"}}),
        ("f.id", {"id": {"$ignore": True}}, {"id": {"$ignore": True}}),
        ("f.pay.id", {"pay": {"by": "card"}}, {"pay": {"by": "card", "id": {"$generated": "uuid"}}}),
        ("f.pay.id", {}, {"pay": {"id": {"$generated": "uuid"}}}),
        ("f.pay.id", {"pay": {"$ignore": True}}, {"pay": {"$ignore": True}}),
    ],
)
def test_with_always_each_expected_call_has_the_argument(key: str, args: Any, made: Any) -> None:
    rule = {"$generated": "uuid", "always": True}
    [call] = golden_of({"name": "f", "args": args}, arguments={key: rule}).calls or ()
    assert call.args == made


def test_always_goes_with_a_matcher_of_its_own() -> None:
    for rule, words in (({"$unordered": True, "always": True}, "own value"), ({"always": 1}, "expected true or false")):
        with pytest.raises(GoldenFileError, match=words):
            golden_of({"name": "f", "args": {"x": 1}}, arguments={"f.x": rule})


def test_a_rule_may_be_for_a_part() -> None:
    value = {"items": [{"sku": "a"}, {"sku": "b"}], "to": {"zip": "1"}}
    made = written({"$alphanumeric": True}, value, "f.x.items.*.sku")
    assert made["items"] == [{"sku": {"$alphanumeric": "a"}}, {"sku": {"$alphanumeric": "b"}}]
    assert written({"$alphanumeric": True}, value, "f.x.items.1.sku")["items"][0] == {"sku": "a"}
    assert written({"$alphanumeric": True}, value, "f.x.to.*")["to"] == {"zip": {"$alphanumeric": "1"}}
    assert written({"$alphanumeric": True}, value, "f.x.from.zip") == value


def test_lists_that_belong_together_are_joined_by_one_rule() -> None:
    rule = {"$unordered": True, "together": ["counts"]}
    golden = golden_of({"name": "f", "args": {"x": ["a", "b"], "counts": [1, 2]}}, arguments={"f.x": rule})
    assert label(golden, ToolCall("f", {"x": ["b", "a"], "counts": [2, 1]})) == "pass"
    assert label(golden, ToolCall("f", {"x": ["b", "a"], "counts": [1, 2]})) == "fail"


def test_names_with_dots_and_aliases_are_found() -> None:
    of_set = {"aliases": {"shop.order": "order"}, "arguments": {"shop.order.to.city": "casefold_exact"}}
    golden = golden_of({"name": "order", "args": {"to.city": "Paris"}}, **of_set)
    assert label(golden, ToolCall("order", {"to.city": "PARIS"})) == "pass"


def test_strategies_tolerances_and_weights_are_part_of_the_criterion() -> None:
    rules = {"f.x": {"strategy": "numeric", "tolerance": 1}, "f.y": {"weight": 0}, "f.z.a": {"weight": 3}}
    golden = golden_of({"name": "f", "args": {"x": 5, "y": 1, "z": {"a": 1, "b": 2}}}, arguments=rules)
    assert label(golden, ToolCall("f", {"x": 6, "y": 2, "z": {"a": 1, "b": 2}})) == "pass"
    assert label(golden, ToolCall("f", {"x": 7, "y": 1, "z": {"a": 1, "b": 2}})) == "fail"
    assert golden.criterion.tools["f"].args["/z/a"].weight == 3


def test_a_set_with_rules_survives_pickling_and_means_what_it_would_by_hand() -> None:
    by_rule = golden_of({"name": "f", "args": {"x": ["a", "b"]}}, arguments={"f.x": {"$unordered": True}})
    by_hand = golden_of({"name": "f", "args": {"x": {"$unordered": ["a", "b"]}}})
    assert pickle.loads(pickle.dumps(by_rule)).calls == by_rule.calls == by_hand.calls
    assert by_rule.criterion == by_hand.criterion


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"g.x": {"$ignore": True}}, '["g.x"]: no golden of this set calls g: a rule has the key tool.argument'),
        ({"find.x": {"$ignore": True}}, "did you mean `find_order.x`?"),
        ({"find_order.idd": {"$ignore": True}}, "did you mean `find_order.id`?"),
        ({"find_order.id": {"$ignored": True}}, "unknown matcher: did you mean `$ignore`?"),
        ({"find_order.id": {"$approx": True, "tolerence": 1}}, "did you mean `tolerance`?"),
        ({"find_order.id": {"wieght": 2}}, "wieght: unknown field: did you mean `weight`?"),
        ({"find_order.id": {"weight": -1}}, "weight: found -1, expected 0 or more"),
        ({"find_order.id": {"tolerance": 1}}, "the strategy is `exact`"),
        ({"find_order.id": "nearly"}, "strategy: found \"nearly\", expected `exact`"),
        ({"find_order.id": {}}, "expected a matcher such as {$unordered: true}"),
        ({"find_order.id": {"optional": 1}}, "expected true or false"),
        ({"find_order.id.*": {"weight": 1}}, "`*` goes with a matcher alone"),
        ({"find_order.id": {"$unordered": True, "together": "x"}}, "expected a list of other arguments of the tool"),
        ({}, "expected an object such as {send.body: {$key_facts: true}}"),
    ],
)  # fmt: skip
def test_a_wrong_rule_says_where_and_what_to_do(rules: Any, said: str) -> None:
    with pytest.raises(GoldenFileError) as caught:
        golden_of({"name": "find_order", "args": {"id": "1"}}, arguments=rules)
    assert said in str(caught.value)
    assert "arguments" in str(caught.value)


# Tools that read, and tools that write.

BOOK = {"name": "book", "args": {"room": 1}}
BOOKED = ToolCall("book", {"room": 1})


class TestOtherWrites:
    def test_a_write_that_is_not_expected_fails(self) -> None:
        golden = golden_of(BOOK, other_writes="forbid")
        assert label(golden, BOOKED, ToolCall("get_room"), ToolCall("find_rates")) == "pass"
        assert label(golden, BOOKED, ToolCall("cancel", {"room": 2})) == "fail"
        assert label(golden, BOOKED, ToolCall("cancel", {"room": 2}, error="no such room")) == "pass"
        assert label(golden_of(BOOK), BOOKED, ToolCall("cancel", {"room": 2})) == "pass"

    def test_a_set_says_which_tools_read_or_write(self) -> None:
        reads = golden_of(BOOK, other_writes="forbid", reads=["room_*"])
        assert (label(reads, BOOKED, ToolCall("room_rates")), label(reads, BOOKED, ToolCall("set_x"))) == (
            "pass",
            "fail",
        )
        assert label(reads, BOOKED, ToolCall("get_x")) == "pass"
        writes = golden_of(BOOK, other_writes="forbid", writes=["room_*"])
        assert (label(writes, BOOKED, ToolCall("room_x")), label(writes, BOOKED, ToolCall("send"))) == ("fail", "pass")

    def test_a_golden_has_its_own_word(self) -> None:
        goldens = [{"session": "s", "calls": [BOOK], "other_writes": "report"}, {"session": "t", "calls": [BOOK]}]
        first, second = load_goldens({"golden_set": "g", "other_writes": "forbid", "goldens": goldens}).goldens
        assert (label(first, BOOKED, ToolCall("pay")), label(second, BOOKED, ToolCall("pay"))) == ("pass", "fail")

    def test_turns_are_judged_too(self) -> None:
        document = {
            "golden_set": "g",
            "other_writes": "forbid",
            "goldens": [{"session": "s", "turns": [{"calls": [BOOK]}]}],
        }
        [golden] = load_goldens(document).goldens
        assert (label(golden, BOOKED), label(golden, BOOKED, ToolCall("pay"))) == ("pass", "fail")

    def test_what_is_hidden_may_be_an_expected_call(self) -> None:
        hidden = ToolCall("book", None, "not_captured")  # type: ignore[arg-type]
        golden = golden_of(BOOK, other_writes="forbid")
        assert label(golden, hidden) == "not_evaluated"
        assert label(golden, hidden, BOOKED) == "not_evaluated" or label(golden, BOOKED, hidden) == "fail"


class TestRepeatedWrites:
    def labels(self, *calls: ToolCall, **criterion: Any) -> str:
        return str(score_turn([BOOK], list(calls), criterion).verdict.label)

    def test_a_call_that_succeeded_is_not_to_be_made_again(self) -> None:
        result = score_turn([BOOK], [BOOKED, BOOKED])
        assert (result.verdict.label, result.verdict.score) == ("fail", 1)
        assert "the same call succeeded before" in str(result)
        assert [call.repeats for call in result.unexpected_calls] == [True]

    def test_other_extra_calls_are_reported(self) -> None:
        assert self.labels(BOOKED, ToolCall("book", {"room": 2})) == "pass"
        assert self.labels(BOOKED, ToolCall("get_room", {"id": 1}), ToolCall("get_room", {"id": 1})) == "pass"
        assert self.labels(BOOKED, ToolCall("thermostat", {"to": 20}), ToolCall("thermostat", {"to": 20})) == "pass"
        assert self.labels(BOOKED, BOOKED, repeated_writes="report") == "pass"
        assert self.labels(BOOKED, BOOKED, reads=["book"]) == "pass"

    def test_a_try_that_failed_may_be_repeated(self) -> None:
        failed = ToolCall("book", {"room": 1}, error="timeout")
        assert self.labels(failed, BOOKED) == self.labels(BOOKED, failed) == "pass"

    def test_what_is_expected_twice_may_be_made_twice(self) -> None:
        assert score_turn([BOOK, BOOK], [BOOKED, BOOKED]).passed
        assert not score_turn([BOOK, BOOK], [BOOKED, BOOKED, BOOKED]).passed

    def test_two_calls_that_nobody_expected_are_one_too_many(self) -> None:
        pay = ToolCall("pay", {"amount": 5})
        assert self.labels(BOOKED, pay, pay) == "fail"

    def test_a_call_of_an_earlier_turn_is_repeated_too(self) -> None:
        turns = [[BOOK], [{"name": "thank"}], [{"name": "thank"}]]
        session = Session("s", (Turn((BOOKED,)), Turn((ToolCall("thank"),)), Turn((ToolCall("thank"), BOOKED))))
        assert [turn.verdict.label for turn in score_session(turns, session).turns] == ["pass", "pass", "fail"]

    def test_a_turn_that_expects_nothing_is_not_judged(self) -> None:
        assert score_turn([], [BOOKED, BOOKED]).verdict.reason == "nothing_expected"


# Alternatives among calls that they share.


def test_alternatives_may_share_calls() -> None:
    choice = {"any_of": [[{"name": "pay"}], [{"name": "hold"}, {"name": "settle"}], []]}
    golden = golden_of(BOOK, choice, {"name": "thank"})
    assert [[call.name for call in calls] for calls in (golden.calls or (), *golden.alternatives)] == [
        ["book", "pay", "thank"],
        ["book", "hold", "settle", "thank"],
        ["book", "thank"],
    ]
    assert label(golden, BOOKED, ToolCall("hold"), ToolCall("settle"), ToolCall("thank")) == "pass"
    assert label(golden, BOOKED, ToolCall("hold"), ToolCall("thank")) == "pass"
    forbidding = golden_of(BOOK, choice, other_writes="forbid", writes=["pay", "hold", "settle"])
    assert label(forbidding, BOOKED, ToolCall("hold")) == "fail"


def test_choices_multiply_within_bounds() -> None:
    choice = {"any_of": [[{"name": "a"}], [{"name": "b"}]]}
    assert len(golden_of(*[choice] * 6).alternatives) == 63
    with pytest.raises(GoldenFileError, match="more than 100 alternatives together"):
        golden_of(*[choice] * 7)
    nested = golden_of({"any_of": [[choice, BOOK], [{"parallel": [{"name": "c"}]}]]})
    assert [[call.name for call in calls] for calls in (nested.calls or (), *nested.alternatives)] == [
        ["a", "book"],
        ["b", "book"],
        ["c"],
    ]


# Who makes a call, how it ends, and what no session may do.


class TestAgentAndStatus:
    def test_a_call_is_made_by_its_agent(self) -> None:
        golden = golden_of({**BOOK, "agent": "travel"})
        assert label(golden, ToolCall("book", {"room": 1}, agent="travel")) == "pass"
        result = score_session(golden, Session("s", (Turn((ToolCall("book", {"room": 1}, agent="billing"),)),)))
        assert result.verdict.label == "fail"
        assert "called by the agent billing" in str(result)
        assert label(golden, BOOKED) == "not_evaluated"
        forbidden = golden_of(BOOK, {"name": "book", "agent": "billing", "forbidden": True})
        assert label(forbidden, ToolCall("book", {"room": 1}, agent="billing")) == "fail"
        assert label(forbidden, ToolCall("book", {"room": 1}, agent="travel")) == "pass"
        assert label(forbidden, BOOKED) == "not_evaluated"

    def test_a_call_ends_as_the_golden_says(self) -> None:
        failed = ToolCall("book", {"room": 1}, error="timeout")
        succeeds, fails = golden_of({**BOOK, "status": "succeeded"}), golden_of({**BOOK, "status": "failed"})
        assert [label(golden, failed) for golden in (golden_of(BOOK), succeeds, fails)] == ["pass", "fail", "pass"]
        assert [label(golden, BOOKED) for golden in (golden_of(BOOK), succeeds, fails)] == ["pass", "pass", "fail"]
        assert label(succeeds, failed, BOOKED) == "pass"

    def test_what_failed_must_be_mended(self) -> None:
        golden = golden_of(BOOK, {"name": "*", "status": "unrecovered", "forbidden": True})
        failed = ToolCall("pay", {"amount": 5}, error="declined")
        assert label(golden, BOOKED, failed) == "fail"
        assert label(golden, BOOKED, failed, ToolCall("pay", {"amount": 6})) == "pass"
        assert label(golden, BOOKED, ToolCall("pay", {"amount": 6}), failed) == "fail"
        assert label(golden, ToolCall("book", {"room": 1}, error="full")) == "fail"
        with pytest.raises(GoldenFileError, match="`unrecovered` needs `forbidden: true`"):
            golden_of({**BOOK, "status": "unrecovered"})


def test_what_a_set_forbids_holds_in_every_golden() -> None:
    goldens = [{"session": "s", "calls": [BOOK]}, {"session": "t", "turns": [{"calls": [BOOK]}, {"calls": []}, {}]}]
    above = {"name": "pay", "args": {"amount": {"$not": {"$type": "number", "maximum": 100}}}}
    forbidden = [{"name": "delete_*", "forbidden": True}, {**above, "forbidden": True}]
    first, second = load_goldens({"golden_set": "g", "forbidden": forbidden, "goldens": goldens}).goldens
    for call, expected in (("delete_room", "fail"), ("get_room", "pass")):
        assert label(first, BOOKED, ToolCall(call)) == expected
        assert label(second, BOOKED, ToolCall(call)) == expected
    assert [label(first, BOOKED, ToolCall("pay", {"amount": amount})) for amount in (100, 101)] == ["pass", "fail"]
    other = Session("t", (Turn((BOOKED,)), Turn((ToolCall("delete_room"),))))
    assert [turn.verdict.label for turn in score_session(second, other).turns][:2] == ["pass", "fail"]


@pytest.mark.parametrize(
    ("criterion", "place", "meant"),
    [
        ({"tools": {"bok": {"args": {"x": "numeric"}}}}, "tools.bok", "book"),
        ({"tools": {"book": {"args": {"pryce": "numeric"}}}}, "tools.book.args.pryce", "price"),
        ({"perArgStrategies": {"prize": "numeric"}}, "perArgStrategies.prize", "price"),
    ],
)
def test_a_misspelt_name_in_a_criterion_is_a_mistake(criterion: Any, place: str, meant: str) -> None:
    goldens = [{"session": "s", "calls": [{"name": "book", "args": {"price": 1}}]}]
    with pytest.raises(GoldenFileError) as caught:
        load_goldens({"golden_set": "g", "criterion": criterion, "goldens": goldens})
    wrong = place.rpartition(".")[2]
    assert f"criterion.{place}: no golden has {wrong}: did you mean `{meant}`?" in str(caught.value)
    with pytest.raises(CriterionFileError) as apart:
        load_criterion(criterion, load_goldens({"golden_set": "g", "goldens": goldens}))
    assert f" {place}: no golden has {wrong}: did you mean `{meant}`?" in str(apart.value)


def test_a_criterion_may_name_what_no_golden_has() -> None:
    criterion = {
        "tools": {"cancel": {"args": {"x": "numeric"}}, "b": {}},
        "per_arg_strategies": {"city": "exact", "/price": "exact"},
    }
    goldens = [{"session": "s", "calls": [{"name": "book", "args": {"price": 1}}]}]
    assert load_goldens(
        {"golden_set": "g", "aliases": {"book": ["b"]}, "criterion": criterion, "goldens": goldens}
    ).goldens
