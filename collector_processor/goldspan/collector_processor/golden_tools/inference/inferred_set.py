"""A golden set inferred from several runs of each task: which calls are expected, and how arguments are compared.

What is judged are the calls that change something: each that all runs of a task made is expected, and every other one
is forbidden. Calls that only read are expected only where runs hardly ever differ in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from goldspan.collector_processor.golden_tools.inference.call_clusters import CallCluster, TaskCalls, cluster_calls
from goldspan.collector_processor.golden_tools.inference.learned_rules import (
    MOST_FAILURES,
    Argument,
    LearnedRule,
    expected_arguments,
    learn_arguments,
)
from goldspan.collector_processor.golden_tools.inference.matcher_ladder import accepts
from goldspan.collector_processor.golden_tools.inference.task_runs import (
    Field,
    RecordedTask,
    only_reads,
    taken_apart,
    tools_of,
)
from goldspan.scoring.grounding.words import camel_words
from goldspan.scoring.sessions import JsonValue

_INCIDENTAL = 0.4
"""A writing tool that some runs leave out in more than this share of its tasks proves nothing."""
_FEW_TASKS = 3
_ENOUGH_TASKS, _ENOUGH_RUNS = 5, 40
"""With fewer, in which no run left a call of a reading tool out, it is not known that runs have to make it."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """How runs use a tool."""

    tool: str
    reads: bool
    tasks: int
    """In so many tasks with several runs it was called."""
    unsteady: int
    """In so many of them some run left a call of it out."""
    expected: bool
    """Goldens expect its calls."""

    @property
    def incidental(self) -> bool:
        """It changes something, and yet runs that are right call it or not."""
        return not self.reads and not self.expected


@dataclass(frozen=True, slots=True)
class InferredSet:
    """What was inferred."""

    tasks: Sequence[TaskCalls]
    rules: Mapping[Argument, LearnedRule]
    tools: Mapping[str, ToolUse]
    hidden: frozenset[str] = frozenset()
    """Names of arguments, at any depth, whose values are not written."""

    def expected_lists(self, task: TaskCalls) -> list[list[tuple[CallCluster, Mapping[Field, JsonValue]]]]:
        """Return the lists of calls that are right for a task, the most common first."""
        expected = [
            (cluster, expected_arguments(cluster, self.rules))
            for cluster in task.clusters
            if self.tools[cluster.tool].expected
            and (not self.tools[cluster.tool].reads or len(cluster.calls) == task.runs)
        ]
        lists: dict[tuple[int, ...], int] = {}
        for run in range(task.runs):
            made = tuple(index for index, (cluster, _) in enumerate(expected) if run in cluster.calls)
            lists[made] = lists.get(made, 0) + 1
        return [[expected[index] for index in made] for made in sorted(lists, key=lambda made: (-lists[made], made))]


def infer(tasks: Sequence[RecordedTask], hidden: frozenset[str] = frozenset()) -> InferredSet:
    """Infer goldens of tasks from their runs; of arguments named in `hidden` no value is written."""
    tasks = taken_apart(tasks)
    reading = {tool: only_reads(tool) for tool in tools_of(tasks)}
    clustered = [cluster_calls(task) for task in tasks]
    rules = learn_arguments(clustered, {tool for tool, only in reading.items() if not only}, hidden)
    tools = {tool: _use(tool, clustered, rules, reads=only) for tool, only in reading.items()}
    return InferredSet(clustered, rules, tools, hidden)


def of_one_task(inferred: InferredSet, task: RecordedTask) -> InferredSet:
    """Return what the set says of the runs of one task alone."""
    return replace(inferred, tasks=[cluster_calls(task)])


def _use(tool: str, tasks: Sequence[TaskCalls], rules: Mapping[Argument, LearnedRule], *, reads: bool) -> ToolUse:
    several = list(_of_several_runs(tool, tasks))
    unsteady = sum(any(len(one.calls) < runs for one in clusters) for runs, clusters in several)
    if not reads:
        incidental = len(several) >= _FEW_TASKS and unsteady >= 2 and unsteady > _INCIDENTAL * len(several)
        incidental = incidental or (unsteady > 0 and _hands_over(tool))
        return ToolUse(tool, reads, len(several), unsteady, not incidental)
    enough = len(several) >= _ENOUGH_TASKS and sum(runs for runs, _ in several) >= _ENOUGH_RUNS
    steady = enough and not unsteady
    return ToolUse(tool, reads, len(several), unsteady, steady and _is_predictable(several, rules))


def _of_several_runs(tool: str, tasks: Sequence[TaskCalls]) -> Iterator[tuple[int, Sequence[CallCluster]]]:
    """Yield the runs and the calls of a tool, for each task that has several runs and calls it."""
    for task in tasks:
        clusters = [one for one in task.clusters if one.tool == tool] if task.runs > 1 else []
        if clusters:
            yield task.runs, clusters


def _hands_over(tool: str) -> bool:
    """Whether a tool gives the conversation to a person: it changes nothing, and right runs differ in it."""
    return not _TO_PEOPLE.isdisjoint(camel_words(tool)) and not _HANDS_OVER.isdisjoint(camel_words(tool))


_HANDS_OVER = frozenset(("transfer", "escalate", "handoff", "handover", "hand", "forward", "connect"))
_TO_PEOPLE = frozenset(("human", "humans", "agent", "agents", "operator", "supervisor", "person", "support"))


def _is_predictable(
    several: Sequence[tuple[int, Sequence[CallCluster]]], rules: Mapping[Argument, LearnedRule]
) -> bool:
    """Whether each run's calls of a tool are as the other runs of the task let expect."""
    failed = tried = 0
    for runs, clusters in several:
        for run in range(runs):
            tried += 1
            failed += any(not _accepted(one.without(run), one, run, rules) for one in clusters if run in one.calls)
    return failed <= MOST_FAILURES * tried


def _accepted(others: CallCluster, cluster: CallCluster, run: int, rules: Mapping[Argument, LearnedRule]) -> bool:
    call = cluster.calls[run]
    absent: JsonValue = {"$absent": True}
    return all(
        accepts(expected, call.args[field], call) if field in call.args else accepts(expected, absent, call)
        for field, expected in expected_arguments(others, rules).items()
    )
