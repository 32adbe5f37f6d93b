"""What pytest loads: options, marker, fixtures and hooks. Everything else is imported when a test uses it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from goldspan.collector_processor.pytest_plugin.fixture import GoldspanFixture
    from goldspan.collector_processor.pytest_plugin.pytest_run import PytestRun

_MARKER = (
    "golden(file, *, session, runs, passes): the golden file of the fixture `goldspan`, relative to the test's folder; "
    "the golden in it, the test's name by default; how often `goldspan.run` runs the agent, and how many runs must pass"
)
_DESELECTED = pytest.StashKey[list[pytest.Item]]()
_RUN = pytest.StashKey["PytestRun"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("goldspan", "goldspan: tool calls of agents")
    group.addoption(
        "--goldspan-update",
        action="store_true",
        help="Write missing goldens, and change failing ones to expect what the agents did.",
    )
    group.addoption(
        "--goldspan-review", action="store_true", help="Show what --goldspan-update would change, and write nothing."
    )
    group.addoption(
        "--goldspan-report",
        action="append",
        default=[],
        metavar="KIND=FILE",
        help="Write a report over all tests: html, json, junit or markdown; repeatable.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and refuse a report that cannot be written."""
    config.addinivalue_line("markers", _MARKER)
    for option in config.getoption("--goldspan-report") or ():
        kind, equals, file = option.partition("=")
        if kind not in {"html", "json", "junit", "markdown"} or not equals or not file:
            raise pytest.UsageError(
                f"--goldspan-report: found {option!r}, expected html=FILE, json=FILE, junit=FILE or markdown=FILE"
            )


def _run(config: pytest.Config) -> PytestRun:
    if _RUN not in config.stash:
        from goldspan.collector_processor.pytest_plugin.pytest_run import PytestRun  # noqa: PLC0415 - as the docstring says

        config.stash[_RUN] = PytestRun(config)
    return config.stash[_RUN]


@pytest.fixture
def goldspan_tracer_provider() -> object:
    """Return the tracer provider of the agent. Override this fixture if it is not the global one."""
    from goldspan.collector_processor.pytest_plugin.pytest_run import global_tracer_provider  # noqa: PLC0415 - as the docstring says

    return global_tracer_provider()


@pytest.fixture
def goldspan(request: pytest.FixtureRequest, goldspan_tracer_provider: object) -> Iterator[GoldspanFixture]:
    """Record the spans that start during the test, and compare their tool calls with goldens."""
    from goldspan.collector_processor.pytest_plugin.fixture import GoldspanFixture  # noqa: PLC0415 - as the docstring says

    run = _run(request.config)
    with run.recorder.recording() as spans:
        fixture = GoldspanFixture(request.node, run, spans)
        fixture.collect(goldspan_tracer_provider)
        yield fixture
        if not fixture.asked:
            said = f"{request.node.nodeid} takes the fixture `goldspan` and asserts nothing: goldspan.assert_matches()"
            request.node.warn(pytest.PytestWarning(said))


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Remember tests that are left out: their goldens are not unused."""
    for item in items:
        item.config.stash.setdefault(_DESELECTED, []).append(item)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand results to the controller of pytest-xdist; without one, write golden files and reports."""
    if _RUN not in session.config.stash:
        return
    ours = session.config.stash[_RUN]
    ours.tests = [*getattr(session, "items", ()), *session.config.stash.get(_DESELECTED, ())]
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["goldspan"] = ours.to_bytes()
    elif not ours.finish():
        session.exitstatus = max(session.exitstatus, pytest.ExitCode.TESTS_FAILED)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the results of a worker of pytest-xdist."""
    if found := getattr(node, "workeroutput", {}).get("goldspan"):
        _run(node.config).add(found)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the scoreboard, what was written, and goldens that no test used."""
    if _RUN in config.stash:
        config.stash[_RUN].print(terminalreporter)
