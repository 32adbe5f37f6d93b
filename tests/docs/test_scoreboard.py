"""The scoreboard on the front page is what the command prints today."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from rigs.repository import ROOT


def test_the_scoreboard_is_what_is_printed() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    (command, shown) = re.findall(r"```sh\ngoldspan (.*)\n```\n\n```text\n((?s:.*?))```", page)[0]
    ended = subprocess.run(
        [Path(sys.executable).with_name("goldspan"), *command.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    assert ended.stderr == ""
    assert ended.stdout.rstrip() == shown.rstrip()
    assert ended.returncode == 1
