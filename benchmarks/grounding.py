"""Grounding on labelled calls, and what metrics without a golden cost: `python -m benchmarks.grounding FILE`.

Without a file the cost alone.

FILE has one JSON object a line, plain or gzip: `{id, source, context: [{role, text}], tools: [{name, parameters}],
call: {name, arguments}, label}`, with the label `grounded` or `ungrounded`.
"""

from __future__ import annotations

import gzip
import json
import math
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.traffic import DEFINITIONS, FIRST_NANOSECOND, plan_sessions
from goldspan.scoring import Capture, Session, ToolCall, Turn
from goldspan.scoring.grounding.conversation import Passage
from goldspan.scoring.json_values import steps_of, value_at
from goldspan.scoring.metrics.grounding import ToolParameterGrounding, ground_arguments
from goldspan.scoring.metrics.repetition import ToolCallRepetition
from goldspan.scoring.metrics.schema import ToolParameterSchema
from goldspan.scoring.sessions import Content
from goldspan.scoring.verdict import Finding

SHOWN = 10
SESSIONS = 24
"""In one slice."""
KINDS = ("chat", "execute_tool")


class Judged(NamedTuple):
    """A labelled call and what was found in it."""

    case: dict[str, Any]
    findings: tuple[Finding, ...]

    @property
    def flagged(self) -> bool:
        return any(finding.failed for finding in self.findings)

    @property
    def wrong(self) -> bool:
        return self.case["label"] == "ungrounded"


