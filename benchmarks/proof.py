# ruff: noqa: E501 - the sentences of a page
"""Measure what README and docs promise, and write it down: `python -m benchmarks.proof [SECTION ...] [--data FOLDER]`.

Sections are measured anew where they are named, or all; what others said last stays, with its date, in
`benchmarks/proof.json`. `docs/proof.md` and README's lines are made of that file: `--write` does only this.

FOLDER has published data that is not part of the repository; docs/proof.md says where it is from. A section without
its data leaves those rows as they were.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import re
import subprocess
import sys
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from goldspan.scoring.pages import common_beginning

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "docs")]
RESULTS, PAGE, README = ROOT / "benchmarks/proof.json", ROOT / "docs/proof.md", ROOT / "README.md"
IMAGES = ROOT / "docs/images"
Rows = list[list[str]]
Found = dict[str, Rows]
"""The tables of a section, by their place in the page; the first row of each is its head."""


def interval(part: int, whole: int) -> str:
    """Return a share with its number and Wilson's interval of 95 %."""
    if not whole:
        return "none"
    z, p = 1.96, part / whole
    middle, half = p + z * z / (2 * whole), z * (p * (1 - p) / whole + z * z / (4 * whole * whole)) ** 0.5
    low, high = ((middle + sign * half) / (1 + z * z / whole) * 100 for sign in (-1, 1))
    return f"{part:,} of {whole:,}: {p:.1%} [{max(low, 0):.1f}, {min(high, 100):.1f}]".replace("%", " %")


