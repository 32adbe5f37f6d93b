"""Every recording, written in every way of `transformations`, is read right, or the reading says what is missing.

make variations ARGS="[--pairs N] [--cases] [--shrink] [RECORDING | TRANSFORMATION ...]"

right          every fact is what it is in the recording
honest         a fact differs or is unknown; the reading says so (a capture, calls not visible, no session id, a doubt),
               or nothing tells it any more
blind          no turn is read at all
false doubt    every fact is right, nothing was lost, and the reading doubts
silent         a fact differs, and nothing says so

`silent_cases.json` lists the silent ones that are known; it may only shrink.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from conformance.recordings import NAMES, TRUTH
from conformance.single_records import Document, documents_of
from conformance.transformations import REGISTRY, TRANSFORMATIONS, Transformation, spans_of
from goldspan.mappers import read_sessions
from goldspan.mappers.assembly.tool_calls_and_batches import same_tool
from goldspan.mappers.readers.files import views
from goldspan.mappers.spans import LogView
from goldspan.scoring.sessions import Capture, Session, ToolCall, Turn

AS_RECORDED = "as recorded"
RIGHT, HONEST, BLIND, FALSE_DOUBT, SILENT = OUTCOMES = ("right", "honest", "blind", "false doubt", "silent")
KNOWN = Path(__file__).parent / "silent_cases.json"
UNNAMED = {"trace_id", "input", "logs"}
PAIRS = 4
"""How many pairs of ways are tried on each recording."""
MOST_FALSE_DOUBTS = 0.02
_DECIDING = {"calls", "turns", "arguments"}
"""A turn of which one of these is in doubt is not evaluated, so that nothing of it is said."""


@dataclass(frozen=True)
class Call:
    """A call as a reading has it."""

    name: str
    arguments: str
    """As canonical JSON; the capture where they are unknown."""
    failed: bool
    returned: bool = field(default=True, compare=False)
    """What it returned is recorded."""
    requested: bool = field(default=False, compare=False)
    """Only the request is known: what became of it, nobody says."""

    @property
    def known(self) -> bool:
        return self.arguments not in set(Capture)


@dataclass(frozen=True)
class ReadTurn:
    """A turn as a reading has it: its calls, batch by batch."""

    batches: tuple[tuple[Call, ...], ...]
    session: str
    """Empty where no session id was found."""
    visible: bool = True
    doubts: frozenset[str] = frozenset()
    traces: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    """Tools of requests that were not executed, and are no calls."""

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        return tuple(call for batch in self.batches for call in batch)


@dataclass(frozen=True)
class Reading:
    """The turns of a recording in the order of time."""

    turns: tuple[ReadTurn, ...]
    said: tuple[str, ...] = ()
    """What users said, and what failed tools answered: where these are gone, turns and failures are."""
    failures: tuple[str, ...] = ()

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        return tuple(call for turn in self.turns for call in turn.calls)

    @property
    def doubts(self) -> frozenset[str]:
        return frozenset(doubt for turn in self.turns for doubt in turn.doubts)


def reading_of(sessions: Iterable[Session]) -> Reading:
    turns = sorted(
        ((turn, session) for session in sessions for turn in session.turns), key=lambda one: (one[0].start, one[1].id)
    )
    return Reading(
        tuple(_turn(turn, session) for turn, session in turns),
        tuple(text for turn, _ in turns if isinstance(text := turn.user_text.value, str)),
        tuple(call.error for turn, _ in turns for call in turn.calls if call.error),
    )


def _turn(turn: Turn, session: Session) -> ReadTurn:
    calls = [(call.batch or -number, _call(call)) for number, call in enumerate(turn.calls, 1) if not call.rejected]
    grouped = (sorted((call for _, call in group), key=_order) for _, group in groupby(calls, lambda one: one[0]))
    named = "" if session.id_source in UNNAMED or session.ambiguous else session.id
    doubts = frozenset(str(doubt.fact) for doubt in getattr(turn, "doubts", ()))
    rejected = tuple(call.name for call in turn.calls if call.rejected)
    return ReadTurn(tuple(map(tuple, grouped)), named, turn.calls_visible, doubts, turn.trace_ids, rejected)


def _call(call: ToolCall) -> Call:
    known = call.capture is Capture.CAPTURED
    return Call(
        call.name,
        canonical(call.arguments) if known else call.capture.value,
        call.error is not None,
        call.result.capture is Capture.CAPTURED,
        call.requested,
    )


def _order(call: Call) -> tuple[str, str, bool]:
    return call.name, call.arguments, call.failed


def canonical(value: object) -> str:
    """Return a value as text that is the same for equal values: 30.0 is 30."""
    return re.sub(r"(?<=\d)\.0(?=[,\]}])", "", json.dumps(value, sort_keys=True, ensure_ascii=False))


def played(name: str) -> Reading:
    """Return what is known to have happened in a recording, which its own reading may know less of."""
    truth = TRUTH["files"][name]
    told = truth.get("error") not in ("missing", "text")
    turns: list[ReadTurn] = []
    for calls in TRUTH["turns"]["standard" if truth["turns"] == "raw" else truth["turns"]]:
        batches = [
            tuple(
                sorted(
                    (
                        Call(
                            one["name"],
                            canonical(one["args"]),
                            told and bool(one.get("error")),
                            requested="refused" in one,
                        )
                        for one in batch
                    ),
                    key=_order,
                )
            )
            for _, batch in groupby(calls, lambda one: one["batch"])
        ]
        turns.append(ReadTurn(tuple(batches), truth["session_id"] or ""))
    said = ("What's the weather in Paris in celsius", "Book the table for two")
    return Reading(tuple(turns), said, ("no table at 19:30",) if told else ())


@dataclass(frozen=True)
class Original:
    """A recording, and what is to be read in it however it is written."""

    name: str
    documents: list[Document]
    expected: Reading
    requested: bool
    """It holds what models asked for, so that batches and arguments are written twice, unless batches are lost."""
    played: Reading | None
    """What happened, where that is known: right too, where a way of writing tells more than the recording."""


@lru_cache(maxsize=8)
def original(name: str) -> Original:
    documents = documents_of(name)
    told = TRUTH["files"][name]["turns"]
    happened = played(name) if isinstance(told, str) and told != "hidden" else None
    known = "known_gap" in TRUTH["files"][name] and told == "standard" and happened is not None
    expected = happened if known and happened is not None else read(documents)
    return Original(name, documents, expected, known or requests_in(documents), happened)


def requests_in(documents: Sequence[Document]) -> bool:
    """Say whether a model's output with requests is in there."""
    facts = (REGISTRY.read(view) for view in views(documents, lambda problem: None) if not isinstance(view, LogView))
    return any(fact.model is not None and fact.model.requests for fact in facts)


