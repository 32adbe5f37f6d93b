"""Services that send spans of which none is recognised as of an agent: whose telemetry is not understood.

Of each a few spans are kept, so that the page /coverage can say what `goldspan inspect` would say of them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goldspan.collector_processor.encoded_spans.span_groups import KeyScanner, SpanGroup, join_request
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.otlp_protobuf import ProtobufReader
from goldspan.mappers.spans import RecordView
from goldspan.scoring.errors import Problem

Advise = Callable[[Sequence[RecordView], DialectRegistry], Sequence[Mapping[str, str]]]
"""Says what helps where nothing is recognised, as `goldspan inspect` does: what was `seen`, and what `helps`."""

_MAX_SERVICES = 1_000  # services that are remembered, each by its tenant and the resource of its spans
_MAX_LISTED = 100
_SAMPLE_BYTES = 64 << 10
_MOST_CHECKED = 5_000  # spans of a service that are looked at until it is given up


@dataclass(slots=True)
class _Service:
    spans: int = 0
    checked: int = 0
    is_recognised: bool = False
    sample: list[SpanGroup] = field(default_factory=list[SpanGroup])
    size: int = 0


class UnreadServices:
    """Notes the services of spans. For one thread; others may ask for what was found."""

    def __init__(self, advise: Advise | None = None) -> None:
        self._advise = advise
        self._services: OrderedDict[tuple[str, bytes], _Service] = OrderedDict()

    def note(self, tenant: str, groups: Sequence[SpanGroup], scanner: KeyScanner) -> None:
        """Note the spans of a request."""
        for envelope, spans in groups:
            key = tenant, envelope.resource
            if (service := self._services.get(key)) is None:
                service = self._services[key] = _Service()
                if len(self._services) > _MAX_SERVICES:
                    self._services.popitem(last=False)
            service.spans += len(spans)
            if service.is_recognised or service.checked >= _MOST_CHECKED:
                continue
            service.checked += len(spans)
            if scanner.reads_without_attributes(envelope.scope) or any(map(scanner.marked, spans)):
                service.is_recognised = True
                service.sample.clear()
            elif service.size < _SAMPLE_BYTES:
                service.sample.append(SpanGroup(envelope, spans))
                service.size += sum(map(len, spans))

    @property
    def count(self) -> int:
        """How many services there are of whose spans none is recognised."""
        return sum(not one.is_recognised for one in list(self._services.values()))

    def document(self, registry: DialectRegistry) -> list[Mapping[str, Any]]:
        """Return them as JSON values, with what helps."""
        found: list[Mapping[str, Any]] = []
        for (tenant, _), one in list(self._services.items()):
            if one.is_recognised or len(found) == _MAX_LISTED:
                continue
            problems: list[Problem] = []
            reader = ProtobufReader(problems.append)
            views = list(reader.views(reader.parse(join_request(list(one.sample)), "traces"), "traces"))
            name = next((str(value) for view in views if (value := view.resource.attributes.get("service.name"))), "")
            found.append(
                {
                    "tenant": tenant,
                    "service": name,
                    "spans": one.spans,
                    "recognised": 0,
                    "scopes": Counter(view.scope_name for view in views),
                    "advice": [] if self._advise is None else self._advise(views, registry),
                }
            )
        return found
