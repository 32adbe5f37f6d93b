"""Why the other tests here were left out, where they were."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from kafka.conftest import why_not


def test_workers_are_tried_on_a_real_broker() -> None:
    if (reason := why_not()) is not None:
        pytest.skip(reason)


@pytest.mark.skipif(find_spec("quixstreams") is not None, reason="quixstreams is installed")
def test_without_the_extra_it_says_what_to_install() -> None:
    command = [sys.executable, "-m", "goldspan.collector_processor.cli", "stream", "stream.yaml"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "quixstreams" in ended.stderr
    assert "pip install 'goldspan[kafka]'" in ended.stderr
