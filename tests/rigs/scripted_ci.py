"""GitHub's runner, as far as the workflows of the pages and `action.yml` need one, and the comments of its API."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rigs.local_http import Quiet, serving
from rigs.markdown_pages import blocks
from rigs.repository import ROOT

Contexts = dict[str, Any]


def recipe(page: str, name: str) -> dict[str, Any]:
    """The YAML of a page whose first line names a file that begins so."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    [found] = [block.text for block in blocks(text) if block.text.startswith(f"# {name}")]
    document: dict[str, Any] = yaml.load(found, yaml.BaseLoader)
    return document


def evaluate(expression: str, contexts: Contexts) -> Any:
    """The value of an expression of GitHub made of names, texts, `!cancelled()`, `==`, `!=`, `&&` and `||`."""

    def look_up(name: str) -> Any:
        value: Any = contexts
        for part in name.split("."):
            value = value.get(part, "") if isinstance(value, dict) else ""
        return value

    names: list[str] = []

    def python(token: re.Match[str]) -> str:
        operator = {"&&": " and ", "||": " or ", "!cancelled()": "True"}.get(token[0])
        if operator is None and token[0][0].isalpha():
            names.append(token[0])
            operator = f"look_up({token[0]!r})"
        return operator or token[0]

    text = re.sub(r"'[^']*'|!cancelled\(\)|&&|\|\||[a-z][\w.-]*", python, expression)
    return eval(text, {"look_up": look_up})


def filled_in(text: str, contexts: Contexts) -> str:
    return re.sub(r"\$\{\{(.*?)\}\}", lambda found: str(evaluate(found[1].strip(), contexts)), text)


def all_filled_in(texts: dict[str, str], contexts: Contexts) -> dict[str, str]:
    return {name: filled_in(text, contexts) for name, text in texts.items()}


def command(folder: Path, name: str, text: str) -> None:
    (path := folder / name).write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@dataclass
