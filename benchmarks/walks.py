"""Which files of goldspan a span, a request, a golden's value and a record of Kafka pass, and in how many calls.

    PYTHONPATH=tests python -m benchmarks.walks           # the four figures
    PYTHONPATH=tests python -m benchmarks.walks gateway   # the files of one walk, with their calls

Each walk is made once to load and fill what is kept, and then counted: a file counts where one of its functions is
called. In process: an agent's turn, from the end of its spans to the exporter, with its result. Gateway: the bodies of
one recording over HTTP, through the pipeline, to what is delivered. Golden: a file with one value, read and compared.
Kafka: the records of the same recording through both stages of `goldspan stream`, without Kafka. Delivery over a
network is in none of them.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import goldspan.scoring
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.stream.stage_interface import StreamContext
from goldspan.scoring import Session, ToolCall, Turn, score_sessions
from goldspan.scoring.goldens import load_goldens
from rigs.gateway_rig import gateway, post, raw
from rigs.in_process_rig import Inner, Rig
from rigs.pipeline_rig import Downstream, bodies_of, everything
from rigs.stream_rig import Stream

ROOT = Path(goldspan.scoring.__file__).parents[3]
RECORDING = "raw-openai-openinference"
GOLDENS = """\
golden_set: walks
goldens:
  - session: s
    calls:
      - {name: get_weather, args: {city: {$any_of: [Paris, Rome]}, days: 3}}
"""

Walk = Callable[[], object]
_calls: Counter[str] | None = None
"""Calls by file while a walk is counted."""


def _count(frame: FrameType, event: str, _: object) -> None:
    if event == "call" and _calls is not None and frame.f_code.co_filename.startswith(str(ROOT)):
        _calls[frame.f_code.co_filename] += 1


def counted(walk: Walk) -> Counter[str]:
    """Return the calls of a walk by file, in all threads that began after this module did."""
    global _calls  # noqa: PLW0603 - the hook of the interpreter has no other place
    walk()
    gc.collect()
    _calls = found = Counter[str]()
    sys.setprofile(_count)
    try:
        walk()
    finally:
        sys.setprofile(None)
        _calls = None
    parts = {name: name.removeprefix(f"{ROOT}/").partition("/goldspan/")[2] for name in found}
    return Counter({parts[name]: calls for name, calls in found.items() if parts[name]})


@contextmanager
def in_process() -> Iterator[Walk]:
    """An agent's turn, scored and exported."""
    rig = Rig(Inner())

    def walk() -> None:
        rig.turn()
        rig.door.force_flush()

    yield walk
    rig.close()


@contextmanager
def through_gateway() -> Iterator[Walk]:
    """The bodies of a recording over HTTP; each walk has a pipeline of its own, since a span is taken once."""
    with gateway() as running:

        def walk() -> None:
            downstream = Downstream()
            pipeline = GatewayPipeline(everything(), downstream, PipelineSettings())
            running.reception._accept = pipeline.accept
            for request in bodies_of(RECORDING):
                raw(running.http_port, post(request.body, path=f"/v1/{request.signal.value}"))
            assert pipeline.drain(30.0)
            assert downstream.requests, "nothing passed the gateway"

        yield walk


@contextmanager
def golden_value() -> Iterator[Walk]:
    """A value of a golden file, from the file to the verdict."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "goldens.yaml"
        path.write_text(GOLDENS, "utf-8")
        session = Session("s", (Turn((ToolCall("get_weather", {"city": "Rome", "days": 3}),)),))
        yield lambda: score_sessions(load_goldens(path), session).sessions[0].verdict


@contextmanager
def through_stream() -> Iterator[Walk]:
    """The records of a recording through both stages; each walk has state of its own, as a key has that is new."""
    context = StreamContext.of(everything(), EngineSettings())

    def walk() -> None:
        stream = Stream(context, 1, traces=1, sessions=1, faults=0.0)
        stream.run(stream.put(bodies_of(RECORDING)) + 1e6)

    yield walk


WALKS = {"in process": in_process, "gateway": through_gateway, "golden": golden_value, "Kafka": through_stream}


def main(chosen: list[str]) -> None:
    """Print the figures, and the files of the walks that are chosen."""
    threading.setprofile(_count)
    for name, prepared in WALKS.items():
        with prepared() as walk:
            calls = counted(walk)
        print(f"{name}: {len(calls)} files, {calls.total()} calls")
        if any(one in name for one in chosen):
            for path, count in calls.most_common():
                print(f"  {count:>8}  {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
