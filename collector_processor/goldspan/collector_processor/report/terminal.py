"""The report as lines for a terminal, a pipe or a log. JUnit and Markdown show sessions in these lines too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from goldspan.collector_processor.replay.hints import Hint
from goldspan.collector_processor.replay.summary_and_exit_code import MetricTotals, listed_counts
from goldspan.collector_processor.report.model import Report
from goldspan.mappers.readers.problems import number_of_problems
from goldspan.scoring import pages
from goldspan.scoring.ranked_findings import SYSTEMATIC_WORDS, RankedFindings
from goldspan.scoring.result_lines import add_headline, add_repeats, add_session
from goldspan.scoring.result_words import SessionWords
from goldspan.scoring.verdict import Label

_PIPED_WIDTH = 100
_MOST_SHOWN = {Label.FAIL: 20, Label.NOT_EVALUATED: 20, Label.PASS: 10}
_MOST_REGRESSIONS = 20
_MOST_FINDINGS, _MOST_PLACES = 12, 2
_LABEL = 12
_ASCII = str.maketrans(
    {pages.RIGHT: "P", pages.WRONG: "F", "…": "...", pages.INFORMS: "-", "─": "-", "┌": "/", "│": "|", "└": "\\"}
)


def page_width(console: Console) -> int:
    """Return the terminal's width; where there is none, what a log has room for and a person can still read."""
    return console.width if console.is_terminal else _PIPED_WIDTH


def print_page(console: Console, page: pages.Page) -> None:
    """Print the lines as they are: long ids run over instead of being broken."""
    encodes_all = console.encoding.lower().startswith("utf")
    for line in page.lines:
        if encodes_all:
            text = Text.assemble(*((pages.text_of(part), "" if isinstance(part, str) else part[1]) for part in line))
            text.rstrip()
            console.print(text, soft_wrap=True)
        else:
            console.print(pages.plain_line(line).translate(_ASCII), soft_wrap=True, markup=False, highlight=False)


def report_page(page: pages.Page, report: Report, *, verbose: bool = False, next_step: str = "") -> None:
    """Add a report: failed sessions first, then those not evaluated, then those that passed, then the sums.

    `next_step` is what to do about sessions that failed, where the run did.
    """
    for label in pages.WORST_FIRST:
        _sessions(page, label, report.sessions, _MOST_SHOWN[label], verbose=verbose)
        page.blank()
    for label in pages.WORST_FIRST:
        # Without golden, those in which nothing was found are shown only if all are asked for.
        most = _MOST_SHOWN[label] if label is Label.FAIL else 0
        _sessions(page, label, report.without_golden, most, verbose=verbose)
    finding_rows(page, report.findings, verbose=verbose)
    page.blank()
    add_repeats(page, report.repeats)
    _sums(page, report, verbose=verbose)
    hint_rows(page, report.hints)
    page.blank()
    page.paragraph(report.because, label=f"{report.mark} {report.word}: ", style=pages.STYLES[report.mark])
    if any(one.failed for one in report.sessions) and next_step:
        page.line(next_step)


def finding_rows(page: pages.Page, findings: RankedFindings, *, verbose: bool = False) -> None:
    """Add what metrics found: what few sessions have, the worst and rarest first, then what most have, in a block."""
    if findings.rare:
        page.blank()
        page.line(("findings, the rarest and worst first", "bold"))
    shown = findings.rare if verbose else findings.rare[:_MOST_FINDINGS]
    for one in shown:
        page.line((f"{pages.WRONG} ", pages.STYLES[pages.WRONG]), (one.name, "bold"), (f"  in {one.share}", "dim"))
        for place in one.places if verbose else one.places[:_MOST_PLACES]:
            page.paragraph(
                pages.printable(place.finding.words(include_values=True)), label=f"{place.words}  ", indent=4
            )
        if not verbose and len(one.places) > _MOST_PLACES:
            page.line((f"… and {len(one.places) - _MOST_PLACES:,} more; -v shows all", "dim"), indent=4)
    if len(shown) < len(findings.rare):
        page.line((f"… and {pages.counted(len(findings.rare) - len(shown), 'more finding')}; -v shows all", "dim"))
    if findings.systematic:
        page.blank()
        page.line(("systematic", "bold"), (f": {SYSTEMATIC_WORDS}", "dim"))
    for one in findings.systematic:
        page.paragraph(f"in {one.share}: {one.settled_by}", label=f"{pages.INFORMS} {one.name}  ")


