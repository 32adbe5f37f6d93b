"""Values that an earlier call returned: found, not found, and not known."""

from __future__ import annotations

from typing import Any

import pytest

from goldspan.scoring import (
    Capture,
    Content,
    ExpectedCall,
    Golden,
    GoldenTurn,
    Session,
    ToolCall,
    Turn,
    score_session,
    score_turn,
)


class TestFromResult:
    EXPECTED = (
        ExpectedCall("create_order", {"item": "x"}),
        ExpectedCall("cancel_order", {"id": {"$from_result": {"call": "create_order", "path": "/id"}}}),
    )

    @staticmethod
    def created(result: object, capture: Capture = Capture.CAPTURED) -> ToolCall:
        return ToolCall("create_order", {"item": "x"}, result=Content(result, capture))

    def cancelled(self, *calls: ToolCall, cancels: object = 17) -> str:
        turn = Turn((*calls, ToolCall("cancel_order", {"id": cancels})))
        return score_turn(self.EXPECTED, turn).calls[1].verdict.label

    def test_what_was_returned_is_right(self) -> None:
        assert self.cancelled(self.created('{"id": 17}')) == "pass"
        assert self.cancelled(self.created({"id": 17})) == "pass"
        assert self.cancelled(self.created('{"id": 18}')) == "fail"
        assert self.cancelled(self.created('{"order": 17}')) == "fail"

    def test_one_of_several_calls_is_enough(self) -> None:
        assert self.cancelled(self.created('{"id": 16}'), self.created('{"id": 17}')) == "pass"

    def test_a_result_that_was_not_recorded_is_unknown_not_wrong(self) -> None:
        assert self.cancelled(self.created(None, Capture.NOT_CAPTURED)) == "not_evaluated"
        assert self.cancelled(self.created("...", Capture.TRUNCATED), self.created('{"id": 18}')) == "not_evaluated"
        assert self.cancelled(self.created("...", Capture.TRUNCATED), self.created('{"id": 17}')) == "pass"
        turn = Turn((self.created(None, Capture.NOT_CAPTURED), ToolCall("cancel_order", {"id": 1})))
        result = score_turn(self.EXPECTED, turn)
        assert (result.calls[1].verdict.reason, result.verdict.label) == ("input_missing", "not_evaluated")

    def test_calls_that_come_later_do_not_count(self) -> None:
        turn = Turn((ToolCall("cancel_order", {"id": 17}), self.created('{"id": 17}')))
        result = score_turn(self.EXPECTED, turn, {"ordered": False})
        assert result.calls[1].verdict.label == "fail"

    def test_where_calls_may_be_missing_nothing_is_wrong(self) -> None:
        turn = Turn((ToolCall("cancel_order", {"id": 17}),), calls_visible=False)
        assert score_turn(self.EXPECTED, turn).calls[1].verdict.reason == "input_missing"

    def test_a_call_of_an_earlier_turn_is_named_by_its_place_in_the_golden(self) -> None:
        wanted = {"id": {"$from_result": {"call": "0.1", "path": "/id"}}}
        create = ExpectedCall("create_order", {"item": "y"})
        golden = Golden(
            turns=(GoldenTurn((self.EXPECTED[0], create)), GoldenTurn((ExpectedCall("cancel_order", wanted),)))
        )

        def run(cancels: int) -> float | None:
            other = ToolCall("create_order", {"item": "y"}, result=Content({"id": 20}, Capture.CAPTURED))
            first = Turn((self.created({"id": 17}), other))
            session = Session("s", (first, Turn((ToolCall("cancel_order", {"id": cancels}),))))
            return score_session(golden, session).turns[1].verdict.score

        assert (run(20), run(17)) == (1, 0)

    @pytest.mark.parametrize("scope", ["turn", "session"])
    def test_a_tool_is_looked_for_in_the_whole_session(self, scope: str) -> None:
        golden = Golden(turns=(GoldenTurn(self.EXPECTED[:1]), GoldenTurn(self.EXPECTED[1:])))
        for cancels, expected in ((17, 1), (18, 0.5)):
            turns = (Turn((self.created({"id": 17}),)), Turn((ToolCall("cancel_order", {"id": cancels}),)))
            assert score_session(golden, Session("s", turns), {"scope": scope}).verdict.score == expected

    def test_a_golden_for_the_whole_session_knows_results_too(self) -> None:
        turns = (Turn((self.created({"id": 17}),)), Turn((ToolCall("cancel_order", {"id": 17}),)))
        assert score_session(Golden(calls=self.EXPECTED), Session("s", turns)).verdict.score == 1

    def test_the_whole_result_and_the_argument_s_strategy(self) -> None:
        wanted = [{"name": "g"}, {"name": "f", "args": {"x": {"$from_result": {"call": "g"}}}}]
        turn = Turn((ToolCall("g", result=Content("PARIS", Capture.CAPTURED)), ToolCall("f", {"x": "Paris"})))
        assert score_turn(wanted, turn).verdict.score == 0.5
        assert score_turn(wanted, turn, {"default_strategy": "casefold_exact"}).verdict.score == 1

    @pytest.mark.parametrize(
        ("wanted", "passed", "label"),
        [
            ({"$any_of": [5, "R"]}, 5, "pass"),
            ({"$any_of": [5, "R"]}, 6, "not_evaluated"),
            ({"$unordered": [5, "R"]}, [6, 5], "not_evaluated"),
            ({"$unordered": [5, "R"]}, [6, 7], "fail"),
            ({"$unordered": [5, "R"]}, [5], "fail"),
            ({"a": "R", "b": 1}, {"a": 1, "b": 1}, "not_evaluated"),
            ({"a": "R", "b": 1}, {"a": 1, "b": 2}, "fail"),
            ({"a": "R", "b": 1}, {"b": 1}, "fail"),
        ],
    )
    def test_what_is_unknown_matters_only_where_it_decides(self, wanted: Any, passed: Any, label: str) -> None:
        reference = {"$from_result": {"call": "g"}}
        kind, inside = next(iter(wanted.items())) if len(wanted) == 1 else ("", wanted)
        if kind:
            value: Any = {kind: [reference if item == "R" else item for item in inside]}
        else:
            value = {name: reference if item == "R" else item for name, item in inside.items()}
        turn = Turn((ToolCall("g"), ToolCall("f", {"x": passed})))
        result = score_turn([{"name": "g"}, {"name": "f", "args": {"x": value}}], turn)
        assert result.calls[1].verdict.label == label
