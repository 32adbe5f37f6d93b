"""One broker for all tests here, which need the extra `kafka`, Java and the jars of a broker: `make test-kafka`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from kafka.broker import Broker, broker, why_no_broker

SUITE = "TEST_KAFKA" in os.environ
"""These tests take minutes: `make test-kafka` asks for them."""


def why_not() -> str | None:
    if find_spec("quixstreams") is None:
        return "quixstreams is not installed here: `make test-kafka` installs it"
    return why_no_broker() if SUITE else "these tests take minutes: `make test-kafka` runs them"


collect_ignore = (
    [] if why_not() is None else ["test_workers.py", "test_faults.py", "test_collectors.py", "test_golden_change.py"]
)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(tmp_path_factory.mktemp("kafka")) as one:
        yield one
