"""How readers report what they could not use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from goldspan.scoring.errors import Problem

OnProblem = Callable[[Problem], object]
"""Called once for each problem. The return value is ignored."""

BAD_JSON = "bad_json"
"""A line or a document is not JSON, or ends too early."""
BAD_SPAN = "bad_span"
"""A value that should be a span is not, or part of a span has a wrong type."""
BAD_RECORD = "bad_record"
"""A value is not a span and cannot hold spans."""
BAD_PROTOBUF = "bad_protobuf"
"""A message of a protobuf file is broken or cut off."""
BAD_STREAM = "bad_stream"
"""A file cannot be read, or decompressed, to its end."""
NO_RECORD = "no_record"
"""A file of a directory looks like a trace file and holds no span."""


def describe(value: object) -> str:
    """Describe a value for messages: its JSON type, and the value of a short text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, int | float):
        return f"a number of type {type(value).__name__}"
    if isinstance(value, str):
        return f"the string {value!r}" if len(value) <= 40 else f"a string of {len(value)} characters"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return f"a {type(value).__name__}"


MAX_LISTED = 1000
"""Problems of one code that are listed. A file of an application's log has one in each line."""

_NOT_LISTED = " more of these are not listed"


class ProblemList(list[Problem]):
    """The first problems of each code, and behind them one that says how many more there were.

    For a list of lists, such as those of the parts of a file, it is the same as for all their problems in a row.
    """

    def __init__(self) -> None:
        super().__init__()
        self._listed = Counter[str]()
        self._more: dict[str, int] = {}
        """By code. The problems that say so are the last of the list."""

    def append(self, problem: Problem) -> None:
        """Add a problem, or count it."""
        if self._listed[problem.code] < MAX_LISTED:
            self._listed[problem.code] += 1
            self.insert(len(self) - len(self._more), problem)
        else:
            self._count(problem.code, 1)

    def listed(self) -> Iterator[Problem]:
        """Yield the problems without those that count others."""
        return iter(self[: len(self) - len(self._more)])

    def count_more(self, other: ProblemList) -> None:
        """Count what another list counts."""
        for code, count in other._more.items():
            self._count(code, count)

    def copy(self) -> ProblemList:
        """Return a list with the same problems and counts."""
        other = ProblemList()
        other += self
        vars(other).update(_listed=self._listed.copy(), _more=self._more.copy())
        return other

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self._listed.clear()
        self._more.clear()

    def _count(self, code: str, count: int) -> None:
        said = len(self._more)
        self._more[code] = self._more.get(code, 0) + count
        self[len(self) - said :] = [Problem(one, f"{more:,}{_NOT_LISTED}") for one, more in sorted(self._more.items())]


def number_of_problems(text: str) -> int:
    """Return how many problems the text of a listed one stands for."""
    return int(text.removesuffix(_NOT_LISTED).replace(",", "")) if text.endswith(_NOT_LISTED) else 1