def read(documents: Sequence[Document]) -> Reading:
    return reading_of(read_sessions(documents, registry=REGISTRY, on_problem=lambda problem: None))


@dataclass(frozen=True)
class Case:
    """One recording in one way, or in several one after the other, and what became of it."""

    recording: str
    transformation: str
    outcome: str
    silent: tuple[str, ...] = ()
    """The facts that differ unsaid."""
    doubts: tuple[str, ...] = ()


def case(source: Original, steps: Sequence[Transformation]) -> Case | None:
    """Try one way of writing; none where it changes nothing."""
    label = " + ".join(step.name for step in steps) or AS_RECORDED
    documents = source.documents
    for step in steps:
        changed = step.change(documents, Random(f"{source.name}|{label}"))
        if changed is documents or changed == documents:
            return None
        documents = changed
    found = read(documents)
    lost = {fact for step in steps for fact in step.lost}
    if not source.requested or "batch" in lost:
        lost |= {fact for step in steps for fact in step.lost_unless_requested}
    return judged(source, label, found, documents, lost)


def judged(source: Original, label: str, found: Reading, documents: Sequence[Document], lost: set[str]) -> Case:
    doubts = tuple(sorted(found.doubts))
    if TRUTH["files"].get(source.name, {}).get("nulls_omitted"):
        happened = None if source.played is None else without_nulls(source.played)
        source = replace(source, expected=without_nulls(source.expected), played=happened)
        found = without_nulls(found)
    if "affixes" in lost:
        found = with_names_of(source.expected, found)
    if "requests" in lost:
        source = replace(source, expected=without_requests(source.expected, found), played=None)
    if not found.turns and source.expected.turns:
        return Case(source.name, label, BLIND)
    wrong = differences(source.expected, found)
    if wrong and ("session" in found.doubts or not any(turn.session for turn in found.turns)):
        wrong &= differences(source.expected, joined_as(source.expected, found))
    if wrong and found.doubts & _DECIDING:
        return Case(source.name, label, HONEST, doubts=doubts)
    if wrong and source.played is not None:
        wrong &= differences(source.played, found)
    less = sum(call.known for call in found.calls) < sum(call.known for call in source.expected.calls)
    if not wrong and less:
        return Case(source.name, label, HONEST, doubts=doubts)
    if not wrong:
        false = doubts and not lost and not source.expected.doubts
        return Case(source.name, label, FALSE_DOUBT if false else RIGHT, doubts=doubts)
    unsaid = wrong - found.doubts - lost - ({"order"} if "batch" in found.doubts | lost else set())
    if unsaid:
        unsaid -= gone(source.expected, documents)
    if unsaid == {"failure"} and may_have_failed_again(source.expected, found):
        unsaid.clear()
    return Case(source.name, label, SILENT if unsaid else HONEST, tuple(sorted(unsaid)), doubts)