def printed(*command: str) -> str:
    """Run a module of the tests or the benchmarks, and return what it printed, whatever its exit code."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(("tests", "."))}
    ended = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return ended.stdout + ended.stderr


# 1. Truth of reading.


def reading(data: Path) -> Found:
    """Every recording, at every door and in every transformation."""
    find = import_module("conformance.findings").find
    names: Sequence[str] = import_module("conformance.recordings").NAMES
    doors: Sequence[str] = list(import_module("rigs.every_door").DOORS)
    wrong = [name for name in names if find(name).wrong]
    # One recording of each dialect: with `--all` all of them, which takes many minutes.
    every_door = printed("-m", "pytest", "-p", "no:cacheprovider", "tests/conformance/test_every_door.py")
    alike = re.search(r"(\d+) passed", every_door)
    failed = re.search(r"(\d+) failed", every_door)
    if alike is None and failed is None:
        raise RuntimeError(f"tests/conformance/test_every_door.py did not run: {every_door[-2_000:]}")
    differ = int(failed[1]) if failed else 0
    total = differ + (int(alike[1]) if alike else 0)
    frameworks = import_module("generate_dialects").frameworks()
    defaults = Counter(one.default for one in frameworks)
    ways = _ways(printed("-m", "conformance.variations"))
    return {
        "recordings": [
            ["what", "found"],
            [
                "recordings of real frameworks that are read as they happened",
                interval(len(names) - len(wrong), len(names)),
            ],
            ["not", ", ".join(f"`{name}`" for name in wrong) or "none"],
            [f"traces with drawn goldens that {len(doors) + 1} doors answer alike", interval(total - differ, total)],
            [
                "frameworks that record arguments by default, by a switch, never",
                _counts(defaults, ("on", "off", "never")),
            ],
            *ways,
        ]
    }


def _counts(counts: Counter[str], names: Iterable[str]) -> str:
    return ", ".join(str(counts[name]) for name in names)


def _ways(output: str) -> Rows:
    """Read the last line of `make variations`: how many readings were right, honest, blind, in false doubt, silent."""
    last = re.search(r"^all((?: +\d+){5})$", output, re.MULTILINE)
    if last is None:
        raise RuntimeError(f"conformance.variations did not end with its sums: {output[-2_000:]}")
    names = ("right", "honest", "blind", "false doubt", "silent")
    counts = {name: int(count) for name, count in zip(names, last[1].split(), strict=True)}
    total = sum(counts.values())
    words = {
        "right": "recordings written in other ways that are read right",
        "honest": "that are read otherwise, and the reading says so",
        "blind": "of which no turn is read",
        "false doubt": "that are read right, and are doubted",
        "silent": "that are read otherwise, and nothing says so",
    }
    return [[words[name], interval(counts[name], total)] for name in words]


# 2. Agreement with other systems.


def agreement(data: Path) -> Found:
    """Recorded answers of other systems beside those of the presets."""
    conformance = import_module("presets.conformance")
    paths = conformance.files([conformance.VECTORS, *sorted(data.glob("*.jsonl.gz")), *sorted(data.glob("vectors-*"))])
    cases = [case for path in paths for case in conformance.read_cases(path)]
    rows = conformance.tabulate(cases)
    table = [
        [name, f"{row.cases:,}", f"{row.cases - len(row.differing):,}", str(len(row.differing))]
        for name, row in sorted(rows.items())
    ]
    sums = [sum(row.cases for row in rows.values()), sum(len(row.differing) for row in rows.values())]
    total = ["all", f"{sums[0]:,}", f"{sums[0] - sums[1]:,}", str(sums[1])]
    return {"systems": [["system", "cases", "equal", "different"], *table, total]}


# 3. Finding failures.


def failures(data: Path) -> Found:
    """Real sessions with a reward that nobody at goldspan gave: which are flagged, with goldens and without."""
    table: Rows = [["data", "judged by", "failed runs that are flagged", "passed runs that are flagged"]]
    agentrx = data / "agentrx"
    if agentrx.exists():
        rewards = {
            one["session"]: one["reward"] >= 1 for one in json.loads((agentrx / "sessions.json").read_text("utf-8"))
        }
        traces = str(agentrx / "tau-retail.otlp.jsonl.gz")
        goldens = ["--goldens", str(agentrx / "goldens-writing-calls.json")]
        flagged = _flagged(traces, goldens, lambda session: session["label"] == "fail")
        table.append(["AgentRx, tau-bench retail", "goldens of the writing calls", *_by_reward(rewards, flagged)])
        for metric in ("tool_parameter_grounding", "tool_call_repetition", "answer_grounding"):
            asked = ["--metric", f"{metric}=1"]
            flagged = _flagged(traces, asked, lambda one, name=metric: _fails(one, name))
            table.append(["AgentRx, tau-bench retail", f"`{metric}`, without goldens", *_by_reward(rewards, flagged)])
    trials = data / "trials-dev.jsonl.gz"
    if trials.exists():
        table += list(_trials(trials))
    return {"rewards": table} if len(table) > 1 else {}


def _flagged(traces: str, options: Sequence[str], wanted: Callable[[Any], bool]) -> set[str]:
    output = printed("-m", "goldspan.collector_processor.cli", "score", traces, *options, "--format", "json")
    return {
        one["id"] for one in json.loads(output[output.index("{") : output.rindex("}") + 1])["sessions"] if wanted(one)
    }


def _fails(session: Any, metric: str) -> bool:
    return any(one["name"] == metric and one["label"] == "fail" for one in session["metrics"])


def _by_reward(passed: dict[str, bool], flagged: set[str]) -> list[str]:
    sides = [[name in flagged for name, right in passed.items() if right is side] for side in (False, True)]
    return [interval(sum(side), len(side)) for side in sides]


def _trials(path: Path) -> Iterator[list[str]]:
    """Yield rows for the runs of several models in tau-bench and tau2, against the expected calls of their tasks."""
    from goldspan.scoring import score_sessions  # noqa: PLC0415 - the page is written without it
    from goldspan.scoring.verdict import Label  # noqa: PLC0415

    session_of = import_module("benchmarks.inference").session_of
    grounding = import_module("goldspan.scoring.metrics.grounding").ToolParameterGrounding()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        runs = [json.loads(line) for line in lines]
    for name in dict.fromkeys(run["set"] for run in runs):
        some = [run for run in runs if run["set"] == name]
        passed = {str(number): bool(run["passed"]) for number, run in enumerate(some)}
        sessions = {str(number): session_of(run, number) for number, run in enumerate(some)}
        flagged = {
            number
            for number, session in sessions.items()
            if (judged := score_sessions(None, [session], metrics=[grounding]).sessions)
            and judged[0].label_of_metrics is Label.FAIL
        }
        yield [
            f"{name}, {len({run['model'] for run in some})} models",
            "`tool_parameter_grounding`, without goldens",
            *_by_reward(passed, flagged),
        ]


# 4. Without a golden.


def grounding(data: Path) -> Found:
    """Labelled calls: right ones that are flagged, invented values that are found; beside two simple rules."""
    module = import_module("benchmarks.grounding")
    files = [path for path in (data / "grounding-2-dev.jsonl.gz",) if path.exists()]
    if not files:
        return {}
    judged = [module.judge(case) for path in files for case in module.read_cases(path)]
    alarms: dict[str, Counter[bool]] = {}
    made: dict[str, Counter[bool]] = {}
    simple: dict[str, dict[str, Counter[bool]]] = {name: {"alarms": Counter(), "made": Counter()} for name in SIMPLE}
    for one in (one for one in judged if not one.wrong):
        source = one.case["source"]
        alarms.setdefault(source, Counter())[one.flagged] += 1
        alarms.setdefault("all", Counter())[one.flagged] += 1
        text = "\n".join(part["text"] for part in one.case["context"])
        values = _values(module, one.case)
        for name, known in SIMPLE.items():
            simple[name]["alarms"][not all(known(value, text) for value in values)] += 1
        found = None if one.flagged else module.invented(one)
        if found is None:
            continue
        kind, again = found
        for group in (source, "all", f"a {kind}"):
            made.setdefault(group, Counter())[again.flagged] += 1
        changed = [value for value in _values(module, again.case) if value not in values]
        for name, known in SIMPLE.items():
            simple[name]["made"][not all(known(value, text) for value in changed)] += 1
    sources = [*sorted(set(alarms) - {"all"}), "all"]
    head = ["right calls that are flagged", "invented values found"]
    return {
        "sources": [
            ["data", *head],
            *([name, *map(_yes, (alarms[name], made.get(name, Counter())))] for name in sources),
        ],
        "kinds": [["invented", "found"], *([name, _yes(made[name])] for name in sorted(made) if name.startswith("a "))],
        "rules": [
            ["rule", *head],
            ["goldspan", _yes(alarms["all"]), _yes(made["all"])],
            *([name, _yes(one["alarms"]), _yes(one["made"])] for name, one in simple.items()),
        ],
    }


def _yes(counts: Counter[bool]) -> str:
    return interval(counts[True], counts.total())


def _values(module: Any, case: Any) -> list[str]:
    leaves = module.leaves(case["call"]["arguments"], module.schema_of(case))
    return [str(leaf.value) for leaf in leaves if not isinstance(leaf.value, bool) and leaf.value not in (None, "")]


def _near(value: str, text: str) -> bool:
    return import_module("rapidfuzz.fuzz").partial_ratio(value.lower(), text.lower()) >= 90


SIMPLE: dict[str, Callable[[str, str], bool]] = {
    "the value occurs in the text": lambda value, text: value.lower() in text.lower(),
    "rapidfuzz finds 90 % of it in the text": _near,
}
"""What one would write in an afternoon."""

# 5. Speed.

SPEED = ("in_process", "replay", "scoring", "jobs")
NAIVE = ("json_format.Parse of each line",)
"""Rows that compare nothing of goldspan's."""
BESIDE_ROTEL = re.compile(r"^(goldspan, (?!nothing).*?) +[\d,]+ +(\d+\.\d+) ", re.MULTILINE)
"""A line of `benchmarks.rotel`, with how many times the spans of rotel's it takes in a second of CPU."""


