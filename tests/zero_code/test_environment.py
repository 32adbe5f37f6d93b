"""Options as environment variables."""

from __future__ import annotations

import inspect
import os

import pytest

from goldspan.collector_processor import ToolParameterMatchExporter
from goldspan.collector_processor.in_process.otlp_span_exporter import OtlpSpanExporter
from goldspan.collector_processor.in_process.zero_code import OPTIONS, make_exporter, options_of
from goldspan.scoring.errors import SettingsError

PYTHON_ONLY = {"self", "inner", "logger_provider", "meter_provider", "unknown"}


def test_every_option_of_the_door_can_be_set_from_outside() -> None:
    options = set(inspect.signature(ToolParameterMatchExporter.__init__).parameters) - PYTHON_ONLY
    assert options | {"exporter"} == set(OPTIONS)


def test_values_are_read_as_what_they_are() -> None:
    environment = {
        "GOLDSPAN_GOLDENS": f"a.yaml{os.pathsep} b",
        "GOLDSPAN_HOLD": "Off",
        "GOLDSPAN_HOLD_TIMEOUT": " 2.5 ",
        "GOLDSPAN_MAX_HELD_SPANS": "100",
        "GOLDSPAN_AGENT_NAMES": "planner, ,booker",
        "GOLDSPAN_SETTLE": "",
        "GOLDSPAN_SOMETHING": "else",
    }
    assert options_of(environment) == {
        "goldens": ("a.yaml", "b"),
        "hold": False,
        "hold_timeout": 2.5,
        "max_held_spans": 100,
        "agent_names": ("planner", "booker"),
    }


def test_all_mistakes_are_said_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        options_of({"GOLDSPAN_HOLD": "maybe", "GOLDSPAN_MAX_HELD_BYTES": "64MB", "GOLDSPAN_SETTLE": "2"})
    assert str(caught.value) == (
        "GOLDSPAN_HOLD: found 'maybe', expected on or off; "
        "GOLDSPAN_MAX_HELD_BYTES: found '64MB', expected a number of bytes"
    )


def test_the_exporter_of_a_url_is_goldspan_s_own() -> None:
    assert isinstance(make_exporter("http://127.0.0.1:9"), OtlpSpanExporter)
