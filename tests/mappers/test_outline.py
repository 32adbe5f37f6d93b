"""What a span stands for is known without reading what it holds, and tables are narrowed to the keys that it has.

Either way the result is the same as when every dialect reads the whole span.
"""

from __future__ import annotations

from random import Random

import pytest

from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects.reading.protocol import Dialect, Reading
from goldspan.mappers.readers.sdk import SdkReader
from goldspan.mappers.spans import SpanView
from rigs.otlp_containers import as_sdk_spans, requests_of
from rigs.repository import RECORDING_NAMES


@pytest.mark.every_recording
@pytest.mark.parametrize("name", RECORDING_NAMES)
def test_an_outline_says_what_reading_says(name: str) -> None:
    registry, reader = DialectRegistry(), SdkReader()
    for request in requests_of(name):
        for span in as_sdk_spans(request):
            view = reader.view(span)
            facts = registry.read(view)
            assert registry.outline(view) is facts.role


@pytest.mark.every_recording
@pytest.mark.parametrize("name", RECORDING_NAMES)
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


class Whole:
    """A dialect that is no table, so that nothing of it is left out for a span."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.name, self.markers = dialect.name, dialect.markers

    def read(self, span: SpanView) -> Reading | None:
        return self._dialect.read(span)


@pytest.mark.every_recording
@pytest.mark.parametrize("name", RECORDING_NAMES)
def test_a_table_without_what_a_span_lacks_reads_the_same(name: str) -> None:
    registry, reader, random = DialectRegistry(), SdkReader(), Random(name)
    # Rules about spans without any attributes hold for no other span: only a registry knows.
    whole = DialectRegistry(one if getattr(one, "bare_scopes", None) else Whole(one) for one in registry.dialects)
    for request in requests_of(name):
        for span in as_sdk_spans(request):
            view = reader.view(span)
            attributes = view.attributes
            assert registry.read(view) == whole.read(view)
            for _ in range(3):
                lost = set(random.sample(sorted(attributes), min(len(attributes), random.randint(1, 3))))
                view.attributes = {key: value for key, value in attributes.items() if key not in lost}
                assert registry.read(view) == whole.read(view), lost