def ratios(modules: Iterable[str]) -> Rows:
    """Return a row for each ratio that these benchmarks measure."""
    return [
        [f"{one.title}: {row.name}", f"{row.ratio.fastest:.2f}", one.reference.name, f"{one.control.fastest:.2f}"]
        for name in modules
        for one in import_module(f"benchmarks.{name}").run()
        for row in one.rows
        if row.name not in NAIVE
    ]


def _in_environment(name: str, *command: str) -> str:
    """Run a command in the environment that the packages of others are in; empty where it was not made."""
    python = ROOT / ".venvs" / name / "bin/python"
    if not python.exists():
        print(f"speed: left out what `make bench-{name}` measures, which installs {name}", flush=True)
        return ""
    ended = subprocess.run([python, *command], cwd=ROOT, capture_output=True, text=True, check=True)
    return ended.stdout


def speed(data: Path) -> Found:
    """The benchmarks' ratios; their controls say what they are worth."""
    head = ["measured", "CPU, as a share of the reference's", "reference", "the reference again"]
    beside = "import json; from benchmarks import proof; print(json.dumps(proof.ratios(['peers'])))"
    *_, peers = _in_environment("peers", "-c", beside).splitlines() or ["[]"]
    others = [row for row in json.loads(peers) if "goldspan: " not in row[0]]
    rotel = [
        [
            f"a span in `goldspan serve`, whole process: {name}",
            f"{1 / float(rate):.2f}",
            "rotel with a Python processor",
        ]
        for name, rate in BESIDE_ROTEL.findall(_in_environment("rotel", "-m", "benchmarks.rotel", "2"))
    ]
    return {"ratios": [head, *ratios(SPEED), *rotel, *others]}


