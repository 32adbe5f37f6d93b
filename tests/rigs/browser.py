"""A headless Chromium for tests of pages, spoken to in its DevTools protocol through a pipe: no driver, no port."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_TIMEOUT = 30.0


def executable() -> str | None:
    """Where a Chromium is on this machine, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One tab. What it logs, raises and asks the network for is kept."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._buffer = b""
        self._number = 0
        self._session = ""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(self, path: Path) -> None:
        """Load a file and wait until it is there."""
        self.requests.clear()
        self._call("Page.navigate", {"url": path.as_uri()})
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def look(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Set the size of the window and the colours the system prefers."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", {"features": [scheme]})

    def scripts(self, *, allowed: bool) -> None:
        """Let pages that are opened next run scripts, or not."""
        self._call("Emulation.setScriptExecutionDisabled", {"value": not allowed})

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self._call("Runtime.evaluate", {"expression": script, "returnByValue": True, "awaitPromise": True})
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression in the page is true."""
        until = time.monotonic() + _TIMEOUT
        while not self.run(condition):
            assert time.monotonic() < until, f"it did not happen: {condition}"
            time.sleep(0.02)

    def press(self, key: str, *, text: str = "", shift: bool = False) -> None:
        """Press and release a key: `Tab`, `Escape`, `ArrowRight`, `Enter`, or a character with its text."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowRight": 39}
        if key == "Enter":
            text = "\r"
        event = {
            "key": key,
            "code": {" ": "Space", "/": "Slash"}.get(key, key),
            "windowsVirtualKeyCode": codes.get(key, 0),
            "modifiers": 8 if shift else 0,
        }
        self._call("Input.dispatchKeyEvent", {**event, "type": "keyDown" if text else "rawKeyDown", "text": text})
        self._call("Input.dispatchKeyEvent", {**event, "type": "keyUp"})

    def write(self, text: str) -> None:
        """Type characters."""
        for character in text:
            self.press(character, text=character)

    def _call(self, method: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters or {}}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + _TIMEOUT
        while True:
            answer = self._read(until)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self._notice(answer.get("method", ""), answer.get("params", {}))

    def _notice(self, method: str, about: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(about["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(f"console.{about['type']}: {about['args']}")
        elif method == "Log.entryAdded":
            self.complaints.append(f"{about['entry']['level']}: {about['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])

    def _read(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._receive], [], [], max(0.0, until - time.monotonic()))
            assert ready, "Chromium does not answer"
            part = os.read(self._receive, 1 << 20)
            assert part, "Chromium has gone"
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found


@contextmanager
def browser(chromium: str, profile: Path) -> Iterator[Page]:
    """A page of a Chromium of its own, ended with the block."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    # Chromium reads from 3 and writes to 4; the copies lie where they cannot be in the way.
    reads, writes = (fcntl.fcntl(one, fcntl.F_DUPFD, 20) for one in (theirs_in, theirs_out))
    os.close(theirs_in)
    os.close(theirs_out)
    command = [chromium, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
    silent = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    wired = [(os.POSIX_SPAWN_DUP2, reads, 3), (os.POSIX_SPAWN_DUP2, writes, 4)]
    process = os.posix_spawn(chromium, command, os.environ, file_actions=[*silent, *wired])
    os.close(reads)
    os.close(writes)
    try:
        yield Page(ours_out, ours_in)
    finally:
        os.close(ours_out)
        os.close(ours_in)
        os.kill(process, signal.SIGTERM)
        os.waitpid(process, 0)
