"""What several tests of the gateway start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rigs.downstream import Downstream, http_downstream


@pytest.fixture
def http() -> Iterator[Downstream]:
    with http_downstream() as downstream:
        yield downstream