def with_names_of(expected: Reading, found: Reading) -> Reading:
    """Return a reading with the names that users know, which only the name of the instrumentation tells (R9)."""
    names = {call.name for call in expected.calls}

    def known(call: Call) -> Call:
        return replace(call, name=next((name for name in names if same_tool(name, call.name)), call.name))

    return _with_calls(found, lambda batch: tuple(sorted(map(known, batch), key=_order)))


def without_nulls(reading: Reading) -> Reading:
    """Return a reading without arguments that are null: not every span of its recording has these."""

    def change(call: Call) -> Call:
        if not call.known:
            return call
        arguments = {name: value for name, value in json.loads(call.arguments).items() if value is not None}
        return replace(call, arguments=canonical(arguments))

    return _with_calls(reading, lambda batch: tuple(sorted(map(change, batch), key=_order)))


def without_requests(expected: Reading, found: Reading) -> Reading:
    """Return a reading without what no execution tells, unless it was found."""
    there = {(call.name, call.arguments) for call in found.calls}
    return _with_calls(
        expected,
        lambda batch: tuple(call for call in batch if not call.requested or (call.name, call.arguments) in there),
    )


def _with_calls(reading: Reading, change: Callable[[tuple[Call, ...]], tuple[Call, ...]]) -> Reading:
    batches = (tuple(filter(None, map(change, turn.batches))) for turn in reading.turns)
    return replace(
        reading, turns=tuple(replace(turn, batches=own) for turn, own in zip(reading.turns, batches, strict=True))
    )


def joined_as(expected: Reading, found: Reading) -> Reading:
    """Return a reading whose turns are joined as expected where they are of different traces: no session joins them.

    What is requested in one of them, and again or executed in a later one, is one call.
    """
    turns: list[ReadTurn] = []
    for turn in found.turns:
        wanted = expected.turns[len(turns) - 1] if 0 < len(turns) <= len(expected.turns) else None
        last = turns[-1] if turns and not set(turns[-1].traces) & set(turn.traces) else None
        if last is None or wanted is None or not Counter(_names(turn)) <= Counter(_names(wanted)):
            turns.append(turn)
            continue
        later = {(call.name, call.arguments) for call in turn.calls}
        kept = (
            tuple(call for call in batch if not call.requested or (call.name, call.arguments) not in later)
            for batch in last.batches
        )
        turns[-1] = replace(turn, batches=(*filter(None, kept), *turn.batches))
    return replace(found, turns=tuple(turns))


