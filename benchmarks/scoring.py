"""What scoring a session costs, beside the least that could be called scoring: greedy, exact, a number and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from benchmarks.harness import THREAD_CPU, Comparison, Subject, compare, pin, print_tables
from benchmarks.traffic import SessionPlan, golden_set, plan_sessions
from goldspan.scoring import Golden, Session, ToolCall, Turn, load_goldens, score_session

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


if __name__ == "__main__":
    print_tables(run())
