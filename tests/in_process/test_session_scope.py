"""`session_scope` on a real TracerProvider."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from goldspan.collector_processor import ToolParameterMatchSpanProcessor, session_scope


class Traced:
    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(ToolParameterMatchSpanProcessor(self._exporter, goldens=[]))
        self.tracer: Tracer = self.provider.get_tracer("agent")

    def sessions(self) -> dict[str, object]:
        self.provider.force_flush()
        return {
            span.name: (span.attributes or {}).get("goldspan.session.id")
            for span in self._exporter.get_finished_spans()
        }


@pytest.fixture
def traced() -> Iterator[Traced]:
    traced = Traced()
    yield traced
    traced.provider.shutdown()


def test_spans_inside_belong_to_the_session_and_others_do_not(traced: Traced) -> None:
    traced.tracer.start_span("before").end()
    with session_scope("a") as session, traced.tracer.start_as_current_span("inside"):
        traced.tracer.start_span("deeper").end()
    traced.tracer.start_span("after").end()
    assert session == "a"
    assert traced.sessions() == {"before": None, "deeper": "a", "inside": "a", "after": None}


def test_the_inner_scope_counts_and_one_scope_can_be_opened_again(traced: Traced) -> None:
    outer = session_scope("outer")
    with outer:
        with session_scope("inner"):
            traced.tracer.start_span("one").end()
        with outer:
            traced.tracer.start_span("two").end()
        traced.tracer.start_span("three").end()
    traced.tracer.start_span("four").end()
    assert traced.sessions() == {"one": "inner", "two": "outer", "three": "outer", "four": None}


def test_a_session_named_on_the_span_itself_stays(traced: Traced) -> None:
    with session_scope("a"):
        traced.tracer.start_span("own", attributes={"goldspan.session.id": "mine"}).end()
    assert traced.sessions() == {"own": "mine"}


def test_a_new_trace_started_inside_belongs_to_the_session_too(traced: Traced) -> None:
    with session_scope("a"):
        traced.tracer.start_span("new trace", context=Context()).end()
    assert traced.sessions() == {"new trace": "a"}


def test_asyncio_tasks_keep_their_sessions_apart(traced: Traced) -> None:
    async def turn(session: str) -> None:
        with session_scope(session):
            await asyncio.sleep(0)
            with traced.tracer.start_as_current_span(f"agent {session}"):
                await asyncio.gather(tool(session, 1), tool(session, 2))

    async def tool(session: str, number: int) -> None:
        await asyncio.sleep(0)
        traced.tracer.start_span(f"tool {session} {number}").end()

    async def both() -> None:
        await asyncio.gather(turn("a"), turn("b"))

    asyncio.run(both())
    assert traced.sessions() == {
        "agent a": "a",
        "tool a 1": "a",
        "tool a 2": "a",
        "agent b": "b",
        "tool b 1": "b",
        "tool b 2": "b",
    }


def test_a_thread_that_is_given_the_context_is_inside_and_another_is_not(traced: Traced) -> None:
    with session_scope("a"):
        copied = contextvars.copy_context()
    inside = threading.Thread(target=lambda: copied.run(lambda: traced.tracer.start_span("inside").end()))
    outside = threading.Thread(target=lambda: traced.tracer.start_span("outside").end())
    for thread in (inside, outside):
        thread.start()
        thread.join()
    assert traced.sessions() == {"inside": "a", "outside": None}


def test_an_exception_leaves_the_scope_and_goes_on(traced: Traced) -> None:
    with pytest.raises(ZeroDivisionError), session_scope("a"):
        raise ZeroDivisionError
    traced.tracer.start_span("after").end()
    assert traced.sessions() == {"after": None}


def test_an_id_that_is_no_string_is_written_as_one(traced: Traced) -> None:
    with session_scope(17):  # type: ignore[arg-type]
        traced.tracer.start_span("inside").end()
    assert traced.sessions() == {"inside": "17"}