def differences(expected: Reading, found: Reading) -> set[str]:
    """Return the facts that differ and are not said to be unknown."""
    wrong: set[str] = set()
    hidden = not all(turn.visible for turn in found.turns)
    if hidden:  # what is known of such a turn is not evaluated
        found = replace(found, turns=tuple(turn if turn.visible else replace(turn, batches=()) for turn in found.turns))
    missing = Counter(call.name for call in expected.calls) - Counter(call.name for call in found.calls)
    requested = Counter(call.name for call in expected.calls if call.requested or call.failed)
    missing -= Counter(name for turn in found.turns for name in turn.rejected) & requested
    added = Counter(call.name for call in found.calls) - Counter(call.name for call in expected.calls)
    if added or (missing and not hidden) or (not all(turn.visible for turn in expected.turns) and not hidden):
        wrong.add("calls")
    if arguments_differ(expected, found):
        wrong.add("arguments")
    if missing or added:
        return wrong | sessions_differ(expected, found)
    named = any(turn.session for turn in found.turns)
    wanted, told = _telling(expected, named=named), _telling(found, named=named)
    if Counter(map(_names, wanted)) != Counter(map(_names, told)):
        wrong.add("turns")
    elif sorted(map(_batches, wanted)) != sorted(map(_batches, told)):
        alike = sorted(sorted(_batches(turn)) for turn in wanted) == sorted(sorted(_batches(turn)) for turn in told)
        wrong.add("order" if alike else "batch")
    known = "arguments" not in wrong and all(call.known for call in (*expected.calls, *found.calls))
    were, are = _failed(expected, known=known), _failed(found, known=known)
    untold = Counter(_print_of(call, known=known) for call in found.calls if call.requested and not call.failed)
    if are - were or were - are - untold:
        wrong.add("failure")
    return wrong | sessions_differ(expected, found)


def _telling(reading: Reading, *, named: bool) -> list[ReadTurn]:
    """Return the turns but for those that are said to be of no session, none being `named`, and not to be visible."""
    return [turn for turn in reading.turns if turn.visible or (turn.session and named)]


def arguments_differ(expected: Reading, found: Reading) -> bool:
    """Unknown arguments are no others; those of a call that was unknown are held against the scenario."""
    wanted = Counter((call.name, call.arguments) for call in expected.calls if call.known)
    there = Counter((call.name, call.arguments) for call in found.calls if call.known)
    unknown = Counter(call.name for call in expected.calls if not call.known)
    more = Counter[str]()
    for (name, arguments), count in (there - wanted).items():
        if (name, arguments) not in SCENARIO:
            return True
        more[name] += count
    return bool(more - unknown)


SCENARIO = {
    (call["name"], canonical(call["args"]))
    for turns in TRUTH["turns"].values()
    if isinstance(turns, list)
    for turn in turns
    for call in turn
}


def sessions_differ(expected: Reading, found: Reading) -> set[str]:
    """A session under its name has its calls and no others; one without name says so."""
    wanted, there = _by_session(expected), _by_session(found)
    for name, calls in there.items():
        elsewhere = sum((more for other, more in there.items() if other != name), Counter[str]())
        others = sum((more for other, more in wanted.items() if other != name), Counter[str]())
        strange = name not in wanted or (calls - wanted[name]) & others
        if name and (strange or (wanted[name] - calls) & (elsewhere - others)):
            return {"session"}
    return set()


def _by_session(reading: Reading) -> dict[str, Counter[str]]:
    calls: dict[str, Counter[str]] = {}
    for turn in reading.turns:
        calls.setdefault(turn.session, Counter()).update(call.name for call in turn.calls)
    return calls


def _names(turn: ReadTurn) -> tuple[str, ...]:
    return tuple(sorted(call.name for call in turn.calls))


def _batches(turn: ReadTurn) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(call.name for call in batch) for batch in turn.batches)


