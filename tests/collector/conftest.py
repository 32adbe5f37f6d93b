"""The Collector that `make collector` builds."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.collecting import BINARY


@pytest.fixture(scope="session")
def collector() -> Path:
    if not BINARY.exists():
        pytest.skip("no Collector here: `make collector` builds one (needs Go)")
    return BINARY
