"""Production without goldens: findings of a simulated agent, and profiles of real ones.

`python -m benchmarks.production` simulates an agent of a shop: 200 sessions, 30 of them with a mistake, as trace files
that `goldspan score` reads, and prints the precision and recall of its findings. `python -m benchmarks.production
TRIALS [RECORDED]` also learns the profile of each agent in a file of real runs from half of its sessions, and judges
the others by it, as they are and with one argument corrupted.

TRIALS has one JSON object a line, plain or gzip: `{set, model, passed, users: [[calls before, text]], calls: [{name,
args, result, error}]}`. RECORDED is a folder with the traces of one more agent, and `sessions.json`:
`[{session, reward}]`.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from benchmarks.grounding import share
from goldspan.mappers import read_sessions
from goldspan.scoring import Capture, Session, ToolCall, Turn
from goldspan.scoring.metrics.answers import AnswerGrounding
from goldspan.scoring.metrics.argument_profile import FEWEST_SESSIONS, RULES, Profile, ToolParameterProfile, learn
from goldspan.scoring.metrics.judge import JudgeAnswer, Question, ToolParameterAccuracy
from goldspan.scoring.metrics.repetition import ToolCallRepetition
from goldspan.scoring.sessions import Content
from goldspan.scoring.verdict import Finding, MetricCall, MetricScore

SESSIONS, MISTAKES = 200, 30
SECOND = 1_000_000_000
FIRST = 1_760_000_000 * SECOND
NAMES = ("Ada Byron", "Noor Khan", "Li Wei", "Eva Brandt", "Tom Ferro", "Ines Costa", "Jon Aker", "Mia Sato")
PRODUCTS = ("kettle", "desk lamp", "rain coat", "headphones", "backpack", "office chair")
REASONS = ("damaged", "wrong size", "arrived late", "no longer needed")


class Simulated(NamedTuple):
    """A session of the simulated agent, and the mistake that it makes."""

    session: str
    turns: list[tuple[str, list[tuple[str, dict[str, Any], object]], str]]
    """What the user said, the calls with their results, and the answer."""
    mistake: str = ""


def simulate(seed: int, sessions: int = SESSIONS, mistakes: int = MISTAKES) -> list[Simulated]:
    """Make sessions; the mistakes of each kind are spread over them."""
    chance = random.Random(seed)
    wrong = dict(zip(chance.sample(range(sessions), mistakes), _kinds(chance, mistakes), strict=True))
    return [_session(number, random.Random(f"{seed}/{number}"), wrong.get(number, "")) for number in range(sessions)]


def _kinds(chance: random.Random, count: int) -> list[str]:
    kinds = list(_MISTAKES)
    return [kinds[index % len(kinds)] for index in range(chance.randrange(len(kinds)), 10**6)][:count]


def _session(number: int, chance: random.Random, mistake: str) -> Simulated:
    name, product, reason = chance.choice(NAMES), chance.choice(PRODUCTS), chance.choice(REASONS)
    customer = f"{name.split()[0].lower()}_{chance.randrange(1000, 9999)}"
    mail = f"{customer}@example.org"
    orders = [f"W{chance.randrange(10**6, 10**7)}" for _ in range(chance.randrange(1, 4))]
    totals = [round(chance.uniform(8, 400), 2) for _ in orders]
    day = f"2025-10-{chance.randrange(10, 28)}"
    account = {"customer_id": customer, "email": mail, "name": name, "orders": orders}
    chosen = chance.randrange(len(orders))
    order = {
        "order_id": orders[chosen],
        "total": totals[chosen],
        "items": [{"name": product, "price": totals[chosen]}],
        "customer_id": customer,
        "shipped": day,
    }
    refund = {
        "order_id": orders[chosen],
        "amount": totals[chosen],
        "reason": reason,
        "request_id": str(uuid.UUID(int=chance.getrandbits(128), version=4)),
    }
    note = {
        "to": mail,
        "subject": f"Your refund for {orders[chosen]}",
        "body": f"Dear {name}, we have refunded {totals[chosen]} for your {product}. It takes a few days to arrive.",
    }
    calls: dict[str, dict[str, Any]] = {
        "find_customer": {"email": mail},
        "get_order": {"order_id": orders[chosen], "with_items": True},
        "refund": refund,
        "send_mail": note,
    }
    if chance.random() < 0.3:
        calls["schedule_pickup"] = {"order_id": orders[chosen], "date": "2025-11-0" + str(chance.randrange(1, 9))}
    if mistake:
        _MISTAKES[mistake](calls, chance)
    results: dict[str, object] = {
        "find_customer": account,
        "get_order": order,
        "refund": {"status": "accepted"},
        "send_mail": {"sent": True},
        "schedule_pickup": {"status": "planned"},
    }
    asked = f"Hello, I am {name}, {mail}. My {product} was {reason}, I want my money back."
    pickup = calls.get("schedule_pickup", {}).get("date", "")
    when = f" Please fetch it on {pickup}." if pickup and mistake != "invented date" else " Please fetch it soon."
    looked = [(tool, calls[tool], results[tool]) for tool in ("find_customer", "get_order")]
    done = [(tool, calls[tool], results[tool]) for tool in ("refund", "schedule_pickup", "send_mail") if tool in calls]
    confirmed = "Yes, that order, please." + (when if pickup else "")
    turns = [
        (asked, looked, f"Is it order {orders[chosen]}, {totals[chosen]}?"),
        (confirmed, done, "It is refunded."),
    ]
    return Simulated(f"sess-{number:03}", turns, mistake)


Calls = dict[str, dict[str, Any]]


def _invent_id(calls: Calls, chance: random.Random) -> None:
    calls["refund"]["order_id"] = f"W{chance.randrange(10**6, 10**7)}"


def _one_digit(calls: Calls, _: random.Random) -> None:
    text = calls["refund"]["order_id"]
    calls["refund"]["order_id"] = text[:-1] + str((int(text[-1]) + 3) % 10)


def _invent_amount(calls: Calls, chance: random.Random) -> None:
    calls["refund"]["amount"] = round(calls["refund"]["amount"] * chance.uniform(1.4, 3), 2)


def _other_mail(calls: Calls, _: random.Random) -> None:
    calls["send_mail"]["to"] = "support@example.com"


def _as_text(calls: Calls, _: random.Random) -> None:
    calls["refund"]["amount"] = f"{calls['refund']['amount']} EUR"


def _left_out(calls: Calls, _: random.Random) -> None:
    del calls["refund"]["reason"]


def _nothing(calls: Calls, _: random.Random) -> None:
    calls["send_mail"]["to"] = None


def _extra(calls: Calls, _: random.Random) -> None:
    calls["refund"]["force"] = True


def _other_customer(calls: Calls, chance: random.Random) -> None:
    calls["find_customer"]["email"] = f"kim_{chance.randrange(1000, 9999)}@example.org"


def _invent_date(calls: Calls, _: random.Random) -> None:
    calls["schedule_pickup"] = {"order_id": calls["refund"]["order_id"], "date": "2026-03-17"}


_MISTAKES: Mapping[str, Callable[[Calls, random.Random], None]] = {
    "invented order": _invent_id,
    "one digit": _one_digit,
    "invented amount": _invent_amount,
    "another address": _other_mail,
    "amount as text": _as_text,
    "reason left out": _left_out,
    "address null": _nothing,
    "extra argument": _extra,
    "another customer": _other_customer,
    "invented date": _invent_date,
}


def write_traces(sessions: Sequence[Simulated], path: Path, agent: str = "shop_agent") -> None:
    """Write a trace for each turn, as OTLP in JSON by OpenTelemetry's conventions."""
    with path.open("w", encoding="utf-8") as file:
        for at, one in enumerate(sessions):
            for number, turn in enumerate(one.turns):
                file.write(json.dumps(_trace(one.session, number, turn, FIRST + at * 600 * SECOND, agent)) + "\n")


