"""What a run of the tests tries: a part of the recordings and few examples by default, everything with `--all`.

`make test` is the quick run, `make test-all` the whole one. The quick run says how many tests it leaves out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

FIXTURES = Path(__file__).parent / "fixtures"
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
settings.register_profile("full", parent=settings.get_profile("quick"), max_examples=300)


def quick_recordings() -> frozenset[str]:
    """Return one recording a dialect, the plainest: the part of all recordings that a quick run tries."""
    dialects = (sorted(folder.glob("*.facts.json")) for folder in sorted((FIXTURES / "dialects").iterdir()))
    plainest = (min(facts, key=lambda path: len(path.name)) for facts in dialects if facts)
    return frozenset(path.name.removesuffix(".facts.json") for path in plainest)


def left_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that only a whole run needs.

    These are the tests marked `exhaustive`, and the cases of those marked `every_recording` whose recording is none
    of `quick_recordings`. A test with none of these recordings keeps its first case.
    """
    quick = quick_recordings()
    by_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("every_recording"):
            by_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    out = {item for item in items if item.get_closest_marker("exhaustive")}
    for cases in by_test.values():
        kept = [case for case in cases if not quick.isdisjoint(recordings_of(case))] or cases[:1]
        out.update(set(cases).difference(kept))
    return [item for item in items if item in out]


def recordings_of(item: pytest.Item) -> Iterator[str]:
    """Yield what may be a recording's name among the parameters of a case."""
    for value in item.callspec.params.values() if isinstance(item, pytest.Function) else ():
        if isinstance(value, str):
            yield value
        elif isinstance(value, Path):
            yield value.name.partition(".otlp.")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="every recording in every test, and many generated examples")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "every_recording: a quick run tries it with one recording a dialect")
    config.addinivalue_line("markers", "exhaustive: a quick run leaves it out")
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("full" if config.getoption("--all") else "quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests out of a quick run, unless the command line names a single case."""
    if config.getoption("--all") or any("[" in argument for argument in config.args):
        return
    if out := left_out(items):
        gone = set(out)
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=out)
        config.stash[LEFT_OUT] = len(out)


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
    if count := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(f"quick run: {count} tests left out; `make test-all` or `pytest --all` runs them")
