"""Asks a platform for its traces page by page, and keeps each answer as a file in a folder.

An adapter is a generator: it yields a `PageRequest`, and is sent the answer's body. Given the same answers it yields
the same pages. So a download that was interrupted needs no other state than its answers: it runs again, and each
answer that lies in the folder is read there. Answers without spans have hidden names, so that the folder is a folder
of traces.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from urllib3.exceptions import HTTPError

from goldspan.collector_processor import http_client
from goldspan.collector_processor.atomic_files import whole_file
from goldspan.collector_processor.server_urls import check_url
from goldspan.scoring.errors import GoldspanError
from goldspan.scoring.json_values import is_dict
from goldspan.scoring.lazy_names import texts_beside

MAX_ANSWER = 128 << 20
"""Bytes of one answer."""
MAX_DOWNLOAD = 16 << 30
"""Bytes of all answers of one source."""
ATTEMPTS = 8
"""Requests for one page, if the platform does not answer or cannot do it now."""
_FIRST_ATTEMPTS = 3  # requests for the first page, if nothing answers there: the address may be wrong
_SECONDS = 120.0  # for one request, with everything
_MAX_PAUSE = 60.0
_MAX_ASKED_PAUSE = 600.0  # seconds of a Retry-After that are waited
_MAX_REASON = 200
_STATE = ".download.json"
_MISSING = (404, 501)
_HINTS = {
    401: "the platform does not know the sender",
    403: "the sender may not read this",
    404: "no such project, or no such API at this address",
}


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """From a time, inclusive, to another, exclusive."""

    since: datetime
    until: datetime

    def share(self, reached: datetime) -> float:
        """Return which part of the window is before `reached`, from 0 to 1."""
        length = (self.until - self.since).total_seconds()
        return min(max((reached - self.since).total_seconds() / length, 0.0), 1.0) if length > 0 else 1.0


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request, sent by GET; with a body, which is JSON, by POST."""

    path: str
    """With its query."""
    body: bytes = b""
    holds_spans: bool = True
    missing: bytes | None = None
    """What is in the body of a 404 or 501 that is an answer too, an empty one; None: neither is."""
    done: float = 0.0
    """Which part of the window was read before this page, from 0 to 1."""


class AnswerTooLargeError(Exception):
    """An answer has more than `MAX_ANSWER` bytes; raised in the adapter, which may ask for less."""


class DownloadError(GoldspanError):
    """Traces cannot be read from a platform; the message says why, and what to set."""


Pages = Generator[PageRequest, bytes, int]
"""The pages of a source. Returns how many spans or traces there are, at least whether there are any."""


