# confluent-kafka is not installed where types are checked:
# mypy: disable-error-code="import-not-found, import-untyped, misc, no-any-unimported"
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
"""The topics on the broker: which there are, whether their partitions fit together, and those that are created."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from goldspan.collector_processor.stream.stream_settings import StreamSettings
from goldspan.scoring.errors import SettingsError

_TIMEOUT = 20.0


def partitions_of(settings: StreamSettings, options: Mapping[str, str]) -> dict[str, int | None]:
    """Return the number of partitions of each topic; None: there is no such topic.

    Raises SettingsError if no broker answers, or if the partitions of the topics that are read do not fit together.
    """
    try:
        known = _admin(options).list_topics(timeout=_TIMEOUT).topics
    except KafkaException as error:
        brokers = options["bootstrap.servers"]
        raise SettingsError(f"kafka.brokers: no broker answers at {brokers}: {_text(error)}") from None
    names = (*settings.topics.read(), *settings.topics.written())
    found = {name: len(known[name].partitions) if name in known else None for name in names}
    counts = {name: count for name in settings.topics.read() if (count := found[name]) is not None}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise SettingsError(
            f"topics: found different numbers of partitions: {said}; expected the same, since a worker has the same "
            "partition of each. Create the topics anew, or name others"
        )
    return found


def number_of_partitions(settings: StreamSettings, found: Mapping[str, int | None]) -> int:
    """Return how many partitions each topic that is read has, or gets."""
    return next((count for name in settings.topics.read() if (count := found[name])), settings.kafka.partitions)


def partitions_of_new(settings: StreamSettings, name: str, number: int) -> int:
    """Return how many partitions a new topic gets, where those that are read have `number`."""
    return 1 if name == settings.topics.dead_letters else number


def create_missing(settings: StreamSettings, options: Mapping[str, str], found: Mapping[str, int | None]) -> None:
    """Create the topics that do not exist. Raises SettingsError if the broker refuses."""
    number = number_of_partitions(settings, found)
    new: list[NewTopic] = []
    for name, count in found.items():
        if count is None:
            config = {"max.message.bytes": str(settings.kafka.max_message + 4096)}
            if name in {settings.topics.spans, settings.topics.logs}:
                # Event time is that of the broker's one clock, not of many Collectors' clocks.
                config["message.timestamp.type"] = "LogAppendTime"
            partitions = partitions_of_new(settings, name, number)
            new.append(NewTopic(name, partitions, settings.kafka.replication, config=config))
    if not new:
        return
    admin = _admin(options)  # kept: the answers come as long as it lives
    for name, future in admin.create_topics(new, operation_timeout=_TIMEOUT).items():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # another worker was faster
                raise SettingsError(f"the topic {name} cannot be created: {_text(error)}") from None


def _admin(options: Mapping[str, str]) -> AdminClient:
    return AdminClient({**options, "socket.timeout.ms": int(_TIMEOUT * 1000), "log_level": 2})


def _text(error: KafkaException) -> str:
    return str(error.args[0].str() if isinstance(error.args[0], KafkaError) else error)
