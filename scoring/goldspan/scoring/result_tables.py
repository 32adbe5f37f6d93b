"""The tables of results that notebooks show: `_repr_html_`."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from goldspan.scoring.json_values import shown, shown_name
from goldspan.scoring.metric_results import MetricVerdict
from goldspan.scoring.result_lines import brief, failures_first, headline_of_run, text_of_result
from goldspan.scoring.result_words import session_name
from goldspan.scoring.results import (
    ArgumentOutcome,
    CallResult,
    Readable,
    SessionResult,
    TurnResult,
    explain,
    turn_name,
)
from goldspan.scoring.run import ScoringResult
from goldspan.scoring.verdict import REASON_TEXT, Label, Reason, Verdict

_CALL_COLUMNS = ("session", "turn", "call", "label", "score", "explanation")
_ARGUMENT_COLUMNS = ("argument", "outcome", "expected", "actual")

_MAX_ROWS = 200
_JUDGED_COLUMNS = {"label", "outcome"}
_WRAPPED_COLUMNS = {"explanation", "expected", "actual"}
_RED, _YELLOW = "#d32f2f", "#8a6d00"
_ROW_COLOURS = {
    "fail": _RED,
    "mismatched": _RED,
    "missing": _RED,
    "not_evaluated": _YELLOW,
    "unknown": _YELLOW,
}
"""The colours of rows by label or outcome, readable on light and dark pages."""


def html_of_result(result: Readable) -> str:
    """Return the table of a result: of a run, a session or a turn a row for each call, of a call for each argument."""
    if isinstance(result, CallResult):
        return _html_table(text_of_result(result), _ARGUMENT_COLUMNS, _argument_rows(result))
    if isinstance(result, ScoringResult):
        rows = [row for session in failures_first(result.sessions) for row in _session_rows(session)]
        unseen = (Label.NOT_EVALUATED.value, "", REASON_TEXT[Reason.GOLDEN_NEVER_SEEN])
        rows += [(shown_name(golden.key), "", "", *unseen) for golden in result.never_seen]
        return _html_table(headline_of_run(result), _CALL_COLUMNS, rows)
    # The line above the table names the session.
    if isinstance(result, SessionResult):
        return _html_table(brief(result), _CALL_COLUMNS, _session_rows(result, named=False))
    return _html_table(brief(result), _CALL_COLUMNS, _call_rows("", result) if isinstance(result, TurnResult) else [])


def _call_rows(session: str, turn: TurnResult) -> list[tuple[str, ...]]:
    """Return the table rows of a turn: a row for each call, or a row for a turn without calls."""
    head = (session, turn_name(turn))
    if not turn.calls and not turn.unexpected_calls:
        return [(*head, "", *_label_and_score(turn.verdict), explain(turn))]
    return [
        (*head, shown_name(call.tool), *_label_and_score(call.verdict), explain(call, include_values=True))
        for call in (*turn.calls, *turn.unexpected_calls)
    ]


def _session_rows(result: SessionResult, *, named: bool = True) -> list[tuple[str, ...]]:
    """Return the table rows of a session: for each call, or for a session without turns; for metrics that fail."""
    name = session_name(result) if named else ""
    rows = [row for turn in result.turns for row in _call_rows(name, turn)]
    rows = rows or [(name, "", "", *_label_and_score(result.verdict), explain(result))]
    return rows + [
        (name, "", "", *_label_and_score(one.verdict), f"{one.name}: {found}")
        for one in result.metrics
        if one.label not in {None, Label.PASS}
        and (found := one.verdict.detailed or one.verdict.explanation or "no score")
    ]


def _argument_rows(call: CallResult) -> list[tuple[str, ...]]:
    passed = (ArgumentOutcome.MATCHED, ArgumentOutcome.MISMATCHED)
    return [
        (
            argument.name,
            argument.outcome.value,
            shown(argument.expected_value),
            shown(argument.actual_value) if argument.outcome in passed else "",
        )
        for argument in call.arguments
    ]


def _label_and_score(verdict: Verdict | MetricVerdict) -> tuple[str, str]:
    return "" if verdict.label is None else verdict.label.value, "" if verdict.score is None else f"{verdict.score:.3g}"


def _html_table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table for notebooks, without columns that are empty; all text is escaped."""
    used = [at for at, _ in enumerate(columns) if not rows or any(row[at] for row in rows)]
    judged = next(at for at, name in enumerate(columns) if name in _JUDGED_COLUMNS)

    def row(cells: Sequence[str], tag: str, colour: str = "inherit") -> str:
        style = f"text-align:left;vertical-align:top;color:{colour};white-space:"
        wraps = {at: "normal" if columns[at] in _WRAPPED_COLUMNS else "nowrap" for at in used}
        inner = (f"<{tag} style='{style}{wraps[at]}'>{escape(cells[at])}</{tag}>" for at in used)
        return f"<tr>{''.join(inner)}</tr>"

    body = "".join(row(cells, "td", _ROW_COLOURS.get(cells[judged], "inherit")) for cells in rows[:_MAX_ROWS])
    more = f"<p>and {len(rows) - _MAX_ROWS} more</p>" if len(rows) > _MAX_ROWS else ""
    table = f"<table><thead>{row(columns, 'th')}</thead><tbody>{body}</tbody></table>"
    return f"<div><p>{escape(caption)}</p>{table}{more}</div>"
