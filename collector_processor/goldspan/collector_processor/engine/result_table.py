"""Results as a tidy table: one row for each session, turn, call and argument, and metric.

`result_rows` makes plain tuples. `arrow_schema` and `arrow_batch` need the extra `parquet`. Users depend on the names,
types and order of the columns.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, get_args, get_type_hints

from goldspan.collector_processor.emit.evaluation import Evaluation, Level, tool_name
from goldspan.collector_processor.engine.result_revisions import evaluations_of
from goldspan.scoring.errors import SettingsError
from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.json_values import plain, pointer_name
from goldspan.scoring.results import ArgumentOutcome, ArgumentResult, CallResult, SessionResult
from goldspan.scoring.run import ScoringResult, verdict_document
from goldspan.scoring.sessions import ToolCall
from goldspan.scoring.verdict import MAIN_METRIC, REASON_OF_CAPTURE, Finding, Label, MetricCall, Reason

TABLE_SUFFIXES = (".parquet", ".arrow")
"""How the names of files with a table end."""
ARGUMENT_LEVEL = "argument"
"""The level below those of evaluations: `session`, `turn`, `call`."""


class ResultRow(NamedTuple):
    """One row of the table. All text can be encoded as UTF-8."""

    level: str
    """`session`, `turn`, `call` or `argument`: each score is in the table once at its own level."""
    session: str | None
    """None for a golden that was never seen."""
    run: str | None
    """Tells the runs of one session id apart."""
    turn: int | None
    """Position of the golden's turn, from 0; of the actual turn if the golden has none for it; None for a session, and
    for turns that were scored as one."""
    call: int | None
    """Position among the calls that the turn made, from 0; None for an expected call that was not made."""
    expected_call: int | None
    """Position among the golden's calls of the turn, from 0; None for a call that is not expected."""
    argument: str | None
    """The argument's name, or a place in it: `items[0].id`; empty where a metric means the call as a whole."""
    metric: str
    score: float | None
    """None if nothing was evaluated."""
    label: str | None
    """`pass`, `fail`, `not_evaluated`; None if nothing is judged."""
    reason: str | None
    """Why it was not evaluated."""
    outcome: str | None
    """Call: `aligned`, `missing`, `unexpected`, `forbidden`. Argument: `matched`, `mismatched`, `missing`, `unknown`,
    `ignored`, `extra`; for other metrics what they found, such as `missing_required`."""
    explanation: str | None
    """Names and counts, never values of arguments."""
    tool: str | None
    """The expected tool, else the called one."""
    tool_call_id: str | None
    agent: str | None
    golden: str | None
    golden_set: str | None
    """`name@version`."""
    golden_digest: str | None
    """Digest of the content of the golden set."""
    criterion: str | None
    """Scores of different criteria must not be averaged."""
    preset: str | None
    service: str | None
    """`service.name`; the two below are `service.version` and `deployment.environment.name`."""
    service_version: str | None
    environment: str | None
    trace_id: str | None
    """With `span_id` the evaluated span: of the call, of the turn's root, of the session's last turn."""
    span_id: str | None
    ended: datetime | None
    """When that span ended, in UTC, in microseconds."""
    incomplete: bool
    """A limit or a timeout affected the run."""
    result_id: str | None
    """The id of the result in every output; an argument has its call's. None where nothing is emitted: a golden that
    was never seen, a session without golden."""
    attributes: str | None
    """The attributes of the session that were asked for, as a JSON object; None where it has none of them."""
    expected: str | None
    """The value that the golden expects of an argument, as JSON; None unless values are included."""
    actual: str | None
    """The value that was passed, as JSON; None unless values are included, and where none was passed."""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JUDGED = {
    ArgumentOutcome.MATCHED: Label.PASS,
    ArgumentOutcome.MISMATCHED: Label.FAIL,
    ArgumentOutcome.MISSING: Label.FAIL,
    ArgumentOutcome.UNKNOWN: Label.NOT_EVALUATED,
}


def result_rows(result: SessionResult, *, include_values: bool = False) -> Iterator[ResultRow]:
    """Yield the rows of a complete run: each level by the golden, then each metric."""
    session = result.session
    text = _json(session.attributes) if session is not None and session.attributes else None
    for row in _rows(result, include_values=include_values):
        yield row if text is None else row._replace(attributes=text)


