"""The pytest plugin, as its users run it: projects with tests that pytest runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree.ElementTree import parse

import pytest
import yaml  # noqa: F401 - as below

# Imported here: what a run in this process imports first, it would import again in each run.
import goldspan.collector_processor.pytest_plugin.fixture  # noqa: F401
from goldspan.scoring import load_goldens

pytest_plugins = ["pytester"]

CONFTEST = """
import pytest
from opentelemetry.sdk.trace import TracerProvider
from rigs.scripted_agent import run_turn

PROVIDER = TracerProvider()
PARIS, ROME = ("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})


@pytest.fixture
def goldspan_tracer_provider():
    return PROVIDER


@pytest.fixture
def agent():
    def run(*calls, session=None, said=None):
        messages = '[{"role": "user", "parts": [{"type": "text", "content": "%s"}]}]' % said
        attributes = {"gen_ai.input.messages": messages} if said else {}
        run_turn(PROVIDER.get_tracer("agent"), session, calls, attributes=attributes)
    return run
"""
IMPORTS = "import pytest\nfrom conftest import PARIS, ROME, PROVIDER\n\n"
GOLDENS = """\
# by hand
golden_set: weather
goldens:
  - session: sess-1
    calls: [{name: get_weather, args: {city: Paris}}]  # the capital
  - session: test_named
    calls:
      - {name: get_weather, args: {city: {$any_of: [Rome, Roma]}}}
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\naddopts = --strict-markers -p no:cacheprovider -p no:asyncio\n")
    return pytester


def write_tests(project: pytest.Pytester, body: str, name: str = "test_agent") -> None:
    project.makepyfile(**{name: IMPORTS + body})


def the_output(result: pytest.RunResult) -> str:
    return "\n".join(result.outlines)


MATCHING = {
    "calls": "goldspan.assert_matches([{'name': 'get_weather', 'args': {'city': 'Paris'}}])",
    "golden": "goldspan.assert_matches({'turns': [{'calls': [{'name': 'get_weather', 'args': {'city': 'Paris'}}]}]})",
    "set": "goldspan.assert_matches({'golden_set': 'x', 'goldens': [{'session': 'a', 'calls': [{'name': 'get_weather',"
    " 'args': {'city': 'Paris'}}]}]})",
    "file": "goldspan.assert_matches('goldens.yaml')",
    "name": "goldspan.assert_matches('sess-1')",
    "value": "from goldspan.scoring import ExpectedCall, Golden\n"
    "    goldspan.assert_matches(Golden(calls=(ExpectedCall('get_weather', {'city': 'Paris'}),)))",
}


@pytest.mark.parametrize("calls", ["PARIS", "ROME"])
@pytest.mark.parametrize("given", MATCHING)
def test_every_form_of_golden_passes_and_fails_with_the_difference(
    project: pytest.Pytester, given: str, calls: str
) -> None:
    (project.path / "goldens.yaml").write_text(GOLDENS.replace("sess-1", "a") if given == "file" else GOLDENS, "utf-8")
    write_tests(
        project,
        f"@pytest.mark.golden('goldens.yaml')\ndef test_one(goldspan, agent):\n    agent({calls}, session='a')\n"
        f"    {MATCHING[given]}\n",
    )
    result = project.runpytest_inprocess()
    result.assert_outcomes(passed=int(calls == "PARIS"), failed=int(calls == "ROME"))
    if calls == "ROME":
        result.stdout.fnmatch_lines(
            [
                'E       AssertionError: ✗ 0.00  *get_weather.city (expected "Paris", found "Rome")*',
                'E *city  expected "Paris", found "Rome"',
                "✗ 0.00  test_agent.py::test_one*",
            ]
        )
        assert "fixture.py" not in the_output(result)  # only the line of the test


def test_markers_of_module_and_test_add_up_and_goldens_are_found_by_name(project: pytest.Pytester) -> None:
    (project.path / "goldens.yaml").write_text(GOLDENS, "utf-8")
    write_tests(
        project,
        "pytestmark = pytest.mark.golden('goldens.yaml')\n\n"
        "def test_named(goldspan, agent):\n    agent(ROME)\n    assert goldspan.assert_matches().score == 1\n\n"
        "@pytest.mark.golden(session='sess-1')\n"
        "def test_by_session(goldspan, agent):\n    agent(PARIS, session='any')\n    goldspan.assert_matches()\n\n"
        "def test_by_id(goldspan, agent):\n    agent(PARIS, session='sess-1')\n    goldspan.assert_matches()\n",
    )
    project.runpytest_inprocess().assert_outcomes(passed=3)


def test_options_are_those_of_the_api(project: pytest.Pytester) -> None:
    write_tests(
        project,
        "TWO = [{'name': 'get_weather', 'args': {'city': 'Paris', 'days': 2}}]\n"
        "THREE = ('get_weather', {'city': 'Paris', 'days': 3})\n\n"
        "def test_low(goldspan, agent):\n    agent(THREE)\n    goldspan.assert_matches(TWO, threshold=0.5)\n\n"
        "def test_extra(goldspan, agent):\n    agent(PARIS, ROME)\n"
        "    goldspan.assert_matches([dict(name='get_weather')], criterion={'extra_calls': 'penalize'})\n\n"
        "def test_metric(goldspan, agent):\n    agent(PARIS, said='Rome?')\n"
        "    goldspan.assert_matches([dict(name='get_weather')], metrics=['tool_parameter_grounding=1'])\n\n"
        "def test_preset(goldspan, agent):\n    agent(PARIS)\n    result = goldspan.assert_matches(TWO[:0] + "
        "[dict(name='get_weather', args={'city': 'Paris'})], preset='axion')\n"
        "    assert result.sessions[0].preset == 'axion'\n",
    )
    result = project.runpytest_inprocess()
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["FAILED *test_extra*", "FAILED *test_metric*"])
    result.stdout.fnmatch_lines(['E *✗ 0.00 tool_parameter_grounding: *"Paris" comes from nowhere*'])


