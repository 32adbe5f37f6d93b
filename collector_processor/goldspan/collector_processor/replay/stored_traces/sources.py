"""Sources of traces by their URLs: `phoenix://default`, `langfuse://`, `mlflow://Default`, `tempo://`, `jaeger://agent`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote

from goldspan.collector_processor.replay.stored_traces.download import (
    DownloadError,
    Progress,
    StoredTraces,
    TimeWindow,
    download,
    resumable,
    start,
    window_of,
)
from goldspan.collector_processor.replay.stored_traces.phoenix_mlflow_langfuse import langfuse, mlflow, phoenix
from goldspan.collector_processor.replay.stored_traces.tempo_and_jaeger import jaeger, tempo

_PLATFORMS: Mapping[str, Callable[[str, str], StoredTraces]] = {
    "phoenix": phoenix,
    "langfuse": langfuse,
    "mlflow": mlflow,
    "tempo": tempo,
    "jaeger": jaeger,
}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def stored_traces(url: str) -> StoredTraces:
    """Return the source that a URL names, with what the environment says of its platform. Raises `DownloadError`."""
    platform, _, named = url.partition("://")
    return _PLATFORMS[platform](url, unquote(named.strip("/")))


@dataclass(frozen=True, slots=True)
class Downloads:
    """Which stored traces are read, and where to."""

    since: str = "7d"
    """A time, as `read_time` takes it."""
    until: str = ""
    """The same; empty: now."""
    folder: Path | None = None
    """Where answers are kept; None: in a temporary directory."""
    sleep: Callable[[float], object] = time.sleep

    def read(
        self, url: str, temporary: Path, now: datetime, on_page: Callable[[Progress], object] = lambda _: None
    ) -> Path:
        """Read the traces of a source and return the folder with them.

        Raises:
            DownloadError: They cannot be read, or there are none.

        """
        source = stored_traces(url)
        window = TimeWindow(read_time(self.since, now), read_time(self.until, now) if self.until else now)
        if window.since >= window.until:
            raise DownloadError(f"--since {self.since} is not before --until {self.until or 'now'}")
        kept = self.folder or temporary
        folder = resumable(kept, url, self.since, self.until)
        if folder is None:
            named = re.sub(r"[^A-Za-z0-9._-]+", "-", url).strip("-")[:60]
            folder = kept / f"{named}-{now.astimezone(UTC):%Y%m%dT%H%M%S%fZ}"
            try:
                start(folder, url, self.since, self.until, window)
            except OSError as error:
                raise DownloadError(f"{folder} cannot be made: {error.strerror or error}") from None
        found = download(source, folder, on_page, self.sleep)
        if not found:
            read = window_of(folder)
            raise DownloadError(
                f"{url}: {source.platform} at {source.address} has no traces from {read.since:%Y-%m-%d %H:%M} to "
                f"{read.until:%Y-%m-%d %H:%M} UTC; --since and --until choose another time"
            )
        return folder


def read_time(written: str, now: datetime) -> datetime:
    """Read a time: so long before `now`, as in 90m, 24h or 7d; or a date or time of ISO 8601, in UTC without a zone.

    Raises:
        ValueError: It is neither.

    """
    if age := re.fullmatch(r"(\d{1,6})([smhdw])", written.strip()):
        return now - timedelta(seconds=int(age[1]) * _UNITS[age[2]])
    read = datetime.fromisoformat(written.strip())
    return read if read.tzinfo else read.replace(tzinfo=UTC)