def _trace(session: str, number: int, turn: Any, start: int, agent: str) -> dict[str, Any]:
    asked, calls, answer = turn
    ids = random.Random(f"{session}/{number}/{start}")
    trace, root, began = f"{ids.getrandbits(128):032x}", f"{ids.getrandbits(64):016x}", start + number * 60 * SECOND

    def span(own: str, parent: str, name: str, second: int, attributes: Mapping[str, str]) -> dict[str, Any]:
        return {
            "traceId": trace,
            "spanId": own,
            "parentSpanId": parent,
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(began + second * SECOND),
            "endTimeUnixNano": str(began + (second + 1 if parent else len(calls) + 2) * SECOND),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        }

    def said(role: str, text: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    spans = [
        span(
            root,
            "",
            f"invoke_agent {agent}",
            0,
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": agent,
                "gen_ai.conversation.id": session,
                "gen_ai.input.messages": said("user", asked),
                "gen_ai.output.messages": said("assistant", answer),
            },
        )
    ]
    for index, (tool, arguments, result) in enumerate(calls):
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": f"call_{number}_{index}",
            "gen_ai.tool.call.arguments": json.dumps(arguments),
            "gen_ai.tool.call.result": json.dumps(result),
        }
        spans.append(span(f"{ids.getrandbits(64):016x}", root, f"execute_tool {tool}", index + 1, attributes))
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "shop"}, "spans": spans}]}]}


