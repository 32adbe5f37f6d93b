"""A comparison for people: the same sections as lines of a terminal, as Markdown and as an HTML page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from goldspan.collector_processor.replay.comparison_of_runs import ComparedRow, ComparedTask, Comparison, Movement
from goldspan.collector_processor.report.markdown import code_text, prose_text
from goldspan.scoring.pages import INFORMS, RIGHT, STYLES, UNKNOWN, WRONG, Page, cells, counted, listed, shorten

_MARKS = {
    Movement.IMPROVED: RIGHT,
    Movement.REGRESSED: WRONG,
    Movement.PERHAPS_IMPROVED: UNKNOWN,
    Movement.PERHAPS_REGRESSED: UNKNOWN,
    Movement.NOISE: INFORMS,
    Movement.SAME: " ",
}
_CLEAR = {Movement.IMPROVED: "better", Movement.REGRESSED: "worse"}
_MOST_ROWS = 20
_MOST_VALUES = 10
_MOST_TASKS = 12
_WIDEST = 44


class _Cell(NamedTuple):
    text: str
    is_code: bool = False  # text from telemetry


class _Section(NamedTuple):
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, tuple[_Cell, ...]], ...]  # a mark, and the cells after it
    left_out: int = 0


def conclusion(comparison: Comparison) -> str:
    """Return the sentence that a person takes along."""
    sums = (*comparison.overall, *comparison.metrics)
    first = next((row for row in sums if row.change in _CLEAR), next(iter(sums), None))
    if first is None:
        return "Nothing was evaluated on both sides"
    said = f"{_CLEAR.get(first.change, 'no clear difference')}: {first.name} {_shares(first)}"
    changed = [
        f"{kind.value}: {listed((f'{row.name} {_shares(row)}' for row in rows), 3)}"
        for kind in (Movement.REGRESSED, Movement.PERHAPS_REGRESSED, Movement.IMPROVED, Movement.PERHAPS_IMPROVED)
        if (rows := [row for row in comparison.arguments if row.change is kind])
    ]
    return "; ".join([said, *changed])


def _shares(row: ComparedRow) -> str:
    return f"{_percent(row.before)} -> {_percent(row.after)}"


def _percent(share: float) -> str:
    """Write a share as a percentage; 0 and 100 only where it is exactly that."""
    return f"{min(max(share * 100, 0.1), 99.9) if 0 < share < 1 else share * 100:.3g} %"


def _points(difference: float) -> str:
    return f"{difference * 100:+.1f}"


def _row(row: ComparedRow, *, is_code: bool = True) -> tuple[str, tuple[_Cell, ...]]:
    interval = "" if row.interval is None else f"{_points(row.interval.low)} to {_points(row.interval.high)}"
    moved = f"{row.fixed} / {row.broke}" if row.fixed or row.broke else ""
    texts = (_percent(row.before), _percent(row.after), _points(row.difference), interval, f"{row.tasks:,}", moved)
    words = "" if row.change is Movement.SAME else row.change.value
    return _MARKS[row.change], (_Cell(row.name, is_code), *map(_Cell, (*texts, words)))


_HEAD = ("", "before", "after", "points", "95 % interval", "tasks", "better / worse", "")


def _sections(comparison: Comparison, *, every: bool) -> Iterator[_Section]:
    yield _Section("", _HEAD, tuple(_row(row, is_code=False) for row in comparison.overall))
    for group, rows in comparison.groups.items():
        yield _Section(f"Of {group}", _HEAD, tuple(_row(row, is_code=False) for row in rows))
    for title, rows in (
        ("Arguments", comparison.arguments),
        ("Tools", comparison.tools),
        ("Metrics", comparison.metrics),
    ):
        shown = [row for row in rows if every or row.change is not Movement.SAME]
        most = len(shown) if every else _MOST_ROWS
        # Those that changed most stand at both ends: what fell, and what rose.
        kept = shown if len(shown) <= most else [*shown[: most // 2], *shown[-(most // 2) :]]
        if rows:
            same = len(rows) - len(kept)
            yield _Section(title, _HEAD, tuple(map(_row, kept)), same)
    if comparison.values:
        most = len(comparison.values) if every else _MOST_VALUES
        values = tuple(
            (
                RIGHT if one.is_right else WRONG,
                (
                    _Cell(one.argument, is_code=True),
                    _Cell(one.before, is_code=True),
                    _Cell(one.after, is_code=True),
                    _Cell(f"{one.times:,} x"),
                ),
            )
            for one in comparison.values[:most]
        )
        head = ("", "passed before", "passed after", "times")
        yield _Section("Values that changed", head, values, len(comparison.values) - len(values))


def _task_lists(comparison: Comparison) -> Iterator[tuple[str, str, Sequence[ComparedTask]]]:
    yield WRONG, "newly failing", comparison.newly_failing
    yield RIGHT, "fixed", comparison.fixed
    yield UNKNOWN, "still failing", comparison.still_failing
    yield INFORMS, f"only in {comparison.before}", comparison.only_before
    yield INFORMS, f"only in {comparison.after}", comparison.only_after


def _about(comparison: Comparison) -> str:
    if comparison.paired:
        tasks = next((row.tasks for row in comparison.overall), 0)
        return f"{counted(tasks, 'task')} on both sides, compared in pairs"
    return "no task is on both sides: compared as two samples"


def comparison_page(page: Page, comparison: Comparison, *, verbose: bool = False) -> None:
    """Add a comparison: the conclusion, the numbers, the values, then the tasks."""
    page.paragraph(f"{comparison.after}, compared with {comparison.before}: {_about(comparison)}")
    for section in _sections(comparison, every=verbose):
        page.blank()
        if section.title:
            page.line((section.title, "bold"))
        _table(page, section)
    page.blank()
    for mark, words, tasks in _task_lists(comparison):
        if tasks:
            names = listed(map(str, tasks), len(tasks) if verbose else _MOST_TASKS)
            page.paragraph(names, label=((mark, STYLES[mark]), f" {words}, {len(tasks):,}: "))
    page.blank()
    page.paragraph(f"{conclusion(comparison)}.")


def _table(page: Page, section: _Section) -> None:
    rows = [tuple(shorten(cell.text, _WIDEST) for cell in row) for _, row in section.rows]
    widths = [max(map(cells, column)) for column in zip(section.head, *rows, strict=True)]

    def padded(texts: Sequence[str]) -> str:
        return "  ".join(text + " " * (width - cells(text)) for text, width in zip(texts, widths, strict=True))

    if rows:
        page.line((f"  {padded(section.head)}", "dim"))
    for (mark, _), texts in zip(section.rows, rows, strict=True):
        page.line((mark, STYLES.get(mark, "")), f" {padded(texts)}")
    if section.left_out:
        page.line((_left_out(section), "dim"), indent=2)


def _left_out(section: _Section) -> str:
    return f"{counted(section.left_out, 'more row')}{', unchanged' if not section.rows else ''}; -v shows all"


def markdown_comparison(comparison: Comparison) -> str:
    """Return a comparison as Markdown, for a comment or a summary."""
    lines = [f"### {prose_text(conclusion(comparison))}", ""]
    lines += [prose_text(f"{comparison.after}, compared with {comparison.before}: {_about(comparison)}."), ""]
    for mark, words, tasks in _task_lists(comparison):
        if tasks:
            names = ", ".join(code_text(str(task)) for task in tasks[:_MOST_TASKS])
            more = f" and {len(tasks) - _MOST_TASKS} more" if len(tasks) > _MOST_TASKS else ""
            lines.append(f"- {mark} {prose_text(words)}, {len(tasks):,}: {names}{more}")
    for section in _sections(comparison, every=False):
        if section.rows:
            lines += ["", f"**{prose_text(section.title)}**", ""] if section.title else [""]
            lines += _markdown_table(section)
    return "\n".join(lines) + "\n"


def _markdown_table(section: _Section) -> Iterator[str]:
    yield f"| | {' | '.join(section.head)} |"
    yield f"|---{'|---' * len(section.head)}|"
    for mark, row in section.rows:
        yield f"| {mark} | {' | '.join(_markdown_cell(cell) for cell in row)} |"


def _markdown_cell(cell: _Cell) -> str:
    return code_text(shorten(cell.text, 3 * _WIDEST)) if cell.is_code and cell.text else prose_text(cell.text)


def html_comparison(comparison: Comparison) -> str:
    """Return a comparison as an HTML page of its own, which loads nothing."""
    # Imported where a page is made: most comparisons are read in a terminal.
    from goldspan.collector_processor.report.html import rendered  # noqa: PLC0415

    return rendered(
        "html_comparison.html",
        comparison=comparison,
        conclusion=conclusion(comparison),
        about=_about(comparison),
        lists=list(_task_lists(comparison)),
        sections=list(_sections(comparison, every=True)),
    )


RENDERERS: dict[str, Callable[[Comparison], str]] = {"markdown": markdown_comparison, "html": html_comparison}
"""The reports that are written to files."""
