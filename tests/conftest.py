"""What a run of the tests tries: a part of the recordings and few examples by default, everything with `--all`.

`make test` is the quick run, `make test-all` the whole one; `--examples` says how many examples the latter tries. The
quick run says how many tests it leaves out.
"""

from __future__ import annotations

import gc
import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

from quick_run import left_out, part_of_a_whole_run, thinned_out

LEFT_OUT = pytest.StashKey[int]()

# A busy machine is slow; that says nothing about the code. In CI the examples are the same each time.
settings.register_profile(
    "quick",
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="every recording in every test, and many generated examples")
    parser.addoption("--examples", type=int, default=100, metavar="N", help="generated examples a law, with --all")
    parser.addoption("--recording", action="append", default=[], help="a recording that a quick run tries too")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "every_recording: a quick run tries it with one recording a dialect")
    config.addinivalue_line("markers", "costly: with --all and less than 100 examples a part of its cases is tried")
    config.addinivalue_line("markers", "exhaustive: a quick run leaves it out")
    if not config.getoption("--hypothesis-profile"):
        quick = settings.get_profile("quick")
        settings.register_profile("full", parent=quick, max_examples=config.getoption("--examples"))
        settings.load_profile("full" if config.getoption("--all") else "quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests out of a quick run, and of one with few examples, unless the command line names a single case."""
    if any("[" in argument for argument in config.args):
        return
    whole = config.getoption("--all")
    out = thinned_out(items, part_of_a_whole_run(config)) if whole else left_out(items, config.getoption("--recording"))
    if out:
        gone = set(out)
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=out)
        config.stash[LEFT_OUT] = len(out)


def pytest_collection_finish() -> None:
    """Tests and modules stay until the end: search them for garbage once, not in each test that collects some."""
    _keep_what_there_is()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Keep what the tests of a module have read and cached, as above."""
    if nextitem is not None and nextitem.path != item.path:
        _keep_what_there_is()


def _keep_what_there_is() -> None:
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that reports, if this is a worker of pytest-xdist."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Hear from a worker; each collects the same tests."""
    told = getattr(node, "workeroutput", {}).get("left_out", 0)
    if told:
        node.config.stash[LEFT_OUT] = told  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reasons = Counter(
        str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", ()) if report.longrepr
    )
    for reason, times in reasons.most_common():
        terminalreporter.write_line(f"skipped {times:>5}: {reason.removeprefix('Skipped: ')}")
    if count := config.stash.get(LEFT_OUT, 0):
        run = "few examples" if config.getoption("--all") else "quick run"
        terminalreporter.write_line(f"{run}: {count} tests left out; `make test-all` or `pytest --all` runs them")
