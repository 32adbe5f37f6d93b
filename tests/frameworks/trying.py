"""Runs one turn of an agent in each framework, set up by the lines of docs/frameworks.md, and says what arrived.

python tests/frameworks/trying.py [FRAMEWORK ...]

Each script is what a user would write: it knows neither this program nor the receiver, the model provider and the
goldens that are put around it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import scenario
from openai_server import serve
from record import environment, frameworks, header

from rigs.otlp_receiver import OtlpReceiver, attributes, otlp_receiver

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
RECORDINGS = FOLDER.parent / "recordings"
METRIC = "tool_parameter_match"
GOLDENS = f"""
golden_set: weather-agent
version: "3"
goldens:
  - session: {scenario.SESSION}
    turns:
      - calls:
          - {{name: get_weather, args: {{city: Paris, unit: celsius, days: 3}}}}
          - {{name: convert, args: {{value: 21.5, from_unit: C, to_unit: F}}}}
          - {{name: get_weather, args: {{city: Lyon, unit: celsius, days: 2}}}}
"""
"""What the model asks for, but for the days in Lyon: it asks for one."""


def variables(script: Path) -> dict[str, str]:
    """Return the environment variables that a script's header sets; `{receiver}` stands for where OTLP is received."""
    stated: dict[str, str] = header(script).get("tool", {}).get("try", {}).get("environment", {})
    return stated


@dataclass(frozen=True)
class Found:
    """What arrived of one turn."""

    calls: tuple[tuple[float, tuple[str, ...]], ...]
    turns: tuple[float, ...]
    events: int
    points: int
    spans: int
    exit_code: int
    twice: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Whether it is what the goldens and the model make of it."""
        scores = [(round(score, 3), wrong) for score, wrong in self.calls]
        return (
            scores == [(0.667, ("days",)), (1.0, ()), (1.0, ())]
            and [round(score, 3) for score in self.turns] == [0.889]
            and self.events >= len(self.calls) + len(self.turns)
            and not self.exit_code
            and not self.twice
        )

    def __str__(self) -> str:
        wrong = [name for _, names in self.calls for name in names]
        return (
            f"{self.spans} spans, {len(self.calls)} tool spans with a score, wrong: {', '.join(wrong) or 'nothing'}; "
            f"turn {', '.join(f'{score:.2f}' for score in self.turns) or 'without a score'}; "
            f"{self.events} events, {self.points} points" + (f"; twice: {', '.join(self.twice)}" if self.twice else "")
        )


def look(receiver: OtlpReceiver, exit_code: int) -> Found:
    """Read what was received."""
    spans = receiver.all_spans()
    read = [attributes(span) for span in spans]
    calls = [
        (one[f"{METRIC}.score"], tuple(one.get(f"{METRIC}.mismatched_arguments", ())))
        for one in read
        if f"{METRIC}.score" in one
    ]
    often = Counter(span.span_id for span in spans)
    return Found(
        calls=tuple(sorted(calls)),
        turns=tuple(one[f"{METRIC}.turn.score"] for one in read if f"{METRIC}.turn.score" in one),
        events=sum(event.event_name == "gen_ai.evaluation.result" for event in receiver.events()),
        points=len(receiver.points(f"{METRIC}.score")),
        spans=len(spans),
        exit_code=exit_code,
        twice=tuple(sorted({span.name for span in spans if often[span.span_id] > 1})),
    )


def play(python: Path, script: Path, stated: Mapping[str, str]) -> Found:
    """Run a script in an empty home, with no network but this machine."""
    with tempfile.TemporaryDirectory() as home, otlp_receiver() as receiver:
        (Path(home) / "goldens.yaml").write_text(GOLDENS, "utf-8")
        model = serve([scenario.WEATHER])
        nowhere = "http://127.0.0.1:9"
        ran = subprocess.run(
            [python, script],
            cwd=home,
            env={
                "PATH": f"{python.parent}:{os.environ['PATH']}",
                "HOME": home,
                "LANG": "C.UTF-8",
                "PYTHONPATH": str(RECORDINGS),
                "OPENAI_BASE_URL": model,
                "OPENAI_API_KEY": "none",
                "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "HTTP_PROXY": nowhere,
                "HTTPS_PROXY": nowhere,
                "NO_PROXY": "127.0.0.1,localhost",
                **{name: value.format(receiver=receiver.endpoint) for name, value in stated.items()},
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=180,
            check=False,
        )
        found = look(receiver, ran.returncode)
    if not found.right:
        print(ran.stdout)
    return found


def main(asked: list[str]) -> int:
    scripts = frameworks(FOLDER, "try_")
    unknown = [name for name in asked if name not in scripts]
    if unknown:
        print(f"there is no {', '.join(unknown)}; there are {', '.join(scripts)}", file=sys.stderr)
        return 2
    failed = False
    for name in asked or scripts:
        script = scripts[name]
        python = environment(f"try-{name}", script, "--editable", ROOT)
        found = play(python, script, variables(script))
        failed |= not found.right
        print(f"{'✓' if found.right else '✗'} {name:17} {found}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
