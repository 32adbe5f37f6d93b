"""Which calls of several runs of a task are the same call: clusters, one call of each run at most."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

from goldspan.collector_processor.golden_tools.inference.matcher_ladder import is_surely_generated
from goldspan.collector_processor.golden_tools.inference.task_runs import Field, RecordedTask, SeenCall, bag_of
from goldspan.scoring.comparison import canonical
from goldspan.scoring.json_values import is_sequence
from goldspan.scoring.sessions import JsonValue


@dataclass(frozen=True, slots=True, eq=False)
class CallCluster:
    """A call of a task as its runs made it."""

    tool: str
    calls: Mapping[int, SeenCall]
    """By the number of the run in its task."""

    @property
    def reads(self) -> bool:
        """Whether its tool only reads."""
        return next(iter(self.calls.values())).reads

    def without(self, run: int) -> CallCluster:
        """Return the cluster without the call of one run."""
        return CallCluster(self.tool, {number: call for number, call in self.calls.items() if number != run})


@dataclass(frozen=True, slots=True, eq=False)
class TaskCalls:
    """The calls of a task."""

    task: RecordedTask
    clusters: Sequence[CallCluster]

    @property
    def runs(self) -> int:
        """How many runs were seen."""
        return len(self.task.runs)


def cluster_calls(task: RecordedTask, divided: DividedLists) -> TaskCalls:
    """Put the calls of a task's runs together, tool by tool, the most alike first.

    Calls of reading tools that share no argument are different calls; those that divide a list are one.
    """
    tools = dict.fromkeys(call.name for run in task.runs for call in run.calls)
    return TaskCalls(task, [one for tool in tools for one in _of_tool(task, tool, divided.get(tool))])


class DividedList(NamedTuple):
    """A list whose elements some runs pass in one call, and others in several."""

    field: Field
    uneven: bool
    """Some of several calls passed more than one element."""


DividedLists = Mapping[str, DividedList]
"""By tool."""


def divided_lists(tasks: Sequence[RecordedTask]) -> DividedLists:
    """Return the lists that runs of one task divide among calls in several ways, with the same elements in all."""
    found: dict[str, DividedList] = {}
    for task in tasks:
        for tool in dict.fromkeys(call.name for run in task.runs for call in run.calls if not call.reads):
            of_runs = [calls for run in task.runs if (calls := [call for call in run.calls if call.name == tool])]
            for field in _divided_fields(of_runs):
                known = tool in found and found[tool].uneven
                found[tool] = DividedList(field, known or any(_is_uneven(calls, field) for calls in of_runs))
    return found


def _divided_fields(of_runs: Sequence[Sequence[SeenCall]]) -> list[Field]:
    """Return the lists of a tool's calls that runs which call it more or less often divide among their calls."""
    if len(set(map(len, of_runs))) < 2:
        return []
    fields = frozenset[Field].intersection(*(frozenset(call.args) for calls in of_runs for call in calls))
    return [field for field in sorted(fields) if _is_divided(of_runs, field)]


def _is_uneven(calls: Sequence[SeenCall], field: Field) -> bool:
    return len(calls) > 1 and any(len(call.args[field]) > 1 for call in calls)


def _is_divided(of_runs: Sequence[Sequence[SeenCall]], field: Field) -> bool:
    if not all(is_sequence(call.args[field]) for calls in of_runs for call in calls):
        return False
    bags = {bag_of([one for call in calls for one in call.args[field]]) for calls in of_runs}
    return len(bags) == 1 and all(len(_joined(calls, field)) == 1 for calls in of_runs)


def _joined(calls: Sequence[SeenCall], field: Field) -> list[SeenCall]:
    """Return the calls of a run, as one where they differ in a list alone; ids made anew are no difference."""
    joined: dict[object, SeenCall] = {}
    for call in calls:
        others = [
            (name, canonical(value))
            for name, value in sorted(call.args.items())
            if name != field and not (isinstance(value, str) and is_surely_generated(value))
        ]
        first = joined.setdefault(tuple(others), call)
        if first is not call:
            joined[tuple(others)] = replace(first, args={**first.args, field: [*first.args[field], *call.args[field]]})
    return list(joined.values())


def in_parts(value: Sequence[JsonValue], *, uneven: bool) -> Iterator[list[list[JsonValue]]]:
    """Yield ways to divide a list among several calls: each element for itself, and in two parts.

    The two parts are all there are of a list of three, and of a longer one, up to six, if some run divided one so.
    """
    if len(value) == _SHORT_LIST or (uneven and _SHORT_LIST < len(value) <= _LONG_LIST):
        whole = range(len(value))
        for size in range(1, len(value) // 2 + 1):
            for part in combinations(whole, size):
                if 2 * size < len(value) or 0 in part:
                    yield [[value[at] for at in part], [value[at] for at in whole if at not in part]]
    if len(value) > 1:
        yield [[one] for one in value]


_SHORT_LIST, _LONG_LIST = 3, 6


def _of_tool(task: RecordedTask, tool: str, divided: DividedList | None) -> Iterator[CallCluster]:
    of_runs = [[call for call in run.calls if call.name == tool] for run in task.runs]
    if divided is not None:
        of_runs = [_joined(calls, divided.field) for calls in of_runs]
    keys = {id(call): _keys(call) for calls in of_runs for call in calls}
    clusters: list[dict[int, SeenCall]] = []

    def alike(call: SeenCall, cluster: Mapping[int, SeenCall]) -> float:
        return max(_alike(keys[id(call)], keys[id(other)]) for other in cluster.values())

    # The longest list first, so that the others find their partners in it.
    for number, calls in sorted(enumerate(of_runs), key=lambda one: (-len(one[1]), one[0])):
        pairs = sorted(
            (-alike(call, cluster), abs(mine - its), mine, its)
            for mine, call in enumerate(calls)
            for its, cluster in enumerate(clusters)
        )
        placed = _best_first(pairs[: bisect_left(pairs, (0,))] if calls and calls[0].reads else pairs)
        for mine, its in placed.items():
            clusters[its][number] = calls[mine]
        clusters += [{number: call} for mine, call in enumerate(calls) if mine not in placed]
    return (CallCluster(tool, calls) for calls in clusters)


def _best_first(pairs: Sequence[tuple[float, int, int, int]]) -> dict[int, int]:
    """Return the cluster of each call, of pairs of a call and a cluster, the best first."""
    placed: dict[int, int] = {}
    for _alike, _apart, mine, its in pairs:
        if mine not in placed and its not in placed.values():
            placed[mine] = its
    return placed


def _keys(call: SeenCall) -> dict[tuple[str, ...], object]:
    return {field: bag_of(value) if is_sequence(value) else canonical(value) for field, value in call.args.items()}


def _alike(one: Mapping[tuple[str, ...], object], other: Mapping[tuple[str, ...], object]) -> float:
    """Return the share of the arguments that both calls have with one value."""
    names = one.keys() | other.keys()
    return sum(name in one and name in other and one[name] == other[name] for name in names) / (len(names) or 1)
