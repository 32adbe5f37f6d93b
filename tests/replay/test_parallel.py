"""Several processes give what one gives: the same results by id, the same problems, the same files."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.engine.result_table import run_rows
from goldspan.collector_processor.replay import parallel
from goldspan.collector_processor.replay.parallel import can_run_in_parallel, replay_in_parallel
from goldspan.collector_processor.replay.replay import Replay, replay
from goldspan.collector_processor.replay.trace_files import trace_files
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.file_ranges import ranges_of
from goldspan.mappers.readers.files import read_documents
from goldspan.scoring.errors import GoldspanError, TraceFileError
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.run import scorer_of
from replay.test_marked_spans import GOLDENS, traffic, valid_requests
from rigs.command_line import Run
from rigs.otlp_requests import delimited, message_of, prefixed
from rigs.repository import ROOT
from rigs.trace_requests import attribute, digits, request, span, turn_request, write_lines

pytestmark = [
    pytest.mark.skipif(not can_run_in_parallel(), reason="needs os.fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
]

RECORDINGS = sorted((ROOT / "tests/fixtures/recordings").glob("*.otlp.json"))
ALL_SESSIONS = load_goldens({"format": 1, "golden_set": "none", "goldens": []}).with_sample(1.0)
CHAT = [attribute("gen_ai.operation.name", "chat"), attribute("gen_ai.request.model", "m")]
EVERYTHING = scorer_of(metrics=[metric.name for metric in WITHOUT_GOLDEN])


def told(found: Replay) -> tuple[Any, ...]:
    """Everything that a replay tells, in its order."""
    return found.result.to_json(), list(run_rows(found.result)), found.spans, found.recognised


def score(
    paths: Sequence[Path],
    jobs: int,
    *,
    goldens: GoldenIndex = GOLDENS,
    range_bytes: int = 1000,
    scorer: Any = None,
    consumers: Any = (),
    **options: Any,
) -> tuple[Any, ...]:
    with trace_files(list(map(str, paths))) as files:
        registry = DialectRegistry(definitions=True, on_problem=files.problems.append)
        scorer = scorer or scorer_of()
        try:
            if jobs == 1:
                views = files.spans(markers=registry.markers)
                found = replay(
                    views, goldens, registry, problems=files.problems, scorer=scorer, consumers=consumers, **options
                )
            else:
                options |= {"range_bytes": range_bytes, "progress": lambda: nullcontext(None)}
                found = replay_in_parallel(files, goldens, registry, scorer, jobs=jobs, consumers=consumers, **options)
        except TraceFileError as error:
            return (str(error),)
        return (*told(found), files.mistakes)


@pytest.fixture(scope="module")
def score_in_small_process() -> Iterator[Callable[..., tuple[Any, ...]]]:
    """`score` in a process that holds no tests: to fork one that does takes longer than to score a recording."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as small:

        def scored(*arguments: Any, **options: Any) -> tuple[Any, ...]:
            return small.submit(score, *arguments, **options).result()

        yield scored


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(traffic(), min_size=1, max_size=3), st.integers(2, 3), st.sampled_from([1, 300, 2000]))
def test_any_files_cut_anyhow_give_the_results_of_one_process(
    score_in_small_process: Callable[..., tuple[Any, ...]], contents: list[bytes], jobs: int, size: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{number}.jsonl") for number in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        assert score_in_small_process(paths, jobs, range_bytes=size) == score(paths, 1)


@settings(max_examples=settings().max_examples // 4)
@given(st.lists(valid_requests(), min_size=1, max_size=6), st.sampled_from([prefixed, delimited]), st.integers(1, 900))
def test_messages_cut_anyhow_give_the_results_of_one_process(
    score_in_small_process: Callable[..., tuple[Any, ...]], requests: Any, frame: Any, size: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "traces.bin")
        path.write_bytes(frame(*(message_of(one).SerializeToString() for one in requests)))
        assert score_in_small_process([path], 2, range_bytes=size) == score([path], 1)


def span_lines(path: Path) -> list[dict[str, Any]]:
    """A recording with one span, or one log record, a line."""
    documents: list[Any] = list(read_documents(path, lambda _: None))
    signals = (("resourceSpans", "scopeSpans", "spans"), ("resourceLogs", "scopeLogs", "logRecords"))
    return [
        {resources: [{**group, scopes: [{**inner, records: [one]}]}]}
        for document in documents
        for resources, scopes, records in signals
        for group in document.get(resources, [])
        for inner in group[scopes]
        for one in inner[records]
    ]


@pytest.mark.every_recording
@pytest.mark.costly
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.removesuffix(".otlp.json"))
def test_every_recording_gives_the_same_results_in_three_processes(
    path: Path, tmp_path: Path, score_in_small_process: Callable[..., tuple[Any, ...]]
) -> None:
    lines = span_lines(path)
    random.Random(path.name).shuffle(lines)
    paths = [write_lines(tmp_path / f"{number}.jsonl", *part) for number in range(3) if (part := lines[number::3])]
    one = score(paths, 1, goldens=ALL_SESSIONS, scorer=EVERYTHING)
    three = score_in_small_process(paths, 3, goldens=ALL_SESSIONS, scorer=EVERYTHING, range_bytes=2000)
    assert three == one
    assert one[2]


def test_a_long_input_is_cut_by_the_same_clock(tmp_path: Path) -> None:
    """A session that comes again after a quiet time is late or a new run, whatever process reads it."""
    lines = [turn_request(f"some-{number // 5}", ("f", {"x": number % 3}), turn=number) for number in range(200)]
    lines[100:100] = [lines[3], turn_request("some-1", ("f", {"x": 1}), turn=400)]
    lines += [turn_request("some-1", ("f", {"x": 2}), turn=401), lines[0], lines[120]]
    path = write_lines(tmp_path / "traces.jsonl", *lines)
    late = 0
    for quiet in (20, 50, 100, 1000):
        one = score([path], 1, quiet_spans=quiet)
        assert score([path], 3, quiet_spans=quiet) == one
        late += any(problem["code"] == "late" for problem in one[0]["problems"])
    assert 0 < late < 4


def test_a_trace_with_spans_in_many_ranges_is_put_together(tmp_path: Path) -> None:
    trace = digits("t", 32)
    root = [attribute("gen_ai.operation.name", "invoke_agent"), attribute("gen_ai.conversation.id", "wanted")]
    tool = [attribute("gen_ai.operation.name", "execute_tool"), attribute("gen_ai.tool.name", "f")]
    tool.append(attribute("gen_ai.tool.call.arguments", '{"x": 1}'))
    ids = [digits(f"span {number}", 16) for number in range(9)]
    chain = [
        span(trace, own, above, "http", start=1_800_000_000_000_000_000, seconds=1, attributes=[])
        for above, own in itertools.pairwise(ids)
    ]
    ends = [
        span(trace, ids[0], "", "agent", start=1_800_000_000_000_000_000, seconds=9, attributes=root),
        span(trace, "ab" * 8, ids[-1], "tool", start=1_800_000_001_000_000_000, seconds=1, attributes=tool),
    ]
    path = write_lines(tmp_path / "traces.jsonl", *(request([one]) for one in [*chain[::-1], *ends]))
    assert len(ranges_of(path, 300)) > 3
    one = score([path], 1)
    assert score([path], 3, range_bytes=300) == one
    assert one[0]["sessions"][0]["turns"][0]["calls"][0]["label"] == "pass"


@pytest.mark.parametrize("start", [2**63, 2**64, 10**30])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_times_of_any_size_are_handed_on(start: int, which: int, tmp_path: Path) -> None:
    trace, root, tool = digits("t", 32), digits("root", 16), digits("tool", 16)
    named = [attribute("gen_ai.operation.name", "execute_tool"), attribute("gen_ai.tool.name", "f")]
    named += [attribute("gen_ai.conversation.id", "wanted"), attribute("gen_ai.tool.call.arguments", '{"x": 1}')]
    spans = [
        span(trace, root, "", "http", start=1, seconds=1, attributes=[]),
        span(trace, tool, root, "tool", start=1, seconds=1, attributes=named),
        span(trace, digits("chat", 16), root, "chat", start=1, seconds=1, attributes=[*CHAT, *named[2:3]]),
    ]
    spans[which] |= {"startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 1)}
    path = write_lines(tmp_path / "traces.jsonl", *(request([one]) for one in spans))
    one = score([path], 1)
    assert score([path], 2, range_bytes=300) == one
    assert not one[0]["problems"]
    assert one[2:4] == (3, 2)


def test_problems_name_the_lines_of_the_whole_file(tmp_path: Path) -> None:
    lines: list[Any] = [turn_request(f"s-{number}", ("f", {})) for number in range(30)]
    lines[7:7] = ["{", "", "nonsense"]
    lines[25:25] = ['{"resourceSpans": 7}', "[1]"]
    path = write_lines(tmp_path / "traces.jsonl", *lines)
    one = score([path], 1)
    assert score([path], 2, range_bytes=1500) == one
    assert len(one[0]["problems"]) >= 4


@pytest.mark.parametrize("content", [b"", b"plain text", b'{"a": 1}', b'{"resourceMetrics": []}', b"\x00\x01"])
def test_files_without_spans_are_named_alike(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(content)
    good = write_lines(tmp_path / "traces.jsonl", turn_request("s", ("f", {})))
    for paths in ([tmp_path / "empty"], [tmp_path / "empty", good], [tmp_path]):
        assert score(paths, 2) == score(paths, 1)


@pytest.mark.parametrize("jobs", [1, 3])
def test_every_evaluation_is_given(jobs: int, tmp_path: Path) -> None:
    lines = [turn_request(f"some-{number}", ("f", {"x": number % 2})) for number in range(20)]
    path = write_lines(tmp_path / "traces.jsonl", *lines)
    given_: list[Evaluation] = []
    found = score([path], jobs, consumers=[given_.append])
    emitted = sorted((one.id, one.revision, one.explanation) for one in given_)
    assert [one[0] for one in emitted] == sorted({row.result_id for row in found[1] if row.result_id})


def exit_at_once(*_: object) -> None:
    os._exit(9)


def test_a_process_that_is_killed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_lines(tmp_path / "traces.jsonl", turn_request("s", ("f", {})))
    monkeypatch.setattr(parallel, "RangeReading", exit_at_once)
    with pytest.raises(GoldspanError, match="one of 2 processes was killed"):
        score([path], 2)


def test_an_error_in_a_process_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = write_lines(tmp_path / "traces.jsonl", turn_request("s", ("f", {})))
    monkeypatch.setattr(parallel, "_packed", fail)
    with pytest.raises(OSError, match="No space left"):
        score([path], 2)


def test_the_command_gives_the_same_output_and_files(run: Run, goldens: Path, tmp_path: Path) -> None:
    lines = [turn_request(f"sess-{number}", ("get_weather", {"city": "Paris", "days": number})) for number in range(9)]
    write_lines(tmp_path / "traces.jsonl", *lines, "{")
    outputs: list[tuple[Any, ...]] = []
    for jobs in (1, 2, 3):
        names = [f"{jobs}.{suffix}" for suffix in ("xml", "html", "md")]
        reports = [f"--report={kind}={name}" for kind, name in zip(("junit", "html", "markdown"), names, strict=True)]
        files = [*reports, "--enriched", f"{jobs}.jsonl", "--jobs", jobs]
        answer = run("score", "traces.jsonl", "--goldens", goldens, "-v", *files)
        written = [(tmp_path / name).read_bytes() for name in (*names, f"{jobs}.jsonl")]
        outputs.append((answer.exit_code, answer.stdout, answer.stderr, written))
    assert outputs[1] == outputs[2] == outputs[0]


def test_a_judge_is_asked_by_one_process(run: Run, tmp_path: Path) -> None:
    (tmp_path / "judge.yaml").write_text("model: m\n")
    write_lines(tmp_path / "traces.jsonl", turn_request("s"))
    answer = run("score", "traces.jsonl", "--judge", "judge.yaml", "--jobs", "2")
    assert answer.exit_code == 2
    assert "use it without --jobs" in answer.stderr
