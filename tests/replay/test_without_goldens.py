"""`goldspan score` of sessions without golden: what a person, a build and a program are told."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from goldspan.scoring import load_goldens
from rigs.command_line import Run
from rigs.published_schemas import SCORE_SCHEMA
from rigs.trace_requests import turn_request, write_lines

ASKED = "What is the weather in Paris?"
TOOLS = [{"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]
GOOD = turn_request("good", ("get_weather", {"city": "Paris"}), user=ASKED)
INVENTED = turn_request("invented", ("get_weather", {"city": "Lyon"}), user=ASKED)
WRONG_TYPE = turn_request("wrong-type", ("get_weather", {"city": 3}), user="3 cities, please")
HIDDEN = turn_request("hidden", ("get_weather", None), user=ASKED)
SILENT = turn_request("silent", ("get_weather", {"city": "Paris"}))


def score(run: Run, tmp_path: Path, requests: Sequence[dict[str, Any]], *options: str) -> Result:
    write_lines(tmp_path / "traces.jsonl", *requests)
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS), "utf-8")
    return run("score", "traces.jsonl", "--fail-on", "any", *options)


def said(result: Result) -> str:
    return " ".join(result.output.split())


def document(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    assert [error.message for error in SCORE_SCHEMA.iter_errors(found)] == []
    assert found["passed"] is (result.exit_code == 0)
    return found


def test_the_scoreboard_names_what_failed_and_what_was_not_judged(run: Run, tmp_path: Path) -> None:
    result = score(run, tmp_path, [GOOD, INVENTED, WRONG_TYPE, HIDDEN], "--tools", "tools.json")
    assert result.exit_code == 1
    text = said(result)
    assert "sessions 1 passed, 2 failed, 1 not evaluated, judged without goldens" in text
    assert "findings get_weather.city (no origin), get_weather.city (wrong type)" in text
    assert '✗ turn 1, call 1 get_weather city="Lyon" city "Lyon" comes from nowhere before the call' in text
    assert "city expected string, found 3" in text
    assert "✗ tool_parameter_schema 0.67 2 1 1: arguments not captured" in text
    assert "✗ tool_parameter_grounding 0.67 2 1 1: arguments not captured" in text
    assert "· tool_call_repetition 1.00 3 0 1: arguments not captured of 4 calls" in text
    assert "goldspan inspect --why" in text
    assert (
        "failed: tool_parameter_grounding is too low in 1 session; tool_parameter_schema is too low in 1 sess" in text
    )
    assert "no session has a golden" not in text


@pytest.mark.parametrize(
    ("requests", "exit_code", "ends"),
    [
        ([GOOD], 0, "passed: 1 session of 1 without a golden."),
        ([GOOD, HIDDEN, SILENT], 0, "passed: 1 session of 3 without a golden."),
        ([HIDDEN], 0, "passed: nothing failed, but nothing was evaluated."),
        ([GOOD, INVENTED], 1, "failed: tool_parameter_grounding is too low in 1 session."),
    ],
)
@pytest.mark.parametrize("coverage", ["strict", "lenient"])
def test_only_what_is_wrong_fails_and_never_what_is_unknown(
    run: Run, tmp_path: Path, requests: list[dict[str, Any]], exit_code: int, ends: str, coverage: str
) -> None:
    result = score(run, tmp_path, requests, "--coverage", coverage)
    assert (result.exit_code, said(result).endswith(ends)) == (exit_code, True)
    assert score(run, tmp_path, requests, "--coverage", coverage, "--format", "json").exit_code == exit_code


def test_what_a_metric_lacks_is_said_with_what_helps(run: Run, tmp_path: Path) -> None:
    text = said(score(run, tmp_path, [GOOD, SILENT]))
    assert "tool_parameter_schema - 0 0 2: no definition of the tool" in text
    assert "or pass them with `--tools FILE`" in text
    assert "nothing said before the call was captured (1 call): Have messages recorded" in text


def test_every_call_is_counted_once_for_each_metric(run: Run, tmp_path: Path) -> None:
    """What a later call is made of may be in a result that was not captured: then nothing of it is judged."""
    later = turn_request("later", ("get_weather", {"city": "Paris"}), ("convert", {"value": 21}), user=ASKED)
    text = said(score(run, tmp_path, [GOOD, INVENTED, HIDDEN, later]))
    reasons = ("arguments not captured 1, nothing to judge 1", "nothing to judge 1, arguments not captured 1")
    assert any(f"✗ tool_parameter_grounding 0.67 2 1 2: {one}" in text for one in reasons)
    assert "of 5 calls" in text


def test_a_metric_informs_unless_it_has_a_threshold(run: Run, tmp_path: Path) -> None:
    calls = [("get_weather", {"city": "Paris"})] * 3
    again = turn_request("again", *calls, user=ASKED)
    informs = score(run, tmp_path, [again])
    assert informs.exit_code == 0
    assert "get_weather (looped) x2" in said(informs)
    failing = score(run, tmp_path, [again], "--metric", "tool_call_repetition=1")
    assert failing.exit_code == 1
    assert all(f" {name} " in said(failing) for name in ("tool_parameter_schema", "tool_parameter_grounding"))
    assert "tool_call_repetition is too low in 1 session" in said(failing)


def test_all_sessions_are_shown_only_if_asked_for(run: Run, tmp_path: Path) -> None:
    assert "good" not in score(run, tmp_path, [GOOD, INVENTED]).output
    assert "✓  good" in score(run, tmp_path, [GOOD, INVENTED], "-v").output


def test_the_document_has_the_calls_and_what_was_found_in_them(run: Run, tmp_path: Path) -> None:
    found = document(score(run, tmp_path, [GOOD, INVENTED], "--format", "json"))
    [session] = [one for one in found["sessions"] if one["id"] == "invented"]
    [grounding] = [one for one in session["metrics"] if one["name"] == "tool_parameter_grounding"]
    [[call]] = [turn["calls"] for turn in grounding["turns"]]
    assert (call["tool"], call["score"], call["label"]) == ("get_weather", 0, "fail")
    [finding] = call["findings"]
    assert (finding["path"], finding["kind"], finding["failed"]) == ("/city", "none", True)
    assert finding["message"].startswith('"Lyon" comes from nowhere')
    assert "Lyon" not in call["explanation"] + grounding["explanation"]


def test_reports_have_the_sessions_and_a_table_of_the_metrics(run: Run, tmp_path: Path) -> None:
    files = {"junit": "r.xml", "html": "r.html", "markdown": "r.md"}
    options = [part for kind, name in files.items() for part in ("--report", f"{kind}={name}")]
    assert score(run, tmp_path, [GOOD, INVENTED, HIDDEN], *options).exit_code == 1
    [suite] = ET.parse(tmp_path / "r.xml").getroot()
    assert (suite.get("name"), suite.get("tests"), suite.get("failures"), suite.get("skipped")) == (
        "without golden", "3", "1", "1",
    )  # fmt: skip
    [failure] = suite.iter("failure")
    assert failure.get("message") == 'turn 1: get_weather.city: "Lyon" comes from nowhere before the call'
    for name in ("r.html", "r.md"):
        text = (tmp_path / name).read_text("utf-8")
        assert "First finding" in text
        assert "tool_parameter_grounding" in text
        assert "comes from nowhere before the call" in text
        assert "First difference" not in text


def test_a_session_with_a_golden_has_both(run: Run, tmp_path: Path) -> None:
    golden = {"session": "invented", "turns": [{"calls": [{"name": "get_weather", "args": {"city": "Lyon"}}]}]}
    (tmp_path / "goldens.json").write_text(json.dumps({"golden_set": "g", "goldens": [golden]}), "utf-8")
    options = ("--goldens", "goldens.json", "--metric", "tool_parameter_grounding")
    result = score(run, tmp_path, [GOOD, INVENTED, HIDDEN], *options, "--report", "junit=r.xml")
    text = said(result)
    assert result.exit_code == 1
    assert "✓ 1.00 invented" in text
    assert 'city "Lyon" comes from nowhere' in text
    assert "2 without a golden (1 passed, 1 not evaluated)" in text
    assert "calls 1 expected: 1 right" in text
    assert "✗ tool_parameter_grounding 0.50 1 1 1: arguments not captured of 3 calls" in text
    cases = {case.get("name"): case for case in ET.parse(tmp_path / "r.xml").getroot().iter("testcase")}
    assert set(cases) == {"invented", "invented [tool_parameter_grounding]", "good", "hidden"}
    failure = cases["invented [tool_parameter_grounding]"].find("failure")
    assert failure is not None
    assert "Lyon" in str(failure.get("message"))


def test_goldens_that_nothing_joins_are_still_told(run: Run, tmp_path: Path) -> None:
    golden = {"session": "other", "turns": [{"calls": [{"name": "get_weather"}]}]}
    (tmp_path / "goldens.json").write_text(json.dumps({"golden_set": "g", "goldens": [golden]}), "utf-8")
    result = score(run, tmp_path, [GOOD], "--goldens", "goldens.json", "--metric", "tool_parameter_grounding")
    assert result.exit_code == 1
    assert "no session has a golden" in said(result)


@pytest.mark.parametrize(
    ("before", "now", "exit_code"),
    [
        ([INVENTED], [INVENTED], 0),
        ([GOOD], [GOOD, INVENTED], 1),
        ([GOOD], [HIDDEN], 0),
        ([GOOD, turn_request("s", ("get_weather", {"city": "Paris"}), user=ASKED)],
         [GOOD, turn_request("s", ("get_weather", {"city": "Lyon"}), user=ASKED)], 1),
        ([turn_request("s", ("get_weather", {"city": "Paris"}), user=ASKED)],
         [turn_request("s", ("get_weather", None), user=ASKED)], 0),
    ],
)  # fmt: skip
def test_only_what_got_worse_since_a_baseline_fails(
    run: Run, tmp_path: Path, before: list[dict[str, Any]], now: list[dict[str, Any]], exit_code: int
) -> None:
    (tmp_path / "before.json").write_text(score(run, tmp_path, before, "--format", "json").stdout, "utf-8")
    result = score(run, tmp_path, now, "--baseline", "before.json")
    assert result.exit_code == exit_code
    assert ("tool_parameter_grounding: " in said(result)) is bool(exit_code)


def test_what_a_sample_leaves_out_is_counted(run: Run, tmp_path: Path) -> None:
    requests = [turn_request(f"s-{one}", ("get_weather", {"city": "Paris"}), user=ASKED) for one in range(40)]
    text = said(score(run, tmp_path, requests, "--sample", "0.5"))
    found = re.search(r"sessions (\d+) passed, judged without goldens; (\d+) not in the sample", text)
    assert found is not None, text
    assert int(found[1]) + int(found[2]) == 40


HOSTILE = "\x1b[2J\u202e</summary>|`](http://x) @team <img src=x onerror=alert(1)>"


def test_names_and_values_of_traces_are_text_in_every_report(run: Run, tmp_path: Path) -> None:
    request = turn_request("s", (f"tool {HOSTILE}", {f"argument {HOSTILE}": f"77 {HOSTILE}"}), user=ASKED)
    files = {"junit": "r.xml", "html": "r.html", "markdown": "r.md"}
    options = [part for kind, name in files.items() for part in ("--report", f"{kind}={name}")]
    result = score(run, tmp_path, [request], *options)
    assert result.exit_code == 1
    ET.parse(tmp_path / "r.xml")
    page, comment = ((tmp_path / name).read_text("utf-8") for name in ("r.html", "r.md"))
    assert "<img" not in page
    outside = re.sub(r"```+text\n.*?\n```+", "", comment, flags=re.DOTALL)
    assert "<img" not in outside
    assert "@team" not in outside
    for text in (result.output, page, comment, run("inspect", "traces.jsonl", "--why", "s#1").output):
        assert "\x1b" not in text
        assert "\u202e" not in text


OWN_METRIC = """
from goldspan.scoring.metrics import Finding, MetricScore, metric


