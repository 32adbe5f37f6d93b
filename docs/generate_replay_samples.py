"""Fill the samples of `replay.md` with what the command line prints for the traces in `examples/`.

python docs/generate_replay_samples.py
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from click.testing import CliRunner

from goldspan.collector_processor.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/replay.md"
SHOWN = {"without-goldens": 5, "compare": 12}
"""How many lines of a long output a sample has."""
COMMANDS = {
    "without-goldens": "score examples/traces/langchain.otlp.json examples/traces/google-adk-without-content.otlp.json",
    "why": "inspect --why call_4 examples/traces/langchain.otlp.json",
    "compare": "compare examples/models/model-2026-05.jsonl examples/models/model-2026-11.jsonl "
    "--goldens examples/models/goldens.yaml --by argument",
    "inspect": "inspect examples/traces/google-adk-without-content.otlp.json",
}


def filled(text: str) -> str:
    """Return the page with its samples as the commands print them now."""
    for name, command in COMMANDS.items():
        with contextlib.chdir(ROOT):
            output = CliRunner().invoke(main, command.split(), catch_exceptions=False).stdout
        typed = command.replace(" --goldens", " \\\n    --goldens")
        lines = output.rstrip().splitlines()
        shown = "\n".join(lines[: SHOWN.get(name)] + ["..."] * (SHOWN.get(name, len(lines)) < len(lines)))
        sample = f"<!-- {name} -->\n\n```console\n$ goldspan {typed}\n{shown}\n```\n\n<!-- end -->"
        text = re.sub(rf"<!-- {name} -->.*?<!-- end -->", lambda _, made=sample: made, text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
