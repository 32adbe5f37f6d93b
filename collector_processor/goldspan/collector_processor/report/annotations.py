"""The report as annotations at the lines of goldens: GitHub's workflow commands, and Code Quality of GitLab."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct

from goldspan.collector_processor.replay.hints import HELP
from goldspan.collector_processor.report.model import Report
from goldspan.scoring.json_values import json_text
from goldspan.scoring.pages import LABEL_WORDS, counted, printable, score_text, shorten
from goldspan.scoring.result_words import SessionWords
from goldspan.scoring.verdict import REASON_TEXT, Label, Reason

_MOST_ANNOTATIONS = 10  # GitHub shows no more of a step; the comment has the others
_MOST_LINES = 10
_LONGEST_LINE = 400


class Annotation(Struct, frozen=True, gc=False):
    """What is wrong with a session, at the line of its golden."""

    error: bool
    """An error, else a warning."""
    file: str
    """Empty without a golden."""
    line: int | None
    title: str
    message: str
    """One or more lines."""


def annotate(report: Report, *, known: bool = True) -> Iterator[Annotation]:
    """Yield what failed and what was not evaluated, worst first; as errors only if the run failed.

    Without `known` those are left out that failed in the run before as they do now.
    """
    for session in report.worst_first():
        if not known and session.name in report.known_failures:
            continue
        unknown = session.has_golden and session.label is Label.NOT_EVALUATED and session.reason
        # One of several runs is judged with the others, below.
        if not session.result.repeated and (session.failed or unknown):
            yield _of_session(report, session)
    for repeat in report.repeats:
        if repeat.label is Label.FAIL:
            title = f"golden {printable(repeat.golden.key)}: failed"
            yield _annotation(report.failed, repeat.golden.source, title, [str(repeat)])
    for golden in report.never_seen:
        title = f"golden {printable(golden.key)}: {REASON_TEXT[Reason.GOLDEN_NEVER_SEEN]}"
        error = report.failed and report.strict
        yield _annotation(error, golden.source, title, [HELP[Reason.GOLDEN_NEVER_SEEN]])


def _of_session(report: Report, session: SessionWords) -> Annotation:
    failed, golden = session.failed, session.result.golden
    title = f"{session.name}: {LABEL_WORDS[Label.FAIL if failed else session.label]}"
    if failed and session.score is not None:
        title += f" {score_text(session.score).strip()}"
    error = report.failed and (failed or report.strict)
    return _annotation(error, "" if golden is None else golden.source, title, _lines(session))


def github_report(report: Report) -> str:
    """Return a workflow command a line; GitHub shows them on the lines of a pull request."""
    return "".join(map(_workflow_command, islice(annotate(report, known=False), _MOST_ANNOTATIONS)))


def gitlab_report(report: Report) -> str:
    """Return a Code Quality document; sessions without golden have no line, and are left out."""
    issues = [
        {
            "description": f"{one.title}: {one.message}",
            "check_name": "goldspan",
            "fingerprint": hashlib.sha256(f"{one.file}\n{one.title}\n{one.message}".encode()).hexdigest(),
            "severity": "major" if one.error else "minor",
            "location": {"path": one.file.removeprefix("./"), "lines": {"begin": one.line or 1}},
        }
        for one in annotate(report)
        if one.file
    ]
    return json_text(issues) + "\n"


def _annotation(error: bool, source: str, title: str, lines: Iterable[str]) -> Annotation:  # noqa: FBT001
    source = printable(source)
    file, _, line = source.rpartition(":")
    message = "\n".join(shorten(one, _LONGEST_LINE) for one in lines)
    if file and line.isdecimal():
        return Annotation(error, file, int(line), title, message)
    return Annotation(error, source, None, title, message)


def _lines(session: SessionWords) -> list[str]:
    lines = [one.line for one in session.mistakes] or [session.explanation or session.reason]
    if not session.mistakes and session.helps:
        lines.append(session.helps)
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"… and {counted(len(lines) - _MOST_LINES, 'more difference')}"]
    return lines


def _workflow_command(one: Annotation) -> str:
    properties = {"file": one.file, "line": one.line, "title": one.title}
    written = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in properties.items() if value)
    return f"::{'error' if one.error else 'warning'} {written}::{_escaped(one.message)}\n"


def _escaped(text: str, more: str = "") -> str:
    return "".join(f"%{ord(char):02X}" if char in f"%\r\n{more}" else char for char in text)
