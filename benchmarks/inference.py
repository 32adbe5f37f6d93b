"""How well goldens inferred from passing runs judge other runs: `python -m benchmarks.inference [TRIALS]`.

Simulated agents, ten tasks each: false failures of 50 fresh runs that are right, of 30 runs with a mistake those that
fail, questions for a person, lines. TRIALS is a file of real models' runs with several trials a task, plain or gzip:
one JSON object a line, `{set, task, id, passed, day, users, calls}`; each golden is made of k passing runs of a task,
and judges the others. A folder instead of TRIALS holds one session a task, with rewards and expected calls.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from goldspan.collector_processor.golden_tools.inference.run_groups import RunGroup
from goldspan.collector_processor.golden_tools.inference.task_runs import only_reads
from goldspan.collector_processor.golden_tools.recording import record, record_groups
from goldspan.collector_processor.golden_tools.trying import leave_one_out
from goldspan.collector_processor.golden_tools.writing import golden_set_text
from goldspan.mappers import read_sessions
from goldspan.scoring import load_goldens, score_sessions
from goldspan.scoring.comparison import canonical
from goldspan.scoring.sessions import Capture, Content, Session, ToolCall, Turn
from goldspan.scoring.verdict import Label
from rigs.more_simulated_agents import MORE_AGENTS
from rigs.simulated_agents import AGENTS

SECOND = 1_000_000_000


class Judgement(NamedTuple):
    """How a golden set judged runs."""

    right: int
    failed: int
    """Of those that are right."""
    wrong: int
    caught: int
    alike: int
    """Of the wrong runs those whose writing calls are the ones of a run that was right: nothing tells them apart."""
    questions: int
    lines: int
    tried: int = 0
    predicted: int = 0
    """Of the recorded runs those that fail the golden made of the others."""

    def __add__(self, other: Any) -> Judgement:
        return Judgement(*map(sum, zip(self, other, strict=True)))


def writes_of(session: Session) -> object:
    """What a run changed, whatever the order."""
    calls = [call for turn in session.turns for call in turn.calls if call.error is None and not call.rejected]
    return frozenset((call.name, canonical(dict(call.arguments or {}))) for call in calls if not only_reads(call.name))


def judged(
    good: Sequence[Session], fresh: Iterable[Session], bad: Iterable[Session], *, show: bool = False
) -> Judgement:
    """Record goldens from runs that were right, and judge others."""
    good, fresh, bad = list(good), list(fresh), list(bad)
    recorded = record(good, "inferred")
    text = golden_set_text("g.yaml", recorded.document, recorded.comments)
    index = load_goldens(dict(recorded.document))
    results = [score_sessions(index, list(runs)).sessions for runs in (fresh, bad)]
    failed = [[one for one in found if one.verdict.label is not Label.PASS] for found in results]
    if show:
        print(text)
        for one in failed[0]:
            print("FALSE FAILURE", one)
        for one in results[1]:
            if one.verdict.label is Label.PASS:
                print("MISSED", one.name)
    tried = leave_one_out(recorded.inferred) if recorded.inferred is not None else None
    right: defaultdict[str, set[object]] = defaultdict(set)
    for one in (*good, *fresh):
        right[task_of(one)].add(writes_of(one))
    return Judgement(
        len(results[0]),
        len(failed[0]),
        len(results[1]),
        len(failed[1]),
        sum(writes_of(one) in right[task_of(one)] for one in bad),
        len(recorded.questions),
        text.count("\n"),
        *((tried.right, tried.failed) if tried else ()),
    )


def task_of(session: Session) -> str:
    return session.id.partition("-run-")[0]


def session_of(run: dict[str, Any], number: int) -> Session:
    """One session of the file of trials: a turn for each message of the user."""
    start = int(datetime.fromisoformat(run["day"]).replace(tzinfo=UTC).timestamp() + 36_000) * SECOND
    starts = [calls for calls, _ in run["users"]]
    turns: list[Turn] = []
    for place, (first, text) in enumerate(run["users"]):
        last = starts[place + 1] if place + 1 < len(starts) else len(run["calls"])
        calls = tuple(
            ToolCall(
                call["name"],
                call["args"] if isinstance(call["args"], dict) else {},
                result=Content(json.dumps(call["result"]), Capture.CAPTURED),
                error="failed" if call["error"] else None,
                start=start + (first + index) * SECOND,
                end=start + (first + index) * SECOND + 1,
            )
            for index, call in enumerate(run["calls"][first:last])
        )
        turns.append(Turn(calls, user_text=Content(text, Capture.CAPTURED), start=start + first * SECOND))
    return Session(f"task-{run['task']}-run-{number}", tuple(turns), run=run["id"])


def trials(path: Path, k: int, repeats: int = 15) -> Iterator[tuple[str, Judgement]]:
    """Judge the runs of each set of tasks by goldens of k passing runs, which are drawn anew so often."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        runs = [json.loads(line) for line in lines]
    for name in dict.fromkeys(run["set"] for run in runs):
        passing: defaultdict[str, list[Session]] = defaultdict(list)
        failing: defaultdict[str, list[Session]] = defaultdict(list)
        for number, run in enumerate(runs):
            if run["set"] == name:
                (passing if run["passed"] else failing)[run["task"]].append(session_of(run, number))
        total = Judgement(0, 0, 0, 0, 0, 0, 0)
        for repeat in range(repeats):
            chance = random.Random(repeat)
            good: list[Session] = []
            fresh: list[Session] = []
            bad: list[Session] = []
            for task, sessions in sorted(passing.items()):
                if len(sessions) >= k:
                    chance.shuffle(sessions)
                    good += sessions[:k]
                    fresh += sessions[k:]
                    bad += failing[task]
            total += judged(good, fresh, bad)
        yield name, total._replace(questions=total.questions // repeats, lines=total.lines // repeats)


def one_run_each(folder: Path) -> Judgement:
    """Judge sessions by goldens of their tasks' expected calls, with rules from other tasks that passed.

    `folder` holds sessions with rewards and expected calls, `sessions.json`, and their traces. The tasks are halved:
    rules are inferred from the expected calls and the passing run of each task of one half, and judge the other.
    """
    described = {one["session"]: one for one in json.loads((folder / "sessions.json").read_text("utf-8"))}
    seen = {one.id: one for one in read_sessions(*folder.glob("*.otlp.jsonl.gz")) if one.id in described}
    total = Judgement(0, 0, 0, 0, 0, 0, 0)
    for half in (0, 1):
        groups: list[RunGroup] = []
        judging: list[Session] = []
        for number, (key, session) in enumerate(sorted(seen.items())):
            calls = [ToolCall(call["name"], call["args"]) for call in described[key]["expected_writing_calls"]]
            turn = Turn(tuple(calls), user_text=session.turns[0].user_text, start=session.turns[0].start)
            known = [Session(key, (turn,), run="expected")]
            if number % 2 == half:
                known += [session] if described[key]["reward"] == 1 else []
            else:
                judging.append(session)
            groups.append(RunGroup({"session": key}, known))
        recorded = record_groups(groups, "inferred")
        found = [one for one in score_sessions(dict(recorded.document), judging).sessions if one.golden]
        right, wrong = (
            [one for one in found if (described[one.name]["reward"] == 1) is passed] for passed in (True, False)
        )
        lines = golden_set_text("g.yaml", recorded.document, recorded.comments).count("\n")
        counts = len(right), sum(one.failed for one in right), len(wrong), sum(one.failed for one in wrong)
        total += Judgement(*counts, 0, len(recorded.questions), lines)
    return total._replace(questions=total.questions // 2, lines=total.lines // 2)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Goldens inferred from passing runs, and what they judge.")
    parser.add_argument("trials", nargs="?", type=Path, help="a file of trials, or a folder of sessions")
    agents = {**AGENTS, **MORE_AGENTS}
    parser.add_argument("--agent", choices=agents, help="one simulated agent, with what it wrote and missed")
    parser.add_argument("-k", type=int, nargs="*", default=[2, 3], help="passing runs a task")
    options = parser.parse_args(arguments)
    head = f"{'runs of':14}{'k':>2}{'false failures':>16}{'left out':>13}{'caught':>12}{'same writes':>13}"
    print(f"{head}{'questions':>11}{'lines':>7}")
    rows: list[tuple[str, int, Judgement]] = []
    for name, agent in agents.items():
        if options.trials is None and options.agent in (None, name):
            fresh = [run.to_session() for run in agent.good(5, first=1000)]
            bad = [run.to_session() for run in agent.bad(30)]
            for k in (2, 3, 5) if options.agent is None else options.k[-1:]:
                good = [run.to_session() for run in agent.good(k)]
                rows.append((name, k, judged(good, fresh, bad, show=options.agent is not None)))
    if options.trials is not None and options.trials.is_dir():
        rows.append((options.trials.name, 1, one_run_each(options.trials)))
    elif options.trials is not None:
        rows += [(name, k, found) for k in options.k for name, found in trials(options.trials, k)]
    for name, k, one in rows:
        shares = [
            f"{part} of {whole}"
            for part, whole in ((one.failed, one.right), (one.predicted, one.tried), (one.caught, one.wrong))
        ]
        print(
            f"{name:14}{k:>2}{shares[0]:>16}{shares[1]:>13}{shares[2]:>12}{one.alike:>13}{one.questions:>11}{one.lines:>7}"
        )


if __name__ == "__main__":
    main()