def read_cases(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the cases of a file. Raises ValueError with the line that is none."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            case = json.loads(line)
            if missing := {"id", "source", "context", "call", "label"} - set(case):
                raise ValueError(f"{path}:{number}: the case has no {', '.join(sorted(missing))}")
            yield case


def judge(case: dict[str, Any]) -> Judged:
    """Ground the call of a case in its context."""
    roles: dict[str, str] = {"tool": "tool_result"}
    passages = [Passage(roles.get(one["role"]) or one["role"], one["text"], one["role"]) for one in case["context"]]
    schema = next(
        (tool["parameters"] for tool in case.get("tools") or () if tool["name"] == case["call"]["name"]), None
    )
    return Judged(case, ground_arguments(case["call"]["arguments"], passages, schema))


def value_kind(case: dict[str, Any], finding: Finding) -> str:
    """Name what kind of value an argument has."""
    value: Any = value_at(case["call"]["arguments"], steps_of(finding.path))
    if isinstance(value, bool) or value is None:
        return "boolean or null"
    if isinstance(value, int | float):
        return "number"
    text = str(value)
    if any(char.isdigit() for char in text):
        return "text with digits" if " " not in text else "phrase with digits"
    return "word" if " " not in text.strip() else "phrase"


def print_quality(judged: list[Judged]) -> None:
    """Print the table by source, what is by rule and by kind of value, and ten mistakes of both kinds with why."""
    print(f"{'source':12}{'calls':>7}{'F1':>7}{'accuracy':>10}{'false alarms':>14}{'missed':>9}")
    by_source: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        by_source[one.case["source"]].append(one)
    for source, calls in by_source.items():
        counts = Counter((one.wrong, one.flagged) for one in calls)
        found, alarms, missed = counts[True, True], counts[False, True], counts[True, False]
        f1 = f"{2 * found / (2 * found + alarms + missed):.2f}" if found + missed else "-"
        right = (found + counts[False, False]) / len(calls)
        share = alarms / max(1, alarms + counts[False, False])
        print(f"{source:12}{len(calls):7}{f1:>7}{right:>10.1%}{share:>14.1%}{missed:>9}")
    alarms = [one for one in judged if one.flagged and not one.wrong]
    misses = [one for one in judged if one.wrong and not one.flagged]
    rules = Counter((one.wrong, rule_of(finding)) for one in judged for finding in one.findings)
    print(f"\n{'origin':44}{'right calls':>12}{'wrong calls':>12}")
    for rule in sorted({rule for _, rule in rules}, key=lambda rule: -rules[False, rule]):
        print(f"{rule:44}{rules[False, rule]:>12}{rules[True, rule]:>12}")
    kinds: Counter[tuple[str, bool, bool]] = Counter()
    for one in judged:
        for finding in one.findings:
            kinds[value_kind(one.case, finding), one.wrong, finding.failed] += 1
    print(
        f"\n{'value':20}{'right, passed':>14}{'right, failed':>14}{'wrong, passed':>14}{'wrong, failed':>14}   values"
    )
    for kind in sorted({kind for kind, _, _ in kinds}):
        numbers = (kinds[kind, wrong, failed] for wrong in (False, True) for failed in (False, True))
        print(f"{kind:20}{''.join(f'{number:>14}' for number in numbers)}")
    for title, mistakes in (("false alarms", alarms), ("misses", misses)):
        print(f"\n{title}: {len(mistakes)}, the first {min(SHOWN, len(mistakes))}")
        for one in mistakes[:SHOWN]:
            wanted = [finding for finding in one.findings if finding.failed or one.wrong]
            why = "; ".join(f"{finding.path} {finding.detailed or rule_of(finding)}" for finding in wanted)
            print(f"- {one.case['id']} {one.case['call']['name']}: {why[:300]}")
            print(
                f"    said last: {one.case['context'][-1]['text'][:160]!r}"
                if one.case["context"]
                else "    nothing was said"
            )


def rule_of(finding: Finding) -> str:
    """Name the kind of origin and its rule."""
    rule = (
        finding.message.partition(",")[0] if finding.kind != "none" else "choice" if "choice" in finding.message else ""
    )
    return f"{finding.kind} {rule}".strip()


def session(turns: int, calls: int) -> Session:
    """Make a session whose calls use what was said and returned before."""
    made: list[Turn] = []
    for turn in range(turns):
        found = tuple(
            ToolCall(
                "get_order",
                {"order_id": f"#W{turn:04}{call:04}", "customer": f"customer_{turn}", "amount": 1000 + turn},
                start=turn * 10_000 + call * 10 + 1,
                end=turn * 10_000 + call * 10 + 5,
                result=Content(
                    json.dumps({"orders": [f"#W{turn:04}{call + 1:04}"], "status": "delivered"}), Capture.CAPTURED
                ),
            )
            for call in range(calls)
        )
        said = (
            f"I am customer_{turn}. What about order #W{turn:04}0000? I paid {1000 + turn} dollars, and it came late."
        )
        made.append(Turn(found, user_text=Content(said, Capture.CAPTURED)))
    return Session("s", tuple(made))


def agent_sessions(seed: int) -> list[Session]:
    """Make sessions of 2 turns of 4 calls, half of them with values from nowhere. Seeds share no result."""
    made: list[Session] = []
    for plan in plan_sessions([f"s-{seed}-{number}" for number in range(SESSIONS)], seed=seed, content=True):
        turns: list[Turn] = []
        for turn in plan.turns:
            chats, tools = ([one.attributes for one in turn.children if one.name.startswith(name)] for name in KINDS)
            calls = tuple(
                ToolCall(
                    str(tool["gen_ai.tool.name"]),
                    json.loads(str(tool["gen_ai.tool.call.arguments"])),
                    call_id=str(tool["gen_ai.tool.call.id"]),
                    start=FIRST_NANOSECOND + number * 10 + 1,
                    end=FIRST_NANOSECOND + number * 10 + 5,
                    result=Content(tool["gen_ai.tool.call.result"], Capture.CAPTURED),
                )
                for number, tool in enumerate(tools)
            )
            messages = Content(chats[-1]["gen_ai.input.messages"], Capture.CAPTURED)
            turns.append(Turn(calls, messages=messages, tool_definitions=Content(DEFINITIONS, Capture.CAPTURED)))
        made.append(Session(plan.id, tuple(turns)))
    return made


def print_cost_of_sessions() -> None:
    """Print what each metric costs a session, with texts that it never saw before, and with the same again."""
    print("\nCPU time of a session of 8 calls, half of them with values from nowhere, the fastest slice of some")
    print(f"{'':28}{'new texts':>12}{'same texts':>12}   us a session")
    slices = [agent_sessions(seed) for seed in range(1, 13)]
    for metric in (ToolParameterSchema(), ToolParameterGrounding(), ToolCallRepetition()):
        taken: dict[str, float] = {}
        for title, sessions in (("new", slices), ("same", [slices[0]] * len(slices))):
            for some in sessions:
                began = time.process_time()
                for one in some:
                    metric(one)
                spent = (time.process_time() - began) / len(some)
                taken[title] = min(spent, taken.get(title, math.inf))
        print(f"{metric.name:28}{taken['new'] * 1e6:>12.0f}{taken['same'] * 1e6:>12.0f}")


def seconds(one: Session) -> float:
    """Measure the CPU time of judging a session, the best of some."""
    metric = ToolParameterGrounding()
    best = math.inf
    for _ in range(5):
        began = time.process_time()
        score = metric(one).score
        best = min(best, time.process_time() - began)
        assert score == 1
    return best


def print_cost() -> None:
    """Print the time a call in sessions of 20 turns, and how time grows with the number of calls."""
    print("\nCPU time of tool_parameter_grounding, three values a call, nothing derived")
    taken = {calls: seconds(session(20, calls // 20)) for calls in (100, 1000, 4000)}
    for calls, time_taken in taken.items():
        print(f"{calls:6} calls in 20 turns: {time_taken / calls * 1e6:6.0f} us a call")
    for fewer, more in ((100, 1000), (1000, 4000)):
        exponent = math.log(taken[more] / taken[fewer]) / math.log(more / fewer)
        print(f"{fewer} to {more} calls: time grows with the power {exponent:.2f}")


def main(arguments: list[str]) -> int:
    """Print the quality on a file, and the cost."""
    for path in map(Path, arguments):
        if not path.is_file():
            print(f"{path} is missing: it is a file of labelled calls, as `python -m pydoc benchmarks.grounding` tells")
            return 2
        print_quality([judge(case) for case in read_cases(path)])
    print_cost()
    print_cost_of_sessions()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
