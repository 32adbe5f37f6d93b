"""`goldspan doctor URL`: what a running gateway receives, refuses, holds, sends, and what to do about it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from rigs.downstream import Downstream, HttpAnswer
from rigs.gateway_process import Process, process, settings_for
from rigs.local_ports import free_port
from rigs.trace_requests import plain_request, turn_request
from rigs.waiting import until

GOLDENS = """
golden_set: weather
goldens:
  - {session: s-1, calls: [{name: get_weather, args: {city: Paris}}]}
"""


def doctor(url: str, **environ: str) -> tuple[int, dict[str, tuple[bool | None, str]], dict[str, str], str]:
    """Exit code, rows by label, advice by what was seen, and standard error."""
    command = [sys.executable, "-m", "goldspan.collector_processor.cli", "doctor", "--format", "json", url]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    document: dict[str, Any] = json.loads(ended.stdout or "{}")
    rows = {one["label"]: (one["right"], one["text"]) for one in document.get("rows", ())}
    return ended.returncode, rows, {one["seen"]: one["helps"] for one in document.get("advice", ())}, ended.stderr


def send(gateway: Process, request: dict[str, Any]) -> None:
    assert gateway.post(json.dumps(request).encode(), content_type="application/json") == 200


def metric(gateway: Process, name: str) -> float:
    lines = gateway.get("/metrics").data.decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))


def test_a_gateway_that_does_its_work_misses_nothing(http: Downstream, tmp_path: Path) -> None:
    (tmp_path / "goldens.yaml").write_text(GOLDENS, "utf-8")
    with process(settings_for(http, "goldens: goldens.yaml\n"), tmp_path) as gateway:
        send(gateway, turn_request("s-1", ("get_weather", {"city": "Paris"})))
        until(lambda: metric(gateway, "goldspan_delivered_requests_total") >= 2)
        until(lambda: metric(gateway, "goldspan_waiting_requests") == 0)
        code, rows, advice, said = doctor(f"http://{gateway.addresses['admin']}")
    assert (code, advice, said) == (0, {}, "")
    assert all(right for right, _ in rows.values())
    assert rows["receives"][1].startswith("1 request, 0.0 MiB")
    assert rows["refuses"][1] == "nobody"
    assert rows["goldens"][1] == "1 of 1 had a session"
    assert rows["waits"][1].startswith("0 requests for delivery; journal ")


def test_what_is_wrong_is_said_with_what_helps(http: Downstream, tmp_path: Path) -> None:
    (tmp_path / "goldens.yaml").write_text(GOLDENS, "utf-8")
    (tmp_path / "team.yaml").write_text("golden_set: [", "utf-8")
    http.http_answer = HttpAnswer(400)
    settings = settings_for(http, "goldens: [goldens.yaml, team.yaml]\n")
    with process(settings, tmp_path) as gateway:
        send(gateway, plain_request())
        send(gateway, turn_request("trip-2", ("get_weather", {"city": "Paris"})))
        assert gateway.post(b"no protobuf") == 400
        until(lambda: metric(gateway, "goldspan_refused_requests_total") >= 1)
        until(lambda: "trip-2" in gateway.get("/coverage").data.decode())
        code, rows, advice, _ = doctor(f"http://{gateway.addresses['admin']}/")
    assert code == 1
    assert {label for label, (right, _) in rows.items() if right is False} == {"refuses", "delivers", "goldens"}
    assert advice["clients are refused: malformed 1"].startswith("The log names")
    assert rows["refuses"][1] == "malformed 1"
    assert "`goldspan dead-letters list`" in " ".join(advice.values())
    assert any(seen.startswith("team.yaml is refused: ") for seen in advice)
    assert "no golden had a session; sessions seen: trip-2 (from gen_ai.conversation.id)" in advice


def test_a_token_is_asked_for_and_taken_from_a_variable(http: Downstream, tmp_path: Path) -> None:
    settings = settings_for(http).replace("admin: {", "admin: {tokens: [{env: ADMIN}], ")
    with process(settings, tmp_path, ADMIN="secret") as gateway:
        url = f"http://{gateway.addresses['admin']}"
        code, rows, _, said = doctor(url)
        assert (code, rows) == (2, {})
        assert "--token-env" in said
        assert doctor(url, GOLDSPAN_TOKEN="secret")[0] == 0


def test_an_address_of_nothing_is_said() -> None:
    code, _, _, said = doctor(f"http://127.0.0.1:{free_port()}")
    assert code == 2
    assert "no answer" in said
    assert "admin.listen" in said
