"""What a span stands for is known without reading what it holds: the same as when it is read."""

from __future__ import annotations

import pytest

from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.sdk import SdkReader
from otlp_containers import RECORDINGS, as_sdk_spans, requests_of

NAMES = sorted(path.name.removesuffix(".otlp.json") for path in RECORDINGS.glob("*.otlp.json"))


@pytest.mark.every_recording
@pytest.mark.parametrize("name", NAMES)
def test_an_outline_says_what_reading_says(name: str) -> None:
    registry, reader = DialectRegistry(), SdkReader()
    for request in requests_of(name):
        for span in as_sdk_spans(request):
            view = reader.view(span)
            facts = registry.read(view)
            assert registry.outline(view) is facts.role


@pytest.mark.every_recording
@pytest.mark.parametrize("name", NAMES)
def test_session_ids_stand_under_the_keys_that_are_named_unless_a_marker_says_otherwise(name: str) -> None:
    registry, reader = DialectRegistry(), SdkReader()
    for request in requests_of(name):
        for span in as_sdk_spans(request):
            view = reader.view(span)
            facts = registry.read(view)
            if registry.opaque_markers.isdisjoint(view.attributes):
                under_keys = {str(view.attributes[key]) for key in registry.session_keys.intersection(view.attributes)}
                assert {value for _, value in facts.session_keys} <= under_keys
                assert facts.notes == ()
