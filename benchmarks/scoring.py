"""What scoring a session costs, beside the least that could be called scoring: greedy, exact, a number and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from random import Random

from benchmarks.harness import THREAD_CPU, Comparison, Subject, compare, pin, print_tables
from benchmarks.traffic import SessionPlan, golden_set, plan_sessions
from goldspan.scoring import (
    Criterion,
    ExpectedCall,
    Golden,
    Session,
    ToolCall,
    Turn,
    load_goldens,
    score_session,
    score_turn,
)
from goldspan.scoring.align.alignment import align_weights, ranks_of

SESSIONS = 16

Scorer = Callable[[Golden, Session], object]


def naive(golden: Golden, session: Session) -> Fraction:
    """Give each expected call the first unused call of its name, and count equal arguments."""
    turns: list[Fraction] = []
    for expected, actual in zip(golden.turns, session.turns, strict=True):
        unused = list(actual.calls)
        total = Fraction(0)
        for call in expected.calls:
            partner = next((one for one in unused if one.name == call.name), None)
            if partner is None:
                continue
            unused.remove(partner)
            arguments = partner.arguments or {}
            equal = sum(name in arguments and arguments[name] == value for name, value in call.args.items())
            total += Fraction(equal, len(call.args))
        turns.append(total / len(expected.calls))
    return sum(turns, Fraction(0)) / len(turns)


def session_of(plan: SessionPlan) -> Session:
    """What a mapper would make of a planned session."""
    turns = (
        Turn(calls=tuple(ToolCall(name, args, batch=number) for number, (name, args) in enumerate(calls, start=1)))
        for calls in plan.calls
    )
    return Session(plan.id, tuple(turns))


def workload(title: str, *, rounds: int, wrong: bool, greedy_is_right: bool) -> Comparison:
    """Compare on sessions of two turns of so many calls each."""
    plans = plan_sessions([f"s-{number}" for number in range(SESSIONS)], rounds=rounds)
    document = golden_set(plans)
    if not wrong:
        for golden, plan in zip(document["goldens"], plans, strict=True):
            golden["turns"] = [{"calls": [{"name": n, "args": a} for n, a in calls]} for calls in plan.calls]
    pairs = list(zip(load_goldens(document).goldens, map(session_of, plans), strict=True))
    if greedy_is_right:
        differing = [s.id for g, s in pairs if score_session(g, s).verdict.exact != naive(g, s)]
        assert not differing, f"the scorers disagree where they should not: {differing}"
    repeats = max(1, 40 // rounds)

    def subject(name: str, scorer: Scorer) -> Subject:
        return Subject(name, lambda: every(scorer, pairs, repeats))

    return compare(
        title,
        item="session",
        items=SESSIONS * repeats,
        reference=subject("naive greedy scorer", naive),
        control=subject("naive greedy scorer", naive),
        candidates=[subject("goldspan: score_session", score_session)],
        clock=THREAD_CPU,
    )


def every(scorer: Scorer, pairs: Sequence[tuple[Golden, Session]], repeats: int) -> None:
    """Score every session, so many times."""
    for _ in range(repeats):
        for golden, session in pairs:
            scorer(golden, session)


def run() -> Iterator[Comparison]:
    """Measure sessions as they should be, sessions with mistakes, and long turns."""
    pin()
    small = "score a session, 2 turns of 4 calls"
    large = "score a session, 2 turns of 20 calls of 4 tools"
    yield workload(f"{small}, all as expected", rounds=4, wrong=False, greedy_is_right=True)
    yield workload(f"{small}, a quarter with mistakes", rounds=4, wrong=True, greedy_is_right=False)
    yield workload(f"{large}, a quarter with mistakes", rounds=20, wrong=True, greedy_is_right=False)
    print_large_turns()


LARGE = 200
Scores = Callable[[int, int], int]
"""What the pair of a row and a column is worth."""
WORST: Mapping[str, Scores] = {
    "random": lambda row, column: hash((row, column, LARGE)) % 997,
    "row * column mod 211": lambda row, column: row * column % 211,
    "row * column": lambda row, column: row * column,
    "row * column from the end": lambda row, column: row * (LARGE - column),
    "distance squared": lambda row, column: (row - column) ** 2,
}
BATCHES: Mapping[str, int | None] = {
    "in order": 0,
    "any order": None,
    "batches of 7": 7,
    "batches of 40": 40,
    "batches of 67": 67,
    "batches of 150": 150,
}


def print_large_turns() -> None:
    """Print what turns of very many calls of one name take: no ratio, but a bound that each has to keep."""
    print(f"\nalign {LARGE} expected calls with {LARGE} actual ones of the same tool: CPU seconds, all of them exact")
    print(f"  {'':26}" + "".join(f"{name:>15}" for name in BATCHES))
    for name, scores in WORST.items():
        weights = [[1 + scores(row, column) for column in range(LARGE)] for row in range(LARGE)]
        taken = (seconds(partial(_aligned, weights, size)) for size in BATCHES.values())
        print(f"  {name:26}" + "".join(f"{time:>15.3f}" for time in taken))
    print("\nscore turns of calls of one tool with ten random arguments: CPU seconds")
    for size in (LARGE, 5 * LARGE):
        for ordered in (True, False):
            took, exact = _scored(size, ordered=ordered)
            order = "in order" if ordered else "any order"
            print(f"  {size:>5} x {size:<5} {order:12}{took:>8.3f}   {'exact' if exact else 'bounded, and flagged'}")


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU time that a thread takes for something, of three times the least."""
    least = float("inf")
    for _ in range(3):
        began = THREAD_CPU()
        work()
        least = min(least, (THREAD_CPU() - began) / 1e9)
    return least


def _aligned(weights: Sequence[Sequence[int]], size: int | None) -> list[int | None]:
    names = ["f"] * LARGE
    numbers = [1 + column // size if size else 0 for column in range(LARGE)]
    return align_weights(weights, names, names, None if size is None else ranks_of(LARGE, numbers))


def _scored(size: int, *, ordered: bool) -> tuple[float, bool]:
    random = Random(size)
    names = [f"a{number}" for number in range(10)]
    expected = [ExpectedCall("f", {name: random.randrange(4) for name in names}) for _ in range(size)]
    actual = [ToolCall("f", {name: random.randrange(4) for name in names}) for _ in range(size)]
    criterion = Criterion(ordered=ordered)
    result = score_turn(expected, actual, criterion)
    return seconds(lambda: score_turn(expected, actual, criterion)), not result.approximate


if __name__ == "__main__":
    print_tables(run())
