"""Recorded spans and log records as OTLP/JSON lines that a second recording would give again, and that name no machine.

Ids become hashes of the recording's name and of their number, times keep their order but lie a millisecond apart,
uuids are numbered, and whatever tells of the machine is taken out.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

FIRST_TIME = 1_796_115_600_000_000_000
STEP = 1_000_000
RESOURCE_KEYS = ("service.name", "telemetry.sdk.")
UUID = re.compile(r"(?<![0-9a-zA-Z])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-zA-Z])")
HEX = re.compile(r"(?<![0-9a-zA-Z])(?:[0-9a-f]{32}|[0-9a-f]{16})(?![0-9a-zA-Z])")
HASH = re.compile(r"(?<=_)\d{15,20}\b")
MACHINE = (
    (re.compile(r"(?:/[\w.+@-]+)+/(?=(?:site-packages|lib/python3\.\d+|tests/recordings|node_modules)/)"), "/"),
    (re.compile(r"file:///[^\s:)]+/(?=[\w.-]+\.mjs\b)"), "file:///app/"),
    (re.compile(r"\bat 0x[0-9a-f]{6,}"), "at 0x0"),
    (re.compile(r"\b(127\.0\.0\.1|localhost):\d{4,5}\b"), r"\1:8000"),
    (re.compile(r"\b20\d\d-\d\d-\d\d([T ])\d\d:\d\d:\d\d\.\d+"), r"2026-12-01\g<1>09:00:00.000000"),
    (re.compile(r"(?<![\w.])1[78]\d{8}(?:\.\d+)?(?![\w.])"), "1796115600"),
    (re.compile(r"(?<![\w.])1[78]\d{11}(?![\w.])"), "1796115600000"),
)
CHANGING: Mapping[str, Any] = {
    "agent_framework.function.invocation.duration": {"doubleValue": 0.001},
    "gen_ai.response.time_to_first_chunk": {"doubleValue": 0.001},
    "gen_ai.client.operation.time_to_first_chunk": {"doubleValue": 0.001},
    "gen_ai.server.time_to_first_token": None,
    "process.pid": {"intValue": "1"},
    "server.port": {"intValue": "8000"},
    "thread.id": {"intValue": "1"},
}
"""Attributes whose value says nothing and is another each time; those without a value are there only sometimes."""


class Cleaner:
    """Rewrites one recording's requests."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._ids: dict[str, str] = {}
        self._others: dict[str, str] = {}
        self._times: dict[int, int] = {}

    def learn(self, requests: Iterable[Mapping[str, Any]]) -> None:
        """Number every id and time of all requests, spans in the order they began."""
        found: list[dict[str, Any]] = [node for request in requests for node in nodes(request)]
        for node in sorted(found, key=lambda node: int(node.get("startTimeUnixNano") or node.get("timeUnixNano") or 0)):
            for key, length in (("traceId", 32), ("parentSpanId", 16), ("spanId", 16)):
                if node.get(key):
                    self._ids.setdefault(node[key], self._hash(f"{key[-6:]} {len(self._ids)}", length))
        times = {int(value) for node in found for key, value in node.items() if key.endswith("TimeUnixNano")}
        times |= {int(node["timeUnixNano"]) for node in found if "timeUnixNano" in node}
        self._times = {time: FIRST_TIME + STEP * rank for rank, time in enumerate(sorted(times - {0}))} | {0: 0}

    def clean(self, request: Mapping[str, Any]) -> dict[str, Any]:
        for resource in (*request.get("resourceSpans", ()), *request.get("resourceLogs", ())):
            attributes = resource.get("resource", {}).get("attributes", [])
            attributes[:] = [one for one in attributes if one["key"].startswith(RESOURCE_KEYS)]
        cleaned: dict[str, Any] = self._walk("", request)
        return cleaned

    def _walk(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            if value.get("key") in CHANGING:
                return {"key": value["key"], "value": CHANGING[value["key"]]}
            return {name: self._walk(name, inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._walk(key, inner) for inner in value if not self._is_left_out(inner)]
        if key.lower().endswith("timeunixnano"):
            return str(self._times[int(value)])
        if key in ("traceId", "spanId", "parentSpanId"):
            return self._ids.get(value, value)
        if isinstance(value, float) and 1.7e9 < value < 1.9e9:
            return 1796115600.0
        return self._text(value) if isinstance(value, str) else value

    def _is_left_out(self, attribute: Any) -> bool:
        key = attribute.get("key") if isinstance(attribute, dict) else None
        return key in CHANGING and CHANGING[key] is None

    def _text(self, text: str) -> str:
        for pattern, replacement in MACHINE:
            text = pattern.sub(replacement, text)
        text = HASH.sub(lambda hit: self._number(hit.group()), text)
        text = UUID.sub(lambda hit: self._uuid(hit.group()), text)
        return HEX.sub(lambda hit: self._ids.get(hit.group()) or self._other(hit.group()), text)

    def _uuid(self, uuid: str) -> str:
        digits = self._other(uuid.replace("-", ""))
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def _number(self, digits: str) -> str:
        return self._others.setdefault(digits, str(int(self._hash(f"number {len(self._others)}", 14), 16)))

    def _other(self, digits: str) -> str:
        if digits.isdigit() and len(digits) == 16:
            return digits
        return self._others.setdefault(digits, self._hash(f"other {len(self._others)}", len(digits)))

    def _hash(self, what: str, length: int) -> str:
        return hashlib.sha256(f"{self._name} {what}".encode()).hexdigest()[:length]


def nodes(value: Any) -> Iterable[dict[str, Any]]:
    """Every object of a request that has ids or a time: spans, their events and links, log records."""
    if isinstance(value, dict):
        if any(key in value for key in ("spanId", "timeUnixNano", "observedTimeUnixNano")):
            yield value
        for inner in value.values():
            yield from nodes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from nodes(inner)


def hex_ids(value: Any) -> Any:
    """OTLP/JSON writes ids as hex; protobuf's own JSON mapping as base64."""
    if isinstance(value, list):
        return [hex_ids(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64decode(inner).hex() if key in ("traceId", "spanId", "parentSpanId") else hex_ids(inner)
        for key, inner in value.items()
    }


def lines(name: str, spans: list[dict[str, Any]], logs: list[dict[str, Any]]) -> tuple[str, str]:
    """Return both files' text: one request a line, spans in the order they ended, whenever they were delivered."""
    cleaner = Cleaner(name)
    spans = sorted(spans, key=lambda request: max(int(node.get("endTimeUnixNano") or 0) for node in nodes(request)))
    cleaner.learn([*spans, *logs])

    def text(requests: list[dict[str, Any]]) -> str:
        return "".join(
            json.dumps(cleaner.clean(request), ensure_ascii=False, separators=(",", ":")) + "\n" for request in requests
        )

    return text(spans), text(logs)
