"""Grounding on labelled calls, and what metrics without a golden cost: `python -m benchmarks.grounding FILE`.

Without a file the cost alone. Of each right call that passes, one value is also replaced by an invented one of the same
shape, another choice of its list, or another number, and the share that is found is printed beside the false alarms.

FILE has one JSON object a line, plain or gzip: `{id, source, context: [{role, text}], tools: [{name, parameters}],
call: {name, arguments}, label}`, with the label `grounded` or `ungrounded`.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.traffic import DEFINITIONS, FIRST_NANOSECOND, plan_sessions
from goldspan.scoring import Capture, Session, ToolCall, Turn
from goldspan.scoring.grounding.conversation import Passage
from goldspan.scoring.grounding.leaves import leaves
from goldspan.scoring.json_values import is_sequence, steps_of, value_at
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


def judge(case: dict[str, Any], wrap: Callable[[str], str] = str) -> Judged:
    """Ground the call of a case in its context; results of tools are wrapped first."""
    passages = [
        Passage("tool_result", wrap(one["text"]), "tool")
        if one["role"] == "tool"
        else Passage(one["role"], one["text"], one["role"])
        for one in case["context"]
    ]
    return Judged(case, ground_arguments(case["call"]["arguments"], passages, schema_of(case)))


def schema_of(case: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema of the tool that is called, if the case has it."""
    tools = case.get("tools") or ()
    return next((tool["parameters"] for tool in tools if tool["name"] == case["call"]["name"]), None)


WRAPPINGS: dict[str, Callable[[str], str]] = {
    '{"output": text}': lambda text: json.dumps({"output": text}),
    "content of MCP": lambda text: json.dumps({"content": [{"type": "text", "text": json.dumps(text)}]}),
    "LangChain's message": lambda text: json.dumps({"type": "tool", "data": {"content": text, "tool_call_id": "c"}}),
}
"""How the result of a tool may be wrapped when a call is judged again."""


def invented(one: Judged) -> tuple[str, Judged] | None:
    """Replace one value that has an origin by an invented one; its type, and what is then found in it."""
    chance = random.Random(one.case["id"])
    judged_paths = {finding.path for finding in one.findings if finding.kind not in ("trivial", "free_text", "unknown")}
    values = [leaf for leaf in leaves(one.case["call"]["arguments"], schema_of(one.case)) if leaf.path in judged_paths]
    if not values:
        return None
    leaf = chance.choice(values)
    options = leaf.schema.get("enum")
    if is_sequence(options):
        others = [option for option in options if option != leaf.value]
        kind, value = "enum", chance.choice(others) if others else None
    else:
        kind, value = value_type(leaf.value), other_value(leaf.value, chance)
    if value is None:
        return None
    call = json.loads(json.dumps(one.case["call"]))
    *steps, last = steps_of(leaf.path)
    holder = value_at(call["arguments"], steps)
    holder[int(last) if isinstance(holder, list) else last] = value
    again = judge({**one.case, "call": call})
    return kind, Judged(again.case, tuple(finding for finding in again.findings if finding.path == leaf.path))


def value_type(value: object) -> str:
    """Name the type of a value."""
    if isinstance(value, int | float):
        return "number"
    text = str(value)
    if re.search(r"\d{4}-\d\d|\d\d?:\d\d|\d/\d", text):
        return "date"
    return "id" if re.search(r"\d", text) and " " not in text else "phrase" if " " in text else "word"


def other_value(value: object, chance: random.Random) -> object:
    """Return an invented value of the same shape."""
    if isinstance(value, int | float):
        number = value * chance.uniform(1.3, 4) + chance.choice((2, 3, 7))
        return round(number) if isinstance(value, int) else round(number, 2)
    if value_type(value) == "date":
        day = f"{chance.randint(2011, 2033)}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
        text = re.sub(r"\d{4}-\d\d-\d\d", day, str(value))
        return re.sub(r"(\d\d?):(\d\d)", lambda _: f"{chance.randint(0, 23):02}:{chance.randint(1, 59):02}", text)
    letters = {"a": "abcdefghijklmnopqrstuvwxyz", "A": "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0": "0123456789"}
    sound = {"a": "aeiou", "b": "bdfgklmnprstvz"}
    made: list[str] = []
    for char in str(value):
        kind = "0" if char.isdecimal() else "A" if "A" <= char <= "Z" else "a" if "a" <= char <= "z" else ""
        if kind == "a" and value_type(value) != "id":
            made.append(chance.choice(sound["b" if made and made[-1] in "aeiou" else "a"]))
        elif "\u4e00" <= char <= "\u9fff":
            made.append(chr(chance.randint(0x4E00, 0x9FA5)))
        else:
            made.append(chance.choice(letters[kind]) if kind else char)
    return "".join(made)


def share(part: int, whole: int) -> str:
    """Return a share with its number and Wilson's interval of 95 %."""
    if not whole:
        return "-"
    p, z = part / whole, 1.96
    middle, half = p + z * z / (2 * whole), z * math.sqrt(p * (1 - p) / whole + z * z / (4 * whole * whole))
    low, high = ((middle - half) / (1 + z * z / whole), (middle + half) / (1 + z * z / whole))
    return f"{part:4}/{whole:<5}{p:6.1%} [{max(low, 0):5.1%},{high:6.1%}]"


def print_shares(judged: list[Judged]) -> None:
    """Print false alarms and invented values found, by source, by type of value and by wrapping, with intervals."""
    alarms: Counter[tuple[str, bool]] = Counter()
    made: Counter[tuple[str, bool]] = Counter()
    wrapped: Counter[tuple[str, bool]] = Counter()
    for one in (one for one in judged if not one.wrong):
        source = one.case["source"]
        for group in (source, "all zh" if source.endswith("zh") else "all without zh"):
            alarms[group, one.flagged] += 1
        schemas = {leaf.path: leaf for leaf in leaves(one.case["call"]["arguments"], schema_of(one.case))}
        for finding in one.findings:
            leaf = schemas[finding.path]
            kind = "enum" if "enum" in leaf.schema else value_type(leaf.value)
            alarms[f"values: {kind}", finding.failed] += finding.kind != "trivial"
        if any(part["role"] == "tool" for part in one.case["context"]):
            for name, wrap in WRAPPINGS.items():
                wrapped[f"{source} as {name}", judge(one.case, wrap).flagged] += 1
        if not one.flagged and (found := invented(one)) is not None:
            kind, again = found
            for group in (source, f"values: {kind}", "all zh" if source.endswith("zh") else "all without zh"):
                made[group, again.flagged] += 1
    print(f"{'':44}{'false alarms':32}invented values found")
    for group in sorted({group for group, _ in (*alarms, *wrapped)}):
        found = (share(one[group, True], one[group, True] + one[group, False]) for one in (alarms + wrapped, made))
        print(f"{group:44}{'   '.join(found)}")
    print()


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
        part = alarms / max(1, alarms + counts[False, False])
        print(f"{source:12}{len(calls):7}{f1:>7}{right:>10.1%}{part:>14.1%}{missed:>9}")
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
        judged = [judge(case) for case in read_cases(path)]
        print_shares(judged)
        print_quality(judged)
    print_cost()
    print_cost_of_sessions()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