WEATHER = "def test_weather(goldspan, agent):\n    agent({calls}, said='Weather?')\n    goldspan.assert_matches()\n"
OTHER = (
    "\n\n@pytest.mark.parametrize('call', [PARIS, ROME], ids=['a', 'b::c.d'])\ndef test_both(goldspan, agent, call):\n"
)
OTHER += "    agent(call)\n    goldspan.assert_matches()\n"


@pytest.mark.parametrize("file", ["__goldens__/test_agent.yaml", "mine/goldens.jsonl"])
def test_an_update_writes_what_is_missing_and_changes_what_differs(project: pytest.Pytester, file: str) -> None:
    marker = "" if file.startswith("__") else f"pytestmark = pytest.mark.golden({file!r})\n\n"
    path = project.path / file
    write_tests(project, marker + WEATHER.format(calls="PARIS"))
    result = project.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [f"*no golden `test_weather` in {file}; *: pytest test_agent.py::test_weather --goldspan-update"]
    )
    assert not path.exists()

    project.runpytest_inprocess("--goldspan-update").stdout.fnmatch_lines([f"new *{file}: test_weather"])
    assert [golden.key for golden in load_goldens(path).goldens] == ["test_weather"]
    written = path.read_text("utf-8")
    project.runpytest_inprocess("--goldspan-update").assert_outcomes(passed=1)
    assert path.read_text("utf-8") == written

    write_tests(project, marker + WEATHER.format(calls="ROME") + OTHER)
    project.runpytest_inprocess("-k", "weather").assert_outcomes(failed=1)
    result = project.runpytest_inprocess("--goldspan-update")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [f"new *{file}: test_both[[]a[]], test_both[[]b::c.d[]]", f"changed *{file}: test_weather"], consecutive=True
    )
    project.runpytest_inprocess().assert_outcomes(passed=3)
    assert "Paris" in path.read_text("utf-8")


def test_a_review_shows_what_an_update_would_change_and_writes_nothing(project: pytest.Pytester) -> None:
    write_tests(project, WEATHER.format(calls="PARIS"))
    project.runpytest_inprocess("--goldspan-review").stdout.fnmatch_lines(["would be new *: test_weather"])
    path = project.path / "__goldens__/test_agent.yaml"
    assert not path.exists()
    project.runpytest_inprocess("--goldspan-update")
    written = path.read_text("utf-8")

    write_tests(project, WEATHER.format(calls="ROME"))
    difference = ["*-* city: Paris", "*+* city: Rome"]
    result = project.runpytest_inprocess("--goldspan-review")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["would be changed *: test_weather", *difference])
    assert path.read_text("utf-8") == written
    project.runpytest_inprocess("--goldspan-update").stdout.fnmatch_lines(["changed *: test_weather", *difference])
    assert "Rome" in path.read_text("utf-8")