def scoreboard(page: pages.Page, report: Report, *, verbose: bool = False) -> None:
    """Add a line for each session that did not pass, with `verbose` for each one, then the sums."""
    for session in report.worst_first():
        if verbose or session.failed or session.label is not Label.PASS:
            add_headline(page, session)
    add_repeats(page, report.repeats)
    _sums(page, report, verbose=verbose)


def _sums(page: pages.Page, report: Report, *, verbose: bool) -> None:
    page.blank()
    whole = {"mistakes": report.totals.mistakes, "findings": report.totals.findings} if verbose else {}
    for name, text in report.summary:
        counts = whole.get(name, ())
        every = listed_counts(counts, len(counts))
        page.paragraph(every or text, label=f"{name:<{_LABEL}}")
    metric_rows(page, report.metrics)
    problem_rows(page, report.problems, label=_LABEL)
    _regressions(page, report.regressions)
    if report.fixed:
        page.paragraph(pages.listed(report.fixed), label=f"{'fixed':<{_LABEL}}")
    if report.known_failures:
        page.paragraph(pages.listed(sorted(report.known_failures)), label=f"{'as before':<{_LABEL}}")


def problem_rows(page: pages.Page, problems: Sequence[tuple[str, str]], *, label: int) -> None:
    """Add what could not be read: counts by code, and the first of each; `label` is the width of the label column."""
    if not problems:
        return
    counts = Counter[str]()
    for code, text in problems:
        counts[code] += number_of_problems(text)
    text = ", ".join(f"{code} {count:,}" for code, count in counts.most_common())
    page.paragraph(text, label=f"{'problems':<{label}}")
    shown: Counter[str] = Counter()
    for code, text in problems:
        shown[code] += 1
        if shown[code] <= 2 and shown.total() <= 8:
            page.line((pages.shorten(text, max(page.width - label, 60)), "dim"), indent=label)


def hint_rows(page: pages.Page, hints: Iterable[Hint]) -> None:
    """Add what to do: pairs of what was seen and what helps."""
    for index, (seen, helps) in enumerate(hints):
        if index == 0:
            page.blank()
            page.line(("what to do", "bold"))
        page.paragraph(f"{seen}: {helps}" if seen else helps, label="- ", indent=2)


def metric_rows(page: pages.Page, metrics: Sequence[MetricTotals]) -> None:
    """Add a table of the metrics that need no golden: their scores, and what became of the calls."""
    if not metrics:
        return
    width = max(len(one.name) for one in metrics)
    page.blank()
    page.line((f"  {'without goldens':<{width}}  score  passed  failed  not evaluated", "bold"))
    for one in metrics:
        mark = pages.MARKS[one.label]
        words = f"{one.gaps:,}" + (f": {one.reasons}" if one.reasons else "")
        head = (
            (f"{mark} ", pages.STYLES[mark]),
            f"{one.name:<{width}}  {pages.number_text(one.score):>5}  {one.passed:>6,}  ",
            (f"{one.failed:>6,}", pages.STYLES[pages.WRONG] if one.failed and one.label is Label.FAIL else ""),
            "  ",
        )
        page.paragraph(words, label=head, style="" if one.gaps else "dim")
    units = [pages.counted(sum((one.passed, one.failed, one.gaps)), one.unit) for one in metrics]
    informing = [one.name for one in metrics if one.label is None]
    inform = f"; {pages.listed(informing) if len(informing) < len(metrics) else 'all'} only inform" if informing else ""
    page.line((f"  of {max(units, key=len)}{inform}", "dim"))


def _regressions(page: pages.Page, regressions: Sequence[str]) -> None:
    if not regressions:
        return
    page.blank()
    page.line(("regressed", "bold"))
    for regression in regressions[:_MOST_REGRESSIONS]:
        page.paragraph(regression, label="- ", indent=2)
    if len(regressions) > _MOST_REGRESSIONS:
        page.line(f"… and {len(regressions) - _MOST_REGRESSIONS:,} more", indent=2)


def _sessions(page: pages.Page, label: Label, sessions: Iterable[SessionWords], most: int, *, verbose: bool) -> None:
    """Add the sessions with a label; `most` of them, or with `verbose` all."""
    of_label = [one for one in sessions if one.label is label]
    if label is Label.PASS and of_label and of_label[0].has_golden:
        of_label.sort(key=lambda one: (not one.failed, one.score == 1))
    most = len(of_label) if verbose else most
    for session in of_label[:most]:
        if verbose or label is not Label.PASS:
            page.blank()
        add_session(page, session, verbose=verbose)
    if most and len(of_label) > most:
        rest = pages.counted(len(of_label) - most, "more session")
        page.line((f"… and {rest} {pages.LABEL_WORDS[label]}; -v shows all", "dim"))