def print_production(seeds: Sequence[int] = (1, 2, 3)) -> None:
    """Print precision and recall of the sessions with rare findings, and whether the first ten findings are true."""
    print("simulated production: 200 sessions, 30 mistakes, an agent that sends a request id of its own")
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            sessions, path = simulate(seed), Path(folder, f"traces-{seed}.jsonl")
            write_traces(sessions, path)
            mistakes = {one.session: one.mistake for one in sessions if one.mistake}
            done = subprocess.run(
                [sys.executable, "-m", "goldspan.collector_processor.cli", "score", str(path), "--format", "json"],
                capture_output=True,
                check=False,
                text=True,
            )
            findings = json.loads(done.stdout)["findings"]
            rare = findings["rare"]
            flagged = {place["session"] for one in rare for place in one["places"]}
            first = [place["session"] in mistakes for one in rare for place in one["places"]][:10]
            missed = Counter(mistake for session, mistake in mistakes.items() if session not in flagged)
            print(
                f"  seed {seed}: exit {done.returncode}; precision {share(len(flagged & set(mistakes)), len(flagged))}"
                f"  recall {share(len(flagged & set(mistakes)), len(mistakes))}  first ten true: {sum(first)}"
                f"  missed: {dict(missed)}"
            )


# Profiles of real agents.


class Run(NamedTuple):
    """A real session and whether it passed."""

    session: Session
    passed: bool


def read_trials(path: Path) -> dict[str, list[Run]]:
    """Read the runs of each agent."""
    agents: dict[str, list[Run]] = defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for one in map(json.loads, lines):
            agents[_agent_of(one["set"], one["model"])].append(Run(_session_of(one), bool(one["passed"])))
    return dict(agents)


def _agent_of(of_set: str, model: str) -> str:
    if of_set == "tau2-airline":
        return f"{of_set} {'claude' if 'claude' in model or 'opus' in model else 'others'}"
    return of_set


def _session_of(one: Mapping[str, Any]) -> Session:
    calls = [
        ToolCall(
            call["name"],
            call["args"],
            call_id=f"c{number}",
            start=(number + 1) * SECOND,
            end=(number + 1) * SECOND + 1,
            result=Content(call["result"], Capture.CAPTURED),
            error=call.get("error") or None,
        )
        for number, call in enumerate(one["calls"])
    ]
    starts = [at for at, _ in one["users"]]
    ends = [*starts[1:], len(calls)]
    turns = [
        Turn(tuple(calls[start:end]), user_text=Content(text, Capture.CAPTURED))
        for (start, text), end in zip(one["users"], ends, strict=True)
    ]
    return Session(one["id"], tuple(turns))


def _corruptions(session: Session, others: Sequence[Session], chance: random.Random) -> Iterator[tuple[str, Session]]:
    """Yield the session with one argument of one call corrupted, once for each kind that fits."""
    places = [(t, c) for t, turn in enumerate(session.turns) for c, _ in enumerate(turn.calls)]
    if not places:
        return
    for kind, change in _CORRUPTIONS.items():
        for turn, call in chance.sample(places, min(len(places), 8)):
            arguments = json.loads(json.dumps(session.turns[turn].calls[call].arguments))
            if arguments and change(arguments, session.turns[turn].calls[call].name, others, chance):
                yield kind, _with_arguments(session, turn, call, arguments)
                break


def _with_arguments(session: Session, turn: int, call: int, arguments: dict[str, Any]) -> Session:
    turns = list(session.turns)
    calls = list(turns[turn].calls)
    calls[call] = _replaced(calls[call], arguments=arguments)
    turns[turn] = _replaced(turns[turn], calls=tuple(calls))
    return Session(session.id, tuple(turns))


def _replaced(one: Any, **changes: Any) -> Any:
    return replace(one, **changes)


