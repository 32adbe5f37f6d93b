"""The settings of `goldspan stream`, and the event time of a partition."""

from __future__ import annotations

from pathlib import Path

import pytest

from goldspan.collector_processor.gateway.settings.settings_file import load_settings, unknown_variables
from goldspan.collector_processor.stream.progress import AT_END_AFTER, PartitionProgress, TopicProgress
from goldspan.collector_processor.stream.stream_settings import StreamSettings
from goldspan.scoring.errors import FileError, SettingsError
from rigs.markdown_pages import blocks
from rigs.repository import ROOT

PAGE = ROOT / "docs" / "stream.md"


def load(text: str, folder: Path, **environ: str) -> StreamSettings:
    (folder / "stream.yaml").write_text(text, "utf-8")
    return load_settings(folder / "stream.yaml", environ, StreamSettings)


def test_the_settings_of_the_page_can_be_used(tmp_path: Path) -> None:
    [block] = [one for one in blocks(PAGE.read_text("utf-8")) if one.file == "stream.yaml"]
    settings = load(block.text, tmp_path)
    options = settings.options({"KAFKA_PASSWORD": "secret"})
    assert options["bootstrap.servers"] == "localhost:9092"
    assert options["sasl.password"] == "secret"
    with pytest.raises(SettingsError, match=r"kafka\.options: the variable KAFKA_PASSWORD holds no secret"):
        settings.options({})


def test_everything_may_come_from_variables() -> None:
    environ = {
        "GOLDSPAN_KAFKA_BROKERS": "one:9092,two:9092",
        "GOLDSPAN_KAFKA_OPTIONS": "security.protocol=SSL,socket.keepalive.enable=true",
        "GOLDSPAN_TOPICS_SPANS": "spans",
        "GOLDSPAN_SCORING_RUN_IDLE": "5m",
        "GOLDSPAN_OTHER": "x",
    }
    settings = load_settings(None, environ, StreamSettings)
    assert settings.kafka.brokers == ("one:9092", "two:9092")
    assert settings.options({}) == {
        "bootstrap.servers": "one:9092,two:9092",
        "security.protocol": "SSL",
        "socket.keepalive.enable": "true",
    }
    assert settings.topics.read() == ("spans", "otlp_logs", "goldspan.notes", "goldspan.sessions")
    assert settings.engine().run_idle == settings.engine().assembly.run_idle == 300
    assert unknown_variables(settings, environ) == ["GOLDSPAN_OTHER"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("goldens: []", "`kafka` is missing"),
        ("kafka: {brokers: localhost}", "found 'localhost', expected host:port"),
        ("kafka: {brokers: 'user:pass@host:9092'}", "expected host:port"),
        ("kafka: {brokers: []}", "found none, expected host:port"),
        ("kafka: {brokers: 'a:1', options: {group.id: x}}", "found group.id, expected an option of librdkafka"),
        ("kafka: {brokers: 'a:1', options: {enable.idempotence: false}}", "found enable.idempotence, expected"),
        ("kafka: {brokers: 'a:1', guarantee: exactly}", "expected `at-least-once` or `exactly-once`"),
        ("kafka: {brokers: 'a:1', partition: 3}", "unknown field: did you mean `partitions`?"),
        ("kafka: {brokers: 'a:1'}\ntopics: {spans: a b}", "expected the name of a topic"),
        ("kafka: {brokers: 'a:1'}\ntopics: {spans: x, scored: x}", "found x twice"),
        ("kafka: {brokers: 'a:1'}\nadmin: {listen: '0.0.0.0:1'}", "set `admin.tokens`"),
    ],
)
def test_mistakes_are_told_with_their_place(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(FileError) as raised:
        load(text, tmp_path)
    assert message in str(raised.value)
    assert "stream.yaml" in str(raised.value)


def test_a_secret_is_never_shown(tmp_path: Path) -> None:
    with pytest.raises(FileError) as raised:
        load("kafka: {brokers: 'a:1', options: {sasl.password: [hidden]}}", tmp_path)
    assert "hidden" not in str(raised.value)


# Event time.


def partition(**ends: int) -> PartitionProgress:
    return PartitionProgress({name: TopicProgress(end_offset=end) for name, end in ends.items()})


def test_the_slowest_topic_makes_the_watermark() -> None:
    progress = partition(spans=10, logs=10)
    progress.read("spans", 0, 100.0, now=500.0)
    assert progress.watermark == 0, "nothing is known of the logs"
    progress.read("logs", 0, 90.0, now=500.0)
    assert (progress.watermark, progress.lag) == (90, 18)
    progress.read("logs", 1, 80.0, now=500.0)
    assert progress.watermark == 90, "it never goes back"


def test_a_topic_at_its_end_follows_the_clock() -> None:
    progress = partition(spans=1, logs=0)
    progress.follow_clock(500.0)
    assert progress.watermark == 0, "a record waits in the spans"
    progress.read("spans", 0, 100.0, now=500.0)
    progress.follow_clock(500.0)
    assert progress.watermark == 500 - AT_END_AFTER


def test_a_topic_whose_end_is_not_known_does_not_follow_the_clock() -> None:
    progress = partition(spans=-1)
    progress.follow_clock(500.0)
    assert progress.watermark == 0


@pytest.mark.parametrize(("markers", "reached"), [(True, True), (False, False)])
def test_the_marker_of_a_transaction_at_the_end_is_no_record_that_waits(markers: bool, reached: bool) -> None:
    progress = PartitionProgress({"notes": TopicProgress(end_offset=2)}, markers=markers)
    progress.read("notes", 0, 100.0, now=500.0)
    progress.follow_clock(501.0)
    assert progress.watermark == 100
    progress.follow_clock(510.0)
    assert (progress.watermark == 509) == reached
