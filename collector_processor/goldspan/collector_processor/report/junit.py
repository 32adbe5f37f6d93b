"""The scores as JUnit XML, in the shape that Jenkins' public schema describes and GitHub and GitLab render.

A golden set is a test suite and a session is a test case. That schema knows properties of suites only, so that each
session's score is a property of its suite, named after the session. GitLab shows the text of a failure but not its
message, and of test cases with the same name only the first: the text says everything, and names are unique.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from xml.etree import ElementTree

from goldspan.collector_processor.replay.hints import HELP, WORDS
from goldspan.collector_processor.report.layout import Page
from goldspan.collector_processor.report.metric_lines import metric_note, number_text
from goldspan.collector_processor.report.score_page import session_lines
from goldspan.collector_processor.report.scored import Scored
from goldspan.collector_processor.report.session_names import has_golden, run_numbers, unseen_goldens
from goldspan.collector_processor.report.totals import Coverage
from goldspan.collector_processor.report.values import printable
from goldspan.scoring.explanation import explain
from goldspan.scoring.goldens.golden import MAIN_METRIC
from goldspan.scoring.results import Label, MetricResult, Reason, SessionResult
from goldspan.scoring.run import RepeatResult

NO_SINGLE_GOLDEN = "no single golden"
"""The suite of sessions that are wanted by several goldens, or by none that could be told."""
_WIDTH = 120
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(scored: Scored) -> str:
    """Return the document."""
    suites: dict[str, ElementTree.Element] = {name: _suite(name) for name in map(printable, scored.result.golden_sets)}
    names: dict[str, set[str]] = {}
    starts: dict[str, list[int]] = {}
    sessions = scored.result.sessions
    for result, (run, runs) in zip(sessions, run_numbers(sessions), strict=True):
        if not has_golden(result) or result.session is None:
            continue
        set_name = printable(result.golden.golden_set) if result.golden else ""
        set_name = set_name or NO_SINGLE_GOLDEN
        suite = suites.setdefault(set_name, _suite(set_name))
        name = printable(result.session.id) + (f" (run {run})" if runs > 1 else "")
        name += f" [{result.metric}]" if result.metric != MAIN_METRIC else ""
        name = _unused(name, names.setdefault(set_name, set()))
        begun, ended = _times(result)
        case = _case(suite, name, (ended - begun) / 1e9)
        starts.setdefault(set_name, []).append(begun)
        _outcome(case, name, result)
        if result.verdict.score is not None:
            _property(suite, f"{result.metric}.score[{name}]", repr(result.verdict.score))
        if result.preset is not None:
            _property(suite, f"{result.metric}.preset[{name}]", result.preset)
        for metric in result.metrics:
            if metric.verdict.score is not None:
                _property(suite, f"{metric.name}.score[{name}]", repr(metric.verdict.score))
            if metric.threshold is not None:
                own = _unused(f"{name} [{metric.name}]", names[set_name])
                _metric_outcome(_case(suite, own, 0.0), metric)
    for repeat in scored.result.repeats:
        set_name = printable(repeat.golden.golden_set) or NO_SINGLE_GOLDEN
        name = _unused(f"{printable(repeat.golden.key)} [{repeat.repeat.runs} runs]", names.setdefault(set_name, set()))
        _repeat_outcome(_case(suites.setdefault(set_name, _suite(set_name)), name, 0.0), repeat)
    for key, set_name in _never_seen(scored):
        suite = suites.setdefault(set_name or NO_SINGLE_GOLDEN, _suite(set_name or NO_SINGLE_GOLDEN))
        case = _case(suite, _unused(key, names.setdefault(set_name or NO_SINGLE_GOLDEN, set())), 0.0)
        kind = "failure" if scored.coverage is Coverage.STRICT else "skipped"
        message = f"golden {WORDS[Reason.GOLDEN_NEVER_SEEN]}"
        _verdict(case, kind, Reason.GOLDEN_NEVER_SEEN.value, message, HELP[Reason.GOLDEN_NEVER_SEEN])
    return _document(scored, suites, starts)


def _document(scored: Scored, suites: dict[str, ElementTree.Element], starts: dict[str, list[int]]) -> str:
    root = ElementTree.Element("testsuites", name="goldspan")
    for name, suite in suites.items():
        if begun := min(filter(None, starts.get(name, [])), default=0):
            suite.set("timestamp", datetime.fromtimestamp(begun // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S"))
        if digest := scored.result.golden_sets.get(name):
            _property(suite, "golden_set.digest", digest)
        _count(suite, suite.findall("testcase"), with_skipped=True)
        root.append(suite)
    _count(root, root.findall("testsuite/testcase"), with_skipped=False)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _suite(name: str) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=_xml(name))
    ElementTree.SubElement(suite, "properties")
    return suite


def _case(suite: ElementTree.Element, name: str, seconds: float) -> ElementTree.Element:
    attributes = {"classname": suite.get("name", ""), "name": _xml(name), "time": f"{max(seconds, 0.0):.3f}"}
    return ElementTree.SubElement(suite, "testcase", attributes)


def _count(element: ElementTree.Element, cases: list[ElementTree.Element], *, with_skipped: bool) -> None:
    element.set("tests", str(len(cases)))
    element.set("failures", str(sum(case.find("failure") is not None for case in cases)))
    element.set("errors", "0")
    if with_skipped:
        element.set("skipped", str(sum(case.find("skipped") is not None for case in cases)))
    element.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")


def _outcome(case: ElementTree.Element, name: str, result: SessionResult) -> None:
    page = Page(_WIDTH)
    session_lines(page, name, result)
    reason = result.verdict.reason
    if result.verdict.label is Label.FAIL:
        # One run of several decides nothing alone: the golden has a case of its own.
        _verdict(case, "skipped" if result.repeated else "failure", "fail", explain(result), str(page))
    elif reason is not None:
        _verdict(case, "skipped", reason.value, WORDS[reason], str(page))
    else:
        ElementTree.SubElement(case, "system-out").text = _xml(str(page))


def _repeat_outcome(case: ElementTree.Element, repeat: RepeatResult) -> None:
    """Say how a golden came out that is judged over several runs."""
    text, reason = str(repeat), repeat.verdict.reason
    if repeat.verdict.label is Label.FAIL:
        _verdict(case, "failure", "fail", text, text)
    elif reason is not None:
        _verdict(case, "skipped", reason.value, text, text)
    else:
        ElementTree.SubElement(case, "system-out").text = _xml(text)


def _metric_outcome(case: ElementTree.Element, metric: MetricResult) -> None:
    """Say how a metric with a threshold came out, as a test case of its own; one that only informs is a property."""
    verdict = metric.verdict
    text = f"{metric.name} {number_text(verdict.exact)}  {metric_note(metric)}"
    if verdict.label is Label.FAIL:
        _verdict(case, "failure", "fail", f"{number_text(verdict.exact)}, needs {number_text(metric.threshold)}", text)
    elif verdict.reason is not None:
        _verdict(case, "skipped", verdict.reason.value, WORDS[verdict.reason], text)
    else:
        ElementTree.SubElement(case, "system-out").text = _xml(text)


def _verdict(case: ElementTree.Element, kind: str, type_: str, message: str, text: str) -> None:
    element = ElementTree.SubElement(case, kind, type=type_, message=_xml(printable(message)))
    element.text = _xml(text)


def _property(suite: ElementTree.Element, name: str, value: str) -> None:
    properties = suite.find("properties")
    if properties is not None:
        ElementTree.SubElement(properties, "property", name=_xml(name), value=_xml(value))


def _never_seen(scored: Scored) -> Iterator[tuple[str, str]]:
    goldens = unseen_goldens(scored.result)
    yield from dict.fromkeys((printable(golden.key), printable(golden.golden_set)) for golden in goldens)


def _times(result: SessionResult) -> tuple[int, int]:
    turns = () if result.session is None else result.session.turns
    begun = min((turn.start for turn in turns if turn.start), default=0)
    return begun, max((turn.end for turn in turns if turn.end), default=begun) if begun else 0


def _unused(name: str, taken: set[str]) -> str:
    chosen, count = name, 1
    while chosen in taken:
        count += 1
        chosen = f"{name} ({count})"
    taken.add(chosen)
    return chosen


def _xml(text: str) -> str:
    """Write what XML 1.0 has no character for as an escape that can be read."""
    return _NOT_XML.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
