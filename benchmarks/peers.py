"""What scoring a session costs, beside the evaluators of UiPath and DeepEval on the same cases.

Needs these two, so it has an environment of its own: `make bench-peers`. The reference is goldspan, so a row says how
many times as much as `score_session` its evaluator takes. Everybody gets goldens and calls in his own types, made
beforehand; only `ToolCallArgsEvaluator` reads spans, because it takes nothing else. Before anything is measured, the
scores are held against each other where two systems mean the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from random import Random
from typing import Any, NamedTuple

from benchmarks.harness import THREAD_CPU, Comparison, Subject, compare, pin, print_tables
from goldspan.scoring import Criterion, Golden, Session, SessionResult, ToolCall, Turn, load_goldens, score_session

CALLS = (1, 3, 10)
SESSIONS = 40
TOLERANCE = 1e-9
"""The others add up floats."""

AS_UIPATH = Criterion(ordered=False, match_mode="name_only", call_score="all")
"""UiPath's rule in words of a criterion: in any order, and a call is right as a whole or wrong."""

Call = tuple[str, dict[str, Any]]


class Case(NamedTuple):
    """One session of one turn, as every system takes it."""

    golden: Golden
    session: Session
    uipath_expected: Any
    uipath_actual: list[Any]
    uipath_criteria: Any
    uipath_workload: Any
    deepeval: Any
    """An LLMTestCase."""


def planned(random: Random, size: int) -> tuple[list[Call], list[Call]]:
    """Make up calls of three arguments: 40 % with one wrong, some swapped, in half the sessions one too many."""
    expected: list[Call] = []
    actual: list[Call] = []
    for _ in range(size):
        name = random.choice("abc")
        args = {"city": random.choice(["Paris", "Rome", "Oslo"]), "days": random.randint(2, 6), "metric": True}
        wrong = {random.choice(sorted(args)): "wrong"} if random.random() < 0.4 else {}
        expected.append((name, args))
        actual.append((name, args | wrong))
    if size > 1 and random.random() < 0.3:
        place = random.randrange(size - 1)
        actual[place], actual[place + 1] = actual[place + 1], actual[place]
    if random.random() < 0.5:
        extra = {"city": "Bonn", "days": 9, "metric": False}
        actual.insert(random.randrange(size + 1), (random.choice("abc"), extra))
    return expected, actual


class UiPath:
    """The evaluator as its users call it, and the function in it that scores."""

    def __init__(self) -> None:
        models = import_module("uipath.eval.models.models")
        module = import_module("uipath.eval.evaluators.tool_call_args_evaluator")
        self.call, self._workload = models.ToolCall, models.WorkloadExecution
        self._criteria = module.ToolCallArgsEvaluationCriteria
        self._span = import_module("opentelemetry.sdk.trace").ReadableSpan
        self._kernel = import_module("uipath.eval._helpers.evaluators_helpers").tool_calls_args_score
        self._evaluator = module.ToolCallArgsEvaluator(id="args", name="args", evaluatorConfig={"name": "args"})

    def workload(self, calls: Sequence[Call]) -> Any:
        """Return spans as UiPath's runtime writes them."""
        spans = [
            self._span(name, attributes={"tool.name": name, "input.value": json.dumps(args)}) for name, args in calls
        ]
        return self._workload(agent_input={}, workload_output={}, workload_trace=spans)

    def criteria(self, calls: Sequence[Any]) -> Any:
        """Return what is expected."""
        return self._criteria(tool_calls=list(calls))

    def score(self, case: Case) -> float:
        """Score by the function alone."""
        score, _ = self._kernel(case.uipath_actual, case.uipath_expected)
        return float(score)

    def evaluate(self, case: Case) -> float:
        """Score by the evaluator; it never waits for anything, so it needs no loop."""
        try:
            self._evaluator.evaluate(case.uipath_workload, case.uipath_criteria).send(None)
        except StopIteration as end:
            return float(end.value.score)
        raise AssertionError("UiPath's evaluator waited for something")


class DeepEval:
    """`ToolCorrectnessMetric` with arguments, as its users call it, and the function in it that scores."""

    def __init__(self) -> None:
        metrics, cases = import_module("deepeval.metrics"), import_module("deepeval.test_case")
        self.call, self.case = cases.ToolCall, cases.LLMTestCase

        # It wants a model, and never asks it anything unless the tools there are were given.
        class NoModel(import_module("deepeval.models").DeepEvalBaseLLM):  # type: ignore[misc]
            def load_model(self) -> Any:
                return self

            def generate(self, *_: Any) -> str:
                raise AssertionError("a model was asked")

            async def a_generate(self, *_: Any) -> str:
                raise AssertionError("a model was asked")

            def get_model_name(self) -> str:
                return "none"

        def metric(*, ordered: bool) -> Any:
            return metrics.ToolCorrectnessMetric(
                evaluation_params=[cases.ToolCallParams.INPUT_PARAMETERS],
                should_consider_ordering=ordered,
                include_reason=False,
                async_mode=False,
                model=NoModel(),
            )

        self._ordered, self._unordered = metric(ordered=True), metric(ordered=False)

    def ordered(self, case: Case) -> float:
        """Score by the function that keeps order."""
        return _calculated(self._ordered, case)

    def unordered(self, case: Case) -> float:
        """Score by the function that does not, which is DeepEval's default."""
        return _calculated(self._unordered, case)

    def measure(self, case: Case) -> float:
        """Score in order by the metric, without its progress bar."""
        return float(self._ordered.measure(case.deepeval, _show_indicator=False))