# 6. Growth.

KEPT = (1_000, 2_000, 4_000, 8_000)
"""Sessions that are over, after which memory is looked at."""


def growth(data: Path) -> Found:
    """What a span costs in traces of every shape, by their size, and what stays of sessions that are over."""
    shapes = import_module("benchmarks.shapes")
    table: Rows = [
        ["CPU of a span, in µs, by spans", *(f"{size:,}" for size in shapes.SIZES), "exponent", "delay, in s"]
    ]
    for one in shapes.curves():
        each = (f"{microseconds:.1f}" for microseconds in one.microseconds)
        table.append([one.shape, *each, f"{one.exponent:.2f}", f"{one.delay:.2f}"])
    kept = list(shapes.kept_bytes(KEPT))
    slope = (kept[-1] - kept[-2]) / (KEPT[-1] - KEPT[-2])
    memory: Rows = [
        ["sessions that are over", *(f"{count:,}" for count in KEPT), "more for each"],
        ["memory, in KiB", *(f"{size / 1024:,.0f}" for size in kept), f"{slope:.0f} bytes"],
    ]
    return {"shapes": table, "memory": memory}


_WIDE, _HIGH, _LEFT = 720, 420, 70
_COLOURS = ("#1b5e8c", "#c2571a", "#3a7d44", "#7a4b9a", "#b8860b", "#0f8b8d", "#8c2f39", "#5c5c5c")


def plot(rows: Rows) -> str:
    """Return the curves of a table as SVG, both axes logarithmic: cost in proportion to size is a level line."""
    sizes = [int(cell.replace(",", "")) for cell in rows[0][1:-2]]
    costs = {row[0]: [float(cell) for cell in row[1:-2]] for row in rows[1:]}
    low, high = (edge(cost for each in costs.values() for cost in each) for edge in (min, max))

    def at(size: float, cost: float) -> tuple[float, float]:
        right = math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])
        return _LEFT + right * (_WIDE - _LEFT - 210), 20 + (_HIGH - 60) * (
            1 - math.log(cost / low) / math.log(high / low)
        )

    texts = [(*at(size, low), 18, f"{size:,}") for size in sizes]
    texts += [(20.0, at(sizes[0], cost)[1], 4, f"{cost:.0f} µs") for cost in (low, (low * high) ** 0.5, high)]
    lines: list[str] = []
    for number, (name, each) in enumerate(sorted(costs.items(), key=lambda one: -one[1][-1])):
        colour, y = _COLOURS[number % len(_COLOURS)], 24 + number * 22
        points = " ".join("{:.1f},{:.1f}".format(*at(*one)) for one in zip(sizes, each, strict=True))
        dashes = ' stroke-dasharray="5 3"' if number >= len(_COLOURS) else ""
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        lines.append(f'<text x="{_WIDE - 195}" y="{y}" fill="{colour}">{name}</text>')
    lines += [f'<text x="{x:.1f}" y="{y + down:.1f}" fill="#777">{text}</text>' for x, y, down, text in texts]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" font-family="sans-serif" font-size="12">'
    title = "<title>CPU of a span by the size of its trace, for traces of every shape</title>"
    return "\n".join([head, title, *lines, "</svg>", ""])


# 7. Durability.


def durability(data: Path) -> Found:
    """Kills under load, and nights of faults."""
    kills, nights = os.environ.get("KILLS", "5"), os.environ.get("NIGHTS", "40")
    soak = printed("tests/soak.py", kills)
    rows: Rows = [["trial", "outcome"]]
    for begin, lost, again, results in re.findall(
        r"(.+: \d+ kills) in .*\n([\d,]+ spans acknowledged, \d+ of them lost)\n(\d+ sent again \([^)]*\)).*\n(.*)",
        soak,
    ):
        rows.append([begin, f"{lost}; {again}; {results}"])
    if len(rows) == 1:
        raise RuntimeError(f"tests/soak.py printed no outcome: {soak[-2_000:]}")
    last = [line for line in printed("-m", "faults.campaign", "--nights", nights).splitlines() if line.strip()]
    rows.append([f"{nights} nights, a fault in each", "".join(last[-1:])])
    return {"trials": rows}


