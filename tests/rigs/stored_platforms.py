"""Servers that give stored traces as platforms do, by their API descriptions.

Each checks the parameters of a request as its description says, gives at most so many at once as was asked for, and
answers 400 to what it does not know.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from rigs.local_http import Quiet, serving

Trace = dict[str, Any]
"""An OTLP/JSON request with one trace."""
Answer = tuple[int, Any]
INSTANT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"


@dataclass
class Fault:
    """What happens to a request in place of its answer."""

    status: int = 0
    """0: the connection is cut in the middle of the body."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = "not now"


@dataclass
class Stored:
    """A platform on a local port with these traces; it notes which paths were asked for."""

    traces: list[Trace]
    answer: Callable[[Stored, str, dict[str, str], Any], Answer]
    endpoint: str = ""
    scores: dict[str, Any] = field(default_factory=dict)
    """What was written, by the id that the platform knows it by."""
    asked: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    """Of the last request, with names in lower case."""
    faults: dict[int, Fault] = field(default_factory=dict)
    """By the number of the request, from 0; -1: of every request."""


@contextmanager
def stored(answer: Callable[[Stored, str, dict[str, str], Any], Answer], traces: list[Trace]) -> Generator[Stored]:
    """Listen while the block runs."""
    found = Stored(traces, answer)

    class Handler(Quiet):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = found.faults.get(len(found.asked), found.faults.get(-1))
            found.asked.append(self.path)
            found.headers = {name.lower(): value for name, value in self.headers.items()}
            if fault is not None and fault.status:
                self.reply(fault.status, fault.body.encode(), fault.headers)
                return
            path, query = urlsplit(self.path).path, dict(parse_qsl(urlsplit(self.path).query))
            status, answered = found.answer(found, unquote(path), query, json.loads(body) if body else None)
            self.reply(status, json.dumps(answered).encode(), {}, cut=fault is not None)

        do_POST = do_PATCH = do_GET

        def reply(self, status: int, body: bytes, headers: Mapping[str, str], *, cut: bool = False) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if cut else body)
            if cut:
                self.close_connection = True

    with serving(Handler) as found.endpoint:
        yield found


def spans(trace: Trace) -> Iterator[dict[str, Any]]:
    """Yield the spans of a trace."""
    for resource in trace["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            yield from scope["spans"]


def trace_id(trace: Trace) -> str:
    """Return the id of a trace."""
    return str(next(spans(trace))["traceId"])


def start(span: Mapping[str, Any]) -> int:
    """Return the start of a span in nanoseconds."""
    return int(span["startTimeUnixNano"])


def instant(nanoseconds: int) -> str:
    """Return a time as platforms write it."""
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).isoformat()


def nanoseconds(written: str) -> int:
    """Read a time of a request."""
    return round(datetime.fromisoformat(written).timestamp() * 1e6) * 1000


