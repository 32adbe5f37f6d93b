"""The rig of these tests, closed when they end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rigs.in_process_rig import Inner, Rig


@pytest.fixture
def inner() -> Inner:
    return Inner()


@pytest.fixture
def make_rig(inner: Inner) -> Iterator[Callable[..., Rig]]:
    made: list[Rig] = []

    def make(**options: Any) -> Rig:
        made.append(Rig(options.pop("inner", inner), **options))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    return make_rig()


@pytest.fixture
def warnings_logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, logger="goldspan")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "goldspan"]