@pytest.mark.parametrize(
    ("body", "warned"),
    [
        ("agent(PARIS)", True),
        ("agent(PARIS)\n    assert goldspan.sessions", False),
        ("goldspan.assert_grounded()", False),
    ],
)
def test_a_test_that_asserts_nothing_is_told(project: pytest.Pytester, body: str, warned: bool) -> None:
    write_tests(project, f"def test_x(goldspan, agent):\n    {body}\n")
    assert ("asserts nothing" in str(project.runpytest_inprocess().stdout)) is warned


def test_an_update_keeps_what_a_person_wrote(project: pytest.Pytester) -> None:
    path = project.path / "goldens.yaml"
    path.write_text(GOLDENS, "utf-8")
    write_tests(
        project,
        "pytestmark = pytest.mark.golden('goldens.yaml')\n\n"
        "ROMA = ('get_weather', {'city': 'Roma'})\n\n"
        "def test_named(goldspan, agent):\n    agent(ROMA)\n    goldspan.assert_matches()\n\n"
        "def test_other(goldspan, agent):\n    agent(ROME)\n    goldspan.assert_matches('sess-1')\n",
    )
    project.runpytest_inprocess("--goldspan-update").assert_outcomes(passed=2)
    assert path.read_text("utf-8") == GOLDENS.replace("city: Paris", "city: Rome")


def test_an_update_minds_what_the_assertion_minds(project: pytest.Pytester) -> None:
    body = "def test_x(goldspan, agent):\n    agent({})\n    goldspan.assert_matches(criterion=STRICT)\n"
    body = f"STRICT = {{{{'extra_calls': 'penalize'}}}}\n\n{body}"
    for calls in ("PARIS", "PARIS, ROME"):
        write_tests(project, body.format(calls))
        project.runpytest_inprocess("--goldspan-update").assert_outcomes(passed=1)
        project.runpytest_inprocess().assert_outcomes(passed=1)
    path = project.path / "__goldens__" / "test_agent.yaml"
    assert len(load_goldens(path).goldens[0].turns[0].calls) == 2


def test_an_update_refuses_what_it_cannot_record(project: pytest.Pytester) -> None:
    (project.path / "goldens.yaml").write_text(
        "golden_set: w\ngoldens:\n- session: s\n  calls: [{name: get_weather, forbidden: true}]\n", "utf-8"
    )
    write_tests(
        project,
        "def test_no_call(goldspan, agent):\n    agent()\n    goldspan.assert_matches()\n\n"
        "def test_no_span(goldspan):\n    goldspan.assert_matches()\n\n"
        "@pytest.mark.golden('goldens.yaml', session='s')\n"
        "def test_forbidden(goldspan, agent):\n    agent(PARIS)\n    goldspan.assert_matches()\n",
    )
    result = project.runpytest_inprocess("--goldspan-update")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["E *no tool was called*", "E *no span was recorded in this test*", "E *is forbidden*"])


def test_what_no_golden_file_can_hold_spoils_no_other_golden(project: pytest.Pytester) -> None:
    write_tests(
        project,
        "@pytest.mark.parametrize('tool', ['f', chr(0xd83d)], ids=['good', 'half'])\n"
        "def test_x(goldspan, agent, tool):\n    agent((tool, {'x': chr(0xd83d)}))\n    goldspan.assert_matches()\n",
    )
    result = project.runpytest_inprocess("--goldspan-update")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E *without halves of characters*"])
    reports = [f"--goldspan-report={kind}=report.{kind}" for kind in ("html", "json", "junit", "markdown")]
    result = project.runpytest_inprocess(*reports)
    result.assert_outcomes(passed=1, failed=1)
    assert all((project.path / f"report.{kind}").exists() for kind in ("html", "json", "junit", "markdown"))


RUNS = """
@pytest.mark.golden(runs=5, passes=4)
def test_runs(goldspan, agent):
    following = iter({calls})

    def ask():
        call = next(following)
        if call is None:
            agent(PARIS)
            raise ConnectionError("the model is down")
        agent(call)
        return call[1]["city"]

    answers = goldspan.run(ask)
    assert answers == [call[1]["city"] for call in {calls} if call]
    result = goldspan.assert_matches([{{"name": "get_weather", "args": {{"city": "Paris"}}}}])
    assert len(result.sessions) == 5 and result.repeats[0].runs_passed == 4
"""