def _failed(reading: Reading, *, known: bool) -> Counter[tuple[str, str]]:
    return Counter(_print_of(call, known=known) for call in reading.calls if call.failed)


def _print_of(call: Call, *, known: bool) -> tuple[str, str]:
    return call.name, call.arguments if known else ""


def may_have_failed_again(expected: Reading, found: Reading) -> bool:
    """Say whether of all calls that failed more than expected no result is recorded.

    A recording in which they failed again, with the same status, would be the same.
    """
    known = {(call.name, call.arguments) for call in expected.calls if call.failed}
    failed = [call for call in found.calls if call.failed]
    more = [call for call in failed if (call.name, call.arguments) not in known]
    less = Counter(name for name, _ in known) - Counter(call.name for call in failed)
    return not less and not any(call.returned for call in more)


def gone(expected: Reading, documents: Sequence[Document]) -> set[str]:
    """Return the facts of which no text is left."""
    texts = [[plain(text) for text in texts_of(span)] for span in spans_of(documents)]
    logs = [plain(json.dumps(one, ensure_ascii=False)) for one in documents if "resourceLogs" in one]
    everything = "\n".join([*(text for span in texts for text in span), *logs])
    lost: set[str] = set()
    if any(plain(text)[:20] not in everything for text in expected.said[1:]) or not expected.said:
        lost |= {"turns", "batch", "order"}
    if not all(call.known and _shown(call, texts, logs) for call in expected.calls):
        lost |= {"calls", "arguments", "turns", "batch", "order", "failure"}
    statuses = any(span.get("status", {}).get("code") == 2 for span in spans_of(documents))
    if not statuses and not any(_told(plain(text)[:20], everything) for text in expected.failures):
        lost.add("failure")
    return lost


def _told(failure: str, everything: str) -> bool:
    """Say whether a text stands beside a word for a failure: by itself, only people know it for one."""
    places = (match.start() for match in re.finditer(re.escape(failure), everything))
    return any(
        re.search("error|exception|fail", everything[max(0, at - 60) : at + 120], re.IGNORECASE) for at in places
    )


def _shown(call: Call, spans: Sequence[Sequence[str]], logs: Sequence[str]) -> bool:
    """Say whether one text holds all values of the arguments, and its span the tool's name."""
    values = list(_leaves(json.loads(call.arguments)))
    for texts in (*spans, logs):
        if any(call.name in text for text in texts) and any(all(one in text for one in values) for text in texts):
            return True
    return False


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _leaves(one)
    elif value is not None and not isinstance(value, bool):
        yield plain(str(value))


def texts_of(span: dict[str, Any]) -> list[str]:
    attributes = [one for holder in (span, *span.get("events", ())) for one in holder.get("attributes", ())]
    values = [one.get("value", {}) for one in attributes]
    texts = [
        text if isinstance(text := next(iter(one.values()), ""), str) else json.dumps(text, ensure_ascii=False)
        for one in values
    ]
    flattened = "\n".join(f"{one['key']} {text}" for one, text in zip(attributes, texts, strict=True))
    return [span.get("name", ""), *texts, flattened]


def plain(text: str) -> str:
    """Return a text without quoting, escapes and letters that some encoders write otherwise."""
    return re.sub(r"[^\w.:'\- ]+", " ", re.sub(r"\\u[0-9a-f]{4}|[^\x00-\x7f]|\\", "", text)).replace("'", "")


def cases_of(name: str, *, pairs: int = 0, only: Sequence[str] = (), every: int = 1) -> Iterator[Case]:
    """Try every way of writing on a recording, or each `every`-th, and so many pairs of them."""
    source, ways = original(name), list(TRANSFORMATIONS.values())
    tried: list[list[Transformation]] = [[]] if not only else []
    tried += [[way] for way in ways if not only or way.name in only]
    random = Random(name)
    tried += [random.sample(ways, 2) for _ in range(pairs)]
    for steps in tried[crc32(name.encode()) % every :: every]:
        if (found := case(source, steps)) is not None:
            yield found