@metric(description="Whether a call is short.")
def short(session):
    paths = {paths}
    turns = [
        MetricScore(0, calls=[MetricScore(0, findings=(Finding(paths[0], "too_long", "is long", failed=True),))])
        for turn in session.turns
    ]
    return MetricScore(0, turns=turns)
"""


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/city", "findings get_weather.city (too long)"),
        ("", "findings get_weather (too long)"),
        ("city", "short - 0 0 1: the metric raised an error; ValueError"),
    ],
)
def test_a_metric_of_ones_own_that_needs_no_golden_has_a_row_too(
    run: Run, tmp_path: Path, path: str, says: str
) -> None:
    (tmp_path / "short_calls.py").write_text(OWN_METRIC.replace("{paths}", repr([path])), "utf-8")
    sys.modules.pop("short_calls", None)
    result = score(run, tmp_path, [GOOD], "--metric", "short_calls:short=1")
    assert says in said(result)
    assert result.exit_code == (0 if path == "city" else 1)


def test_findings_inform_unless_a_build_is_to_fail_on_them(run: Run, tmp_path: Path) -> None:
    write_lines(tmp_path / "traces.jsonl", GOOD, INVENTED)
    informs = run("score", "traces.jsonl")
    assert informs.exit_code == 0
    assert "get_weather.city (no origin)  in 1 of 2 sessions" in informs.output
    assert "`--fail-on rare`" in informs.output
    assert run("score", "traces.jsonl", "--fail-on", "rare").exit_code == 1
    assert run("score", "traces.jsonl", "--fail-on", "any").exit_code == 1
    assert run("score", "traces.jsonl", "--fail-on", "tool_parameter_grounding=0.5").exit_code == 1
    assert run("score", "traces.jsonl", "--fail-on", "tool_call_repetition=1").exit_code == 0
    assert run("score", "traces.jsonl", "--fail-on", "most").exit_code == 2


def many(count: int, **wrong: dict[str, Any]) -> list[dict[str, Any]]:
    """Sessions of an agent that sends an id of its own; some are wrong, by number."""
    return [
        turn_request(
            f"s-{n}",
            ("refund", {"order": f"W{n + 1000}", "request_id": f"r-{n * 7919 + 1_000_011}"} | wrong.get(f"s{n}", {})),
            user=f"Refund W{n + 1000}, please.",
        )
        for n in range(count)
    ]


def test_what_most_sessions_have_is_folded_and_fails_nothing(run: Run, tmp_path: Path) -> None:
    write_lines(tmp_path / "traces.jsonl", *many(20, s3={"order": "W77777"}))
    found = document(run("score", "traces.jsonl", "--format", "json"))["findings"]
    assert [(one["argument"], one["sessions"], one["of"]) for one in found["rare"]] == [("refund.order", 1, 20)]
    assert [(one["argument"], one["sessions"]) for one in found["systematic"]] == [("refund.request_id", 20)]
    text = run("score", "traces.jsonl").output
    assert "generated: [refund.request_id]" in " ".join(text.split())
    failing = document(run("score", "traces.jsonl", "--format", "json", "--fail-on", "rare"))
    failed = [one["id"] for one in failing["sessions"] if any(metric["label"] == "fail" for metric in one["metrics"])]
    assert failed == ["s-3"]
    assert run("score", write_lines(tmp_path / "right.jsonl", *many(20)), "--fail-on", "rare").exit_code == 0


def test_from_a_hundred_sessions_on_they_are_each_others_profile(run: Run, tmp_path: Path) -> None:
    wrong = {"s3": {"order": 5}, "s8": {"order": None}, "s9": {"force": True}}
    for count, expected in ((99, ["s-3"]), (120, ["s-3", "s-8", "s-9"])):
        write_lines(tmp_path / "traces.jsonl", *many(count, **wrong))
        found = document(run("score", "traces.jsonl", "--format", "json"))["findings"]["rare"]
        assert sorted({place["session"] for one in found for place in one["places"]}) == expected


def test_findings_do_not_depend_on_order_or_processes(run: Run, tmp_path: Path) -> None:
    requests = many(120, s3={"order": 5}, s8={"order": "W77777"})
    first = write_lines(tmp_path / "first.jsonl", *requests)
    last = write_lines(tmp_path / "last.jsonl", *reversed(requests))
    documents = [
        document(run("score", *options, "--format", "json"))["findings"]
        for options in ((first,), (last,), (first, "--jobs", "2"))
    ]
    assert documents[0]["rare"]
    assert documents[0] == documents[1] == documents[2]


def test_reports_show_findings_first(run: Run, tmp_path: Path) -> None:
    write_lines(tmp_path / "traces.jsonl", *many(20, s3={"order": "<W77777>"}))
    run("score", "traces.jsonl", "--report", "html=r.html", "--report", "markdown=r.md")
    page, comment = ((tmp_path / name).read_text("utf-8") for name in ("r.html", "r.md"))
    assert page.index("<h2>Findings</h2>") < page.index("Without goldens</caption>")
    assert "&lt;W77777&gt;" in page
    assert "Systematic" in page
    assert "| <code>refund.order</code> no origin | 1 of 20 sessions |" in comment
    assert "<summary>Systematic" in comment


def test_a_persons_answers_become_rules_and_goldens(run: Run, tmp_path: Path) -> None:
    wrong = {"s3": {"order": "W77777"}, "s9": {"force": True}}
    write_lines(tmp_path / "traces.jsonl", *many(120, **wrong))
    answers = [
        *("--expected", "refund.request_id", "--expected", "refund.force"),
        *("--wrong", "refund.order"),
    ]
    done = run("profile", "review", "traces.jsonl", "-p", "p.yaml", "--goldens", "wrong.yaml", *answers)
    assert (done.exit_code, "2 rules, 1 mistake" in done.stderr) == (0, True)
    learnt = run("profile", "learn", "traces.jsonl", "-o", "p.yaml")
    assert learnt.exit_code == 0
    found = document(run("score", "traces.jsonl", "--profile", "p.yaml", "--format", "json"))["findings"]
    assert [one["argument"] for one in found["rare"]] == ["refund.order"]
    assert found["systematic"] == []
    forbidden = document(run("score", "traces.jsonl", "--goldens", "wrong.yaml", "--format", "json"))
    assert [one["id"] for one in forbidden["sessions"] if one["label"] == "fail"] == ["s-3"]
    refused = run("profile", "review", "traces.jsonl", "-p", "p.yaml", "--wrong", "refund.order")
    assert (refused.exit_code, "--goldens" in refused.stderr) == (2, True)
    nobody = run("profile", "review", "traces.jsonl", "-p", "p.yaml", "--wrong", "refund.odrer")
    assert (nobody.exit_code, "refund.odrer: nothing was found in it" in nobody.stderr) == (0, True)


GOLDEN = '{"session": "s-1", "calls": [{"name": "refund"}]}'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mine.yaml", f"# mine\ngolden_set: mine  # and mine\ngoldens: [{GOLDEN}]\n"),
        ("mine.yaml", f"golden_set: mine\ngoldens: [{GOLDEN}]\nforbidden:\n  - {{name: x, forbidden: true}}  # mine\n"),
        ("mine.json", f'{{"golden_set": "mine", "goldens": [{GOLDEN}]}}\n'),
        ("mine.jsonl", f'{{"golden_set": "mine"}}\n{GOLDEN}\n'),
        ("new.json", ""),
    ],
)
def test_a_golden_set_that_a_person_adds_to_stays_what_it_was(name: str, text: str, run: Run, tmp_path: Path) -> None:
    write_lines(tmp_path / "traces.jsonl", *many(20, s3={"order": {"$regex": "W7"}}))
    file = tmp_path / name
    if text:
        file.write_text(text, "utf-8")
    for _ in range(2):
        done = run(
            "profile", "review", "traces.jsonl", "-p", "p.yaml", "--goldens", name, "--wrong", "refund.order.$regex"
        )
        assert (done.exit_code, "1 mistake" in done.stderr) == (0, True), done.stderr
    written = file.read_text("utf-8")
    assert written.count("$literal") == 1
    assert written.count("mine") == text.count("mine")
    assert load_goldens(file).sets[0].name == file.stem
