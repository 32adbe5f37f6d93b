"""The HTML report in a real browser: light, dark and narrow, by keyboard alone, without a word on the console."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from goldspan.collector_processor.replay.summary_and_exit_code import CoverageMode, decide_exit_code
from goldspan.collector_processor.report.html import html_report
from goldspan.collector_processor.report.model import build_report
from goldspan.scoring import Session, ToolCall, Turn, score_sessions
from goldspan.scoring.run import ScoringResult
from goldspan.scoring.sessions import Capture, Content
from rigs.browser import NAMES, Page, browser, executable
from rigs.scored_sessions import EVERYTHING, METRICS, ODD

CHROMIUM = executable()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=f"no browser on this machine: {', '.join(NAMES)}")

BY_PRESET = score_sessions(
    {"golden_set": "p", "goldens": [{"session": "by-preset", "turns": [{"calls": [{"name": "f", "args": {"x": 1}}]}]}]},
    Session("by-preset", (Turn((ToolCall("f", {"x": 2}),), start=1),)),
    preset="adk_parameter_match",
)
ORDER = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id", "reason"]}
WITHOUT_GOLDENS = score_sessions(
    None,
    [
        Session(
            name,
            (
                Turn(
                    (ToolCall("modify_pending_order_items", arguments, call_id=f"call-{name}"),),
                    start=1,
                    user_text=Content("Cancel #W2890441, please", Capture.CAPTURED),
                    tool_definitions=Content(
                        [{"name": "modify_pending_order_items", "parameters": ORDER}], Capture.CAPTURED
                    ),
                ),
            ),
        )
        for name, arguments in (
            ("judged-right", {"order_id": "#W2890441", "reason": ""}),
            ("judged-wrong", {"order_id": "#W2890442", "items": [{"new_item_identifier": "9" * 30}], "reason": 7}),
            ("judged-not", None),
        )
    ],
)
ALL = ScoringResult(
    (
        *(replace(one, metrics=METRICS) for one in EVERYTHING.sessions),
        *ODD.sessions,
        *BY_PRESET.sessions,
        *WITHOUT_GOLDENS.sessions,
    ),
    EVERYTHING.never_seen,
    EVERYTHING.problems,
    EVERYTHING.golden_sets,
)
FOCUSED = "document.activeElement"
SHOWN = "[...document.querySelectorAll('.session')].filter((one) => !one.hidden)"
CONTRASTS = """
(() => {
  const channels = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = channels(color).map((one) => one / 255)
      .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const color = getComputedStyle(element).backgroundColor;
      if ((channels(color)[3] ?? 1) === 1) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const faint = [];
  for (const element of document.querySelectorAll("body *:not(script):not(style)")) {
    const said = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!said || !element.checkVisibility() || element.matches(".unseen")) continue;
    const [one, other] = [light(getComputedStyle(element).color), light(behind(element))].sort((a, b) => b - a);
    const contrast = (one + 0.05) / (other + 0.05);
    if (contrast < 4.5) faint.push(`${element.className || element.tagName} ${contrast.toFixed(2)}`);
  }
  return [...new Set(faint)];
})()
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(CHROMIUM or "", tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture
def report(page: Page, tmp_path: Path) -> Iterator[Page]:
    """The report of everything that can become of a call, freshly opened."""
    path = tmp_path / "report.html"
    decision = decide_exit_code(ALL, recognised=1, coverage=CoverageMode.STRICT)
    path.write_bytes(html_report(build_report(ALL, decision)).encode("utf-8", "backslashreplace"))
    page.look()
    page.open(path)
    yield page
    assert page.complaints == []
    assert [one for one in page.requests if not one.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 768, 360])
def test_it_fits_and_can_be_read(report: Page, width: int, dark: bool) -> None:
    report.look(width=width, dark=dark)
    report.run("document.getElementById('open-all').click()")
    assert report.run("document.documentElement.scrollWidth") <= width
    cut = "[...document.querySelectorAll('.wide')].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    assert report.run(cut) == 0, "no table has to be moved sideways"
    assert report.run(CONTRASTS) == []
    light = "getComputedStyle(document.body).backgroundColor === 'rgb(255, 255, 255)'"
    assert report.run(light) is not dark