SECTIONS: dict[str, tuple[str, Callable[[Path], Found], str]] = {
    "reading": (
        "Truth of reading",
        reading,
        "A recording is the telemetry of a real framework in a conversation whose calls are known. [Dialects](dialects.md) has each.",
    ),
    "agreement": (
        "Agreement",
        agreement,
        "Answers that other systems gave, beside those of goldspan's [presets](presets.md) on the same inputs.",
    ),
    "failures": (
        "Finding failures on traces that nobody made for goldspan",
        failures,
        "Rewards are the benchmarks' own. What metrics without golden see is invented values and repetition. **A wrong choice among valid "
        "values is invisible to them**: most failed runs are of that kind, so they do not predict a reward. Goldens do.",
    ),
    "grounding": (
        "Without a golden",
        grounding,
        "The rules were written with half of these data at hand. An invented value has the shape of the right one.",
    ),
    "speed": (
        "Speed",
        speed,
        "Process CPU, of the fastest slices of alternating runs, on a shared machine. Less is better; where the reference again is far from 1, a row says little.",
    ),
    "growth": (
        "Growth",
        growth,
        "An exponent of 1 says that a span costs the same in a trace of any size. Delay is how long a span of another session waited while the "
        "largest one was scored by the same thread. What stays of a session that is over is the ids by which a late span is known; their number has "
        "a limit.\n\n![CPU of a span by the size of its trace](images/growth.svg)",
    ),
    "durability": (
        "Durability",
        durability,
        "A gateway under load is killed, or its calls fail; spans that it acknowledged have to arrive, with the results of a replay.",
    ),
}
_SOURCES = """\
## Data

Data that is not part of the repository is looked for in `DATA`: runs of [tau-bench](https://github.com/sierra-research/tau-bench) and [tau2-bench](https://github.com/sierra-research/tau2-bench)
(MIT), the checker's verdicts of [BFCL](https://github.com/ShishirPatil/gorilla) (`bfcl-eval`), trajectories with people's annotations of
[AgentRx](https://github.com/microsoft/AgentRx) (MIT), and labelled calls made from AgentDojo, API-Bank, ACEBench, Seal-Tools, BFCL and
tau-bench. The module `benchmarks/proof.py` names the files and their form.
"""


def page(results: dict[str, Any]) -> str:
    """Return `docs/proof.md`."""
    lines = [
        "# Proof",
        "",
        "<!-- Made by benchmarks/proof.py from benchmarks/proof.json. -->",
        "",
        "Every number that these pages state is measured here, by commands that anyone can run. Shares have Wilson's interval of 95 %.",
        "",
        "```sh",
        'make proof ARGS="reading agreement"   # some sections; without ARGS all of them',
        "```",
        "",
    ]
    for number, (name, (title, _, said)) in enumerate(SECTIONS.items(), 1):
        if (found := results.get(name)) is None:
            continue
        lines += [f"## {number}. {title}", "", said, ""]
        for rows in found["tables"].values():
            lines += [_row(rows[0]), f"|{'---|' * len(rows[0])}", *map(_row, _folded(rows[1:])), ""]
        lines += [f"{found['date']}, {found['seconds']} s: `make proof ARGS={name}`.", ""]
    return "\n".join([*lines, _SOURCES])


def _folded(rows: Rows) -> Iterator[list[str]]:
    """Yield the rows without what the row above has: what it begins with, up to a colon, and then its last columns."""
    above = [""]
    for first, *values in rows:
        shared = first.rfind(": ", 0, common_beginning(first, above[0])) + 2
        begun = shared > 1
        kept = 1 if begun and values[1:] == above[2:] else len(values)
        yield [f"... {first[shared:]}" if begun else first, *values[:kept], *("" for _ in values[kept:])]
        above = [first, *values]


def _row(cells: Sequence[str]) -> str:
    """Return a line of a table. Empty cells at its end are left out, as Markdown lets them be."""
    filled = max((number for number, cell in enumerate(cells, 1) if cell), default=1)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells[:filled])} |"


