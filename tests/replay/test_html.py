"""The HTML report: it needs nothing but itself, escapes whatever it is given, and leaves nothing out."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from goldspan.collector_processor.replay.summary_and_exit_code import CoverageMode, decide_exit_code
from goldspan.collector_processor.report.html import html_report, side_by_side, value_html
from goldspan.collector_processor.report.model import build_report
from goldspan.scoring.api import score_sessions
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import Golden
from goldspan.scoring.results import ArgumentOutcome, SessionResult
from goldspan.scoring.run import ScoringResult
from goldspan.scoring.sessions import Session, ToolCall, Turn
from rigs.scored_sessions import (
    EVERYTHING,
    FAILED,
    METRICS,
    NOTHING,
    ODD,
    PASSED,
    UNKNOWN,
    argument,
    call,
    missing,
    session,
    turn,
    verdict,
)

MATCHERS = score_sessions(
    {
        "golden_set": "x",
        "goldens": [
            {
                "session": "s",
                "calls": [
                    {"name": "g", "args": {"gone": {"$absent": True}, "any": {"$ignore": True}}},
                    {
                        "name": "f",
                        "args": {
                            "id": {"$from_result": {"call": "g"}},
                            "place": {"zip": {"$type": "string"}, "city": "Paris"},
                        },
                    },
                ],
            }
        ],
    },
    Session("s", (Turn((ToolCall("g"), ToolCall("f", {"id": 1, "place": {"zip": "1", "city": "Rome"}}))),)),
)
VOID = {"meta", "link", "input", "br"}
REFERRING = {"src", "href", "srcset", "action", "data", "poster", "background", "ping", "formaction"}
HOSTILE = "</script><img src=http://x.example/y onerror=alert(1)>\"'&`"
ALL = ScoringResult(
    (*EVERYTHING.sessions, *ODD.sessions), EVERYTHING.never_seen, EVERYTHING.problems, EVERYTHING.golden_sets
)


class Parsed(HTMLParser):
    """The elements of a page with their attributes, its text, and whether every tag is closed."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.inside: list[str] = []
        self.feed(page)
        self.close()
        assert self.inside == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.inside.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.inside and self.inside[-1] not in {"style", "script"}:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())


def pieces(page: str, element: str) -> list[str]:
    """The text of each element of a kind, its parts with blanks between."""
    found = re.findall(rf"<{element}\b.*?</{element}>", page, re.DOTALL)
    return [" ".join(" ".join(Parsed(one).texts).split()) for one in found]


def page_of(result: ScoringResult, regressions: tuple[str, ...] | None = None) -> str:
    decision = decide_exit_code(result, recognised=1, coverage=CoverageMode.STRICT)
    decision = dataclasses.replace(decision, regressions=regressions)
    return html_report(build_report(result, decision, advice={"google_adk": "Set IT."}.get))


def refer_elsewhere(page: str) -> Iterator[str]:
    for tag, attributes in Parsed(page).elements:
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        yield from (f"{tag} {value}" for name, value in attributes.items() if name in REFERRING and value != "data:,")


@pytest.mark.parametrize("result", [ALL, NOTHING], ids=["all", "nothing"])
def test_nothing_is_loaded_from_anywhere(result: ScoringResult) -> None:
    page = page_of(result)
    assert list(refer_elsewhere(page)) == []
    assert re.findall(r"https?:|//\w|@import|url\(", page) == []


def test_the_policy_allows_the_page_s_own_style_and_script_and_nothing_else() -> None:
    page = page_of(ALL)
    [policy] = [a["content"] for tag, a in Parsed(page).elements if a.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in str(policy).split(";"))
    assert rules.pop("default-src") == rules.pop("base-uri") == rules.pop("form-action") == "'none'"
    assert rules.pop("img-src") == "data:"
    for tag in ("style", "script"):
        [content] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules.pop(f"{tag}-src") == f"'sha256-{digest}'"
    assert rules == {}


