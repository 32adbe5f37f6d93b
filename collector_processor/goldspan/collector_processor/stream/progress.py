"""How far the topics of a partition were read, and the event time that follows from it. Without Kafka and clock."""

from __future__ import annotations

from dataclasses import dataclass, field

AT_END_AFTER = 1.0
"""Seconds that the wall clock is ahead of the event time of a topic that was read up to its end: a record that was
written just now may still be on its way."""


@dataclass(slots=True)
class TopicProgress:
    """One topic of a partition."""

    next_offset: int = 0
    """Of the record that is read next."""
    end_offset: int = -1
    """Of the record that is written next, as far as is known; below 0: not known yet."""
    time: float = 0.0
    """Event time up to which it was read, in seconds since the epoch; 0: nothing is known."""
    moved_at: float = 0.0
    """When a record was read from it last, by the wall clock."""

    @property
    def lag(self) -> int:
        """Records that wait."""
        return max(0, self.end_offset - self.next_offset)


@dataclass(slots=True)
class PartitionProgress:
    """The topics of one partition that together make its event time."""

    topics: dict[str, TopicProgress] = field(default_factory=dict[str, TopicProgress])
    markers: bool = False
    """Transactions leave markers behind, which count as records and are never read."""

    def read(self, topic: str, offset: int, time: float, now: float) -> None:
        """Note that a record of this event time was read, at `now` of the wall clock."""
        progress = self.topics[topic]
        progress.next_offset = offset + 1
        progress.time = max(progress.time, time)
        progress.moved_at = now

    def follow_clock(self, now: float) -> None:
        """Let the event time of topics that were read up to their end follow the wall clock."""
        for progress in self.topics.values():
            if self._at_end(progress, now):
                progress.time = max(progress.time, now - AT_END_AFTER)

    def _at_end(self, progress: TopicProgress, now: float) -> bool:
        if progress.end_offset < 0:
            return False
        if progress.lag == 0:
            return True
        # A marker at the end is a record that never comes: what would come, comes within seconds.
        return self.markers and progress.lag <= 2 and now - progress.moved_at > 5 * AT_END_AFTER

    @property
    def watermark(self) -> float:
        """Event time up to which all topics were read."""
        return min((one.time for one in self.topics.values()), default=0.0)

    @property
    def lag(self) -> int:
        """Records that wait in all topics."""
        return sum(one.lag for one in self.topics.values())