@pytest.mark.parametrize(
    ("calls", "lines"),
    [
        ("[PARIS, PARIS, ROME, PARIS, PARIS]", ()),
        ("[PARIS, PARIS, None, PARIS, PARIS]", ()),
        (
            "[PARIS, ROME, None, PARIS, PARIS]",
            ("E *✗ 0.60 golden test_runs: 3 of 5 runs passed, 4 of 5 must", "E *run 3 raised ConnectionError: *down"),
        ),
    ],
)
def test_a_flaky_agent_passes_if_enough_runs_pass(project: pytest.Pytester, calls: str, lines: tuple[str, ...]) -> None:
    write_tests(project, RUNS.format(calls=calls))
    result = project.runpytest_inprocess()
    result.assert_outcomes(passed=int(not lines), failed=int(bool(lines)))
    result.stdout.fnmatch_lines(lines)


def test_the_golden_says_how_often_to_run_and_a_test_that_does_not_run_fails(project: pytest.Pytester) -> None:
    (project.path / "goldens.yaml").write_text(GOLDENS.replace("    calls: [", "    repeat: {runs: 2}\n    calls: ["))
    write_tests(
        project,
        "pytestmark = pytest.mark.golden('goldens.yaml', session='sess-1')\n\n"
        "def test_run(goldspan, agent):\n    goldspan.run(agent, PARIS)\n    goldspan.assert_matches()\n\n"
        "def test_no_run(goldspan, agent):\n    agent(PARIS)\n    goldspan.assert_matches()\n\n"
        "@pytest.mark.golden(session='test_named')\n"
        "def test_unknown(goldspan, agent):\n    goldspan.run(agent, PARIS)\n",
    )
    result = project.runpytest_inprocess()
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["E *1 of 1 run passed, 2 of 2 must: too few were seen"])
    result.stdout.fnmatch_lines(["E *UsageError: *goldspan.run needs the number of runs*"])


def test_each_assertion_about_a_golden_with_repeat_is_a_result_of_its_own(project: pytest.Pytester) -> None:
    (project.path / "goldens.yaml").write_text(
        GOLDENS.replace("    calls: [", "    repeat: {runs: 2, passes: 1}\n    calls: [")
    )
    write_tests(
        project,
        "pytestmark = pytest.mark.golden('goldens.yaml', session='sess-1')\n\n"
        "def test_right(goldspan, agent):\n    goldspan.run(agent, PARIS)\n    goldspan.assert_matches()\n\n"
        "def test_wrong(goldspan, agent):\n    goldspan.run(agent, ROME)\n    goldspan.assert_matches()\n\n"
        "def test_twice(goldspan, agent):\n    goldspan.run(agent, ROME)\n"
        "    goldspan.assert_matches(threshold=0)\n    goldspan.assert_matches()\n",
    )
    result = project.runpytest_inprocess("--goldspan-report=json=report.json")
    result.assert_outcomes(passed=1, failed=2)
    repeats = json.loads((project.path / "report.json").read_text())["repeats"]
    assert [(one["golden"], one["label"], one["runs"]) for one in repeats] == [
        ("sess-1 of test_agent.py::test_right", "pass", 2),
        ("sess-1 of test_agent.py::test_wrong", "fail", 2),
        ("sess-1 of test_agent.py::test_twice", "pass", 2),
        ("sess-1 of test_agent.py::test_twice (2)", "fail", 2),
    ]


@pytest.mark.parametrize("plugin", ["asyncio", "anyio"])
def test_async_tests_and_runs(project: pytest.Pytester, plugin: str) -> None:
    if plugin == "asyncio":
        pytest.importorskip("pytest_asyncio", reason="pytest-asyncio is not installed")
        project.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    write_tests(
        project,
        "@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n\n"
        f"@pytest.mark.{plugin}\n@pytest.mark.golden(runs=2)\n"
        "async def test_async(goldspan, agent):\n    async def ask():\n        agent(PARIS)\n        return 1\n\n"
        "    assert await goldspan.arun(ask) == [1, 1]\n"
        "    goldspan.assert_matches([{'name': 'get_weather', 'args': {'city': 'Paris'}}])\n",
    )
    project.runpytest_inprocess().assert_outcomes(passed=1)


