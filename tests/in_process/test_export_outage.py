"""While a back-end is away the log has one warning with its address, and one line when it is back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from goldspan.collector_processor import FileSpanExporter
from rigs.in_process_rig import Inner, MakeRig
from rigs.local_ports import free_port

Lines = Callable[[], list[tuple[str, str]]]


class Away(Inner):
    """Fails while it is told to."""

    _endpoint = "http://u:secret@example.com/v1/traces"
    away: SpanExportResult | Exception | None = None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if isinstance(self.away, Exception):
            raise self.away
        return self.away or super().export(spans)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    caplog.set_level(logging.INFO, logger="goldspan")
    return lambda: [(one.levelname, one.getMessage()) for one in caplog.records if one.name == "goldspan"]


@pytest.mark.parametrize("answer", [SpanExportResult.FAILURE, ConnectionError("no route"), ValueError("a mistake")])
def test_an_outage_is_two_lines_however_long_it_is(
    make_rig: MakeRig, lines: Lines, answer: SpanExportResult | Exception
) -> None:
    away = Away()
    rig = make_rig(inner=away)
    for _ in range(2):
        rig.door.export([ReadableSpan("before")])
        away.away = answer
        for _ in range(50):
            rig.door.export([ReadableSpan("lost")])
        away.away = None
    rig.door.export([ReadableSpan("after")])
    (began, warning), (ended, over), *again = lines()
    assert (began, ended) == ("WARNING", "INFO")
    assert "http://example.com/v1/traces" in warning
    assert "secret" not in warning
    why = f"{type(answer).__name__}: {answer}" if isinstance(answer, Exception) else "the exporter's own log says why"
    assert f": {why}. They are dropped until they can" in warning
    assert "are delivered to http://example.com/v1/traces again after 0 s; 50 were dropped" in over
    assert again == [(began, warning), (ended, over)]
    assert rig.counted("goldspan.spans.dropped") == {"export_failed": 100}


def test_the_real_exporter_s_address_is_told(make_rig: MakeRig, lines: Lines) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}/v1/traces"
    rig = make_rig(inner=OTLPSpanExporter(endpoint, timeout=1))
    rig.turn()
    rig.door.force_flush()
    assert [level for level, line in lines() if endpoint in line] == ["WARNING"]


def test_an_exporter_that_logs_outages_itself_is_not_told_of_twice(make_rig: MakeRig, lines: Lines) -> None:
    rig = make_rig(inner=FileSpanExporter("/dev/null/traces.jsonl"))
    rig.turn()
    rig.door.force_flush()
    [(_, warning)] = lines()
    assert "/dev/null/traces.jsonl: " in warning
