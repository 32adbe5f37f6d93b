"""Who sends: which tenants a token may name, how much each tenant may send, and a line of the log for each refusal."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping

from goldspan.collector_processor.gateway.interfaces import Headers, OtlpResponse, RequestStatus, tenant_name
from goldspan.collector_processor.gateway.settings.sections import TenantLimits
from goldspan.collector_processor.serving.admin import Sample

_logger = logging.getLogger("goldspan.gateway")

_BURST = 10.0  # seconds of its rate that a tenant may send at once
_MAX_TENANTS = 10_000
"""Tenants whose rates are remembered, and clients whose refusals are: of those that were active last."""
_LINE_INTERVAL = 60.0  # seconds between two lines of the log about one client and one reason
_MAX_LINES = 20  # lines about refused clients in such a time: somebody may send from any number of addresses
REFUSALS = tuple(
    status
    for status in RequestStatus
    if status not in {RequestStatus.OK, RequestStatus.BUSY, RequestStatus.TOO_MANY, RequestStatus.BROKEN}
)
"""What a client has to change something for."""


def tenant_labels(headers: Headers) -> Mapping[str, str]:
    """Return the label of a tenant on `/metrics`; none where no header is forwarded."""
    return {"tenant": name} if (name := tenant_name(headers)) else {}


def with_implied(headers: Headers, allowed: Mapping[str, frozenset[str]]) -> Headers | OtlpResponse:
    """Return the headers of a request whose token may send these, or why it is refused.

    A header for which a token has one value is that value where the request has none.
    """
    sent = dict(headers)
    for name, values in allowed.items():
        if name not in sent and len(values) == 1:
            sent[name] = next(iter(values))
        if sent.get(name) not in values:
            found = f"found {sent[name]}" if name in sent else "found none"
            return OtlpResponse(RequestStatus.FORBIDDEN, f"header {name}: {found}, which this token may not send")
    return tuple(sorted(sent.items()))


class TenantRates:
    """How much each tenant has sent of what it may send each second. Used from any thread."""

    def __init__(self, limits: TenantLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._rates = {
            "requests": limits.requests_per_second,
            "bytes": limits.bytes_per_second,
        }
        self._clock = clock
        self._lock = threading.Lock()
        self._left: OrderedDict[tuple[Headers, str], tuple[float, float]] = OrderedDict()
        """What a tenant has left, and when that was."""

    def take(self, headers: Headers, what: str, amount: float) -> OtlpResponse | None:
        """Count `requests` or `bytes` of a tenant; return why it has to wait. Beyond the rate it is counted too."""
        rate = self._rates[what]
        if rate is None:
            return None
        now = self._clock()
        with self._lock:
            left, at = self._left.pop((headers, what), (_BURST * rate, now))
            left = min(_BURST * rate, left + rate * (now - at))
            allowed = left > 0
            # A body that was read is paid for, however large; what is refused is not.
            self._left[headers, what] = left - amount if allowed else left, now
            if len(self._left) > _MAX_TENANTS:
                self._left.popitem(last=False)
        if allowed:
            return None
        message = f"this tenant sends more than {rate:g} {what} a second; try again"
        return OtlpResponse(RequestStatus.TOO_MANY, message, max(1.0, -left / rate))


class RefusedClients:
    """Says of each client that is refused why, now and then, and counts. Used from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts = Counter[str](dict.fromkeys((status.label for status in REFUSALS), 0))
        self._silent: OrderedDict[tuple[str, str, str], tuple[float, int]] = OrderedDict()
        """Until when nothing more is said of a client, and how often it was refused since the last line."""
        self._lines = 0
        self._lines_since = 0.0

    def note(self, response: OtlpResponse, tenant: str, address: str) -> None:
        """Note a response, if it refuses something; `tenant` is what the client says of itself."""
        if response.status not in REFUSALS and response.status is not RequestStatus.TOO_MANY:
            return
        label, now = response.status.label, self._clock()
        with self._lock:
            self._counts[label] += 1
            until, count = self._silent.pop((label, tenant, address), (0.0, 0))
            if now - self._lines_since >= _LINE_INTERVAL:
                self._lines, self._lines_since = 0, now
            said = now >= until and self._lines < _MAX_LINES
            self._silent[label, tenant, address] = (now + _LINE_INTERVAL, 0) if said else (until, count + 1)
            self._lines += said
            if len(self._silent) > _MAX_TENANTS:
                self._silent.popitem(last=False)
        if said:
            extra = {"reason": label, "tenant": tenant, "address": address, "requests": count + 1}
            _logger.warning("a client is refused: %s", response.message or label, extra=extra)

    def samples(self) -> Iterator[Sample]:
        """Yield how many requests were refused, by reason."""
        with self._lock:
            counts = dict(self._counts)
        for label, count in counts.items():
            yield "goldspan_receiver_refused_requests_total", {"reason": label}, count