def _pick(arguments: dict[str, Any], chance: random.Random, fits: Callable[[Any], bool]) -> str | None:
    names = [name for name, value in arguments.items() if fits(value)]
    return chance.choice(names) if names else None


def _is_id(value: object) -> bool:
    return isinstance(value, str) and " " not in value and any(map(str.isdigit, value)) and len(value) > 3


def _is_date(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value) is not None


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value.replace("_", "").isalpha() and len(value) > 3


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _setting(fits: Callable[[Any], bool], new: Callable[[Any, random.Random], Any]) -> Any:
    def change(arguments: dict[str, Any], _tool: str, _others: Sequence[Session], chance: random.Random) -> bool:
        name = _pick(arguments, chance, fits)
        if name is None:
            return False
        before = arguments[name]
        arguments[name] = new(before, chance)
        return bool(arguments[name] != before)

    return change


def _remove(arguments: dict[str, Any], _tool: str, _others: Sequence[Session], chance: random.Random) -> bool:
    del arguments[chance.choice(list(arguments))]
    return True


def _add(arguments: dict[str, Any], _tool: str, _others: Sequence[Session], _: random.Random) -> bool:
    arguments["options"] = "x1"
    return True


def _swap(arguments: dict[str, Any], _tool: str, _others: Sequence[Session], chance: random.Random) -> bool:
    names = [name for name, value in arguments.items() if isinstance(value, str)]
    if len(names) < 2:
        return False
    one, other = chance.sample(names, 2)
    arguments[one], arguments[other] = arguments[other], arguments[one]
    return bool(arguments[one] != arguments[other])


def _of_other(fits: Callable[[Any], bool]) -> Any:
    def change(arguments: dict[str, Any], tool: str, others: Sequence[Session], chance: random.Random) -> bool:
        name = _pick(arguments, chance, fits)
        values = (
            [
                call.arguments[name]
                for session in others
                for turn in session.turns
                for call in turn.calls
                if call.name == tool
                and call.arguments
                and name in call.arguments
                and call.arguments[name] != arguments[name]
            ]
            if name
            else []
        )
        if not name or not values:
            return False
        arguments[name] = chance.choice(values)
        return True

    return change


def _other_digits(value: str, chance: random.Random) -> str:
    return "".join(str(chance.randrange(10)) if char.isdigit() else char for char in value)


_CORRUPTIONS: Mapping[str, Callable[[dict[str, Any], str, Sequence[Session], random.Random], bool]] = {
    "type": _setting(lambda value: isinstance(value, str | int | float), lambda value, _: [value]),
    "missing": _remove,
    "null": _setting(lambda value: value is not None, lambda _, __: None),
    "date format": _setting(_is_date, lambda value, _: "/".join(value.split("-")[::-1])),
    "extra": _add,
    "shape": _setting(_is_id, lambda value, _: f"{value[:2]}-{value[2:]}"),
    "other entity": _of_other(_is_id),
    "truncated": _setting(_is_id, lambda value, _: value[:-3]),
    "swapped": _swap,
    "other choice": _of_other(_is_word),
    "number": _setting(_is_number, lambda value, chance: -value if chance.random() < 0.5 else value * 37 + 1),
    "enum typo": _setting(_is_word, lambda value, _: value[:-1] + "q"),
    "invented": _setting(_is_id, _other_digits),
}


def read_recorded(folder: Path) -> list[Run]:
    """Read the recorded sessions of one agent."""
    passed = {one["session"]: one["reward"] >= 1 for one in json.loads((folder / "sessions.json").read_text("utf-8"))}
    return [Run(one, passed[one.id]) for path in folder.glob("*.jsonl.gz") for one in read_sessions(path)]