def leaves(value: Any) -> Iterator[Any]:
    """Every text and number in a document, keys of arguments among them."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def said_in(document: dict[str, Any]) -> Iterator[Any]:
    """Everything in the JSON document that somebody may look for in the page."""
    yield from (one["golden"] for one in document["never_seen"])
    yield from (problem["message"] for problem in document["problems"])
    yield from (one["golden_set"] for one in document["golden_sets"])
    for one in document["sessions"]:
        yield from [one["id"], one["golden"] or ""]
        yield one["explanation"] if one["golden"] else ""
        for each in one["turns"]:
            for judged in each["calls"]:
                yield judged["tool"]
                yield from leaves(judged["expected_arguments"] or {})
                yield from leaves([[a["name"], a["expected"], a["actual"]] for a in judged["arguments"]])
                yield from judged["extra_arguments"]
                yield (judged["actual"] or {}).get("error") or ""
            yield from (request["name"] for request in each["rejected"])


def test_the_page_says_what_the_document_says() -> None:
    text = Parsed(page_of(ALL)).text
    assert [what for what in said_in(ALL.to_json()) if " ".join(str(what).split()) not in text] == []


def test_the_worst_comes_first() -> None:
    names = re.findall(r'class="name">([^<]+)<', page_of(ALL))
    assert names == [
        "sess-odd",
        "sess-weather-1",
        "7c3d1a60-88a5-4f9e-a1f3-9f4c1f5e1f60",
        "sess-good",
        "sess-twice (run 1 of 2)",
        "sess-twice (run 2 of 2)",
    ]


def test_a_turn_has_a_headline_where_it_is_one_of_several() -> None:
    assert pieces(page_of(EVERYTHING), "h3") == [
        "✗ 0.56 fail turn 1 3 expected calls",
        "✗ 0.30 fail turn 2 2 expected calls",
        "✓ 1.00 pass turn 3 1 expected call",
        "✗ 0.00 fail turn 4 never happened · 1 expected call",
        "? - not evaluated turn 1 arguments not captured · 3 expected calls",
        "? - not evaluated turn 2 the golden has no such turn, or session id used again",
        "✓ 1.00 pass turn 1 1 expected call",
    ]
    assert pieces(page_of(MATCHERS), "h3") == []


def test_a_call_is_compared_with_the_one_made_or_the_nearest_and_others_are_not_judged() -> None:
    one = argument("x", 1)
    judged = turn(0, verdict(0), call("f", one), missing("g", one, near=ToolCall("g", {"x": 1})), missing("h", one))
    headings = pieces(page_of(ScoringResult((session("s", verdict(0), judged),))), "th")
    assert [words for words in headings if words in {"actual", "nearest call"}] == ["actual", "nearest call", "actual"]
    assert Parsed(page_of(ScoringResult((UNKNOWN,)))).text.count("not judged") == 2


def test_metrics_stand_in_a_table_of_their_session() -> None:
    page = page_of(ScoringResult((replace(PASSED, metrics=METRICS), FAILED)))
    assert pieces(page, "caption").count("Other metrics") == 1
    assert [row for row in pieces(page, "tr") if any(metric.description in row for metric in METRICS)] == [
        "trajectory_f1 ✗ 0.50 fail 0.90 1 of 2 expected calls match, 2 were made"
        " The harmonic mean of trajectory precision and recall.",
        "tools_used 12.00 no label none How many tools were used.",
        "a_metric_with_a_name_that_is_longer_than_most ? - not evaluated none"
        " the metric raised an error; ZeroDivisionError: division by zero What cannot be said.",
    ]


def test_it_says_where_a_session_and_its_golden_come_from() -> None:
    assert PASSED.session is not None
    assert PASSED.golden is not None
    seen = replace(PASSED.session, incomplete=True, run="r-1")
    told = replace(PASSED, session=seen, golden=dataclasses.replace(PASSED.golden, source="goldens.yaml:4"))
    always = ["golden set weather@1", "session id from gen_ai.conversation.id"]
    only_here = ["incomplete", "goldens.yaml:4", "run r-1"]
    text, other = (Parsed(page_of(ScoringResult((result,)))).text for result in (told, PASSED))
    assert [words for words in (*always, *only_here) if words not in text] == []
    assert [words for words in (*always, *only_here) if words in other] == always


def test_regressions_are_listed() -> None:
    assert "Regressed 1 sess-1: passed with 1.00 before, now 0.50" in Parsed(
        page_of(ALL, ("sess-1: passed with 1.00 before, now 0.50",))
    ).text.replace("  ", " ")


def test_everything_can_be_reached_by_the_keyboard() -> None:
    elements = Parsed(page_of(ALL)).elements
    assert not [tag for tag, attributes in elements if "tabindex" in attributes]
    assert sum(tag == "details" for tag, _ in elements) == sum(tag == "summary" for tag, _ in elements)
    assert [a.get("aria-keyshortcuts") for tag, a in elements if a.get("type") == "search"] == ["/"]


@pytest.mark.parametrize("field", ["id", "tool", "argument", "value", "error", "golden", "problem"])
def test_values_are_text_whatever_is_in_them(field: str) -> None:
    def this(name: str) -> str:
        return HOSTILE if field == name else name

    wrong = argument(this("argument"), this("value"), ArgumentOutcome.MISMATCHED, f"{this('value')}!")
    made = ToolCall(this("tool"), {this("argument"): 1}, error=this("error"))
    judged = turn(0, verdict(0), call(this("tool"), wrong, score=0, made=made), missing(this("tool"), wrong))
    result = ScoringResult(
        (session(this("id"), verdict(0), judged),),
        (Golden(this("golden")),),
        (Problem("code", this("problem"), "source"),),
    )
    page = page_of(result)
    assert list(refer_elsewhere(page)) == []
    assert not [tag for tag, _ in Parsed(page).elements if tag == "img"]
    shown = json.dumps(HOSTILE) if field == "value" else HOSTILE
    assert "".join(shown.split()) in "".join(Parsed(page).text.split())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, JSON)
def test_two_values_are_written_whole_and_marked_where_they_differ(expected: Any, actual: Any) -> None:
    sides = side_by_side(expected, actual)
    for value, side in zip((expected, actual), sides, strict=True):
        unmarked = "".join(Parsed(f"<pre>{side}</pre>").text.split())
        assert unmarked == "".join(Parsed(f"<pre>{value_html(value)}</pre>").text.split())
    same = side_by_side(expected, expected)
    assert "<mark>" not in same[0] + same[1]


def marked(side: str) -> Sequence[str]:
    return re.findall("<mark>(.*?)</mark>", side)


@pytest.mark.parametrize(
    ("expected", "actual", "marks"),
    [
        ("12 rue", "14 rue", (["2"], ["4"])),
        ({"zip": "a", "id": 1}, {"zip": "b", "id": 1}, (["a"], ["b"])),
        ({"id": 1}, {"id": 1, "x": 2}, ([], ["&quot;x&quot;: 2"])),
        ([1, 2], [1, 3], (["2"], ["3"])),
        ([1, 2], [1], (["[1, 2]"], ["[1]"])),
        (1, True, (["1"], ["true"])),
        ({"$regex": "a+"}, {"a": 1}, (["{&quot;$regex&quot;: &quot;a+&quot;}"], ["{&quot;a&quot;: 1}"])),
    ],
)
def test_the_innermost_difference_is_marked(expected: Any, actual: Any, marks: tuple[list[str], list[str]]) -> None:
    first, second = side_by_side(expected, actual)
    assert (marked(first), marked(second)) == marks


def test_case_is_no_difference_where_it_does_not_count() -> None:
    assert marked(side_by_side({"a": "Paris", "b": 1}, {"a": "paris", "b": 2}, casefold=True)[0]) == ["1"]


def test_a_huge_value_is_cut_and_says_so() -> None:
    page = page_of(
        ScoringResult((session("s", verdict(0), turn(0, verdict(0), missing("f", argument("x", "y" * 10**6)))),))
    )
    assert len(page) < 100_000
    assert "the JSON document has the whole value" in page


@given(st.text(), st.text())
def test_no_text_breaks_the_page(name: str, key: str) -> None:
    odd = SessionResult(FAILED.verdict, Session(name), Golden(key), FAILED.turns)
    assert list(refer_elsewhere(page_of(ScoringResult((odd,))))) == []


def test_matchers_are_shown_as_they_stand_and_marked_only_where_they_do_not_match() -> None:
    page = page_of(MATCHERS)
    assert "depends on a result that is not known" in page
    assert 'class="ignored"' in page
    assert "null" not in " ".join(Parsed(page).texts)
    assert "<mark>Paris</mark>" in page
    assert not re.search(r"<mark>[^<]*type", page)