def attributes(span: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span, which are texts here."""
    return {one["key"]: one["value"]["stringValue"] for one in span["attributes"]}


def wrong(query: Mapping[str, str], **patterns: str) -> Answer | None:
    """Return the answer to parameters that the API does not have, or that have another form; None if all are right."""
    known = {name.replace("__", "."): pattern for name, pattern in patterns.items()}
    bad = [name for name, value in query.items() if not re.fullmatch(known.get(name, "(?!)"), value)]
    return (400, {"error": f"invalid parameters: {bad}"}) if bad else None


def page_of(items: list[Any], start_at: int, limit: int) -> tuple[list[Any], int | None]:
    """Return so many items and the place of the next, if there is one."""
    end = start_at + limit
    return items[start_at:end], end if end < len(items) else None


def phoenix(platform: Stored, path: str, query: dict[str, str], body: Any) -> Answer:
    """Answer `GET /v1/projects/{project}/spans` of the project `a b`, and take annotations."""
    if path.endswith("_annotations"):
        platform.scores |= {one["identifier"]: one["result"] for one in body["data"]}
        return 200, {"data": []}
    if path != "/v1/projects/a b/spans":
        return 404, {"detail": "Project not found"}
    bad = wrong(
        query,
        limit=r"[1-9]\d{0,3}",
        cursor=r"\d+",
        sort="id|start_time",
        order="asc|desc",
        start_time=INSTANT,
        end_time=INSTANT,
    )
    if bad:
        return 422, bad[1]
    since, until = nanoseconds(query["start_time"]), nanoseconds(query["end_time"])
    found = sorted((one for trace in platform.traces for one in spans(trace)), key=start)
    found = [one for one in found if since <= start(one) < until]
    given, cursor = page_of(found, int(query.get("cursor", 0)), int(query["limit"]))
    data = [
        {
            "context": {"trace_id": one["traceId"], "span_id": one["spanId"]},
            "parent_id": one.get("parentSpanId") or None,
            "name": one["name"],
            "span_kind": "UNKNOWN",
            "start_time": instant(start(one)),
            "end_time": instant(int(one["endTimeUnixNano"])),
            "attributes": attributes(one),
            "events": [],
        }
        for one in given
    ]
    return 200, {"data": data, "next_cursor": None if cursor is None else str(cursor)}


def observation(span: Mapping[str, Any]) -> dict[str, Any]:
    """Return a span as Langfuse stores it."""
    return {
        "id": span["spanId"],
        "traceId": span["traceId"],
        "projectId": "p-1",
        "parentObservationId": span.get("parentSpanId") or None,
        "type": "SPAN",
        "level": "DEFAULT",
        "name": span["name"],
        "startTime": instant(start(span)),
        "endTime": instant(int(span["endTimeUnixNano"])),
        "metadata": {"attributes": json.dumps(attributes(span))},
    }


def langfuse(platform: Stored, path: str, query: dict[str, str], body: Any) -> Answer:
    """Answer `GET /api/public/v2/observations` and `/api/public/projects`, and take scores, with `pk` and `sk`."""
    if platform.headers.get("authorization") != "Basic " + base64.b64encode(b"pk:sk").decode():
        return 401, {"message": "Invalid credentials"}
    if path == "/api/public/projects":
        return 200, {"data": [{"id": "p-1", "name": "travel"}]}
    if path == "/api/public/ingestion":
        platform.scores |= {one["body"]["id"]: one["body"]["value"] for one in body["batch"]}
        return 207, {"successes": [], "errors": []}
    if path != "/api/public/v2/observations":
        return 404, {"message": "not found"}
    groups = "(core|basic|time|io|metadata|model|usage|prompt|metrics|trace_context)"
    bad = wrong(
        query,
        fields=f"{groups}(,{groups})*",
        expandMetadata=r"\w+(,\w+)*",
        limit="[1-9]\\d{0,2}|1000",
        cursor=r"\d+",
        fromStartTime=INSTANT,
        toStartTime=INSTANT,
    )
    if bad:
        return bad
    since, until = nanoseconds(query["fromStartTime"]), nanoseconds(query["toStartTime"])
    found = sorted((one for trace in platform.traces for one in spans(trace)), key=start, reverse=True)
    given, cursor = page_of(
        [one for one in found if since <= start(one) < until], int(query.get("cursor", 0)), int(query["limit"])
    )
    return 200, {"data": list(map(observation, given)), "meta": {} if cursor is None else {"cursor": str(cursor)}}


def older_langfuse(platform: Stored, path: str, query: dict[str, str], _: Any) -> Answer:
    """Answer as servers before version 4: `GET /api/public/traces` and `/api/public/traces/{id}`."""
    if path == "/api/public/v2/observations":
        return 501, {"message": "v2 APIs are currently in beta", "error": "NotImplementedError"}
    if path == "/api/public/traces":
        bad = wrong(
            query,
            page=r"[1-9]\d*",
            limit=r"[1-9]\d?|100",
            orderBy="timestamp.(asc|desc)",
            fields="(core|io|scores|observations|metrics)(,.*)?",
            fromTimestamp=INSTANT,
            toTimestamp=INSTANT,
        )
        if bad:
            return bad
        since, until = nanoseconds(query["fromTimestamp"]), nanoseconds(query["toTimestamp"])
        found = [one for one in platform.traces if since <= start(next(spans(one))) < until]
        limit, number = int(query["limit"]), int(query["page"])
        given, _next = page_of(found, (number - 1) * limit, limit)
        data = [{"id": trace_id(one), "timestamp": instant(start(next(spans(one))))} for one in given]
        meta = {"page": number, "limit": limit, "totalItems": len(found), "totalPages": -(-len(found) // limit)}
        return 200, {"data": data, "meta": meta}
    for trace in platform.traces:
        if path == f"/api/public/traces/{trace_id(trace)}":
            return 200, {"id": trace_id(trace), "observations": list(map(observation, spans(trace)))}
    return 404, {"message": "not found"}


def mlflow(platform: Stored, path: str, query: dict[str, str], body: Any) -> Answer:
    """Answer for the experiment `travel`, whose id is 7; each assessment that is posted is a new one."""
    if path == "/api/2.0/mlflow/experiments/get-by-name":
        if query == {"experiment_name": "travel"}:
            return 200, {"experiment": {"experiment_id": "7", "name": "travel"}}
        return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST"}
    if path == "/api/3.0/mlflow/traces/search":
        times = re.fullmatch(r"timestamp_ms >= (\d+) AND timestamp_ms < (\d+)", body["filter"])
        experiments = [{"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": "7"}}]
        if not times or body["locations"] != experiments or not 0 < body["max_results"] <= 500:
            return 400, {"error_code": "INVALID_PARAMETER_VALUE"}
        since, until = (int(time) * 1_000_000 for time in times.groups())
        found = [one for one in platform.traces if since <= start(next(spans(one))) < until]
        given, token = page_of(found, int(body.get("page_token", 0)), body["max_results"])
        answer: dict[str, Any] = {"traces": [{"trace_id": f"tr-{trace_id(one)}"} for one in given]}
        return 200, answer | ({} if token is None else {"next_page_token": str(token)})
    if path == "/api/3.0/mlflow/traces/batchGet":
        asked = [value for name, value in parse_qsl(urlsplit(platform.asked[-1]).query) if name == "trace_ids"]
        found = [one for one in platform.traces if f"tr-{trace_id(one)}" in asked]
        return 200, {"traces": [{"trace_info": {}, "spans": list(map(snake_case, spans(one)))} for one in found]}
    if "/assessments" in path:
        identity = path.partition("/assessments/")[2] or f"a-{len(platform.scores)}"
        platform.scores[identity] = body["assessment"] | {"trace": path.split("/")[5]}
        return 200, {"assessment": {"assessment_id": identity}}
    if path.startswith("/api/3.0/mlflow/traces/tr-"):
        scores = [one | {"assessment_id": key} for key, one in platform.scores.items() if one["trace"] in path]
        return 200, {"trace": {"trace_info": {"assessments": scores}}}
    return 404, {"error_code": "ENDPOINT_NOT_FOUND"}


def snake_case(span: Mapping[str, Any]) -> dict[str, Any]:
    """Return a span with the names and ids that protobuf's JSON has in MLflow."""
    ids = {"trace_id": span["traceId"], "span_id": span["spanId"], "parent_span_id": span.get("parentSpanId") or ""}
    return {
        **{name: base64.b64encode(bytes.fromhex(one)).decode() for name, one in ids.items() if one},
        "name": span["name"],
        "start_time_unix_nano": start(span),
        "end_time_unix_nano": int(span["endTimeUnixNano"]),
        "attributes": [
            {"key": one["key"], "value": {"string_value": one["value"]["stringValue"]}} for one in span["attributes"]
        ],
    }


def tempo(platform: Stored, path: str, query: dict[str, str], _: Any) -> Answer:
    """Answer `GET /api/search`, at most a week at once, and `/api/v2/traces/{id}`."""
    if path == "/api/search":
        if bad := wrong(query, q=r"\{.*\}", limit=r"\d+", spss=r"\d+", start=r"\d+", end=r"\d+"):
            return bad
        since, until = (int(query[name]) * 1_000_000_000 for name in ("start", "end"))
        if not 0 < until - since <= 7 * 86_400_000_000_000:
            return 400, "range specified by start and end exceeds 168h0m0s"
        found = [one for one in platform.traces if any(since <= start(span) < until for span in spans(one))]
        return 200, {"traces": [{"traceID": trace_id(one)} for one in found[: int(query["limit"])]], "metrics": {}}
    for trace in platform.traces:
        if path == f"/api/v2/traces/{trace_id(trace)}":
            return 200, {"trace": trace}
    return 404, "trace not found"


def older_tempo(platform: Stored, path: str, query: dict[str, str], body: Any) -> Answer:
    """Answer as Tempo before 2.7, whose traces have an older path and form."""
    if path.startswith("/api/v2/"):
        return 404, "404 page not found"
    status, answer = tempo(platform, path.replace("/api/traces/", "/api/v2/traces/"), query, body)
    return status, {"batches": answer["trace"]["resourceSpans"]} if "trace" in answer else answer


def jaeger(platform: Stored, path: str, query: dict[str, str], _: Any) -> Answer:
    """Answer `GET /api/v3/traces` of the service `agent`."""
    if path != "/api/v3/traces":
        return 404, "404 page not found"
    bad = wrong(
        query,
        query__service_name=".+",
        query__start_time_min=INSTANT,
        query__start_time_max=INSTANT,
        query__num_traces=r"\d+",
        query__search_depth=r"\d+",
    )
    if bad:
        return bad
    since, until = (nanoseconds(query[f"query.start_time_{name}"]) for name in ("min", "max"))
    found = [one for one in platform.traces if any(since <= start(span) <= until for span in spans(one))]
    found = found[::-1][: int(query["query.num_traces"])] if query["query.service_name"] == "agent" else []
    if not found:
        return 404, {"error": {"httpCode": 404, "message": "No traces found"}}
    return 200, {"result": {"resourceSpans": [one for trace in found for one in trace["resourceSpans"]]}}


SQL_TEXT = r"'([^']*)'"
LOGFIRE_SQL = re.compile(
    r"SELECT [\w, ]+ FROM records WHERE kind = 'span' "
    rf"AND start_timestamp >= {SQL_TEXT} AND start_timestamp < {SQL_TEXT}"
    r"(?: AND service_name = '((?:[^']|'')*)')?"
    rf"(?: AND \(start_timestamp > {SQL_TEXT} OR \(start_timestamp = '[^']*' AND "
    rf"\(trace_id > {SQL_TEXT} OR \(trace_id = '[^']*' AND span_id > {SQL_TEXT}\)\)\)\))?"
    r" ORDER BY start_timestamp, trace_id, span_id"
)


def logfire(platform: Stored, path: str, query: dict[str, str], body: Any) -> Answer:
    """Answer `POST /v2/query` with the token `lf`: the rows of `records` that the SQL asks for."""
    if platform.headers.get("authorization") != "Bearer lf":
        return 401, {"detail": "Invalid token"}
    asked = LOGFIRE_SQL.fullmatch(body["sql"]) if path == "/v2/query" else None
    if asked is None or "min_timestamp" not in body or platform.headers.get("accept") != "application/json":
        return 422, {"detail": "no such query"}
    since, until, service, *after = asked.groups()
    if service not in (None, "it''s"):
        return 200, {"data": []}
    rows = [
        {
            "trace_id": one["traceId"],
            "span_id": one["spanId"],
            "parent_span_id": one.get("parentSpanId") or None,
            "span_name": one["name"],
            "start_timestamp": instant(start(one)),
            "end_timestamp": instant(int(one["endTimeUnixNano"])),
            "otel_status_code": None,
            "otel_status_message": None,
            "attributes": attributes(one),
            "otel_resource_attributes": {},
            "otel_scope_name": "tests",
            "otel_events": [],
        }
        for trace in platform.traces
        for one in spans(trace)
        if nanoseconds(since) <= start(one) < nanoseconds(until)
    ]
    place = ("start_timestamp", "trace_id", "span_id")
    rows.sort(key=lambda row: [row[name] for name in place])
    rows = [row for row in rows if after[0] is None or [row[name] for name in place] > after]
    return 200, {"data": rows[: body["limit"]], "columns": []}


def langsmith(platform: Stored, path: str, query: dict[str, str], body: Any) -> Answer:
    """Answer `GET /api/v1/sessions` and `POST /api/v1/runs/query` of the project `travel`, with the key `ls`."""
    if platform.headers.get("x-api-key") != "ls":
        return 401, {"detail": "Invalid token"}
    if path == "/api/v1/sessions":
        return 200, [{"id": "p-1"}] if query == {"name": "travel", "limit": "1"} else []
    upper = re.fullmatch(r'lt\(start_time, "([^"]+)"\)', body["filter"])
    if path != "/api/v1/runs/query" or body["session"] != ["p-1"] or not upper or not 0 < body["limit"] <= 100:
        return 422, {"detail": "no such query"}
    since, until = nanoseconds(body["start_time"]), nanoseconds(upper[1])
    found = sorted((one for trace in platform.traces for one in spans(trace)), key=start)
    given, cursor = page_of(
        [one for one in found if since <= start(one) < until], int(body.get("cursor", 0)), body["limit"]
    )
    runs = [{key: value for key, value in run_of(one).items() if key in body["select"]} for one in given]
    return 200, {"runs": runs, "cursors": {"next": None if cursor is None else str(cursor)}}


def run_of(span: Mapping[str, Any]) -> dict[str, Any]:
    """Return a span of an agent or a tool as LangSmith stores it: a run, whose time has no zone."""
    known = attributes(span)
    tool = known.get("gen_ai.tool.name")

    def uuid(span_id: str) -> str:
        return f"018e4c7e-a9fb-7ef0-{span_id[:4]}-{span_id[4:]}"

    parent = span.get("parentSpanId")
    return {
        "id": uuid(span["spanId"]),
        "trace_id": span["traceId"],
        "parent_run_id": uuid(parent) if parent else None,
        "run_type": "tool" if tool else "chain",
        "name": tool or span["name"],
        "inputs": json.loads(known.get("gen_ai.tool.call.arguments", "{}")),
        "outputs": {"output": "ok"},
        "extra": {"metadata": {} if tool else {"thread_id": known["gen_ai.conversation.id"]}},
        "start_time": instant(start(span)).removesuffix("+00:00"),
        "end_time": instant(int(span["endTimeUnixNano"])).removesuffix("+00:00"),
        "error": None,
    }
