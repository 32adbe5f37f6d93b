"""How goldens judge runs whose outcome is known: `goldspan goldens try`.

False failures of runs that were right, and runs that were wrong and pass, by golden and by rule, each with the change
that would mend it. Runs that goldens were recorded from are judged by goldens made without them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from goldspan.collector_processor.golden_tools.inference.inferred_document import golden_document, rules_of_set
from goldspan.collector_processor.golden_tools.inference.inferred_set import InferredSet, infer, of_one_task
from goldspan.collector_processor.golden_tools.inference.learned_rules import Argument
from goldspan.collector_processor.golden_tools.inference.task_runs import RecordedTask, TaskRun
from goldspan.collector_processor.golden_tools.writing import on_one_line
from goldspan.scoring.api import score_session, score_sessions
from goldspan.scoring.comparison import canonical
from goldspan.scoring.goldens import Golden, GoldenIndex, load_goldens
from goldspan.scoring.json_values import shown, shown_name
from goldspan.scoring.pages import counted, listed
from goldspan.scoring.results import SessionResult
from goldspan.scoring.sessions import JsonValue, Session
from goldspan.scoring.verdict import Difference, DifferenceKind, Label


class Cause(NamedTuple):
    """Why runs were judged wrongly: a difference that several of them have, and what would mend it."""

    goldens: tuple[str, ...]
    what: str
    """The difference, or what makes a wrong run pass."""
    runs: int
    mend: str


@dataclass(frozen=True, slots=True)
class Trial:
    """How goldens judged runs."""

    right: int
    """Runs that were right and have a golden."""
    failed: int
    """Those of them that did not pass."""
    wrong: int
    caught: int
    """Those of the wrong runs that did not pass."""
    without_golden: int
    false_failures: Sequence[Cause] = ()
    misses: Sequence[Cause] = ()

    def to_json(self) -> JsonValue:
        """Return it as JSON."""
        causes = {"false_failures": self.false_failures, "misses": self.misses}
        counts = {name: getattr(self, name) for name in ("right", "failed", "wrong", "caught", "without_golden")}
        return {**counts, **{name: [one._asdict() for one in found] for name, found in causes.items()}}

    def lines(self) -> Iterator[str]:
        """Yield it as text."""
        if self.right:
            yield f"false failures: {self.failed} of {counted(self.right, 'run')} that {_were(self.right)} right"
        yield from _lines(self.false_failures)
        if self.wrong:
            yield f"caught: {self.caught} of {counted(self.wrong, 'run')} that {_were(self.wrong)} wrong"
        yield from _lines(self.misses)
        if self.without_golden:
            yield f"{counted(self.without_golden, 'run')} without golden: not judged"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _lines(causes: Iterable[Cause]) -> Iterator[str]:
    for one in causes:
        yield f"  {counted(one.runs, 'run')}: {one.what}"
        yield f"    in {listed(map(shown_name, one.goldens), 3)}"
        yield f"    mend: {one.mend}"


def try_goldens(goldens: GoldenIndex, right: Iterable[Session], wrong: Iterable[Session] = ()) -> Trial:
    """Judge runs that were right, and runs that were wrong."""
    good, bad = (score_sessions(goldens, list(runs)).sessions for runs in (right, wrong))
    known: defaultdict[str, list[Session]] = defaultdict(list)
    for one in good:
        if one.golden is not None and one.session is not None:
            known[one.golden.key].append(one.session)
    tasks = [RecordedTask({"session": key}, [TaskRun(run) for run in runs]) for key, runs in known.items()]
    return _trial(good, bad, infer(tasks))


def try_recorded(goldens: GoldenIndex, recorded: Iterable[Session]) -> Trial:
    """Judge each of the runs that goldens were recorded from by a golden that is made of the others."""
    runs: defaultdict[str, list[TaskRun]] = defaultdict(list)
    for session in recorded:
        golden = goldens.find(session)
        if isinstance(golden, Golden):
            runs[golden.key].append(TaskRun(session))
    return leave_one_out(infer([RecordedTask({"session": key or "*"}, found) for key, found in runs.items()]))


def leave_one_out(inferred: InferredSet) -> Trial:
    """Judge each run of a task with several by a golden that is made of the others; rules of the whole set stay."""
    results: list[SessionResult] = []
    for task in inferred.tasks:
        for run in task.task.runs if task.runs > 1 else ():
            document = golden_document(of_one_task(inferred, task.task.without(run)), "without one run").document
            results.append(score_session(load_goldens(dict(document)).goldens[0], run.session))
    return _trial(results, (), inferred)


_ROUNDS = 4


def that_accepts_its_runs(inferred: InferredSet) -> tuple[InferredSet, Trial]:
    """Return the set with stricter rules where it fails a run that it was made from, and how it judges these runs.

    Values of such an argument are expected as they were seen.
    """
    results: list[SessionResult] = []
    for rounds in range(_ROUNDS):
        document = golden_document(inferred, "its own runs").document
        goldens = load_goldens(dict(document)).goldens
        results = [
            score_session(golden, run.session)
            for golden, task in zip(goldens, inferred.tasks, strict=True)
            for run in task.task.runs
        ]
        failed = [one for one in results if one.verdict.label is Label.FAIL]
        wrong = {(one.tool, one.argument) for result in failed for one in result.differences if one.argument}
        rules = {
            key: rule for key, rule in inferred.rules.items() if (key[0], key[1][0]) in wrong and rule.form != "exact"
        }
        if not rules or rounds == _ROUNDS - 1:
            break
        inferred = replace(
            inferred, rules={**inferred.rules, **{key: replace(rule, form="exact") for key, rule in rules.items()}}
        )
    return inferred, _trial(results, (), inferred)


def _trial(good: Iterable[SessionResult], bad: Iterable[SessionResult], inferred: InferredSet) -> Trial:
    right, wrong = ([one for one in found if one.session and one.golden] for found in (good, bad))
    failed = [one for one in right if one.verdict.label is not Label.PASS]
    missed = [one for one in wrong if one.verdict.label is Label.PASS]
    seen = sum(one.session is not None for one in (*good, *bad))
    caught = len(wrong) - len(missed)
    causes = _of_failures(failed, inferred), _of_misses(missed, right)
    return Trial(len(right), len(failed), len(wrong), caught, seen - len(right) - len(wrong), *map(_ranked, causes))


def _ranked(found: Iterable[tuple[str, str, str]]) -> tuple[Cause, ...]:
    """Return the causes that runs share, the most common first, of pairs of golden, what and mend."""
    causes: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for golden, what, mend in found:
        causes[what, mend].append(golden)
    ranked = sorted(causes.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(Cause(tuple(dict.fromkeys(goldens)), what, len(goldens), mend) for (what, mend), goldens in ranked)


def _of_failures(failed: Iterable[SessionResult], inferred: InferredSet) -> Iterator[tuple[str, str, str]]:
    """Yield the first difference of each run that failed, and what would accept it."""
    rules = rules_of_set(inferred)
    for result in failed:
        golden = _key(result)
        difference = result.first_difference
        if difference is None:
            yield golden, f"not evaluated: {result.verdict.reason}", "look at it with `goldspan inspect`"
        else:
            yield golden, f"{difference.name} is {difference.words}", _mend(difference, inferred, rules)


def _mend(difference: Difference, inferred: InferredSet, rules: Mapping[Argument, JsonValue]) -> str:
    tool, argument = difference.tool, difference.argument
    use = inferred.tools.get(tool)
    if argument and difference.kind is DifferenceKind.ARGUMENT_NOT_PASSED:
        return f"arguments: {{{tool}.{argument}: {{optional: true}}}}"
    if argument:
        fields = [way for of_tool, way in rules if of_tool == tool and way[0] == argument]
        if fields:
            written = {".".join((tool, *way)): rules[tool, way] for way in fields}
            return f"arguments: {on_one_line(written)}"
        return f"accept {shown(difference.actual, 60)} too, with $any_of"
    if use is not None and (use.incidental or use.reads):
        return f"reads: [{tool}], since some runs that are right call it and others do not"
    if difference.kind is DifferenceKind.FORBIDDEN_CALL:
        return f"expect the call of {tool}, as one of `any_of` if only some runs make it"
    if difference.kind is DifferenceKind.OUT_OF_ORDER:
        return "criterion: {ordered: false}"
    return f"expect {tool} in one of `any_of` only, or mark it `optional: true`"


def _of_misses(missed: Iterable[SessionResult], right: Iterable[SessionResult]) -> Iterator[tuple[str, str, str]]:
    """Yield for each wrong run that passed what of it no run did that was right."""
    usual: defaultdict[str, set[tuple[str, str, object]]] = defaultdict(set)
    for result in right:
        usual[_key(result)].update((*what, canonical(value)) for what, value in _passed(result))
    for result in missed:
        key, known = _key(result), usual[_key(result)]
        strange = [(what, value) for what, value in _passed(result) if (*what, canonical(value)) not in known]
        if not known:
            yield key, "no run that was right to compare it with", "give one with --good"
        elif strange:
            (tool, argument), value = strange[0]
            if argument:
                what = f"{tool}.{argument} was {shown(value, 40)}, as in no run that was right"
                yield key, what, f"compare {tool}.{argument} more strictly"
            else:
                mend = f"`other_writes: forbid` if {tool} changes something, or {{name: {tool}, forbidden: true}}"
                yield key, f"{tool} was called, as in no run that was right", mend
        else:
            yield key, "it did what runs did that were right, in calls and arguments", "nothing in its calls tells it"


def _key(result: SessionResult) -> str:
    return result.golden.key if result.golden is not None else ""


def _passed(result: SessionResult) -> Iterator[tuple[tuple[str, str], JsonValue]]:
    """Yield each call of a run, and then each of its arguments; those of calls that count first."""
    calls = [call.actual for turn in result.turns for call in turn.calls if call.actual is not None]
    others = [call.actual for turn in result.turns for call in turn.unexpected_calls if call.actual is not None]
    for call in (*calls, *others):
        yield (call.name, ""), None
    for call in calls:
        for name, value in (call.arguments or {}).items():
            yield (call.name, name), value
