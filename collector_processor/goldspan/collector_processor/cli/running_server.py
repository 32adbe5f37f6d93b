"""What a running gateway, or a worker of a stream, says of itself on its admin pages: `goldspan doctor URL`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import urllib3
from prometheus_client.parser import text_string_to_metric_families

from goldspan.collector_processor.serving.admin import Sample
from goldspan.scoring.errors import SettingsError
from goldspan.scoring.pages import counted, listed, printable

_TIMEOUT = 10.0
_STALLED = 30.0  # seconds without a delivery after which `DownstreamAway` fires
_NEARLY_FULL = 0.7  # of the journal's limit; from three quarters on, requests are refused
_MIB = 1 << 20
Add = Callable[..., object]
"""Takes a label, a text, and hints: what was seen, and what helps."""


class Numbers:
    """The samples of `/metrics`. What a server does not have is 0."""

    def __init__(self, page: str) -> None:
        self._samples: list[Sample] = [
            (sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        ]

    def __contains__(self, name: str) -> bool:
        return any(name == known for known, _, _ in self._samples)

    def sum(self, name: str) -> int:
        """Return the sum over all labels."""
        return round(sum(value for known, _, value in self._samples if known == name))

    def by(self, name: str, label: str) -> Counter[str]:
        """Return what is not 0, by the values of a label."""
        found = Counter[str]()
        for known, labels, value in self._samples:
            if known == name and value:
                found[labels.get(label, "")] += round(value)
        return found


class AdminPages:
    """The admin pages of one server."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url = url.rstrip("/")
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._pool = urllib3.PoolManager(retries=False, timeout=_TIMEOUT)

    def get(self, path: str) -> tuple[int, str]:
        """Return status and text of a page. Raises SettingsError if there is no answer that can be used."""
        try:
            answer = self._pool.request("GET", self._url + path, headers=self._headers)
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise SettingsError(f"{self._url}: no answer: {error}; expected the address of `admin.listen`") from None
        if answer.status in {401, 403}:
            raise SettingsError(f"{self._url}{path} wants one of `admin.tokens`: name its variable by --token-env")
        if answer.status not in {200, 503}:
            raise SettingsError(f"{self._url}{path}: found status {answer.status}, expected an admin page of goldspan")
        return answer.status, answer.data.decode("utf-8", "replace")


def examine(add: Add, note: Callable[[str, str], object], url: str, token: str | None) -> None:
    """Add what a server says of itself. Raises SettingsError if it does not answer as goldspan does."""
    pages = AdminPages(url, token)
    status, readiness = pages.get("/readyz")
    numbers = Numbers(pages.get("/metrics")[1])
    coverage: dict[str, Any] = json.loads(pages.get("/coverage")[1])
    said = readiness.strip()
    hints = [(f"not ready: {said}", "It accepts nothing until that is mended; its log says more.")]
    version = listed(numbers.by("goldspan_info", "version"))
    add("server", f"{url}: goldspan {version}, {said}", *(hints if status == 503 else ()))
    if "goldspan_stream_starts_total" in numbers:
        _worker(add, numbers)
    else:
        _gateway(add, note, numbers)
    _goldens(add, note, coverage)
    _teams(add, note, coverage)
    threads = numbers.by("goldspan_threads", "thread")
    stopped = sorted(threads - numbers.by("goldspan_threads_running", "thread"))
    failures = numbers.by("goldspan_failures_total", "where")
    add(
        "works",
        "no thread has failed" if not stopped and not failures else "not as it should",
        *([(f"threads that do not run: {listed(stopped)}", "Look at its log.")] if stopped else ()),
        *([(f"contained failures: {_counts(failures)}", "The log has the first of each kind.")] if failures else ()),
    )


def _gateway(add: Add, note: Callable[[str, str], object], numbers: Numbers) -> None:
    received = numbers.sum("goldspan_received_requests_total")
    if received:
        size = numbers.sum("goldspan_received_bytes_total") / _MIB
        add("receives", f"{counted(received, 'request')}, {size:.1f} MiB since its start")
    else:
        note("receives", "nothing since its start: do exporters have its address?")
    refused = numbers.by("goldspan_receiver_refused_requests_total", "reason")
    not_accepted = numbers.by("goldspan_not_accepted_requests_total", "reason")
    del not_accepted["broken"]  # among the refused
    hints = (
        [(f"clients are refused: {_counts(refused)}", "The log names tenant and address of each.")] if refused else []
    )
    if not_accepted:
        hints.append(
            (f"clients have to send again: {_counts(not_accepted)}", "It has too little room or time for them.")
        )
    add("refuses", _counts(refused + not_accepted) or "nobody", *hints)
    early = numbers.by("goldspan_released_early_spans_total", "reason")
    held = f"{counted(numbers.sum('goldspan_held_spans'), 'span')} until their turns are over"
    helps = "Raise `scoring.hold_timeout` or `scoring.max_held_bytes`."
    add("holds", held, *([(f"spans left without their scores: {_counts(early)}", helps)] if early else ()))
    _waits(add, numbers)
    rejected, letters = numbers.sum("goldspan_rejected_items_total"), numbers.sum("goldspan_refused_requests_total")
    text = f"{counted(numbers.sum('goldspan_delivered_requests_total'), 'request')} to the next receiver"
    hints = [(f"requests that it refused: {letters}", "`goldspan dead-letters list` says why.")] if letters else []
    if rejected:
        hints.append((f"items that it rejected: {rejected}", "The log has its reason."))
    add("delivers", text, *hints)
    if waiting := numbers.sum("goldspan_judge_waiting_sessions"):
        oldest = numbers.sum("goldspan_judge_oldest_waiting_seconds")
        note("judge", f"{counted(waiting, 'session')} wait for the model, the oldest for {oldest} s")


