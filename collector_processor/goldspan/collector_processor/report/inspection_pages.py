"""What `goldspan inspect` and `goldspan dialects` print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goldspan.collector_processor.replay.dialect_proposals import ShapedTools
from goldspan.collector_processor.replay.hints import advice_of, advice_words
from goldspan.collector_processor.replay.inspection import MOST_CALLS_EXPLAINED, CallOrigins, Inspection, user_text
from goldspan.collector_processor.report.model import problem_texts
from goldspan.collector_processor.report.terminal import hint_rows, problem_rows
from goldspan.mappers.assembly.turn_fragments import DEFAULT_SESSION_KEYS
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects import Dialect, DialectTable, Source
from goldspan.scoring.json_values import pointer_name
from goldspan.scoring.pages import (
    INFORMS,
    RIGHT,
    STYLES,
    UNKNOWN,
    WRONG,
    Page,
    cells,
    counted,
    listed,
    printable,
    shorten,
)
from goldspan.scoring.result_words import arguments_of_call, call_facts, doubt_words, hidden_words, kind_words
from goldspan.scoring.sessions import Capture, Session, ToolCall, Turn
from goldspan.scoring.verdict import Finding

_MOST_SESSIONS = 20
_MOST_CALLS = 30
_MOST_SCOPES = 6
_LABEL = 16
READ_BY_SHAPE = "read by shape"
"""The label of calls that no dialect's table reads."""
_DIALECT_LABEL = 14
_MARK_OF_KIND = {"unknown": UNKNOWN, "trivial": INFORMS, "free_text": INFORMS, "assumed": INFORMS}
"""Marks of origins that say nothing for or against a call."""


def inspect_page(page: Page, found: Inspection, *, verbose: bool) -> None:
    """Add everything a newcomer wants to know first."""
    most = len(found.sessions) if verbose else _MOST_SESSIONS
    runs = Counter(session.id for session in found.sessions)
    shown: Counter[str] = Counter()
    for session in found.sessions[:most]:
        shown[session.id] += 1
        run = f"  run {shown[session.id]} of {runs[session.id]}" if runs[session.id] > 1 else ""
        _session(page, session, run, verbose=verbose)
        page.blank()
    if len(found.sessions) > most:
        page.line((f"... and {counted(len(found.sessions) - most, 'more session')}; -v shows all", "dim"))
        page.blank()
    _counts(page, found)
    problem_rows(page, problem_texts(found.problems), label=_LABEL)
    hint_rows(page, found.hints)
    page.blank()
    if not found.hints and found.calls:
        page.paragraph("Nothing is missing: `goldspan score` can score every one of these calls.", style="green")


def _session(page: Page, session: Session, run: str, *, verbose: bool) -> None:
    if session.ambiguous:
        source = ("several session ids were found; named after its trace", "yellow")
    elif session.id_source == "trace_id":
        source = ("no session id was found; named after its trace", "yellow")
    elif session.id_source == "input":
        source = ("no trace or session ids; taken as one session", "yellow")
    else:
        source = (f"from {printable(session.id_source)}", "dim")
    page.line((printable(session.id), "bold"), run, "  ", source)
    for index, turn in enumerate(session.turns):
        _turn(page, index, turn, verbose=verbose)


def _turn(page: Page, index: int, turn: Turn, *, verbose: bool) -> None:
    said = user_text(turn.user_text)
    head = f"turn {index + 1}"
    agent = f"  {printable(turn.agent)}" if turn.agent else ""
    room = page.width - 2 - len(head) - cells(agent) - 2
    text = f"  {shorten(printable(' '.join(said.split())), room)}" if said and said.strip() and room > 16 else ""
    page.line(head, (agent, "cyan"), (text, "dim italic"), indent=2)
    if verbose:
        page.line((f"trace {', '.join(turn.trace_ids) or '-'}", "dim"), indent=4)
    calls = turn.calls if verbose else turn.calls[:_MOST_CALLS]
    for call, bracket in zip(calls, _brackets(calls), strict=True):
        _call(page, call, bracket, verbose=verbose)
    if len(turn.calls) > len(calls):
        page.line((f"... and {counted(len(turn.calls) - len(calls), 'more call')}", "dim"), indent=6)
    for doubt in turn.doubts:
        page.paragraph(doubt_words(doubt), indent=6, style="yellow")
    if not turn.calls:
        hidden = ("tools may have run, but no span shows their calls", "yellow")
        page.line(("no call", "dim") if turn.calls_visible else hidden, indent=6)


