"""`goldspan dead-letters`: what was refused is listed, and sent again."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from goldspan.collector_processor.cli import main
from goldspan.collector_processor.gateway.deliver.outbox import DeadLetters
from goldspan.collector_processor.gateway.interfaces import ExportRequest
from goldspan.collector_processor.otlp_signals import Signal
from rigs.downstream import Downstream
from rigs.gateway_rig import one_span

SPAN = one_span().SerializeToString()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    letters = DeadLetters(tmp_path / "dead-letters", max_files=10, max_bytes=1 << 20)
    letters.put(ExportRequest(Signal.TRACES, SPAN), "HTTP 400: not ours", 1_700_000_000.0)
    letters.put(ExportRequest(Signal.TRACES, SPAN, (("x-scope-orgid", "a"),)), "HTTP 401", 1_700_000_060.0)
    return tmp_path / "dead-letters"


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["dead-letters", *map(str, arguments)], catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def test_they_are_listed_with_their_reasons(folder: Path, tmp_path: Path) -> None:
    code, out, _ = run("list", "--folder", folder)
    first, second, last = out.splitlines()
    assert code == 0
    assert first.startswith("2023-11-14T22:13:20Z traces ")
    assert first.endswith("HTTP 400: not ours")
    assert second.endswith("HTTP 401  headers: x-scope-orgid")
    assert last == "goldspan: 2 dead letters"
    settings = tmp_path / "goldspan.yaml"
    settings.write_text(f"export: {{endpoint: 'http://x:1'}}\ndead_letters: {{folder: '{folder}'}}\n")
    assert run("list", "--config", settings)[1] == out


def test_a_folder_that_is_not_there_has_no_letters_to_count(tmp_path: Path) -> None:
    code, out, err = run("list", "--folder", tmp_path / "nowhere")
    assert (code, out) == (2, "")
    assert "nowhere' does not exist" in err.replace("\n", " ")


def test_those_that_are_accepted_are_sent_once(folder: Path, http: Downstream) -> None:
    code, out, err = run("send", "--folder", folder, "--to", http.endpoint)
    assert (code, out.strip()) == (1, "goldspan: 1 dead letter sent, 1 left")
    assert "needs --header x-scope-orgid=..." in err
    assert [one.body for one in http.received] == [SPAN]
    code, out, _ = run("send", "--folder", folder, "--to", http.endpoint, "--header", "x-scope-orgid=a")
    assert (code, out.strip()) == (0, "goldspan: 1 dead letter sent, 0 left")
    assert http.received[1].headers["x-scope-orgid"] == "a"
    assert list(folder.iterdir()) == []


def test_those_that_are_refused_again_stay(folder: Path, http: Downstream) -> None:
    http.http_answer.status = 400
    code, _, err = run("send", "--folder", folder, "--to", http.endpoint, "--header", "x-scope-orgid=a")
    assert code == 1
    assert err.count("400") == 2
    assert len(list(folder.glob("*.pb"))) == 2