def readme(results: dict[str, Any]) -> str:
    """Return README's lines: a number for each section, the weak ones too."""

    def cell(section: str, table: str, first: str, column: int) -> str:
        rows = results.get(section, {}).get("tables", {}).get(table, [])
        return next((row[column] for row in rows if row[0] == first), "").partition(":")[0]

    lines = [
        f"- **Reading**: {cell('reading', 'recordings', 'recordings of real frameworks that are read as they happened', 1)} recordings of real "
        "frameworks are read as they happened.",
        f"- **Agreement**: {cell('agreement', 'systems', 'all', 2)} answers of other systems are reproduced, {cell('agreement', 'systems', 'all', 3)} are not.",
        f"- **Failures, with goldens**: {_nth(results, 0, 2)} failed runs of a real agent are flagged, and {_nth(results, 0, 3)} passed ones; "
        f"without goldens {_nth(results, 1, 2)} and {_nth(results, 1, 3)}: a wrong choice among valid values is invisible to them.",
        f"- **Without goldens**: {cell('grounding', 'rules', 'goldspan', 2)} invented values are found; {cell('grounding', 'rules', 'goldspan', 1)} right "
        "calls are flagged.",
    ]
    return "\n".join(line for line in lines if "**:  " not in line)


def _nth(results: dict[str, Any], row: int, column: int) -> str:
    rows = results.get("failures", {}).get("tables", {}).get("rewards", [])[1:]
    return rows[row][column].partition(":")[0] if len(rows) > row else ""


def images(results: dict[str, Any]) -> dict[str, str]:
    """Return the pictures of the pages by file name: README's badges, and the curves of growth."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    read = results.get("reading", {}).get("tables", {}).get("recordings", [["", ""], ["", "none"]])[1][1]
    told = {"recordings": f"{read.partition(':')[0]} read right", "python": project["requires-python"]}
    found = {
        f"badge-{label}.svg": badge(label, text) for label, text in {**told, "license": project["license"]}.items()
    }
    if "growth" in results:
        found["growth.svg"] = plot(results["growth"]["tables"]["shapes"])
    return found


def badge(label: str, text: str) -> str:
    """Return a badge as SVG."""
    split, wide = (12 + round(6.6 * count) for count in (len(label), len(label) + len(text) + 2))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="20" font-family="sans-serif" font-size="11">'
        f"<title>{escape(label)}: {escape(text)}</title>"
        f'<rect width="{wide}" height="20" rx="3" fill="#1b5e8c"/><rect width="{split}" height="20" rx="3" fill="#444"/>'
        f'<g fill="#fff" text-anchor="middle"><text x="{split / 2}" y="14">{escape(label)}</text>'
        f'<text x="{(split + wide) / 2}" y="14">{escape(text)}</text></g></svg>\n'
    )


def write(results: dict[str, Any]) -> None:
    """Write the page, its pictures and README's lines."""
    PAGE.write_text(page(results), "utf-8")
    for name, picture in images(results).items():
        (IMAGES / name).write_text(picture, "utf-8")
    text = README.read_text("utf-8")
    lines = f"<!-- proof -->\n{readme(results)}\n<!-- end -->"
    README.write_text(re.sub(r"<!-- proof -->.*?<!-- end -->", lambda _: lines, text, flags=re.DOTALL), "utf-8")


def main() -> int:
    """Measure sections and write what was found; 1 if a section failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of published data")
    parser.add_argument("--write", action="store_true", help="only write the pages anew")
    chosen = parser.parse_args()
    if unknown := set(chosen.sections) - set(SECTIONS):
        parser.error(f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    failed: list[str] = []
    began = time.monotonic()
    for name in () if chosen.write else chosen.sections or SECTIONS:
        print(f"{name} ...", flush=True)
        start = time.monotonic()
        try:
            found = SECTIONS[name][1](chosen.data)
        except Exception:  # noqa: BLE001 - the other sections are measured all the same
            traceback.print_exc()
            failed.append(name)
            continue
        seconds = round(time.monotonic() - start)
        keep(name, found, seconds)
        print(f"{name}: {seconds} s" if found else f"{name}: its data is not in {chosen.data}; as before", flush=True)
    results = known()
    print(f"{round(time.monotonic() - began)} s in all" + (f"; failed: {', '.join(failed)}" if failed else ""))
    write(results)
    return 1 if failed else 0


def known() -> dict[str, Any]:
    """Return the last results."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}


def keep(name: str, found: Found, seconds: int) -> None:
    """Put what a section found in the place of what it found last; tables that it did not make stay."""
    results = known()  # another run may have written
    if found:
        tables = {**results.get(name, {}).get("tables", {}), **found}
        results[name] = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "seconds": seconds, "tables": tables}
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