def _rows(result: SessionResult, *, include_values: bool) -> Iterator[ResultRow]:
    if result.session is None:
        if result.golden is not None:
            yield from never_seen_rows([result.golden])
        return
    if result.golden is None and (result.has_golden or not result.metrics):
        session = result.session
        yield _EMPTY._replace(
            session=plain(session.id),
            run=plain(session.run),
            metric=result.metric,
            criterion=result.criterion or None,
            preset=result.preset,
            incomplete=session.incomplete,
            **verdict_document(result.verdict),
        )
    for evaluation in evaluations_of(result, complete=True):
        yield from evaluation_rows(evaluation, include_values=include_values)


def evaluation_rows(evaluation: Evaluation, *, include_values: bool = False) -> Iterator[ResultRow]:
    """Yield the row of an evaluation and, for a call, those of its arguments."""
    row, detail = _row(evaluation), evaluation.detail
    match detail:
        case CallResult():
            made = detail.actual if detail.aligned or detail.unexpected else None
            row = row._replace(
                call=None if made is None else detail.actual_index,
                expected_call=detail.expected_index,
                outcome=_outcome(detail),
                tool=plain(tool_name(detail)),
                tool_call_id=None if made is None else plain(made.call_id),
            )
            yield row
            for argument in detail.arguments:
                one = _argument_row(row, argument, detail)
                yield _with_values(one, argument) if include_values else one
            label = Label.FAIL.value if detail.extra_arguments_count else None
            bare = _argument_of(row)
            for name in detail.extra_arguments:
                yield bare._replace(argument=plain(name), label=label, outcome="extra")
        case MetricCall(call=call):
            row = row._replace(call=detail.call_index, tool=plain(call.name), tool_call_id=plain(call.call_id))
            yield row
            for finding in detail.findings:
                yield _finding_row(row, finding)
        case _:
            yield row


def _row(evaluation: Evaluation) -> ResultRow:
    target = evaluation.target
    return _EMPTY._replace(
        level=evaluation.level.value,
        session=plain(evaluation.session_id),
        run=plain(evaluation.run),
        turn=evaluation.turn_index,
        metric=evaluation.metric,
        **verdict_document(evaluation.verdict),
        explanation=plain(evaluation.explanation) or None,
        agent=plain(evaluation.agent),
        golden=plain(evaluation.golden) or None,
        golden_set=plain(evaluation.golden_set) or None,
        golden_digest=evaluation.golden_digest or None,
        criterion=evaluation.criterion or None,
        preset=evaluation.preset,
        service=plain(evaluation.resource.service_name),
        service_version=plain(evaluation.resource.service_version),
        environment=plain(evaluation.resource.environment),
        trace_id=None if target is None else target.trace_id,
        span_id=None if target is None else target.span_id,
        ended=_time(evaluation.timestamp),
        incomplete=evaluation.incomplete,
        result_id=evaluation.id,
    )


def never_seen_rows(goldens: Iterable[Golden]) -> Iterator[ResultRow]:
    """Yield a row for each golden of which no session was seen."""
    for golden in goldens:
        reason = Reason.GOLDEN_NEVER_SEEN.value
        yield _EMPTY._replace(
            golden=plain(golden.key),
            golden_set=plain(golden.golden_set),
            golden_digest=golden.digest or None,
            reason=reason,
        )


def run_rows(run: ScoringResult, *, include_values: bool = False) -> Iterator[ResultRow]:
    """Yield the rows of all sessions, in the order of the run, then those of goldens that were never seen."""
    for result in run.sessions:
        yield from result_rows(result, include_values=include_values)
    yield from never_seen_rows(run.never_seen)


def arrow_schema() -> Any:
    """Return the columns as a `pyarrow.Schema`. Raises SettingsError without the extra `parquet`."""
    pa = _pyarrow()
    kinds: dict[type, Any] = {
        str: pa.string(),
        int: pa.int32(),
        float: pa.float64(),
        bool: pa.bool_(),
        datetime: pa.timestamp("us", tz="UTC"),
    }
    return pa.schema(
        [pa.field(name, kinds[kind], nullable=nullable) for name, (kind, nullable) in COLUMNS.items()],
    )


