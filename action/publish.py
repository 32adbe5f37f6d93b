"""The step of the GitHub Action that publishes results: annotations, outputs, the run's summary, and the comment.

It needs nothing but the standard library. A comment that cannot be written is a warning: the token of a pull request
from a fork may only read.
"""

from __future__ import annotations

import json
import os
import re
import sys
from itertools import count
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

LONGEST = 65_536
"""Characters GitHub takes in a comment."""
PER_PAGE = 100
_MOST_ERRORS = 20


def main() -> None:
    """Publish what the score left in `$FOLDER`."""
    folder, environment = Path(os.environ["FOLDER"]), os.environ
    errors = read(folder / "errors.txt").splitlines()
    for line in read(folder / "annotations.txt").splitlines():
        say(line)
    for line in errors[:_MOST_ERRORS]:
        if found := re.fullmatch(r"goldspan: (.+?):(\d+): (.*)", line):
            file, number, message = found.groups()
            say(f"::error file={escaped(file, ':,')},line={number},title=goldspan::{escaped(message)}")
    report = read(folder / "reports/report.md")
    if not report:
        lines = errors[:_MOST_ERRORS] or ["The log of the run says more."]
        report = "\n".join(["### ✗ goldspan: nothing was scored", "", *(f"    {line}" for line in lines), ""])
    write_outputs(Path(environment["GITHUB_OUTPUT"]), folder, passed=environment["EXIT_CODE"] == "0")
    with Path(environment["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as summary:
        summary.write(report)
    if environment["PULL_REQUEST"]:
        if artifact := environment["ARTIFACT"]:
            report += f"\n[All reports]({artifact})\n"
        try:
            comment(f"<!-- goldspan: {environment['NAME'].replace('--', '')} -->\n", report)
        except (OSError, ValueError) as error:
            reads_only = isinstance(error, HTTPError) and error.code in {401, 403, 404}
            helps = (
                "The job needs `permissions: {pull-requests: write}`; a pull request from a fork never has it."
                if reads_only or not environment["TOKEN"]
                else "The summary of the run has the same text."
            )
            say(f"::warning title=goldspan::The comment was not written: {escaped(str(error))}. {helps}")


def write_outputs(file: Path, folder: Path, *, passed: bool) -> None:
    """Write the outputs of the action."""
    sessions = json.loads(read(folder / "reports/scores.json") or '{"sessions": []}')["sessions"]
    scores = [one["score"] for one in sessions if one["golden"] is not None and one["score"] is not None]
    mean = f"{sum(scores) / len(scores):.4g}" if scores else ""
    with file.open("a", encoding="utf-8") as outputs:
        outputs.write(f"passed={json.dumps(passed)}\nscore={mean}\n")


def comment(marker: str, text: str) -> None:
    """Put the text into the comment that begins with this marker, a new one if there is none yet."""
    if not os.environ["TOKEN"]:
        raise ValueError("there is no token")
    comments = f"/repos/{os.environ['GITHUB_REPOSITORY']}/issues/{os.environ['PULL_REQUEST']}/comments"
    body = {"body": (marker + text)[:LONGEST]}
    for page in count(1):
        found = call("GET", f"{comments}?per_page={PER_PAGE}&page={page}")
        for one in found:
            if (one["body"] or "").startswith(marker.rstrip()):
                call("PATCH", f"/repos/{os.environ['GITHUB_REPOSITORY']}/issues/comments/{one['id']}", body)
                return
        if len(found) < PER_PAGE:
            break
    call("POST", comments, body)


def call(method: str, path: str, body: object = None) -> Any:
    """Call GitHub's API. Raises OSError, of which HTTPError is one, and ValueError for an answer that is no JSON."""
    request = Request(
        os.environ["GITHUB_API_URL"] + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['TOKEN']}",
            "Content-Type": "application/json",
            "X-GitHub-Api-Version": "2022-11-28",
        },
    )
    with urlopen(request, timeout=30) as answer:
        return json.load(answer)


def say(text: str) -> None:
    """Write a line to the log of the run, which the runner reads for commands."""
    sys.stdout.buffer.write(f"{text}\n".encode())  # UTF-8 whatever the locale is


def escaped(text: str, more: str = "") -> str:
    """Escape what would end a workflow command, or a property of it."""
    return re.sub(rf"[%\r\n{more}]", lambda found: f"%{ord(found[0]):02X}", text)


def read(path: Path) -> str:
    """Return the text of a file; nothing of one that is not there."""
    return path.read_text("utf-8") if path.exists() else ""


if __name__ == "__main__":
    main()
