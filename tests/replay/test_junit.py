"""JUnit XML as GitHub, GitLab and Jenkins read it: its shape, and what becomes of each session."""

from __future__ import annotations

import re
from fractions import Fraction
from xml.etree import ElementTree

import pytest
import xmlschema
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from goldspan.collector_processor.replay.summary_and_exit_code import CoverageMode, decide_exit_code
from goldspan.collector_processor.report.junit import junit_report
from goldspan.collector_processor.report.model import build_report
from goldspan.scoring.goldens import Golden
from goldspan.scoring.metrics import MetricResult, MetricVerdict, Range
from goldspan.scoring.results import SessionResult
from goldspan.scoring.run import ScoringResult
from goldspan.scoring.sessions import Session, Turn
from goldspan.scoring.verdict import Label, Reason
from rigs.repository import FIXTURES
from rigs.scored_sessions import EVERYTHING, FAILED, NO_GOLDEN, NOTHING, ODD, PASSED, UNKNOWN, session, verdict

# What the public schema of Jenkins' xunit plugin allows: attributes, the required ones, and children.
SHAPE = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, set[str](), {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "time", "skipped", "timestamp"},
        {"name", "tests", "failures", "errors"},
        {"properties", "testcase"},
    ),
    "properties": (set[str](), set[str](), {"property"}),
    "property": ({"name", "value"}, {"name", "value"}, set[str]()),
    "testcase": ({"name", "classname", "time"}, {"name"}, {"skipped", "failure", "system-out"}),
    "skipped": ({"type", "message"}, set[str](), set[str]()),
    "failure": ({"type", "message"}, set[str](), set[str]()),
    "system-out": (set[str](), set[str](), set[str]()),
}


# As pytest holds its own reports against it; from the xunit plugin of Jenkins.
PUBLIC = xmlschema.XMLSchema(FIXTURES / "junit-10.xsd")


def document(result: ScoringResult, coverage: CoverageMode = CoverageMode.STRICT) -> ElementTree.Element:
    text = junit_report(
        build_report(result, decide_exit_code(result, recognised=1, coverage=coverage), coverage=coverage)
    )
    root = ElementTree.fromstring(text)
    PUBLIC.validate(text)
    for element in root.iter():
        allowed, required, children = SHAPE[element.tag]
        assert required <= set(element.attrib) <= allowed
        assert {child.tag for child in element} <= children
        assert re.fullmatch(r"\d*(\.\d{0,3})?", element.get("time", ""))
    return root


def outcomes(root: ElementTree.Element) -> dict[str | None, list[tuple[str, str | None]]]:
    return {case.get("name"): [(child.tag, child.get("type")) for child in case] for case in root.iter("testcase")}


@pytest.mark.parametrize(
    ("coverage", "never_seen"),
    [(CoverageMode.STRICT, "failure"), (CoverageMode.LENIENT, "skipped")],
    ids=["strict", "lenient"],
)
def test_each_session_is_a_case_of_its_golden_set(coverage: CoverageMode, never_seen: str) -> None:
    root = document(EVERYTHING, coverage)
    assert outcomes(root) == {
        "sess-weather-1": [("failure", "fail")],
        UNKNOWN.session.id if UNKNOWN.session else "": [("skipped", "arguments_not_captured")],
        "sess-good": [("system-out", None)],
        "sess-gone": [(never_seen, "golden_never_seen")],
    }
    assert {case.get("classname") for case in root.iter("testcase")} == {"weather@1", "no single golden"}


def test_counts_are_those_of_the_cases() -> None:
    root = document(EVERYTHING)
    suite = next(one for one in root if one.get("name") == "weather@1")
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["3", "1", "0", "1"]
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["4", "2", "0"]


def test_a_failure_says_what_differs() -> None:
    failure = document(EVERYTHING).find(".//failure")
    assert failure is not None
    assert "days  expected 1, found 3" in (failure.text or "")
    assert "restaurant.address.zip" in (failure.text or "")


