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
from goldspan.collector_processor.report.model import MetricReport, RepeatReport, Report, SessionReport
from goldspan.collector_processor.report.terminal import session_text
from goldspan.scoring.criterion import MAIN_METRIC
from goldspan.scoring.verdict import REASON_TEXT, Label, Reason

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
        suite_of(session.golden_set).add_session(session)
    for session in report.without_golden:
        suite_of(WITHOUT_GOLDEN).add_session(session)
    for repeat in report.repeats:
        suite_of(repeat.golden_set).add_repeat(repeat)
    for golden in report.never_seen:
        case = suite_of(golden.golden_set).case(golden.name)
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

    def add_session(self, session: SessionReport) -> None:
        name = session.id + (f" (run {session.run})" if session.runs > 1 else "")
        name += f" [{session.metric}]" if session.metric != MAIN_METRIC else ""
        case = self.case(name, (session.end_ns - session.start_ns) / 1e9)
        name = case.get("name", "")
        self.start_ns = min(filter(None, (self.start_ns, session.start_ns)), default=0)
        text = session_text(session, _WIDTH)
        # One run of several decides nothing alone: the golden has a case of its own.
        failed = "skipped" if session.repeated else "failure"
        _judged(case, session, session.first_line or session.explanation, session.reason, text, failed=failed)
        if session.score is not None:
            self.property(f"{session.metric}.score[{name}]", repr(float(session.score)))
        if session.preset:
            self.property(f"{session.metric}.preset[{name}]", session.preset)
        for metric in session.metrics:
            if metric.score is not None:
                self.property(f"{metric.name}.score[{name}]", repr(metric.score))
            if metric.threshold_text and session.has_golden:
                self.add_metric(metric, self.case(f"{name} [{metric.name}]"))

    def add_metric(self, metric: MetricReport, case: Element) -> None:
        """Report a metric with a threshold as a test case of its own; one that only informs is a property."""
        text = f"{metric.name} {metric.score_text}  {metric.note}"
        why_failed = metric.first or f"{metric.score_text}, needs {metric.threshold_text}"
        _judged(case, metric, why_failed, metric.reason, text)

    def add_repeat(self, repeat: RepeatReport) -> None:
        case = self.case(f"{repeat.golden} [{repeat.runs} runs]")
        _judged(case, repeat, repeat.words, repeat.words, repeat.words)

    def finished(self, digest: str) -> Element:
        """Return the suite with its counts, its start and the digest of its golden set."""
        if self.start_ns:
            start = datetime.fromtimestamp(self.start_ns // 1_000_000_000, UTC)
            self.element.set("timestamp", start.strftime("%Y-%m-%dT%H:%M:%S"))
        if digest:
            self.property("golden_set.digest", digest)
        _count(self.element, self.element.findall("testcase"), with_skipped=True)
        return self.element


def _judged(
    case: Element,
    one: SessionReport | MetricReport | RepeatReport,
    why_failed: str,
    why_skipped: str,
    text: str,
    *,
    failed: str = "failure",
) -> None:
    if one.label is Label.FAIL:
        _result(case, failed, "fail", why_failed, text)
    elif one.reason_code:
        _result(case, "skipped", one.reason_code, why_skipped, text)
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