def _brackets(calls: Sequence[ToolCall]) -> list[str]:
    """Mark parallel calls, which the model requested at once."""
    marks: list[str] = []
    for index, call in enumerate(calls):
        above = index > 0 and call.batch != 0 and calls[index - 1].batch == call.batch
        below = index + 1 < len(calls) and call.batch != 0 and calls[index + 1].batch == call.batch
        marks.append("│" if above and below else "└" if above else "┌" if below else " ")
    return marks


def _call(page: Page, call: ToolCall, bracket: str, *, verbose: bool) -> None:
    name = printable(call.name)
    known = call.capture is Capture.CAPTURED
    text = arguments_of_call(call) or "no arguments"
    if not verbose:
        text = shorten(text, 3 * max(page.width - 8 - cells(name), 24))
    style = "" if known else "yellow"
    page.paragraph(text, indent=4, label=((bracket, "dim"), " ", (name, "bold"), "  "), style=style)
    if call.error is not None:
        page.line((f"failed: {shorten(printable(call.error), page.width - 16)}", "red"), indent=8)
    if call.rejected:
        page.line(("requested, never executed", "yellow"), indent=8)
    elif call.requested and verbose:
        page.line(("known from the model's request only: no span shows its execution", "dim"), indent=8)


def origins_page(page: Page, found: Sequence[CallOrigins], *, verbose: bool) -> None:
    """Add calls, each with where every value of its arguments came from."""
    for one in found if verbose else found[:MOST_CALLS_EXPLAINED]:
        page.blank()
        place = f"turn {one.turn_index + 1}, call {one.call_index + 1} of {printable(one.session.id)}"
        page.line((printable(one.call.name), "bold"), f"  {place}")
        for fact in call_facts(one.call):
            page.line((fact, "dim"), indent=2)
        if not one.findings:
            page.line((hidden_words(one.call) or "no arguments", "yellow"), indent=2)
        names = [printable(pointer_name(finding.path)) for finding in one.findings]
        width = min(max(map(cells, names), default=0), 32)
        for name, finding in zip(names, one.findings, strict=True):
            mark = WRONG if finding.failed else _MARK_OF_KIND.get(finding.kind, RIGHT)
            head = (f"{mark} ", STYLES[mark]), (f"{name:<{width}}", "bold"), f"  {kind_of_origin(finding):<11}  "
            page.paragraph(printable(finding.words(include_values=True)), label=head, indent=2)
    if len(found) > MOST_CALLS_EXPLAINED and not verbose:
        page.blank()
        page.line((f"... and {counted(len(found) - MOST_CALLS_EXPLAINED, 'more call')}; -v shows all", "dim"))


def kind_of_origin(finding: Finding) -> str:
    """Return the kind of an origin as people write it: `tool result`, `no origin`."""
    return kind_words(finding) if finding.failed else finding.kind.replace("_", " ")


def _counts(page: Page, found: Inspection) -> None:
    for label, text in count_rows(found):
        page.paragraph(text, label=f"{label:<{_LABEL}}")
    if any(bracket != " " for session in found.sessions for turn in session.turns for bracket in _brackets(turn.calls)):
        page.paragraph("parallel calls are joined by ┌ └", label=f"{'legend':<{_LABEL}}", style="dim")


def count_rows(found: Inspection) -> Iterator[tuple[str, str]]:
    """Yield what was found, recognised and not recognised, each with its counts.

    Of spans that are not recognised nothing is said where nothing is missing: most belong to no agent's work.
    """
    if found.calls or found.sessions:
        yield "found", _found(found)
    others = found.spans - found.recognised
    if found.dialects:
        yield "recognised", f"{found.recognised:,} of {counted(found.spans, 'span')}: {_most(found.dialects)}"
    if others and not found.lacks_nothing:
        yield "not recognised", f"{counted(others, 'span')}, by scope: {_most(found.not_recognised)}"
    for shaped in found.shaped:
        yield READ_BY_SHAPE, _shaped_tools(shaped)