def test_the_filter_is_one_key_away(report: Page) -> None:
    total = report.run(f"{SHOWN}.length")
    report.press("/", text="/")
    assert report.run(f"{FOCUSED}.id") == "text"
    report.write("sess-good")
    assert report.run("document.getElementById('text').value") == "sess-good"
    assert report.run(f"{SHOWN}.length") == 1
    assert report.run("document.getElementById('shown').textContent") == f"1 of {total} shown"
    report.write(" nowhere")
    assert report.run(f"{SHOWN}.length") == 0
    assert report.run("document.getElementById('nothing-left').checkVisibility()")
    report.press("Escape")
    assert report.run(f"{SHOWN}.length") == total
    assert report.run(f"{FOCUSED}.id") == ""


def test_labels_are_chosen_with_the_arrows(report: Page) -> None:
    total = report.run(f"{SHOWN}.length")
    report.press("Tab")
    assert report.run(f"{FOCUSED}.name") == "label"
    chosen: list[str] = []
    for _ in range(3):
        report.press("ArrowRight")
        chosen.append(report.run(f"{FOCUSED}.value"))
        labels = report.run(f"{SHOWN}.map((one) => one.dataset.label)")
        assert labels
        assert set(labels) == {chosen[-1]}
    assert chosen == ["fail", "not_evaluated", "pass"]
    report.press("ArrowRight")
    assert report.run(f"{SHOWN}.length") == total


def test_everything_can_be_reached_and_opened_by_key(report: Page) -> None:
    report.run("document.getElementById('close-all').focus()")
    report.press("Enter")
    assert report.run("document.querySelectorAll('.session[open], .group[open]').length") == 0
    first = "document.querySelector('main details')"
    report.run("document.getElementById('close-all').focus()")
    for _ in range(4):  # the list of mistakes and its filters stand before the sessions
        report.press("Tab")
        if report.run(f"{FOCUSED} === {first}.querySelector('summary')"):
            break
    assert report.run(f"{FOCUSED} === {first}.querySelector('summary')")
    outline = f"getComputedStyle({FOCUSED}).outlineStyle"
    assert report.run(outline) == "solid", "one sees where one is"
    report.press("Enter")
    assert report.run(f"{first}.open")
    report.press(" ", text=" ")
    assert not report.run(f"{first}.open")
    report.run("document.getElementById('close-all').focus()")
    report.press("Tab", shift=True)
    assert report.run(f"{FOCUSED}.id") == "open-all"
    report.press(" ", text=" ")
    assert report.run(f"{SHOWN}.every((one) => one.open)")


VISIBLE = "[...document.querySelectorAll('.session')].filter((one) => getComputedStyle(one).display !== 'none')"
MISTAKES = """
Object.fromEntries([...document.querySelectorAll('.choice')].map((one) => [one.querySelector('input').id,
  Number(one.querySelector('b').textContent)]))
"""


@pytest.fixture
def many(page: Page, tmp_path: Path) -> Iterator[Path]:
    """The report of 60 sessions, 40 of which fail in three ways."""
    wrong: list[dict[str, Any]] = [{"city": "Rome", "days": 1}, {"city": "Paris"}, {"city": "Rome", "days": 2}]
    goldens = [
        {"session": f"s-{index}", "turns": [{"calls": [{"name": "get_weather", "args": {"city": "Paris", "days": 1}}]}]}
        for index in range(60)
    ]
    sessions = [
        Session(
            f"s-{index}",
            (
                Turn(
                    (ToolCall("get_weather", wrong[index % 3] if index < 40 else {"city": "Paris", "days": 1}),),
                    start=1,
                ),
            ),
        )
        for index in range(60)
    ]
    result = score_sessions({"golden_set": "w", "goldens": goldens}, sessions)
    path = tmp_path / "many.html"
    decision = decide_exit_code(result, recognised=1, coverage=CoverageMode.STRICT)
    path.write_bytes(html_report(build_report(result, decision)).encode())
    yield path
    page.scripts(allowed=True)