@dataclass
class Table:
    """How many cases of each way of writing had which outcome."""

    rows: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])

    def add(self, one: Case) -> None:
        row = "pairs" if " + " in one.transformation else one.transformation
        self.rows.setdefault(row, Counter())[one.outcome] += 1

    def share_of_false_doubts(self) -> float:
        """Return their share of the cases that are right."""
        total = sum(self.rows.values(), Counter[str]())
        return total[FALSE_DOUBT] / max(total[FALSE_DOUBT] + total[RIGHT], 1)

    def lines(self) -> Iterator[str]:
        width = max(map(len, self.rows), default=0) + 2
        yield f"{'':{width}}" + "".join(f"{outcome:>12}" for outcome in OUTCOMES)
        total: Counter[str] = Counter()
        listed = [name for name in (AS_RECORDED, *TRANSFORMATIONS) if name in self.rows]
        for name in (*listed, *(name for name in self.rows if name not in listed)):
            if row := self.rows.get(name):
                total += row
                yield f"{name:{width}}" + "".join(f"{row[outcome] or '-':>12}" for outcome in OUTCOMES)
        yield f"{'all':{width}}" + "".join(f"{total[outcome]:>12}" for outcome in OUTCOMES)


def known_silent() -> dict[str, list[str]]:
    """Return the recordings of the silent cases that are known, by way of writing."""
    known: dict[str, list[str]] = json.loads(KNOWN.read_text("utf-8"))
    return known


def is_known(one: Case, known: Mapping[str, Sequence[str]]) -> bool:
    """Say whether a silent case is listed; a pair is where one of its two is."""
    return any(one.recording in known.get(way, ()) for way in (one.transformation, *one.transformation.split(" + ")))


def write_known(silent: dict[str, list[str]]) -> None:
    lines = (f"  {json.dumps(way)}: {json.dumps(sorted(names))}" for way, names in sorted(silent.items()) if names)
    KNOWN.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def main(arguments: Sequence[str]) -> int:
    """Print the table; exit 1 if a case is silent that is not known, or doubts are false too often."""
    parser = argparse.ArgumentParser(description="every recording in every way of writing")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="how many pairs of ways are tried on each recording")
    parser.add_argument("--cases", action="store_true", help="print each case that is silent, blind or a false doubt")
    parser.add_argument(
        "--shrink", action="store_true", help="take cases that are no longer silent from the known ones"
    )
    parser.add_argument("names", nargs="*", help="recordings or transformations; all without")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.names if name not in NAMES and name not in TRANSFORMATIONS]:
        parser.error(f"neither a recording nor a transformation: {', '.join(unknown)}")
    only = [name for name in given.names if name in TRANSFORMATIONS]
    table, known, silent, tried = Table(), known_silent(), list[Case](), set[tuple[str, str]]()
    for name in [name for name in given.names if name in NAMES] or NAMES:
        for one in cases_of(name, pairs=0 if only else given.pairs, only=only):
            table.add(one)
            tried.add((one.transformation, name))
            if one.outcome == SILENT:
                silent.append(one)
            if given.cases and one.outcome in (SILENT, BLIND, FALSE_DOUBT):
                print(f"{one.outcome:12} {name:40} {one.transformation}: {', '.join(one.silent or one.doubts)}")
    print("\n".join(table.lines()))
    new = [one for one in silent if not is_known(one, known)]
    silently = {(one.transformation, one.recording) for one in silent}
    old = [(way, name) for way, name in tried if name in known.get(way, ()) and (way, name) not in silently]
    for one in new:
        print(f"silent, and not known: {one.recording}, {one.transformation}: {', '.join(one.silent)}")
    if old:
        print(f"{len(old)} known cases are no longer silent; --shrink takes them from {KNOWN.name}")
    if given.shrink:
        write_known({way: [name for name in names if (way, name) not in old] for way, names in known.items()})
    return 1 if new or table.share_of_false_doubts() > MOST_FALSE_DOUBTS else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main(sys.argv[1:]))