def _waits(add: Add, numbers: Numbers) -> None:
    """Add what waits for the next receiver, in memory and on disk."""
    used, limit = numbers.sum("goldspan_journal_bytes"), numbers.sum("goldspan_journal_max_bytes")
    stalled = {
        signal: s for signal, s in numbers.by("goldspan_delivery_stalled_seconds", "signal").items() if s > _STALLED
    }
    hints: list[tuple[str, str]] = []
    if stalled:
        away = ", ".join(f"{signal} for {seconds} s" for signal, seconds in stalled.items())
        hints.append((f"the next receiver takes nothing: {away}", "Look at it; the log has its address and the error."))
    if limit and used > _NEARLY_FULL * limit:
        helps = "From three quarters on clients get 503: mend delivery, or raise `journal.max_bytes`."
        hints.append((f"the journal has {used / limit:.0%} of its limit", helps))
    on_disk = f"; journal {used / _MIB:.1f} of {limit / _MIB:.0f} MiB" if limit else "; no journal"
    add("waits", f"{counted(numbers.sum('goldspan_waiting_requests'), 'request')} for delivery{on_disk}", *hints)


def _worker(add: Add, numbers: Numbers) -> None:
    read, sent = numbers.sum("goldspan_stream_read_records_total"), numbers.sum("goldspan_stream_sent_records_total")
    stages = _counts(numbers.by("goldspan_stream_partitions", "stage"))
    add("partitions", stages or "none", *([] if stages else [("no partition", "Other workers have all of them.")]))
    add("receives", f"{counted(read, 'record')} since its start")
    lag = numbers.sum("goldspan_stream_lag_records")
    late = max(numbers.by("goldspan_stream_watermark_delay_seconds", "partition").values(), default=0)
    behind = [(f"{counted(lag, 'record')} wait, {late} s behind", "Add workers, up to the number of partitions.")]
    add("waits", f"{counted(lag, 'record')} to be read", *(behind if lag and late > 2 * _STALLED else ()))
    letters, large = (
        numbers.by("goldspan_stream_dead_letters_total", "topic"),
        numbers.by("goldspan_stream_too_large_total", "topic"),
    )
    hints = (
        [(f"records that cannot be read: {_counts(letters)}", "The topic of dead letters has them.")] if letters else []
    )
    if large:
        hints.append((f"outputs that are too large: {_counts(large)}", "Raise `kafka.max_message`."))
    add("delivers", counted(sent, "record"), *hints)


def _goldens(add: Add, note: Callable[[str, str], object], coverage: Mapping[str, Any]) -> None:
    refused = [
        (f"{one['file']} is refused: {listed(one['mistakes'], 3)}", "Mend it: `goldspan goldens check`.")
        for one in coverage.get("golden_files", {}).get("refused", ())
    ]
    total, seen = coverage["goldens"]["total"], coverage["goldens"]["seen"]
    if not total:
        note("goldens", "none: sessions are scored by metrics that need none")
    others = listed(
        (f"{one['session']} (from {one['source']})" for one in coverage["newest_sessions_without_golden"]), 3
    )
    never = (
        [
            (
                "no golden had a session" + (f"; sessions seen: {others}" if others else ""),
                "Compare `session` of the goldens with these ids.",
            )
        ]
        if total and not seen and others
        else []
    )
    if total or refused:
        add("goldens", f"{seen} of {total} had a session", *refused, *never)


def _teams(add: Add, note: Callable[[str, str], object], coverage: Mapping[str, Any]) -> None:
    tenants = [one["tenant"] for one in coverage.get("tenants", ()) if one["tenant"]]
    unread = [
        (
            f"no span of {printable(one['service'] or 'a service without name')} is recognised, of {one['spans']}"
            + (f" (tenant {one['tenant']})" if one["tenant"] else ""),
            " ".join(advice["helps"] for advice in one["advice"]) or "`goldspan inspect` on its traces says why.",
        )
        for one in coverage.get("unread", ())
    ]
    if tenants or unread:
        add("teams", f"{len(tenants)}: {listed(tenants, 10)}" if tenants else "not told apart", *unread)
    folded = coverage.get("names_counted_as_other", ())
    if folded:
        note("names", f"{counted(len(folded), 'name')} counted as _other: `scoring.name_limit`")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda one: -one[1]))