@pytest.mark.parametrize("scripts", [True, False], ids=["with script", "without script"])
def test_a_mistake_is_a_filter_with_and_without_scripts(page: Page, many: Path, scripts: bool) -> None:
    page.scripts(allowed=scripts)
    page.look()
    page.open(many)
    choices = page.run(MISTAKES)
    assert sorted(choices.values(), reverse=True)[0] == 40, "the tool"
    assert len(choices) > 2
    for choice, count in choices.items():
        page.run(f"document.getElementById('{choice}').click()")
        assert page.run(f"{VISIBLE}.length") == count
    page.run("document.getElementById('any').click()")
    assert page.run(f"{VISIBLE}.length") == 60
    page.run("document.getElementById('show-pass').click()")
    assert page.run(f"{VISIBLE}.length") == 20


def test_sessions_that_fail_alike_are_folded_into_groups(page: Page, many: Path) -> None:
    page.look()
    page.open(many)
    assert page.run("document.querySelectorAll('details.session[open], details.group[open]').length") == 0
    groups = "[...document.querySelectorAll('.group.fail')].map((one) => one.querySelectorAll('.session').length)"
    sizes = page.run(groups)
    assert sum(sizes) == 40
    assert sizes == sorted(sizes, reverse=True)
    page.run("document.querySelector('.choice input').click()")
    assert page.run("document.querySelectorAll('details.group.fail:not([open]):not([hidden])').length") == 0


@pytest.mark.parametrize("width", [1360, 390])
def test_rows_stack_and_no_word_is_broken_on_a_phone(report: Page, width: int) -> None:
    report.look(width=width)
    report.run("document.getElementById('open-all').click()")
    side_by_side = """
    [...document.querySelectorAll('.call .wide tbody tr')].filter((row) => {
      const cells = [...row.querySelectorAll('td[data-head]')].map((cell) => cell.getBoundingClientRect().top);
      return cells.length > 1 && row.checkVisibility() && Math.abs(cells[0] - cells[1]) < 2;
    }).length
    """
    assert (report.run(side_by_side) == 0) is (width == 390)
    broken = """
    [...document.querySelectorAll('tbody th, .what, .badge, .cause')].filter((one) => {
      const word = one.textContent.trim();
      if (!one.checkVisibility() || /\\s/.test(word) || word.length > 24) return false;
      const range = document.createRange();
      range.selectNodeContents(one);
      return new Set([...range.getClientRects()].map((part) => Math.round(part.top / 12))).size > 1;
    }).map((one) => one.textContent)
    """
    assert report.run(broken) == []


def test_what_was_found_without_goldens_is_a_table_a_session_and_a_filter(report: Page) -> None:
    report.run("document.getElementById('open-all').click()")
    table = " ".join(report.run("document.querySelector('.summary:not(.findings) .rows').innerText").split())
    assert "tool_parameter_grounding" in table
    assert "tool_parameter_schema" in table
    session = "[...document.querySelectorAll('.session')].find((one) => one.textContent.includes('judged-wrong'))"
    text = " ".join(report.run(f"{session}.innerText").split())
    assert 'order_id "#W2890442" comes from nowhere before the call: nearest is #W2890441' in text
    choices = "[...document.querySelectorAll('.choice')].map((one) => one.innerText)"
    assert any("order_id no origin" in " ".join(choice.split()) for choice in report.run(choices))


def test_what_failed_beside_the_score_is_seen_while_its_session_is_closed(report: Page) -> None:
    closed = "document.querySelector('.session.pass > summary').innerText"
    assert "✗ trajectory_f1 0.50" in report.run(closed)
    assert "scored by adk_parameter_match" in report.run("document.body.innerText")
