"""The report as JUnit XML, in the shape that Jenkins' public schema describes and GitHub and GitLab render.

A golden set is a test suite and a session is a test case. That schema knows properties of suites only, so that each
session's score is a property of its suite, named after the session. GitLab shows the text of a failure but not its
message, and of test cases with the same name only the first: the text says everything, and names are unique.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from goldspan.collector_processor.replay.hints import HELP
from goldspan.collector_processor.report.model import Report
from goldspan.scoring.pages import number_text, printable
from goldspan.scoring.result_lines import session_text
from goldspan.scoring.result_words import SessionWords, found_mistake, judged_calls, metric_reason, metric_words
from goldspan.scoring.results import SessionResult
from goldspan.scoring.run import RepeatResult
from goldspan.scoring.verdict import MAIN_METRIC, REASON_TEXT, Label, MetricResult, Reason

NO_SINGLE_GOLDEN = "no single golden"
"""The suite of sessions that several goldens match equally well."""
WITHOUT_GOLDEN = "without golden"
"""The suite of sessions that only metrics judge which need no golden."""
_WIDTH = 120
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_report(report: Report) -> str:
    """Return the document."""
    suites: dict[str, _Suite] = {name: _Suite(name) for name in report.golden_sets}

    def suite_of(name: str) -> _Suite:
        return suites.setdefault(name or NO_SINGLE_GOLDEN, _Suite(name or NO_SINGLE_GOLDEN))

    for session in report.sessions:
        golden = session.result.golden
        suite_of("" if golden is None else printable(golden.golden_set)).add_session(session)
    for session in report.without_golden:
        suite_of(WITHOUT_GOLDEN).add_session(session)
    for repeat in report.repeats:
        suite_of(printable(repeat.golden.golden_set)).add_repeat(repeat)
    for golden in report.never_seen:
        case = suite_of(printable(golden.golden_set)).case(printable(golden.key))
        message = f"golden {REASON_TEXT[Reason.GOLDEN_NEVER_SEEN]}"
        kind = "failure" if report.strict else "skipped"
        _result(case, kind, Reason.GOLDEN_NEVER_SEEN, message, HELP[Reason.GOLDEN_NEVER_SEEN])
    root = Element("testsuites", name="goldspan")
    for name, suite in suites.items():
        root.append(suite.finished(report.golden_sets.get(name, "")))
    _count(root, root.findall("testsuite/testcase"), with_skipped=False)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


@dataclass(slots=True)
class _Suite:
    name: str
    element: Element = field(init=False)
    properties: Element = field(init=False)
    names: set[str] = field(default_factory=set[str])
    start_ns: int = 0

    def __post_init__(self) -> None:
        self.element = Element("testsuite", name=_xml(self.name))
        self.properties = SubElement(self.element, "properties")

    def case(self, name: str, seconds: float = 0.0) -> Element:
        """Add a test case under a name that no other one has."""
        unused, count = name, 1
        while unused in self.names:
            count += 1
            unused = f"{name} ({count})"
        self.names.add(unused)
        attributes = {"classname": self.element.get("name", ""), "name": _xml(unused)}
        return SubElement(self.element, "testcase", attributes | {"time": f"{max(seconds, 0.0):.3f}"})

    def property(self, name: str, value: str) -> None:
        SubElement(self.properties, "property", name=_xml(name), value=_xml(value))

    def add_session(self, session: SessionWords) -> None:
        result = session.result
        main = printable(result.metric)
        name = printable(result.session.id if result.session else "")
        name += f" (run {session.run})" if session.runs > 1 else ""
        name += f" [{main}]" if main != MAIN_METRIC else ""
        start, end = _times(result)
        case = self.case(name, (end - start) / 1e9)
        name = case.get("name", "")
        self.start_ns = min(filter(None, (self.start_ns, start)), default=0)
        # One run of several decides nothing alone: the golden has a case of its own.
        failed = "skipped" if result.repeated else "failure"
        why_failed = session.first_line or session.explanation
        text = session_text(session, _WIDTH)
        _judged(case, session.label, session.reason_code, why_failed, session.reason, text, failed=failed)
        if session.score is not None:
            self.property(f"{main}.score[{name}]", repr(float(session.score)))
        if result.preset and session.has_golden:
            self.property(f"{main}.preset[{name}]", printable(result.preset))
        for metric in result.metrics:
            called = printable(metric.name)
            if metric.score is not None:
                self.property(f"{called}.score[{name}]", repr(metric.score))
            if metric.threshold is not None and session.has_golden:
                self.add_metric(metric, called, self.case(f"{name} [{called}]"))

    def add_metric(self, metric: MetricResult, name: str, case: Element) -> None:
        """Report a metric with a threshold as a test case of its own; one that only informs is a property."""
        score = number_text(metric.verdict.exact)
        found = (found_mistake(turn, call, one) for turn, call in judged_calls(metric) for one in call.failures)
        first = next((f"{one.turn}: {one}" for one in found), f"{score}, needs {number_text(metric.threshold)}")
        text = f"{name} {score}  {metric_words(metric, needs=True)}"
        _judged(case, metric.label, metric.reason, first, metric_reason(metric), text)

    def add_repeat(self, repeat: RepeatResult) -> None:
        case = self.case(f"{printable(repeat.golden.key)} [{repeat.repeat.runs} runs]")
        _judged(case, repeat.label, repeat.reason, str(repeat), str(repeat), str(repeat))

    def finished(self, digest: str) -> Element:
        """Return the suite with its counts, its start and the digest of its golden set."""
        if self.start_ns:
            start = datetime.fromtimestamp(self.start_ns // 1_000_000_000, UTC)
            self.element.set("timestamp", start.strftime("%Y-%m-%dT%H:%M:%S"))
        if digest:
            self.property("golden_set.digest", digest)
        _count(self.element, self.element.findall("testcase"), with_skipped=True)
        return self.element


def _times(result: SessionResult) -> tuple[int, int]:
    """Return when a session started and ended: Unix time in nanoseconds, 0 where it is not known."""
    session = result.session
    if session is None or not session.start:
        return 0, 0
    return session.start, max((turn.end for turn in session.turns if turn.end), default=session.start)


def _judged(
    case: Element,
    label: Label | None,
    reason: str | None,
    why_failed: str,
    why_skipped: str,
    text: str,
    *,
    failed: str = "failure",
) -> None:
    if label is Label.FAIL:
        _result(case, failed, "fail", why_failed, text)
    elif reason:
        _result(case, "skipped", reason, why_skipped, text)
    else:
        SubElement(case, "system-out").text = _xml(text)


def _result(case: Element, kind: str, type_: str, message: str, text: str) -> None:
    SubElement(case, kind, type=type_, message=_xml(message)).text = _xml(text)


def _count(element: Element, cases: list[Element], *, with_skipped: bool) -> None:
    element.set("tests", str(len(cases)))
    element.set("failures", str(sum(case.find("failure") is not None for case in cases)))
    element.set("errors", "0")
    if with_skipped:
        element.set("skipped", str(sum(case.find("skipped") is not None for case in cases)))
    element.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")


def _xml(text: str) -> str:
    """Write what XML 1.0 has no character for as an escape that can be read."""
    return _NOT_XML.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
