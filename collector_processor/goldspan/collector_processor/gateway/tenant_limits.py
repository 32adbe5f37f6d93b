"""The tenants of a gateway, and how much memory each may use.

Every distinct set of forwarded headers is a tenant with an engine, a span buffer and metrics of its own. All tenants
have equal shares of `max_spans` and `unread_span_bytes`. Beyond `max_tenants` the least recently active one is judged
and dropped; beyond `max_held_bytes` the tenant that receives spans releases the ones that it has held longest.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from goldspan.collector_processor.gateway.deliver.dispatcher import PendingRequest
from goldspan.collector_processor.gateway.deliver.evaluation_requests import TenantMetrics
from goldspan.collector_processor.gateway.encoded_spans import EncodedSpanBuffer
from goldspan.collector_processor.gateway.interfaces import Headers
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.gateway.tenant import HeldSpan, Tenant


@dataclass(slots=True)
class TenantState:
    """A tenant, and what the worker keeps for it alone."""

    name: str
    """The headers as JSON: the tenant's key in the journal."""
    headers: Headers
    tenant: Tenant
    unread: EncodedSpanBuffer
    metrics: TenantMetrics
    journaled: dict[str, int] = field(default_factory=dict[str, int])
    """For each session a hash of its results as they were last written to the journal."""
    metrics_request: PendingRequest | None = None
    """The newest request with metric points."""
    metrics_sent_at: float = 0.0
    metrics_changed: bool = False
    sessions_without_golden: int = 0


class TenantTable:
    """The tenants by their headers, the least recently active first. For one thread; iterating is thread-safe."""

    def __init__(
        self,
        settings: PipelineSettings,
        create: Callable[[str, Headers], TenantState],
        evict: Callable[[TenantState, float], object],
    ) -> None:
        """Make tenants by `create`; a tenant beyond `max_tenants` is given to `evict`, with the time, and dropped."""
        self._settings = settings
        self._create = create
        self._evict = evict
        self._states: OrderedDict[str, TenantState] = OrderedDict()
        self.evicted = 0
        self.buffers_unread = True
        """Unread spans are worth keeping: a golden may want a later span of their trace."""

    def __iter__(self) -> Iterator[TenantState]:
        return iter(list(self._states.values()))

    def __len__(self) -> int:
        return len(self._states)

    def named(self, name: str) -> TenantState | None:
        """Return the tenant with this key in the journal."""
        return self._states.get(name)

    def restored(self, name: str, now: float) -> TenantState:
        """Return the tenant with this key in the journal, created if needed."""
        return self.of(tuple((key, value) for key, value in json.loads(name)), now)

    def of(self, headers: Headers, now: float) -> TenantState:
        """Return the tenant of a request with these headers, created if needed; it is now the most recently active."""
        name = json.dumps(headers)
        state = self._states.get(name)
        if state is not None:
            self._states.move_to_end(name)
            return state
        state = self._states[name] = self._create(name, headers)
        if len(self._states) > self._settings.max_tenants:
            self._drop(next(iter(self._states.values())), now)
        self.share_memory()
        return state

    def share_memory(self) -> None:
        """Give every tenant an equal share of the memory for spans."""
        shares, settings = len(self._states), self._settings
        for state in self._states.values():
            state.unread.max_bytes = settings.unread_span_bytes // shares if self.buffers_unread else 0
            state.tenant.engine.settings = replace(
                settings.engine, max_spans=max(1, settings.engine.max_spans // shares)
            )

    def release_excess(self, state: TenantState) -> Sequence[HeldSpan]:
        """Release held spans of a tenant, the oldest first, until all tenants together hold `max_held_bytes`."""
        excess = sum(one.tenant.held_bytes for one in self._states.values()) - self._settings.max_held_bytes
        return state.tenant.release_oldest(max(0, state.tenant.held_bytes - excess)) if excess > 0 else ()

    def _drop(self, state: TenantState, now: float) -> None:
        self.evicted += 1
        self._evict(state, now)
        del self._states[state.name]
