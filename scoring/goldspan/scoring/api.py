"""The functions `score_turn`, `score_session` and `score_sessions`, and the plain values that they accept.

They use no clock, file or network, except that `score_sessions` reads golden files from a path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from goldspan.scoring.criterion import DEFAULT, Criterion
from goldspan.scoring.goldens.golden import Ambiguous, ExpectedCall, Golden, GoldenIndex, GoldenSet, GoldenTurn
from goldspan.scoring.json_values import is_mapping, shown
from goldspan.scoring.metrics.session_metrics import MetricSource
from goldspan.scoring.results import SessionResult, TurnResult
from goldspan.scoring.run import ScoringResult, scorer_of
from goldspan.scoring.session_score import score_run
from goldspan.scoring.sessions import CallHistory, Capture, Session, ToolCall, Turn
from goldspan.scoring.turn_join import split_runs
from goldspan.scoring.turn_score import expected_turn, score_calls

GoldenSource = GoldenSet | str | Path | Mapping[str, Any]
"""A golden set, a path to a file or a directory of golden sets, or a mapping with the contents of a file."""
PlainCall = Mapping[str, Any]
"""`{"name": ..., "args": {...}}`. Among expected calls also `{"parallel": [...]}`: a group in any order."""
ExpectedCalls = Sequence[ExpectedCall | PlainCall]
"""The expected calls of a turn."""
ActualCalls = Turn | Sequence[ToolCall | PlainCall]
"""The actual calls of a turn, in order; calls with the same batch number are parallel calls."""
GivenGolden = Golden | Sequence[GoldenTurn | ExpectedCalls | Mapping[str, Any]] | ExpectedCalls
"""A golden, a list of turns (each a list of calls), or a list of calls for the whole session."""
GivenSession = Session | Sequence[Turn | Sequence[ToolCall | PlainCall]] | Sequence[ToolCall | PlainCall]
"""A session, a list of turns (each a list of calls), or the calls of one turn."""

_EXPECTED = ("name", "args", "arguments", "criterion", "optional", "forbidden", "result")
_ACTUAL = ("name", "args", "arguments", "batch", "error")


def expected_calls(given: ExpectedCalls) -> tuple[ExpectedCall, ...]:
    """Return expected calls. Raises TypeError for anything else."""
    calls: list[ExpectedCall] = []
    for group, one in enumerate(_listed(given), start=1):
        if is_mapping(one) and set(one) == {"parallel"}:
            calls += [replace(call, group=group) for call in expected_calls(one["parallel"])]
        else:
            calls.append(one if isinstance(one, ExpectedCall) else _expected_call(one))
    return tuple(calls)


def actual_turn(given: ActualCalls) -> Turn:
    """Return a turn. Raises TypeError for anything else."""
    if isinstance(given, Turn):
        return given
    return Turn(tuple(call if isinstance(call, ToolCall) else _actual_call(call) for call in _listed(given)))


def golden_of(given: GivenGolden) -> Golden:
    """Return a golden. Raises TypeError for anything else."""
    if isinstance(given, Golden):
        return given
    items = _listed(given)
    if items and all(
        isinstance(item, ExpectedCall) or (is_mapping(item) and item.keys() & {"name", "parallel"}) for item in items
    ):
        return Golden(calls=expected_calls(items))
    return Golden(turns=tuple(item if isinstance(item, GoldenTurn) else _golden_turn(item) for item in items))


def session_of(given: GivenSession) -> Session:
    """Return a session. Raises TypeError for anything else."""
    if isinstance(given, Session):
        return given
    items = _listed(given)
    if items and all(isinstance(item, ToolCall) or is_mapping(item) for item in items):
        return Session("", (actual_turn(items),))
    return Session("", tuple(actual_turn(item) for item in items))


def _expected_call(given: object) -> ExpectedCall:
    call = _fields(given, _EXPECTED, "an expected call")
    args = _arguments(call)
    if not is_mapping(args):
        raise TypeError(f"args of {call['name']}: found {shown(args)}, expected a mapping of argument names to values")
    criterion = Criterion.parse(call["criterion"]) if "criterion" in call else None
    return ExpectedCall(
        call["name"],
        args,
        criterion,
        optional=call.get("optional") is True,
        forbidden=call.get("forbidden") is True,
        result=call.get("result"),
    )


def _actual_call(given: object) -> ToolCall:
    call = _fields(given, _ACTUAL, "a call")
    args, error = _arguments(call), call.get("error")
    if args is not None and not is_mapping(args):
        raise TypeError(f"args of {call['name']}: found {shown(args)}, expected a mapping, or None for not captured")
    return ToolCall(
        call["name"],
        args,
        Capture.NOT_CAPTURED if args is None else Capture.CAPTURED,
        error=None if error is None or error is False else str(error),
        batch=call.get("batch", 0),
    )


def _golden_turn(given: object) -> GoldenTurn:
    if not is_mapping(given):
        return GoldenTurn(expected_calls(_listed(given)))
    if unknown := given.keys() - {"calls", "user", "turn_id"}:
        raise TypeError(f"a turn has `calls`, `user` and `turn_id`, not {shown(min(map(str, unknown)))}")
    return GoldenTurn(expected_calls(given.get("calls", ())), given.get("user"), given.get("turn_id"))


def _arguments(call: Mapping[str, Any]) -> Any:
    if "args" in call and "arguments" in call:
        raise TypeError(f"{call['name']}: found `args` and `arguments`, which mean the same: leave one")
    return call.get("args", call.get("arguments", {}))


def _fields(given: object, known: Sequence[str], what: str) -> Mapping[str, Any]:
    if not is_mapping(given) or not isinstance(given.get("name"), str):
        raise TypeError(f'found {shown(given)}, expected {what} such as {{"name": "get_weather", "args": {{}}}}')
    if unknown := given.keys() - set(known):
        raise TypeError(f"{what} has {', '.join(f'`{k}`' for k in known)}, not {shown(min(map(str, unknown)))}")
    return given


def _listed(given: object) -> Sequence[Any]:
    if isinstance(given, str) or is_mapping(given) or not isinstance(given, Iterable):
        raise TypeError(f"found {shown(given)}, expected a list")
    return tuple(given)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def score_turn(
    expected: ExpectedCalls, actual: ActualCalls, criterion: Criterion | Mapping[str, Any] | None = None
) -> TurnResult:
    """Score the actual calls of one turn against its expected calls.

    Calls are `ExpectedCall` and `ToolCall` values or mappings: `{"name": "get_weather", "args": {"city": "Paris"}}`.
    `criterion` replaces the criteria of the expected calls. Without any criterion, the default applies.

    Raises:
        CriterionError: `criterion` is wrong.
        MatcherError: an expected value is a wrong matcher.
        TypeError: a value is not a call.

    """
    override = _override(criterion)
    wanted, turn = expected_turn(expected_calls(expected), override or DEFAULT, override), actual_turn(actual)
    history = CallHistory([turn], [[one.expected.name for one in wanted.calls]]) if wanted.uses_history else None
    return score_calls(wanted, turn, turn_index=0, history=history).result


def score_session(
    expected: GivenGolden | Ambiguous | None,
    actual: GivenSession,
    criterion: Criterion | Mapping[str, Any] | None = None,
    *,
    final: bool = True,
) -> SessionResult:
    """Score one run of a session against its golden.

    `expected` is a golden, a list of turns (each a list of calls), or a list of calls for the whole session. It may
    also be the result of `GoldenIndex.find`: None gives the reason `no_golden`, several give `ambiguous_golden`.
    `actual` is a session, a list of turns, or the calls of one turn. `criterion` replaces every criterion of the
    golden. `final=False` means that more turns may come: missing turns are then left out, and a golden for the whole
    session is not evaluated yet.

    Raises:
        CriterionError: `criterion` is wrong.
        TypeError: a value is not a golden or not a session.

    """
    golden = expected if expected is None or isinstance(expected, Ambiguous) else golden_of(expected)
    return score_run(golden, session_of(actual), _override(criterion), final=final)


def score_sessions(
    expected: GoldenIndex | GoldenSource | Iterable[GoldenSource] | None,
    actual: Session | Iterable[Session],
    criterion: Criterion | Mapping[str, Any] | None = None,
    *,
    preset: str | Mapping[str, Any] | None = None,
    metrics: Iterable[MetricSource] | None = None,
    profile: str | Path | None = None,
) -> ScoringResult:
    """Score sessions against their goldens, found by session id or pattern.

    `expected` is a path to a file or a directory of goldens, a golden set, a mapping with the contents of a file,
    several of these, or the result of `load_goldens`; None: there are no goldens. `actual` is a session or several,
    such as the result of `read_sessions`. `criterion` replaces every criterion of the goldens. A session that repeats
    its golden is scored as several runs.

    `preset` reproduces the scores of another system: its name, or a mapping of `name` and its options. `metrics` are
    additional metrics: names, import paths (`pkg.module:function`) or functions of a session and its golden. Without
    goldens they are those that need none, unless you name others. `profile` is the file of `goldspan profile learn`:
    what is normal for the agent.

    Raises:
        GoldenFileError: a golden file has mistakes; all are listed.
        CriterionError: `criterion` or `preset` is wrong.
        MetricError: there is no such metric.

    """
    sessions = _sessions(actual)
    scorer = scorer_of(_override(criterion), preset, metrics, has_goldens=expected is not None, profile=profile)
    index = _index(expected)
    results: list[SessionResult] = []
    for session in sessions:
        golden = index.find(session)
        runs = split_runs(session, golden) if isinstance(golden, Golden) else [session]
        results += [scorer.score(golden, run) for run in runs]
    return ScoringResult(
        tuple(sorted(results, key=lambda result: result.golden is None)),
        index.never_seen(result.golden for result in results if result.golden is not None),
        golden_sets={one.label: one.digest for one in index.sets},
    )


def _sessions(actual: object) -> Sequence[Session]:
    """Return sessions. Raises a TypeError that says what to pass."""
    if isinstance(actual, Session):
        return (actual,)
    if isinstance(actual, str | Path):
        raise TypeError(
            f"actual: found the path {shown(str(actual))}, expected sessions: "
            f"pass `read_sessions({str(actual)!r})` of goldspan.mappers"
        )
    found = _listed(actual)
    for one in found:
        if not isinstance(one, Session):
            raise TypeError(
                f"actual: found {shown(one) if is_mapping(one) else type(one).__name__}, expected sessions: "
                "the goldens come first, as in score_sessions(goldens, sessions)"
            )
    return found


def _override(criterion: Criterion | Mapping[str, Any] | None) -> Criterion | None:
    return None if criterion is None else Criterion.parse(criterion)


def _index(goldens: GoldenIndex | GoldenSource | Iterable[GoldenSource] | None) -> GoldenIndex:
    if goldens is None or isinstance(goldens, GoldenIndex):
        return GoldenIndex() if goldens is None else goldens
    from goldspan.scoring.goldens.loading import index_of  # noqa: PLC0415 - goldens made in code read no file

    return index_of(goldens)
