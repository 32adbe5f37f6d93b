"""A day of thirty teams on one gateway, in a minute: what was logged, counted and delivered, and what was true.

    PYTHONPATH=tests:. python -m scenarios.thirty_teams

Each team has a token, a golden file and a service. One writes a golden file that is wrong, one changes its goldens
before a restart, one has a nightly burst, one storms with a token of its own, and strangers come. The backend is away
for a while; the gateway is restarted, and killed.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3

from goldspan.collector_processor.otlp_signals import Signal
from goldspan.scoring.goldens import load_goldens
from rigs.downstream import Downstream, HttpAnswer, http_downstream
from rigs.gateway_process import Process, process
from rigs.pipeline_rig import Said, counted_in, events_in, newest, said_by_replay, spans_in
from rigs.trace_requests import attribute, turn_request, write_lines
from rigs.waiting import until

TEAMS = [f"team-{number:02}" for number in range(1, 31)]
BAD, CHANGING, NIGHTLY, HOSTILE = "team-05", "team-08", "team-12", "team-30"
SESSIONS = 4
STORM = 1500
PER_SECOND = 30


@dataclass
class Day:
    """What was done and what came of it."""

    folder: Path
    backend: Downstream
    log: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    sent: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {team: [] for team in TEAMS})
    """Requests that were acknowledged."""
    answers: dict[str, Counter[int]] = field(default_factory=lambda: {team: Counter() for team in TEAMS})

    def write_goldens(self, team: str, city: str, version: int) -> None:
        turn = {"calls": [{"name": "get_weather", "args": {"city": city}}]}
        goldens = [{"session": f"{team}-{number}", "turns": [turn] * 3} for number in range(100)]
        document = {"golden_set": team, "version": str(version), "goldens": goldens}
        (self.folder / "goldens" / f"{team}.json").write_text(json.dumps(document), "utf-8")

    def send(self, gateway: Process, team: str, session: int, turn: int) -> int:
        """Send one turn with a city that is right or wrong; return the status."""
        city = random.Random(f"{team} {session} {turn}").choice(["Paris", "Paris", "Rome"])
        request = turn_request(f"{team}-{session}", ("get_weather", {"city": city}), turn=turn)
        request["resourceSpans"][0]["resource"]["attributes"] = [attribute("service.name", team)]
        status = post(gateway, json.dumps(request).encode(), authorization=f"Bearer token-of-{team}")
        self.answers[team][status] += 1
        if status == 200:
            self.sent[team].append(request)
        return status

    @contextmanager
    def gateway(self) -> Iterator[Process]:
        listed = "".join(f"    - {{env: {name_of(one)}, tenants: {{x-scope-orgid: {one}}}}}\n" for one in TEAMS)
        settings = (
            "goldens: goldens\n"
            "watch_files: 500ms\n"
            "receivers:\n  grpc: '127.0.0.1:0'\n  http: '127.0.0.1:0'\n  forward_headers: [x-scope-orgid]\n"
            f"  tokens:\n{listed}"
            f"tenant_limits: {{requests_per_second: {PER_SECOND}}}\n"
            "admin: {listen: '127.0.0.1:0'}\n"
            "scoring: {settle: 300ms, run_idle: 3s, session_gap: 10m}\n"
            f"export: {{endpoint: '{self.backend.endpoint}', retry: {{initial: 100ms}}}}\n"
        )
        with process(settings, self.folder, **{name_of(one): f"token-of-{one}" for one in TEAMS}) as gateway:
            yield gateway
        self.log += gateway.log


def name_of(team: str) -> str:
    return f"TOKEN_{team.upper().replace('-', '_')}"


def post(gateway: Process, body: bytes, **headers: str) -> int:
    url = f"http://{gateway.addresses['http']}/v1/traces"
    named = {"content-type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
    return urllib3.request("POST", url, body=body, headers=named, retries=False, timeout=10).status


def doctor(gateway: Process) -> str:
    command = [
        sys.executable,
        "-m",
        "goldspan.collector_processor.cli",
        "doctor",
        f"http://{gateway.addresses['admin']}",
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def turns_of(day: Day, gateway: Process, turn: int) -> None:
    for session in range(SESSIONS):
        for team in TEAMS:
            assert day.send(gateway, team, session, turn) == 200, team


def live(day: Day) -> str:
    """Let the day pass; return what the doctor said before its end."""
    for team in TEAMS:
        day.write_goldens(team, "Paris", 1)
    with day.gateway() as gateway:
        turns_of(day, gateway, 0)
        (day.folder / "goldens" / f"{BAD}.json").write_text("{", "utf-8")
        until(lambda: b"refused: 1" in gateway.get("/readyz").data)
        time.sleep(4)  # sessions are complete
        day.write_goldens(CHANGING, "Rome", 2)
        assert gateway.end() == 0
    with day.gateway() as gateway:
        turns_of(day, gateway, 1)
        day.backend.http_answer = HttpAnswer(503)
        for number in range(80):
            day.send(gateway, NIGHTLY, 10 + number, 0)
            time.sleep(1.2 / PER_SECOND)
        with ThreadPoolExecutor(8) as pool:
            storm = pool.map(lambda number: day.send(gateway, HOSTILE, 10 + number % 80, 0), range(STORM))
            for team in TEAMS[:-1]:
                assert day.send(gateway, team, 90, 0) == 200, team
            assert set(storm) <= {200, 429}
        strangers = [
            post(gateway, b"{}", authorization="Bearer wrong"),
            post(gateway, b"{}", authorization=f"Bearer token-of-{HOSTILE}", x_scope_orgid="team-01"),
            post(gateway, b"{", authorization=f"Bearer token-of-{HOSTILE}"),
        ]
        assert strangers[:2] == [401, 403]
        time.sleep(2)
        day.backend.http_answer = HttpAnswer()
        time.sleep(8)  # all is delivered and complete
        gateway.end(signal.SIGKILL)
    with day.gateway() as gateway:
        time.sleep(2)
        turns_of(day, gateway, 2)
        time.sleep(6)
        page = doctor(gateway)
        assert gateway.end() == 0
    return page


def truth_of(day: Day, team: str) -> Said:
    """What a replay of the acknowledged requests says, with the goldens that were last good."""
    city = "Rome" if team == CHANGING else "Paris"
    turn = {"calls": [{"name": "get_weather", "args": {"city": city}}]}
    goldens = [{"session": f"{team}-{number}", "turns": [turn] * 3} for number in range(100)]
    traces = write_lines(day.folder / f"{team}.jsonl", *day.sent[team])
    return said_by_replay([traces], load_goldens({"golden_set": team, "version": "1", "goldens": goldens}))


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary, http_downstream() as backend:
        day = Day(Path(temporary), backend)
        (day.folder / "goldens").mkdir()
        page = live(day)
        received = [one for one in backend.received if one.accepted]
        accepted = {span_id for team in TEAMS for one in day.sent[team] for span_id in ids_of(one)}
        arrived = {span.span_id.hex() for span in spans_in(one.body for one in received if one.signal is Signal.TRACES)}
        points = [(one.headers["x-scope-orgid"], one.body) for one in received if one.signal is Signal.METRICS]
        counts = Counter[str]()
        for team in TEAMS:
            for (name, *attributes), count in counted_in(body for sender, body in points if sender == team).items():
                counts[team] += count if name == "score" and "tool_parameter_match.level=turn" in attributes else 0
        truth = {team: truth_of(day, team) for team in TEAMS}
        true = {team: sum(is_turn(event) for event in truth[team].values()) for team in TEAMS}
        said = newest(events_in(one.body for one in received if one.signal is Signal.LOGS))
        wrong = [team for team in TEAMS if counts[team] != true[team]]
        print(page)
        print("logged as warnings:", dict(Counter(one["message"] for one in day.log if one["level"] == "warning")))
        others = sum((day.answers[team] for team in TEAMS[:-1]), Counter[int]())
        print(f"hostile: {dict(day.answers[HOSTILE])}; others: {dict(others)}")
        print(f"spans: {len(accepted)} acknowledged, {len(accepted - arrived)} lost")
        print(f"turns: {sum(counts.values())} counted of {sum(true.values())} true; differing: {wrong}")
        print(f"results that hold: {sum(map(is_turn, said.values()))} turns in events")
        for team in wrong:
            print(f"  {team}: {counts[team]} counted of {true[team]}")


def is_turn(event: dict[str, Any]) -> bool:
    return bool(event["tool_parameter_match.level"] == "turn" and "gen_ai.evaluation.score.value" in event)


def ids_of(request: dict[str, Any]) -> list[str]:
    return [one["spanId"] for one in request["resourceSpans"][0]["scopeSpans"][0]["spans"]]


if __name__ == "__main__":
    main()
