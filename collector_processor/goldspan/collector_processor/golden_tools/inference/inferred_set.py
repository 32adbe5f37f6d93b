"""A golden set inferred from several runs of each task: which calls are expected, and how arguments are compared.

What is judged are the calls that change something: each that all runs of a task made is expected, and every other one
is forbidden. Calls that only read are expected only where runs hardly ever differ in them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from goldspan.collector_processor.golden_tools.inference import task_runs
from goldspan.collector_processor.golden_tools.inference.call_clusters import (
    CallCluster,
    DividedList,
    DividedLists,
    TaskCalls,
    cluster_calls,
    divided_lists,
    in_parts,
)
from goldspan.collector_processor.golden_tools.inference.learned_rules import (
    MOST_FAILURES,
    Argument,
    LearnedRule,
    expected_arguments,
    learn_arguments,
)
from goldspan.collector_processor.golden_tools.inference.matcher_ladder import accepts
from goldspan.scoring.grounding.words import camel_words
from goldspan.scoring.json_values import is_mapping, is_sequence
from goldspan.scoring.sessions import JsonValue

_INCIDENTAL = 0.4  # a writing tool that some runs leave out in more than this share of its tasks proves nothing
_OPTIONAL = 0.15
"""A writing tool that runs leave out in this share of its tasks, and differ in nothing else, may be left out."""
_SKIPPED = 0.125
"""The share of runs that may leave a reading tool out which is still expected where a task changes nothing."""
_FEW_TASKS = 3
_ENOUGH_TASKS, _ENOUGH_RUNS = 5, 40
"""With fewer, in which no run left a call of a reading tool out, it is not known that runs have to make it."""
_ENOUGH_HAND_OVERS = 20  # as these, of a tool that hands over to a person


_MOST_LISTS = 50
ExpectedInTask = tuple[CallCluster, Mapping[task_runs.Field, JsonValue]]
"""A call of a task, and what is expected of its arguments."""


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
    optional: bool = False
    """Runs that are right leave it out and differ in nothing else: with and without it are alternatives."""
    skipped: bool = False
    """It reads, and more than a few runs do not call it in tasks in which others do."""

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

    divided: DividedLists = field(default_factory=dict[str, DividedList])

    def expected_lists(self, task: TaskCalls) -> list[list[ExpectedInTask]]:
        """Return the lists of calls that are right for a task, the most common first."""
        expected: list[ExpectedInTask] = [
            (cluster, expected_arguments(cluster, self.rules))
            for cluster in task.clusters
            if self._expects(task, cluster)
        ]
        found = _lists_of_runs(expected, task.runs)
        for tool in dict.fromkeys(cluster.tool for cluster, _ in expected if self.tools[cluster.tool].optional):
            without = ([one for one in made if one[0].tool != tool] for made in list(found))
            found += [made for made in without if made not in found]
        for one in expected:
            found += self._divided_otherwise(one, found)
        return found[:_MOST_LISTS] if any(found) or task.runs == 1 else self._what_is_read(task)

    def _expects(self, task: TaskCalls, cluster: CallCluster) -> bool:
        """Whether a call of a task is expected; one that only reads, if all runs made it."""
        use = self.tools[cluster.tool]
        return use.expected and (not use.reads or len(cluster.calls) == task.runs)

    def _what_is_read(self, task: TaskCalls) -> list[list[ExpectedInTask]]:
        """Return what shows that a task was done in which nothing is changed.

        If the task's runs agree in all reading calls, it is those of tools that hardly any run leaves out, or a call
        that hands over to a person.
        """
        reads = [one for one in task.clusters if self.tools[one.tool].reads]
        wanted: list[ExpectedInTask] = [
            (one, expected_arguments(one, self.rules)) for one in reads if not self.tools[one.tool].skipped
        ]
        if not wanted or any(len(one.calls) < task.runs for one in reads):
            return [[]]
        clusters = {one.tool: one for other in self.tasks for one in other.clusters if _hands_over(one.tool)}
        handed_over: list[list[ExpectedInTask]] = [[(one, {})] for one in clusters.values()]
        return [wanted, *handed_over]

    def _divided_otherwise(
        self, one: ExpectedInTask, lists: Sequence[list[ExpectedInTask]]
    ) -> list[list[ExpectedInTask]]:
        """Return the lists that have a call, with its list of values divided among several calls."""
        cluster, expected = one
        if cluster.tool not in self.divided:
            return []
        name, uneven = self.divided[cluster.tool]
        value = expected.get(name)
        bare = value["$unordered"] if is_mapping(value) and "$unordered" in value else value
        others = [[other for other in made if other is not one] for made in lists if one in made]
        found: list[list[ExpectedInTask]] = []
        for parts in in_parts(bare, uneven=uneven) if is_sequence(bare) else ():
            written = [{**value, "$unordered": part} if is_mapping(value) else part for part in parts]
            calls: list[ExpectedInTask] = [(replace(cluster), {**expected, name: part}) for part in written]
            found += [made + calls for made in others]
        return found


def _lists_of_runs(expected: Sequence[ExpectedInTask], runs: int) -> list[list[ExpectedInTask]]:
    """Return the calls that runs made of those that are expected, the most common list first."""
    lists = Counter(tuple(at for at, one in enumerate(expected) if run in one[0].calls) for run in range(runs))
    return [[expected[index] for index in made] for made, _ in lists.most_common()]


def infer(tasks: Sequence[task_runs.RecordedTask], hidden: frozenset[str] = frozenset()) -> InferredSet:
    """Infer goldens of tasks from their runs; of arguments named in `hidden` no value is written."""
    tasks = task_runs.taken_apart(tasks)
    reading = {call.name: call.reads for task in tasks for run in task.runs for call in run.calls}
    divided = divided_lists(tasks)
    clustered = [cluster_calls(task, divided) for task in tasks]
    rules = learn_arguments(clustered, {tool for tool, only in reading.items() if not only}, hidden)
    tools = {tool: _use(tool, clustered, rules, reads=only) for tool, only in sorted(reading.items())}
    return InferredSet(clustered, rules, tools, hidden, divided)


def of_one_task(inferred: InferredSet, task: task_runs.RecordedTask) -> InferredSet:
    """Return what the set says of the runs of one task alone."""
    return replace(inferred, tasks=[cluster_calls(task, inferred.divided)])


def _use(tool: str, tasks: Sequence[TaskCalls], rules: Mapping[Argument, LearnedRule], *, reads: bool) -> ToolUse:
    several = list(_of_several_runs(tool, tasks))
    runs = sum(count for count, _ in several)
    unsteady = sum(any(len(one.calls) < count for one in clusters) for count, clusters in several)
    if reads:
        calling = sum(len(frozenset[int]().union(*(one.calls for one in clusters))) for _, clusters in several)
        steady = len(several) >= _ENOUGH_TASKS and runs >= _ENOUGH_RUNS and not unsteady
        expected = steady and _is_predictable(several, rules)
        return ToolUse(tool, reads, len(several), unsteady, expected, skipped=calling < (1 - _SKIPPED) * runs)
    alone = sum(_is_left_out_alone(tool, task) for task in tasks)
    incidental = _is_incidental(len(several), unsteady, alone) or (
        _hands_over(tool) and (unsteady > 0 or runs < _ENOUGH_HAND_OVERS)
    )
    optional = not incidental and alone >= max(2, _OPTIONAL * len(several))
    return ToolUse(tool, reads, len(several), unsteady, not incidental, optional)


def _is_incidental(tasks: int, unsteady: int, alone: int) -> bool:
    """Whether runs leave a tool out in many of its tasks, or in each one and differ in nothing else."""
    return unsteady >= 2 and ((tasks >= _FEW_TASKS and unsteady > _INCIDENTAL * tasks) or alone == tasks)


def _is_left_out_alone(tool: str, task: TaskCalls) -> bool:
    """Whether two runs of a task differ in that one calls a tool, and in no other call that changes something."""
    made: defaultdict[frozenset[int], set[bool]] = defaultdict(set)
    for run in range(task.runs):
        of_run = [at for at, one in enumerate(task.clusters) if run in one.calls and not one.reads]
        others = frozenset(at for at in of_run if task.clusters[at].tool != tool)
        made[others].add(len(others) < len(of_run))
    return any(len(found) > 1 for found in made.values())


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