def test_spans_belong_to_the_test_in_which_they_start(project: pytest.Pytester) -> None:
    write_tests(
        project,
        "OPEN = []\n\n"
        "def test_first(goldspan):\n    span = PROVIDER.get_tracer('a').start_span('x', attributes="
        "{'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'late'})\n    OPEN.append(span)\n\n"
        "def test_second(goldspan, agent):\n    OPEN[0].end()\n    agent(PARIS)\n    agent(ROME, session='other')\n"
        "    assert [c.name for s in goldspan.sessions for t in s.turns for c in t.calls] == ['get_weather'] * 2\n"
        "    assert [s.id for s in goldspan.sessions] == ['test_second', 'other']\n"
        "    goldspan.assert_matches([[{'name': 'get_weather', 'args': {'city': c}}] for c in ('Paris', 'Rome')])\n",
    )
    project.runpytest_inprocess("-W", "ignore::pytest.PytestWarning").assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("agent(PARIS, said='Weather in Paris?')\n    goldspan.assert_grounded()", None),
        ("agent(PARIS, said='Weather?')\n    goldspan.assert_grounded()", '*"Paris" comes from nowhere*'),
        ("agent(PARIS, said='Weather?')\n    goldspan.assert_grounded(threshold=0)", None),
        (
            "agent(PARIS)\n    goldspan.assert_metric('tool_parameter_schema')",
            "*tool_parameter_schema: no definition of the tool*",
        ),
        ("agent(PARIS)\n    goldspan.assert_grounded()", "*nothing said before the call was captured*"),
        ("agent(PARIS, ROME)\n    goldspan.assert_metric('tool_call_repetition')", None),
        ("agent(PARIS)\n    goldspan.assert_metric('trajectory_f1')", "*no golden `test_metric` in __goldens__*"),
        (
            "agent(PARIS)\n    def half(session): return 0.5\n    goldspan.assert_metric(half)",
            "*✗ 0.50 half: 1 passes",
        ),
        ("agent(PARIS)\n    def half(session): return 0.5\n    goldspan.assert_metric(half, 0.5)", None),
        ("agent(PARIS)\n    goldspan.assert_metric('tool_parameter_schema', 2)", "*expected 0 to 1"),
        ("goldspan.assert_grounded()", "*no span was recorded*"),
        ("agent()\n    goldspan.assert_grounded()", "*tool_parameter_grounding: nothing to judge*"),
        ("agent(PARIS)\n    goldspan.assert_metric('tool_trajectory')", "*no metric is called*"),
    ],
)
def test_metrics_without_goldens_are_assertions(project: pytest.Pytester, body: str, line: str | None) -> None:
    write_tests(project, f"def test_metric(goldspan, agent):\n    {body}\n")
    result = project.runpytest_inprocess()
    result.assert_outcomes(passed=int(line is None), failed=int(line is not None))
    if line is not None:
        result.stdout.fnmatch_lines([f"E *{line}"])
        assert "fixture.py" not in the_output(result)


# Each group runs in one worker, whatever their order: results come together in another order than that of the tests.
GROUPS = """
def in_group(name):
    return pytest.mark.xdist_group(name)

@in_group("a")
def test_weather(goldspan, agent):
    agent(PARIS)
    goldspan.assert_matches()

@pytest.mark.parametrize("call", [pytest.param(PARIS, marks=in_group("b")), pytest.param(ROME, marks=in_group("a"))])
def test_both(goldspan, agent, call):
    agent(call)
    goldspan.assert_matches()

@in_group("b")
def test_other(goldspan, agent):
    agent(ROME)
    goldspan.assert_matches("x")
"""


def test_a_process_or_several_give_the_same_reports_and_goldens(project: pytest.Pytester) -> None:
    write_tests(project, GROUPS)
    found: list[tuple[object, ...]] = []
    for processes in ("0", "2"):
        (project.path / "__goldens__" / "test_agent.yaml").unlink(missing_ok=True)
        reports = ["--goldspan-report", "json=r.json", "--goldspan-report", "html=r.html", "--junitxml", "junit.xml"]
        workers = ("-n", processes, "--dist", "loadgroup")
        result = project.runpytest_inprocess(*workers, *reports, "--goldspan-update")
        result.assert_outcomes(passed=4)
        cases = {
            case.get("name", "").partition("@")[0]: {one.get("name"): one.get("value") for one in case.iter("property")}
            for case in parse(project.path / "junit.xml").iter("testcase")
        }
        results = json.loads((project.path / "r.json").read_text("utf-8"))
        calls = [(one["id"], one["score"], one["golden"]) for one in results["sessions"]]
        texts = [path.read_text("utf-8") for path in sorted((project.path / "__goldens__").iterdir())]
        found.append((cases, calls, texts, [line for line in result.outlines if line.startswith("new")]))
        assert "test_agent.py::test_weather" in (project.path / "r.html").read_text("utf-8")
    assert found[0] == found[1]
    assert cases["test_weather"] == {
        "goldspan.golden": "test_weather",
        "goldspan.session": "test_weather",
        "goldspan.score": "1.0",
        "goldspan.label": "pass",
    }