def test_scores_and_the_set_s_digest_are_properties() -> None:
    properties = {one.get("name"): one.get("value") for one in document(EVERYTHING).iter("property")}
    assert properties == {
        "tool_parameter_match.score[sess-weather-1]": "0.46",
        "tool_parameter_match.score[sess-good]": "1.0",
        "golden_set.digest": "0123456789abcdef",
    }


def test_runs_of_one_session_and_a_golden_of_the_same_name_are_told_apart() -> None:
    gone = Golden("sess-twice", golden_set="weather@1")
    names = list(outcomes(document(replace(ODD, never_seen=(gone,)))))
    assert names == ["sess-odd", "sess-twice (run 1)", "sess-twice (run 2)", "sess-twice"]
    again = list(outcomes(document(ScoringResult((PASSED,), (Golden("sess-good", golden_set="weather@1"),)))))
    assert again == ["sess-good", "sess-good (2)"]


def test_time_is_the_session_s_own() -> None:
    seen = Session("s", (Turn(start=1_800_000_000_000_000_000, end=1_800_000_001_250_000_000),))
    suite = document(ScoringResult((replace(PASSED, session=seen),)))[0]
    assert suite.get("timestamp") == "2027-01-15T08:00:00"
    assert [one.get("time") for one in suite.iter("testcase")] == ["1.250"]


def test_nothing_is_an_empty_document() -> None:
    assert len(document(NOTHING)) == 0
    assert outcomes(document(ScoringResult((NO_GOLDEN,)))) == {}


@pytest.mark.parametrize("reason", Reason)
def test_what_was_not_evaluated_is_skipped_with_its_reason(reason: Reason) -> None:
    cases = outcomes(document(ScoringResult((session("s", verdict(None, reason)),))))
    assert cases == ({} if reason is Reason.NO_GOLDEN else {"s": [("skipped", reason.value)]})


@given(st.text(), st.text())
def test_whatever_a_sender_wrote_is_xml(name: str, set_name: str) -> None:
    odd = SessionResult(FAILED.verdict, Session(name), Golden(name, golden_set=set_name), FAILED.turns)
    assert len(outcomes(document(ScoringResult((odd, odd), (Golden(name, golden_set=set_name),))))) == 3


def test_another_metric_is_told_apart_and_its_name_is_xml_too() -> None:
    root = document(ScoringResult((PASSED, replace(PASSED, metric="own\x00\ud800metric"))))
    assert list(outcomes(root)) == ["sess-good", "sess-good [own\\x00\\ud800metric]"]


def test_other_metrics_are_properties_and_with_a_threshold_cases() -> None:
    verdicts = (
        (MetricVerdict(Fraction(1, 2), Label.FAIL), Fraction(9, 10)),
        (MetricVerdict(Fraction(1), Label.PASS), Fraction(9, 10)),
        (MetricVerdict(None, Label.NOT_EVALUATED, Reason.EVALUATOR_ERROR, "KeyError: 'x'"), Fraction(9, 10)),
        (MetricVerdict(Fraction(12)), None),
    )
    metrics = tuple(
        MetricResult(f"m{index}", "", Range(0, 100), verdict, threshold=threshold)
        for index, (verdict, threshold) in enumerate(verdicts)
    )
    root = document(ScoringResult((replace(PASSED, metrics=metrics, preset="axion"),), golden_sets={"weather@1": "d"}))
    assert outcomes(root) == {
        "sess-good": [("system-out", None)],
        "sess-good [m0]": [("failure", "fail")],
        "sess-good [m1]": [("system-out", None)],
        "sess-good [m2]": [("skipped", "evaluator_error")],
    }
    properties = {one.get("name"): one.get("value") for one in root.iter("property")}
    assert properties["m0.score[sess-good]"] == "0.5"
    assert properties["m3.score[sess-good]"] == "12.0"
    assert properties["tool_parameter_match.preset[sess-good]"] == "axion"