def arrow_batch(rows: Sequence[ResultRow]) -> Any:
    """Return rows as one `pyarrow.RecordBatch`. Raises SettingsError without the extra `parquet`."""
    pa = _pyarrow()
    schema = arrow_schema()
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def arrow_table(result: ScoringResult | SessionResult) -> Any:
    """Return the rows of a result as a `pyarrow.Table`. Raises ImportError without the extra `parquet`."""
    _need("to_arrow()", "pyarrow", "parquet")
    rows = run_rows(result) if isinstance(result, ScoringResult) else result_rows(result)
    return _pyarrow().Table.from_batches([arrow_batch(list(rows))])


def data_frame(result: ScoringResult | SessionResult) -> Any:
    """Return the rows of a result as a `pandas.DataFrame`. Raises ImportError without the extra `pandas`."""
    for module in ("pandas", "pyarrow"):
        _need("to_pandas()", module, "pandas")
    table, integers = arrow_table(result), import_module("pandas").Int32Dtype()
    # Otherwise positions become floats, since some are null.
    return table.to_pandas(types_mapper={_pyarrow().int32(): integers}.get)


def _need(method: str, module: str, extra: str) -> None:
    if find_spec(module) is None:
        raise ImportError(f"{method} needs {module}: pip install 'goldspan[{extra}]'", name=module)


def _pyarrow() -> Any:
    if find_spec("pyarrow") is None:
        raise SettingsError("tables of results need pyarrow: pip install 'goldspan[parquet]'")
    return import_module("pyarrow")


def _columns() -> dict[str, tuple[type, bool]]:
    columns: dict[str, tuple[type, bool]] = {}
    for name, hint in get_type_hints(ResultRow).items():
        nullable = isinstance(hint, types.UnionType)
        columns[name] = get_args(hint)[0] if nullable else hint, nullable
    return columns


COLUMNS = _columns()
"""The type of each column, and whether it may be null, in order."""

_OF_A_SESSION = {
    "level": Level.SESSION.value,
    "metric": MAIN_METRIC,
    "label": Label.NOT_EVALUATED.value,
    "incomplete": False,
}
_EMPTY = ResultRow._make(_OF_A_SESSION.get(name) for name in COLUMNS)


def _outcome(call: CallResult) -> str:
    if call.violates is not None:
        return "forbidden"
    return "unexpected" if call.unexpected else "missing" if call.missing else "aligned"


def _argument_of(row: ResultRow) -> ResultRow:
    return row._replace(
        level=ARGUMENT_LEVEL, argument="", score=None, label=None, reason=None, outcome=None, explanation=None
    )


def _argument_row(row: ResultRow, argument: ArgumentResult, call: CallResult) -> ResultRow:
    label = _JUDGED.get(argument.outcome)
    reason = _why_unknown(argument, call) if label is Label.NOT_EVALUATED else None
    return _argument_of(row)._replace(
        argument=plain(argument.name),
        score=argument.score,
        label=None if label is None else label.value,
        reason=None if reason is None else reason.value,
        outcome=argument.outcome.value,
    )


def _json(value: object) -> str:
    return json.dumps(plain(value), ensure_ascii=False)


def _with_values(row: ResultRow, argument: ArgumentResult) -> ResultRow:
    passed = argument.outcome in {ArgumentOutcome.MATCHED, ArgumentOutcome.MISMATCHED}
    actual = _json(argument.actual_value) if passed else None
    return row._replace(expected=_json(argument.expected_value), actual=actual)


def _why_unknown(argument: ArgumentResult, call: CallResult) -> Reason | None:
    made: ToolCall | None = call.actual
    if made is None:
        return call.verdict.reason
    hidden = made.argument_captures.get(argument.name, made.capture)
    return REASON_OF_CAPTURE.get(hidden, call.verdict.reason)


def _finding_row(row: ResultRow, finding: Finding) -> ResultRow:
    return _argument_of(row)._replace(
        argument=plain(pointer_name(finding.path)),
        label=Label.FAIL.value if finding.failed else None,
        outcome=finding.kind,
        explanation=plain(finding.message) or None,
    )


def _time(nanoseconds: int) -> datetime | None:
    """Return the time; None if it is not known, or no time that a table can hold."""
    if nanoseconds <= 0:
        return None
    try:
        return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    except OverflowError:
        return None
