"""The alarm: it rings in time, and its thread lives only while it is set."""

from __future__ import annotations

import threading
import time

import pytest

from goldspan.collector_processor.daemon_threads import Timer


class Bell:
    def __init__(self) -> None:
        self.times: list[float] = []
        self.rang = threading.Event()

    def ring(self) -> None:
        self.times.append(time.monotonic())
        self.rang.set()


def threads(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def no_thread(name: str) -> bool:
    until = time.monotonic() + 5
    while threads(name) and time.monotonic() < until:
        time.sleep(0.005)
    return not threads(name)


def test_it_rings_at_the_time_and_its_thread_ends() -> None:
    bell = Bell()
    alarm = Timer(bell.ring, "alarm-once")
    assert threads("alarm-once") == []
    due = time.monotonic() + 0.05
    alarm.set(due)
    [thread] = threads("alarm-once")
    assert thread.daemon
    assert bell.rang.wait(5)
    assert bell.times[0] >= due
    assert no_thread("alarm-once")
    assert len(bell.times) == 1
    bell.rang.clear()
    alarm.set(time.monotonic())
    assert bell.rang.wait(5)


def test_an_earlier_time_wakes_it_earlier() -> None:
    bell = Bell()
    alarm = Timer(bell.ring, "alarm-earlier")
    alarm.set(time.monotonic() + 3600)
    alarm.set(time.monotonic() + 0.02)
    assert bell.rang.wait(5)


def test_a_time_at_the_latest_gives_way_to_an_earlier_one_only() -> None:
    bell = Bell()
    alarm = Timer(bell.ring, "alarm-at-latest")
    due = time.monotonic() + 0.1
    alarm.set(due)
    alarm.set_at_latest(time.monotonic() + 3600)
    assert bell.rang.wait(5)
    assert bell.times[0] >= due
    bell.rang.clear()
    alarm.set(time.monotonic() + 3600)
    alarm.set_at_latest(time.monotonic() + 0.02)
    assert bell.rang.wait(5)
    assert no_thread("alarm-at-latest")
    bell.rang.clear()
    alarm.set_at_latest(time.monotonic())
    assert bell.rang.wait(5)


def test_a_later_time_replaces_the_earlier_one() -> None:
    bell = Bell()
    alarm = Timer(bell.ring, "alarm-later")
    alarm.set(time.monotonic() + 0.02)
    due = time.monotonic() + 0.2
    alarm.set(due)
    assert bell.rang.wait(5)
    assert bell.times[0] >= due


def test_unset_it_does_not_ring() -> None:
    bell = Bell()
    alarm = Timer(bell.ring, "alarm-unset")
    alarm.set(time.monotonic() + 60)
    alarm.set(None)
    assert no_thread("alarm-unset")
    assert bell.times == []


def test_set_again_while_ringing_it_rings_again() -> None:
    rings: list[int] = []
    done = threading.Event()

    def ring() -> None:
        rings.append(1)
        if len(rings) < 3:
            alarm.set(time.monotonic())
        else:
            done.set()

    alarm = Timer(ring, "alarm-again")
    alarm.set(time.monotonic())
    assert done.wait(5)
    assert no_thread("alarm-again")
    assert len(rings) == 3


def test_a_time_that_is_always_past_does_not_spin() -> None:
    rings: list[float] = []

    def ring() -> None:
        rings.append(time.monotonic())
        if len(rings) < 20:
            alarm.set(0.0)

    alarm = Timer(ring, "alarm-spin")
    alarm.set(0.0)
    assert no_thread("alarm-spin")
    assert len(rings) == 20
    assert rings[-1] - rings[0] >= 0.19


def test_without_another_thread_to_be_had_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    bell = Bell()
    alarm = Timer(bell.ring, "alarm-refused")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        alarm.set(time.monotonic())
    alarm.set(time.monotonic())
    assert bell.rang.wait(5)