def _calculated(metric: Any, case: Case) -> float:
    metric.tools_called, metric.expected_tools = case.deepeval.tools_called, case.deepeval.expected_tools
    return float(metric._calculate_score())


def cases_of(size: int, uipath: UiPath, deepeval: DeepEval) -> list[Case]:
    """Make the same sessions for everybody."""
    random = Random(size)
    plans = [planned(random, size) for _ in range(SESSIONS)]
    goldens = load_goldens(
        {
            "golden_set": "peers",
            "goldens": [
                {"session": f"s-{number}", "turns": [{"calls": [{"name": name, "args": a} for name, a in expected]}]}
                for number, (expected, _) in enumerate(plans)
            ],
        }
    ).goldens
    cases: list[Case] = []
    for golden, (expected, actual) in zip(goldens, plans, strict=True):
        calls = tuple(ToolCall(name, args, batch=number) for number, (name, args) in enumerate(actual, start=1))
        wanted = [uipath.call(name=name, args=args) for name, args in expected]
        cases.append(
            Case(
                golden,
                Session(golden.key, (Turn(calls),)),
                wanted,
                [uipath.call(name=name, args=args) for name, args in actual],
                uipath.criteria(wanted),
                uipath.workload(actual),
                deepeval.case(
                    input="hello",
                    expected_tools=[deepeval.call(name=name, input_parameters=args) for name, args in expected],
                    tools_called=[deepeval.call(name=name, input_parameters=args) for name, args in actual],
                ),
            )
        )
    return cases


def goldspan(case: Case) -> SessionResult:
    """Score with the default criterion: in order, argument by argument."""
    return score_session(case.golden, case.session)


def goldspan_read(case: Case) -> int:
    """Score and look at what became of every argument."""
    turns = goldspan(case).turns
    return sum(len(argument.outcome) for turn in turns for call in turn.calls for argument in call.arguments)


def goldspan_as_uipath(case: Case) -> SessionResult:
    """Score by UiPath's rule."""
    return score_session(case.golden, case.session, AS_UIPATH)


def check(cases: Sequence[Case], uipath: UiPath, deepeval: DeepEval) -> None:
    """Raise AssertionError where systems that mean the same say something else."""
    for case in cases:
        binary, in_order = goldspan_as_uipath(case).verdict.score, goldspan(case).verdict.score
        assert binary is not None
        assert in_order is not None
        for ours, theirs in (
            (binary, uipath.score(case)),
            (binary, uipath.evaluate(case)),
            (in_order, deepeval.ordered(case)),
            (in_order, deepeval.measure(case)),
        ):
            assert abs(ours - theirs) < TOLERANCE, f"{case.golden.key}: {ours} and {theirs}"


def workload(size: int, uipath: UiPath, deepeval: DeepEval) -> Comparison:
    """Compare on sessions of one turn of so many expected calls."""
    cases = cases_of(size, uipath, deepeval)
    check(cases, uipath, deepeval)

    def subject(name: str, scorer: Callable[[Case], object]) -> Subject:
        return Subject(name, lambda: [scorer(case) for case in cases])

    return compare(
        f"score a session of {size} expected call{'' if size == 1 else 's'} of three arguments, many with mistakes",
        item="session",
        items=SESSIONS,
        reference=subject("goldspan: score_session", goldspan),
        control=subject("goldspan: score_session", goldspan),
        candidates=[
            subject("goldspan: and every argument read", goldspan_read),
            subject("goldspan: by UiPath's rule", goldspan_as_uipath),
            subject("UiPath: tool_calls_args_score", uipath.score),
            subject("UiPath: ToolCallArgsEvaluator", uipath.evaluate),
            subject("DeepEval: _calculate_score, ordered", deepeval.ordered),
            subject("DeepEval: _calculate_score, unordered", deepeval.unordered),
            subject("DeepEval: measure, ordered", deepeval.measure),
        ],
        clock=THREAD_CPU,
    )


def run() -> Iterator[Comparison]:
    """Measure sessions of one turn of few and of many calls."""
    os.environ.update(DEEPEVAL_TELEMETRY_OPT_OUT="1", DEEPEVAL_DISABLE_DOTENV="1")
    try:
        found = ", ".join(f"{name} {version(name)}" for name in ("uipath", "deepeval"))
    except PackageNotFoundError as missing:
        print(f"\npeers: left out, {missing.name} is not installed; `make bench-peers` measures beside it")
        return
    print(f"\nBeside {found}. A ratio of 5 is five times the cost of `score_session`.")
    pin()
    uipath, deepeval = UiPath(), DeepEval()
    for size in CALLS:
        yield workload(size, uipath, deepeval)


if __name__ == "__main__":
    print_tables(run())
