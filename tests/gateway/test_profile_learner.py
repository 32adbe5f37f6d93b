"""What a gateway learns of its tenants' agents is what `goldspan profile learn` learns of the same sessions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from goldspan.collector_processor.gateway.profile_learner import ProfileLearner, file_name
from goldspan.scoring.metrics.argument_profile import learn
from goldspan.scoring.metrics.profile_file import load_profile
from goldspan.scoring.sessions import Capture, Content, Session, ToolCall, Turn

DEFAULT, ACME = "[]", '[["x-scope-orgid", "acme"]]'


def session(number: int) -> Session:
    call = ToolCall("refund", {"order": f"W{1000 + number}", "amount": number}, agent="shop")
    return Session(f"s-{number}", (Turn((call,), user_text=Content(f"Refund W{1000 + number}.", Capture.CAPTURED)),))


@pytest.fixture
def learner(tmp_path: Path) -> Callable[..., ProfileLearner]:
    def make(seconds: float = 3600.0, now: float = 1_000.0) -> ProfileLearner:
        failures: list[Exception] = []
        made = ProfileLearner(tmp_path, seconds, lambda: now, lambda _where, error: failures.append(error))
        made.thread.start()
        return made

    return make


def test_each_tenant_has_a_profile_of_its_own(learner: Callable[..., ProfileLearner], tmp_path: Path) -> None:
    one = learner()
    for number in range(12):
        one.put(ACME if number < 8 else DEFAULT, session(number))
    one.put(ACME, session(0))  # a correction counts nothing twice
    one.close(30)
    assert load_profile(tmp_path / file_name(ACME)) == learn(map(session, range(8)))
    assert load_profile(tmp_path / "profile.yaml") == learn(map(session, range(8, 12)))
    assert list(one.samples()) == [("goldspan_profile_sessions_total", {}, 12)]


def test_a_restart_goes_on_with_what_was_learnt(learner: Callable[..., ProfileLearner], tmp_path: Path) -> None:
    for numbers in (range(6), range(6, 12)):
        one = learner()
        for number in numbers:
            one.put(DEFAULT, session(number))
        one.close(30)
    assert load_profile(tmp_path / "profile.yaml").sessions == {"shop": 12}


def test_learning_ends_and_the_first_start_counts(learner: Callable[..., ProfileLearner], tmp_path: Path) -> None:
    learner(seconds=60, now=1_000).close(30)
    late = learner(seconds=60, now=1_100)
    late.put(DEFAULT, session(1))
    late.close(30)
    assert not (tmp_path / "profile.yaml").exists()
    assert late.sessions == 0


def test_sessions_that_lack_spans_are_not_learnt_from(learner: Callable[..., ProfileLearner]) -> None:
    one = learner()
    one.put(DEFAULT, Session("s", session(1).turns, incomplete=True))
    one.put(DEFAULT, Session("empty", (Turn(),)))
    one.close(30)
    assert one.sessions == 0


def test_files_of_tenants_are_told_apart() -> None:
    names = [file_name('[["x-scope-orgid", "a/../b"]]'), file_name('[["x-scope-orgid", "a b"]]'), file_name(DEFAULT)]
    assert len(set(names)) == 3
    assert all("/" not in name and not name.startswith(".") for name in names)