def test_goldens_that_no_test_uses_are_named(project: pytest.Pytester) -> None:
    write_tests(project, WEATHER.format(calls="PARIS") + OTHER)
    project.runpytest_inprocess("--goldspan-update").assert_outcomes(passed=3)
    write_tests(project, WEATHER.format(calls="PARIS"))
    line = "unused *test_agent.yaml: test_both[[]a[]], test_both[[]b::c.d[]]"
    project.runpytest_inprocess().stdout.fnmatch_lines([line])
    project.runpytest_inprocess("test_agent.py::test_weather").stdout.no_fnmatch_line("unused*")
    write_tests(project, WEATHER.format(calls="PARIS") + OTHER)
    project.runpytest_inprocess("-k", "weather").stdout.no_fnmatch_line("unused*")


@pytest.mark.parametrize(
    ("marker", "line"),
    [
        ("golden(runs=1, passes=2)", "*found runs=1 and passes=2, expected two whole numbers*"),
        ("golden(passes=2)", "*found runs=None and passes=2*"),
        ("golden('a.yaml', sesion='x')", "*expected golden(FILE, session=, runs=, passes=)*"),
    ],
)
def test_a_wrong_marker_says_what_is_wrong(project: pytest.Pytester, marker: str, line: str) -> None:
    write_tests(project, f"@pytest.mark.{marker}\ndef test_x(goldspan):\n    pass\n")
    result = project.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([line])


def test_a_wrong_golden_file_or_report_says_what_is_wrong(project: pytest.Pytester) -> None:
    (project.path / "bad.yaml").write_text("golden_set: x\ngoldens: [{sesion: a}]\n", "utf-8")
    write_tests(project, "def test_x(goldspan, agent):\n    agent(PARIS)\n    goldspan.assert_matches('bad.yaml')\n")
    result = project.runpytest_inprocess("--goldspan-report", "html=no/such/folder.html")
    result.stdout.fnmatch_lines(
        [
            "E *GoldenFileError: *bad.yaml:2: *",
            "E *goldens[[]0[]].sesion: unknown field*",
            "error *no/such/folder.html: cannot be written*",
        ]
    )
    assert project.runpytest_inprocess("--goldspan-report", "pdf=x").ret == pytest.ExitCode.USAGE_ERROR


def test_the_global_provider_is_set_up_and_others_may_be_given(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makepyfile(
        "from opentelemetry import _logs, trace\n"
        "from opentelemetry.sdk._logs import LoggerProvider\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from rigs.scripted_agent import PARIS, ROME, run_turn\n"
        "_logs.set_logger_provider(LoggerProvider())\n"
        "def test_both(goldspan):\n"
        "    mine = TracerProvider()\n"
        "    goldspan.collect(mine)\n"
        "    goldspan.collect(mine)\n"
        "    run_turn(trace.get_tracer('a'), None, [PARIS])\n"
        "    run_turn(mine.get_tracer('b'), None, [ROME])\n"
        "    goldspan.assert_matches([[{'name': n, 'args': a}] for n, a in (PARIS, ROME)])\n"
        "CALL = {'id': 'c', 'type': 'function', 'function': {'name': 'f', 'arguments': '{\"x\": 1}'}}\n"
        "def test_calls_in_a_log_record(goldspan):\n"
        "    chat = {'gen_ai.operation.name': 'chat', 'gen_ai.system': 'openai'}\n"
        "    with trace.get_tracer('a').start_as_current_span('chat', attributes=chat):\n"
        "        body = {'index': 0, 'finish_reason': 'tool_calls', 'message': {'tool_calls': [CALL]}}\n"
        "        _logs.get_logger('a').emit(body=body, event_name='gen_ai.choice')\n"
        "    goldspan.assert_matches([{'name': 'f', 'args': {'x': 1}}])\n"
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:asyncio").assert_outcomes(passed=2)


def test_pytest_loads_the_plugin_and_nothing_else_of_goldspan() -> None:
    code = (
        "import pytest, sys; before = set(sys.modules); import goldspan.collector_processor.pytest_plugin.plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)
    assert set(ran.stdout.split()) - set(sys.stdlib_module_names) == {
        "goldspan",
        "goldspan.collector_processor",
        "goldspan.collector_processor.pytest_plugin",
        "goldspan.collector_processor.pytest_plugin.plugin",
        "goldspan.scoring",
        "goldspan.scoring.lazy_names",
    }