class Runner:
    """Executes the job of a workflow: `run` by bash, which ends at the first error, composite actions, and few others.

    `cache` is that of the repository, and what is in the runner's temporary folder is gone with each job.
    """

    folder: Path
    temporary: Path
    cache: dict[str, bytes]
    environment: dict[str, str]
    api: str = "http://127.0.0.1:9"
    token: str = "t-1"
    summary: str = ""
    artifacts: dict[str, str] = field(default_factory=dict[str, str])
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    output: str = ""

    def run(self, page: str, *, branch: str = "", inputs: dict[str, str] | None = None) -> bool:
        """Whether the job is green: that of a pull request to `main`, or of a push to a branch."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir()
        self.summary, self.output, self.artifacts, self.outputs = "", "", {}, {}
        github: Contexts = {"token": self.token, "run_id": str(len(self.cache)), "run_attempt": "1"}
        if branch:
            github |= {"base_ref": "", "ref_name": branch, "ref_type": "branch", "event": {}}
        else:
            event = {"number": "7", "pull_request": {"number": "7"}}
            github |= {"base_ref": "main", "ref_name": "7/merge", "ref_type": "branch", "event": event}
        [job] = recipe(page, ".github/workflows/")["jobs"].values()
        for step in job["steps"]:
            if step.get("uses", "").startswith("OWNER/"):
                step["with"] |= inputs or {}
        return self._steps(job["steps"], {"github": github, "runner": {"temp": str(self.temporary)}}, {})

    def _steps(self, steps: list[dict[str, Any]], contexts: Contexts, environment: dict[str, str]) -> bool:
        green = True
        contexts["steps"] = {}
        for step in steps:
            condition = step.get("if", "").removeprefix("${{").removesuffix("}}").strip()
            if not (green or "cancelled()" in condition) or (condition and not evaluate(condition, contexts)):
                continue
            if "run" in step:
                done, outputs = self._bash(step, contexts, environment)
            else:
                done, outputs = self._use(step["uses"].partition("@")[0], step.get("with", {}), contexts)
            contexts["steps"][step.get("id", "")] = {"outputs": outputs}
            green = green and (done or step.get("continue-on-error") == "true")
        return green

    def _bash(
        self, step: dict[str, Any], contexts: Contexts, environment: dict[str, str]
    ) -> tuple[bool, dict[str, str]]:
        script, outputs, summary = (self.temporary / name for name in (".step.sh", ".outputs", ".summary"))
        script.write_text(filled_in(step["run"], contexts), "utf-8")
        outputs.write_text("", "utf-8")
        summary.write_text("", "utf-8")
        files = {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_OUTPUT": str(outputs)}
        github = {
            "GITHUB_API_URL": self.api,
            "GITHUB_BASE_REF": contexts["github"]["base_ref"],
            "GITHUB_REPOSITORY": "someone/agent",
            "GITHUB_WORKSPACE": str(self.folder),
        }
        given = all_filled_in(step.get("env", {}), contexts)
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.folder,
            env={**self.environment, **github, **files, **environment, **given},
            check=False,
            capture_output=True,
            text=True,
        )
        self.output += done.stdout + done.stderr
        self.summary += summary.read_text("utf-8")
        written = (line.partition("=") for line in outputs.read_text("utf-8").splitlines())
        return done.returncode == 0, {name: value for name, _, value in written}

    def _use(self, action: str, given: dict[str, str], contexts: Contexts) -> tuple[bool, dict[str, str]]:
        inputs = all_filled_in(given, contexts)
        if action == "OWNER/goldspan":
            return self._composite(inputs, contexts)
        if action == "actions/cache/restore":
            # The service looks for the newest entry that begins with a key, of those that were kept from the same path.
            for key in [inputs["key"], *inputs["restore-keys"].split("\n")]:
                for kept in reversed(self.cache):
                    if kept.startswith(key) and kept.endswith(inputs["path"]):
                        Path(inputs["path"]).parent.mkdir(parents=True, exist_ok=True)
                        Path(inputs["path"]).write_bytes(self.cache[kept])
                        return True, {}
        elif action == "actions/cache/save":
            if (made := Path(inputs["path"])).exists():  # the action only warns otherwise
                self.cache[f"{inputs['key']} of {made}"] = made.read_bytes()
        elif action == "actions/upload-artifact":
            self.artifacts = {one.name: one.read_text("utf-8") for one in Path(inputs["path"]).iterdir()}
            return True, {"artifact-url": "https://github.com/someone/agent/actions/runs/1/artifacts/2"}
        else:
            assert action in {"actions/checkout", "actions/setup-python"}
        return True, {}

    def _composite(self, given: dict[str, str], contexts: Contexts) -> tuple[bool, dict[str, str]]:
        action: dict[str, Any] = yaml.load((ROOT / "action.yml").read_text("utf-8"), yaml.BaseLoader)
        assert action["runs"]["using"] == "composite"
        assert set(given) <= set(action["inputs"])
        assert all(step.get("shell") == "bash" for step in action["runs"]["steps"] if "run" in step)
        defaults = {name: filled_in(one.get("default", ""), contexts) for name, one in action["inputs"].items()}
        inner = {**contexts, "inputs": defaults | given}
        green = self._steps(action["runs"]["steps"], inner, {"GITHUB_ACTION_PATH": str(ROOT)})
        self.outputs = {name: filled_in(one["value"], inner) for name, one in action["outputs"].items()}
        return green, self.outputs


@dataclass
class Comments:
    """The comments of a pull request, by the paths and pages of GitHub's API."""

    bodies: list[str]
    status: int = 200
    """What every request is answered with, if not 200."""
    requests: list[str] = field(default_factory=list[str])
    api: str = ""

    def answer(self, method: str, path: str, body: dict[str, str]) -> tuple[int, Any]:
        self.requests.append(f"{method} {path}")
        if self.status != 200:
            return self.status, {"message": "Resource not accessible by integration"}
        if method == "GET":
            [size, page] = map(int, re.findall(r"=(\d+)", path))
            numbered = [{"id": number, "body": text} for number, text in enumerate(self.bodies)]
            return 200, numbered[(page - 1) * size : page * size]
        if method == "PATCH":
            self.bodies[int(path.rpartition("/")[2])] = body["body"]
        else:
            self.bodies.append(body["body"])
        return 200, {}


@contextmanager
def comments_served(bodies: list[str]) -> Generator[Comments]:
    """Serve comments, the first ones being these."""
    comments = Comments(bodies)

    class Handler(Quiet):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            assert self.headers["Authorization"] == "Bearer t-1"
            status, answer = comments.answer(self.command, self.path, json.loads(self.rfile.read(length) or "{}"))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        do_PATCH = do_POST = do_GET

    with serving(Handler) as comments.api:
        yield comments