@dataclass(frozen=True, slots=True)
class StoredTraces:
    """The traces of one source, as a URL names them, and how to read them."""

    url: str
    platform: str
    address: str
    """The URL that paths are added to."""
    headers: Mapping[str, str]
    pages: Callable[[TimeWindow], Pages]
    sink: str = ""
    """The kind of `goldspan score --sink` that writes scores there; empty if it stores none."""

    @property
    def variables(self) -> str:
        """Says which variables set address and credentials."""
        texts = texts_beside("goldspan.collector_processor.replay.stored_traces", "sources.toml")
        return str(texts["variables"][self.platform])


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a download is."""

    pages: int
    bytes: int
    done: float
    """Which part of the time was read, from 0 to 1."""


def resumable(folder: Path, url: str, since: str, until: str) -> Path | None:
    """Return the newest folder in `folder` whose download of this source, for times written so, was interrupted."""
    for state in sorted(folder.glob(f"*/{_STATE}"), reverse=True):
        found = _state(state)
        if all(found.get(key) == value for key, value in (("url", url), ("since", since), ("until", until))):
            return None if found.get("complete") else state.parent
    return None


def start(folder: Path, url: str, since: str, until: str, window: TimeWindow) -> None:
    """Make the folder of a download, which `resumable` finds by the times as they are written."""
    folder.mkdir(parents=True, exist_ok=True)
    times = {"from": window.since.isoformat(), "to": window.until.isoformat()}
    _write(folder / _STATE, json.dumps({"url": url, "since": since, "until": until, **times}).encode())


def window_of(folder: Path) -> TimeWindow:
    """Return the times of a download that was started."""
    found = _state(folder / _STATE)
    return TimeWindow(datetime.fromisoformat(str(found.get("from"))), datetime.fromisoformat(str(found.get("to"))))


def download(
    source: StoredTraces,
    folder: Path,
    on_page: Callable[[Progress], object] = lambda _: None,
    sleep: Callable[[float], object] = time.sleep,
) -> int:
    """Read the traces of a source into a folder that `start` made; return how many spans or traces there are.

    Raises DownloadError if the platform does not give them. What was read stays, and a second call goes on there.
    """
    asking = _Asking(source, sleep)
    pages = source.pages(window_of(folder))
    number = size = 0
    asked = set[tuple[str, bytes]]()
    try:
        page = next(pages)
        while True:
            if (page.path, page.body) in asked:
                raise asking.failed(f"answers with the same page again and again: {page.path}")
            asked.add((page.path, page.body))
            files = _files_of(folder, number + 1)
            try:
                answer = _kept_or_asked(files, page, asking)
            except AnswerTooLargeError as error:
                page = pages.throw(error)
                continue
            number += 1
            size += len(answer)
            on_page(Progress(number, size, page.done))
            if size > MAX_DOWNLOAD:
                raise asking.failed(f"has more than {MAX_DOWNLOAD >> 30} GiB of these traces: choose a shorter time")
            try:
                page = pages.send(answer)
            except msgspec.DecodeError as error:
                for file in files:
                    file.unlink(missing_ok=True)
                raise asking.failed(f"answers {page.path} with something unexpected: {error}") from None
    except StopIteration as end:
        _write(folder / _STATE, json.dumps(_state(folder / _STATE) | {"complete": True}).encode())
        count: int = end.value
        return count
    except AnswerTooLargeError:
        raise asking.failed(f"sends a page of more than {MAX_ANSWER >> 20} MiB, which is not read") from None
    except OSError as error:
        raise DownloadError(f"{folder} cannot be written: {error.strerror or error}") from None
    finally:
        asking.close()


def _files_of(folder: Path, number: int) -> tuple[Path, Path]:
    file = folder / f"{number:06}.json"
    return file, file.with_name(f".{file.name}")


def _kept_or_asked(files: tuple[Path, Path], page: PageRequest, asking: _Asking) -> bytes:
    for kept in files:
        if kept.exists():
            return kept.read_bytes()
    answer = asking.answer(page)
    with_spans, hidden = files
    _write(with_spans if page.holds_spans and answer else hidden, answer)
    return answer


class _Asking:
    """Sends requests to a platform until it answers."""

    def __init__(self, source: StoredTraces, sleep: Callable[[float], object]) -> None:
        self._source = source
        self._sleep = sleep
        try:
            check_url(source.address, "a URL such as http://localhost:6006", "other variables take them")
        except ValueError as error:
            message = f"{source.url}: the address of {source.platform}: {error}. {source.variables}"
            raise DownloadError(message) from None
        self._client = http_client.HttpClient(source.address, max_body=MAX_ANSWER + 1)
        self._headers = {"Accept": "application/json", "User-Agent": "goldspan", **source.headers}
        self._has_answered = False

    def close(self) -> None:
        self._client.close()

    def failed(self, what: str) -> DownloadError:
        source = self._source
        return DownloadError(f"{source.url}: {source.platform} at {source.address} {what}. {source.variables}")

    def answer(self, page: PageRequest) -> bytes:
        """Return the body of the answer. Raises `DownloadError` and `AnswerTooLargeError`."""
        reason, asked = "", None
        for attempt in range(ATTEMPTS):
            if attempt == _FIRST_ATTEMPTS and not self._has_answered:
                raise self.failed(f"does not answer: {reason}")
            self._pause(attempt, asked)
            try:
                response = self._request(page)
            except (HTTPError, OSError) as error:
                reason, asked = http_client.describe(error), None
                continue
            except ValueError as error:
                raise self.failed(f"cannot be asked: {error}") from None
            self._has_answered = True
            if len(response.body) > MAX_ANSWER:
                raise AnswerTooLargeError
            if response.status == 200 and not response.unread:
                return response.body
            if response.status in _MISSING and page.missing is not None and page.missing in response.body:
                return b""
            reason = response.unread if response.status == 200 else _reason(response)
            if response.status != 200 and response.status not in http_client.RETRYABLE_STATUS:
                raise self.failed(f"answers {reason}")
            asked = http_client.parse_retry_after(response.headers.get("retry-after"), datetime.now(UTC))
        raise self.failed(f"does not answer, asked {ATTEMPTS} times: {reason}")

    def _pause(self, attempt: int, asked: float | None) -> None:
        """Wait before another attempt; `asked` is what the platform asked for, in seconds."""
        if attempt:
            self._sleep(min(2.0 ** (attempt - 1), _MAX_PAUSE) if asked is None else min(asked, _MAX_ASKED_PAUSE))

    def _request(self, page: PageRequest) -> http_client.HttpResponse:
        method, headers = ("POST", {"Content-Type": "application/json"}) if page.body else ("GET", {})
        return self._client.request(method, page.path, page.body, self._headers | headers, seconds=_SECONDS)


def _reason(response: http_client.HttpResponse) -> str:
    text = " ".join(response.body[: 4 * _MAX_REASON].decode("utf-8", "replace").split())[:_MAX_REASON]
    to = response.headers.get("location") if 300 <= response.status < 400 else None
    hint = f"it moved to {to}" if to else _HINTS.get(response.status, "")
    return " ".join(filter(None, (f"HTTP {response.status}", f"({hint})" if hint else "", text)))


def _state(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if is_dict(found) else {}


def _write(path: Path, content: bytes) -> None:
    with whole_file(path) as file:
        file.write(content)