def print_profiles(path: Path, recorded: Path | None = None) -> None:
    """Print false alarms of passing sessions and recall by kind, each agent by the profile of its other sessions."""
    agents = read_trials(path) | ({recorded.name: read_recorded(recorded)} if recorded else {})
    print("\nprofiles of real agents: learnt from half of the sessions, judged on the others")
    print(f"{'agent':24}{'learnt':>7}  {'flagged passing sessions':28}{'recall':28}hard rules alone: flagged, recall")
    total: Counter[str] = Counter()
    by_kind: Counter[tuple[str, bool]] = Counter()
    for name, runs in sorted(agents.items()):
        sums = _judged(runs, by_kind)
        total += sums
        print(_line(name, len(runs) // 2, sums))
    print(_line("all", 0, total))
    words = [f"{kind} {by_kind[kind, True]}/{by_kind[kind, True] + by_kind[kind, False]}" for kind in _CORRUPTIONS]
    print("  found by kind: " + ", ".join(words))


def _line(name: str, learnt: int, sums: Counter[str]) -> str:
    return (
        f"{name:24}{learnt or '':>7}  {share(sums['alarms'], sums['passing']):28}{share(sums['found'], sums['bad']):28}"
        f"{sums['hard alarms']} of {sums['passing']}, {share(sums['hard found'], sums['bad'])}"
    )


def trusted(profile: Profile) -> Profile:
    """Let a profile speak however few sessions it saw, to measure what it would say."""
    return replace(profile, sessions=dict.fromkeys(profile.sessions, FEWEST_SESSIONS))


_PARTS = 2


def _judged(runs: Sequence[Run], by_kind: Counter[tuple[str, bool]]) -> Counter[str]:
    chance = random.Random(7)
    shuffled = chance.sample(runs, len(runs))
    sums: Counter[str] = Counter()
    for part in range(_PARTS):
        tried = shuffled[part::_PARTS]
        learnt = [one for at, one in enumerate(shuffled) if at % _PARTS != part]
        profile = learn(one.session for one in learnt)
        metric = ToolParameterProfile(profile=trusted(profile))
        others = [one.session for one in tried]
        for one in tried:
            before = found_by(metric, one.session)
            if one.passed:
                sums["passing"] += 1
                sums["alarms"] += bool(before)
                sums["hard alarms"] += any(kind in RULES for _, _, _, kind in before)
            for kind, bad in _corruptions(one.session, others, chance):
                new = found_by(metric, bad) - before
                sums["bad"] += 1
                sums["found"] += bool(new)
                sums["hard found"] += any(of in RULES for _, _, _, of in new)
                by_kind[kind, bool(new)] += 1
    return sums


def found_by(metric: ToolParameterProfile, session: Session) -> set[tuple[int, int, str, str]]:
    """Return what deviates: turn, call, path and kind."""
    found: set[tuple[int, int, str, str]] = set()
    for at, turn in enumerate(metric(session).turns):
        for index, call in enumerate(turn.calls if isinstance(turn, MetricScore) else ()):
            findings = call.findings if isinstance(call, MetricScore | MetricCall) else ()
            found |= {(at, index, one.path, one.kind) for one in findings if one.failed}
    return found


def print_other_findings(paths: Sequence[Path]) -> None:
    """Print how many failed and passed sessions have a repetition, or an answer with a value from nowhere."""
    runs = [run for of_agent in read_trials(paths[0]).values() for run in of_agent]
    runs += [run for folder in paths[1:] for run in read_recorded(folder)]
    of = Counter(run.passed for run in runs)
    having: Counter[tuple[str, bool]] = Counter()
    answers: Counter[str] = Counter()
    for run in runs:
        kinds = {one.kind for _, one in _findings_of(ToolCallRepetition(), run.session)}
        having.update((kind, run.passed) for kind in kinds)
        for at, turn in enumerate(run.session.turns):
            score = AnswerGrounding()(replace(run.session, turns=run.session.turns[: at + 1])).turns[at]
            if not isinstance(score, MetricScore) or score.score is None:
                continue
            answers["answers"] += 1
            answers["flagged"] += score.score < 1
            text = str(turn.answer.value)
            changed = re.sub(r"\d(?=\d{0,2}\b)", lambda found: str((int(found[0]) + 3) % 10), text)
            if changed != text and score.score == 1:
                turns = (*run.session.turns[:at], replace(turn, answer=Content(changed, Capture.CAPTURED)))
                again = AnswerGrounding()(replace(run.session, turns=turns)).turns[at]
                answers["changed"] += 1
                answers["found"] += isinstance(again, MetricScore) and again.score is not None and again.score < 1
    print("\nrepetitions: sessions that have one")
    for kind in ("retry_unchanged", "identical", "loop", "reworded"):
        print(
            f"  {kind:18} failed {share(having[kind, False], of[False])}  passed {share(having[kind, True], of[True])}"
        )
    print(f"answers with a value from nowhere: {share(answers['flagged'], answers['answers'])}")
    print(f"answers with other digits found:   {share(answers['found'], answers['changed'])}")


def _findings_of(metric: ToolCallRepetition, session: Session) -> Iterator[tuple[int, Finding]]:
    for at, turn in enumerate(metric(session).turns):
        for call in turn.calls if isinstance(turn, MetricScore) else ():
            yield from ((at, one) for one in (call.findings if isinstance(call, MetricScore) else ()))


def print_learning_curve() -> None:
    """Print how false alarms and recall change with the number of sessions that were learnt from."""
    print("\nlearning curve, simulated agent: 300 other sessions judged")
    judged = [session_of_simulated(one) for one in simulate(99, 300, 0)]
    wrong = [(one.mistake, session_of_simulated(one)) for one in simulate(98, 300, 100) if one.mistake]
    for count in (20, 50, 100, 300):
        profile = learn(session_of_simulated(one) for one in simulate(5, count, count // 50))
        metric = ToolParameterProfile(profile=trusted(profile))
        alarms = sum(bool(found_by(metric, one)) for one in judged)
        found = sum(bool(found_by(metric, one)) for _, one in wrong)
        print(f"  {count:4} sessions: flagged {share(alarms, len(judged))}  found {share(found, len(wrong))}")


def print_questions() -> None:
    """Print how many calls a judge is asked about, and what a judge that is always right makes of the findings."""
    print("\na judge that is asked about what is in doubt, 1,000 simulated sessions, 150 of them wrong")
    sessions = simulate(31, 1_000, 150)
    wrong = {one.session for one in sessions if one.mistake}
    profile = learn(session_of_simulated(one) for one in simulate(32, 200, 10))
    for title, judged_by in (("without a profile", Profile()), ("with a profile", profile)):
        asked: Counter[str] = Counter()

        def ask(questions: Sequence[Question]) -> list[JudgeAnswer]:
            return [JudgeAnswer(accurate=True) for _ in questions]

        metric = ToolParameterAccuracy(ask, when="doubtful", profile=judged_by)
        for one in sessions:
            for turn in metric.questions(session_of_simulated(one)):
                asked[one.session] += sum(isinstance(question, Question) for question in turn)
        doubted = {session for session, count in asked.items() if count}
        print(
            f"  {title:20}{asked.total():6,} questions of {sum(len(t[1]) for s in sessions for t in s.turns):,} calls;"
            f"  sessions in doubt that are wrong, before {share(len(doubted & wrong), len(doubted))}, after the judge"
            f" {share(len(doubted & wrong), len(doubted & wrong))};  wrong ones asked about"
            f" {share(len(doubted & wrong), len(wrong))}"
        )


def session_of_simulated(one: Simulated) -> Session:
    """Make the session as goldspan reads it from its traces."""
    turns: list[Turn] = []
    for number, (asked, calls, answer) in enumerate(one.turns):
        made = tuple(
            ToolCall(
                tool,
                arguments,
                start=(number * 60 + index + 1) * SECOND,
                end=(number * 60 + index + 2) * SECOND,
                result=Content(json.dumps(result), Capture.CAPTURED),
            )
            for index, (tool, arguments, result) in enumerate(calls)
        )
        turns.append(Turn(made, user_text=Content(asked, Capture.CAPTURED), answer=Content(answer, Capture.CAPTURED)))
    return Session(one.session, tuple(turns))


def print_cost() -> None:
    """Print what grounding and a profile cost a call, where values are found and where they come from nowhere."""
    from goldspan.scoring.metrics.grounding import ToolParameterGrounding  # noqa: PLC0415

    right = [session_of_simulated(one) for one in simulate(1, 100, 0)]
    wrong = [session_of_simulated(one) for one in simulate(2, 100, 100)]
    metric = ToolParameterProfile(profile=learn(session_of_simulated(one) for one in simulate(5, 200, 4)))
    print("\nCPU time a call, grounding and profile together, us")
    for title, sessions in (("all found", right), ("one mistake a session", wrong)):
        calls = sum(len(turn.calls) for one in sessions for turn in one.turns)
        best = 1e9
        for _ in range(3):
            began = time.process_time()
            for one in sessions:
                ToolParameterGrounding()(one)
                metric(one)
            best = min(best, (time.process_time() - began) / calls)
        print(f"  {title:24}{best * 1e6:8.0f}")


def main(arguments: list[str]) -> int:
    """Print everything."""
    if "--only-profiles" not in arguments:
        print_production()
    if paths := [Path(one) for one in arguments if not one.startswith("--")]:
        print_profiles(*paths)
        print_other_findings(paths)
    print_learning_curve()
    print_questions()
    print_cost()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