def _found(found: Inspection) -> str:
    turns = sum(len(session.turns) for session in found.sessions)
    known = sum(call.capture is Capture.CAPTURED and not call.argument_captures for call in found.calls)
    counts = (len(found.sessions), "session"), (turns, "turn"), (len(found.calls), "call")
    text = ", ".join(counted(number, what) for number, what in counts)
    if found.calls:
        text += f", {known if known < len(found.calls) else 'all'} with arguments"
    requested = sum(call.requested and not call.rejected for call in found.calls)
    if requested:
        text += f"; {requested} known from the model's requests only, no span shows them executed"
    return text


def _shaped_tools(found: ShapedTools) -> str:
    """Return which calls were read by the shape of their spans, and which keys carried what."""
    places = {
        "name": "the span's name" if found.name is None else found.name,
        "arguments": "requests of models" if found.arguments is None and found.requested else found.arguments,
        "result": found.result,
        "call id": found.call_id,
        "session id": found.session,
    }
    calls = counted(len(found.spans), "call")
    asked = "all" if found.requested == len(found.spans) else f"{found.requested}"
    asked = f", {asked} of them requested by a model" if found.requested else ""
    keys = ", ".join(f"{what} in {printable(str(place))}" for what, place in places.items() if place is not None)
    missing = " and ".join(what for what, place in places.items() if place is None)
    unseen = f"; no {missing} found" if missing else ""
    tools, scope = printable(listed(found.tools)), printable(found.scope) or "no scope"
    return f"{calls} of spans that no dialect's table reads in full ({scope}: {tools}){asked}: {keys}{unseen}"


def _most(counts: Mapping[str, int]) -> str:
    texts = [f"{printable(name)} {count:,}" for name, count in Counter(counts).most_common()]
    if len(texts) > _MOST_SCOPES + 1:
        texts[_MOST_SCOPES:] = [f"and {len(texts) - _MOST_SCOPES} more"]
    return ", ".join(texts)


def dialects_page(page: Page, registry: DialectRegistry) -> None:
    """Add every dialect in the order of precedence."""
    for dialect in registry.dialects:
        known = describe(dialect)
        advice = known["advice"]
        page.blank()
        page.line((known["name"], "bold"), f"  {known['title']}")
        rows = {
            "tool name": ", ".join(known["tool_name"]),
            "arguments": ", ".join(known["arguments"]),
            "call id": ", ".join(known["call_id"]),
            "session id": ", ".join(known["session_keys"]),
            "to get args": advice["arguments"],
            "to get ids": advice["session"],
        }
        for label, text in rows.items():
            if text:
                page.paragraph(text, indent=2, label=f"{label:<{_DIALECT_LABEL}}")
        if known["docs"]:
            page.line((f"{'':<{_DIALECT_LABEL}}{known['docs']}", "dim"), indent=2)
    page.blank()
    keys = ", ".join(DEFAULT_SESSION_KEYS)
    page.paragraph(f"In every dialect the session id is the first of these attributes that is present: {keys}.")
    page.blank()
    page.paragraph(
        f"{counted(len(registry.dialects), 'dialect')}; a span may be read by several. "
        "Other packages add theirs in the entry-point group goldspan.dialects."
    )


def dialects_json(registry: DialectRegistry) -> dict[str, Any]:
    """Return the same as a document."""
    return {
        "dialects": [describe(dialect) for dialect in registry.dialects],
        "session_keys": list(DEFAULT_SESSION_KEYS),
    }


def describe(dialect: Dialect) -> dict[str, Any]:
    """Say what a dialect reads; one that is no table says only its name, its markers and its advice."""
    table = dialect if isinstance(dialect, DialectTable) else None
    advice = advice_of(dialect)
    return {
        "name": dialect.name,
        "title": table.title if table else "",
        "docs": table.docs if table else "",
        "markers": sorted(dialect.markers),
        "tool_name": [*table.tool_name, "the span's name"] if table else [],
        "arguments": _places(table.arguments) if table else [],
        "call_id": _places(table.call_id) if table else [],
        "session_keys": list(table.session_keys) if table else [],
        "advice": {
            "arguments": advice_words((one, one.arguments) for one in advice),
            "session": advice_words((one, one.session) for one in advice),
        },
    }


def _places(sources: tuple[Source, ...]) -> list[str]:
    return [f"event {source.event}: {source.key}" if source.event else source.key for source in sources]
