"""What every page ends with: what could not be read, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from goldspan.collector_processor.report.layout import Page
from goldspan.collector_processor.report.values import printable, shorten
from goldspan.scoring.errors import Problem


def problem_rows(page: Page, problems: Sequence[Problem], *, label: int) -> None:
    """Add what could not be read: counts by code, and the first of each; `label` is the width of the label column."""
    if not problems:
        return
    counts = Counter(problem.code for problem in problems)
    text = ", ".join(f"{code} {count:,}" for code, count in counts.most_common())
    page.paragraph(text, label=f"{'problems':<{label}}")
    shown: Counter[str] = Counter()
    for problem in problems:
        shown[problem.code] += 1
        if shown[problem.code] <= 2 and shown.total() <= 8:
            page.line((shorten(printable(str(problem)), max(page.width - label, 60)), "dim"), indent=label)


def advice_rows(page: Page, lines: Iterable[tuple[str, str]]) -> None:
    """Add what to do: pairs of what was seen and what helps."""
    for index, (seen, helps) in enumerate(dict.fromkeys(lines)):
        if index == 0:
            page.blank()
            page.line(("what to do", "bold"))
        page.paragraph(f"{seen}: {helps}" if seen else helps, label="- ", indent=2)
