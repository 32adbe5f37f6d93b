"""Golden sets recorded from traces that were right: `goldspan goldens record`.

One run of a task is written as it was, and promises nothing about the next one. From several runs the set is inferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from goldspan.collector_processor.golden_tools.inference import inferred_document
from goldspan.collector_processor.golden_tools.inference.inferred_set import InferredSet, infer
from goldspan.collector_processor.golden_tools.inference.run_groups import RunGroup, group_runs, writable_user_text
from goldspan.collector_processor.golden_tools.inference.task_runs import RecordedTask, TaskRun, holds_name, leaves
from goldspan.collector_processor.golden_tools.trying import that_accepts_its_runs
from goldspan.collector_processor.golden_tools.writing import Comments, is_json
from goldspan.collector_processor.replay.hints import NO_SESSION_ID
from goldspan.scoring.errors import GoldenFileError
from goldspan.scoring.goldens import load_goldens
from goldspan.scoring.goldens.documents import ValuePath
from goldspan.scoring.json_values import is_mapping, is_sequence, shown_name
from goldspan.scoring.matchers import escape_literal
from goldspan.scoring.matchers.matcher import LITERAL
from goldspan.scoring.pages import counted
from goldspan.scoring.result_words import CAPTURE_WORDS
from goldspan.scoring.sessions import Capture, JsonValue, Session, ToolCall, Turn

PRESENT: JsonValue = {"$present": True}
"""What stands for a value that is not to be written: the argument is there, whatever its value."""
_SHORTEST_SECRET = 4  # shorter values stand in any text


class Notice(NamedTuple):
    """Something a person should know before the golden set is used."""

    session: str
    message: str

    def __str__(self) -> str:
        return f"{shown_name(self.session)}: {self.message}" if self.session else self.message


@dataclass(frozen=True, slots=True)
class Recorded:
    """A golden set as a document."""

    document: Mapping[str, JsonValue]
    comments: Mapping[ValuePath, Sequence[str]]
    """Lines to write above items of its lists."""
    notices: tuple[Notice, ...]
    inferred: InferredSet | None = None
    """What the set was inferred from, where tasks had several runs."""

    @property
    def questions(self) -> Sequence[inferred_document.RuleQuestion]:
        """What a person should confirm, the most valuable first."""
        return () if self.inferred is None else inferred_document.questions_of(self.inferred)


def record(
    sessions: Iterable[Session],
    name: str,
    *,
    pattern: str | None = None,
    runs: str | None = None,
    redact: Iterable[str] = (),
    user_texts: bool = True,
    by_user_text: bool = False,
) -> Recorded:
    """Write down what sessions did as what they should do: one golden for each task.

    A task with one run is written as it was, turn by turn. Where tasks have several runs, the set is inferred from
    them. `pattern` is a glob for session ids; the sessions are then those that match it, runs of one task. `runs` says
    where session ids name the run, such as `{task}-run-{run}`. `redact` names arguments, at any depth, that only have
    to be present. Without `user_texts` turns are found by their order instead of by what the user said. With
    `by_user_text` goldens are found by the user's first message instead of the session id, where it is known.
    """
    groups = group_runs(list(sessions), pattern=pattern, runs=runs, by_user_text=by_user_text)
    return record_groups(groups, name, redact=redact, user_texts=user_texts)


def record_groups(
    groups: Sequence[RunGroup], name: str, *, redact: Iterable[str] = (), user_texts: bool = True
) -> Recorded:
    """Do as `record` does with the runs of each task."""
    hidden = frozenset(redact)
    if all(len(group.sessions) == 1 for group in groups):
        return _as_they_were(groups, name, hidden, user_texts=user_texts)
    return _inferred(groups, name, hidden)


def _as_they_were(groups: Sequence[RunGroup], name: str, hidden: frozenset[str], *, user_texts: bool) -> Recorded:
    """Write each session turn by turn."""
    notices: list[Notice] = []
    goldens: list[JsonValue] = []
    comments: dict[ValuePath, Sequence[str]] = {}
    for join, [session] in groups:
        [(key_field, key)] = join.items()
        turns = [recorded_turn(turn, hidden) for turn in session.turns]
        if not user_texts:
            turns = [replace(turn, user=None) for turn in turns]
        written = [written_turn(turn) for turn in turns]
        golden = {key_field: key, "turns": [turn.value for turn in written]}
        if why := _why_left_out(key, turns, golden):
            notices.append(why)
            continue
        for at, turn in enumerate(written):
            for where, lines in turn.comments.items():
                comments["goldens", len(goldens), "turns", at, *where] = lines
        goldens.append(golden)
        said = [*_notices([session], turns, key_field), *_leaks([session], hidden, golden)]
        notices += [Notice(key, text) for text in said]
    return Recorded({"golden_set": name, "goldens": goldens}, comments, tuple(notices))


def _why_left_out(key: str, turns: Sequence[RecordedTurn], golden: Mapping[str, JsonValue]) -> Notice | None:
    if not key.strip():
        return Notice("", "spans without a session id or trace id: no golden can be joined to them")
    if not any(turn.groups for turn in turns):
        return Notice(key, "no tool was called: left out")
    refused = refusal(golden)
    return Notice(key, f"{refused}: left out") if refused else None


def _inferred(groups: Sequence[RunGroup], name: str, hidden: frozenset[str]) -> Recorded:
    """Infer a golden set from the runs of each task."""
    notices: list[Notice] = []
    tasks: list[RecordedTask] = []
    for join, sessions in groups:
        [(key_field, key)] = join.items()
        turns = [recorded_turn(turn, hidden) for session in sessions for turn in session.turns]
        if why := _why_left_out(key, turns, {key_field: key, "calls": [{"name": "x"}]}):
            notices.append(why)
            continue
        tasks.append(RecordedTask(join, [TaskRun(session) for session in sessions]))
        notices += [Notice(key, text) for text in _notices(sessions, turns, key_field, inferred=True)]
    return recorded_set(infer(tasks, hidden), name, notices)


def recorded_set(inferred: InferredSet, name: str, notices: Iterable[Notice] = ()) -> Recorded:
    """Return an inferred golden set as a document."""
    inferred, trial = that_accepts_its_runs(inferred)
    wrong = [
        Notice(key, f"fails a run that it was made from: {cause.what}")
        for cause in trial.false_failures
        for key in cause.goldens
    ]
    written = inferred_document.golden_document(inferred, name)
    goldens: JsonValue = written.document["goldens"]
    leaks = [
        Notice(next(iter(task.task.join.values())), text)
        for task, golden in zip(inferred.tasks, goldens, strict=True)
        for text in _leaks([run.session for run in task.task.runs], inferred.hidden, golden)
    ]
    return Recorded(written.document, written.comments, (*notices, *wrong, *leaks), inferred)


def refusal(golden: Mapping[str, JsonValue]) -> str:
    """Return why no golden file can hold this golden, such as a call of a tool without a name; empty if one can."""
    try:
        load_goldens({"golden_set": "x", "goldens": [golden]})
    except GoldenFileError as error:
        first = error.mistakes[0]
        return f"{first.path.partition('.')[2]}: {first.message}"
    return ""


def _leaks(sessions: Sequence[Session], redact: frozenset[str], golden: JsonValue) -> Iterator[str]:
    """Say where values that should not be written stand all the same, in other arguments or in what users said."""
    if not redact:
        return
    written = "\n".join(str(text) for _, text in leaves(golden))
    calls = [call for session in sessions for call in session.calls]
    for name in sorted(redact):
        values = {text for call in calls for text in _hidden(call.arguments, name)}
        if any(len(text) >= _SHORTEST_SECRET and text in written for text in values):
            yield f"the value of {shown_name(name)} also stands in other places of the golden: look for it"


def _hidden(value: JsonValue, name: str) -> Iterator[str]:
    """Yield the texts that are values of this argument, however deep."""
    if is_sequence(value):
        for item in value:
            yield from _hidden(item, name)
    elif is_mapping(value):
        for key, item in value.items():
            yield from (str(text) for _, text in leaves(item)) if key == name else _hidden(item, name)


def _notices(
    sessions: Sequence[Session], turns: Sequence[RecordedTurn], field: str, *, inferred: bool = False
) -> Iterator[str]:
    """Say what was not written because it was not there, and what is worth a second look."""
    if field == "session" and any(session.id_source in NO_SESSION_ID for session in sessions):
        yield (
            "no session id was recorded: the golden has the trace's id, and no other run will have it; "
            "--by-user-text finds goldens by what the user said first"
        )
    if any(session.incomplete or session.ambiguous for session in sessions):
        yield "recorded incompletely, or with several session ids: check it"
    if hidden := sum(not turn.visible for turn in turns):
        yield f"no span shows the tool calls of {counted(hidden, 'turn')}: not written"
    calls = [call for turn in turns for call in turn.calls]
    yield from _of_unknown(calls)
    if not inferred:
        yield from _of_failed(calls)


def _of_unknown(calls: Sequence[RecordedCall]) -> Iterator[str]:
    if unknown := [call for call in calls if call.args is None]:
        names = ", ".join(dict.fromkeys(shown_name(call.name) for call in unknown))
        yield f"arguments were not captured in {len(unknown)} of {counted(len(calls), 'call')} ({names}): not written"
    for call in calls:
        for argument, why in call.unknown.items():
            yield f"{shown_name(call.name)}: {shown_name(argument)} was {why}: not written"


def _of_failed(calls: Iterable[RecordedCall]) -> Iterator[str]:
    if failed := [shown_name(call.name) for call in calls if call.failed]:
        names, number = ", ".join(dict.fromkeys(failed)), counted(len(failed), "call")
        yield f"{number} failed when recorded ({names}), and the golden expects them all the same"


# What sessions did, as golden files can write it.


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call: what a golden should expect of it, and what is not known."""

    name: str
    args: Mapping[str, JsonValue] | None
    """As a golden writes them: what looks like a matcher is escaped. None where none were captured."""
    unknown: Mapping[str, str] = field(default_factory=dict[str, str])
    """Arguments that were passed, but cannot be written, and why."""
    capture: Capture = Capture.CAPTURED
    failed: bool = False


Group = tuple[RecordedCall, ...]
"""Calls that were asked for at once; most groups are of one call."""


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """One turn."""

    user: str | None
    groups: tuple[Group, ...]
    visible: bool = True

    @property
    def calls(self) -> Iterator[RecordedCall]:
        """Every call, in order."""
        return (call for group in self.groups for call in group)


def recorded_turn(turn: Turn, redact: frozenset[str] = frozenset()) -> RecordedTurn:
    """Return a turn without refused requests; arguments in `redact` are only said to be present."""
    groups: list[list[RecordedCall]] = []
    batch = 0
    for call in turn.calls:
        if call.rejected:
            continue
        if not (batch and call.batch == batch):
            groups.append([])
        batch = call.batch
        groups[-1].append(recorded_call(call, redact))
    return RecordedTurn(writable_user_text(turn), tuple(map(tuple, groups)), turn.calls_visible)


def recorded_call(call: ToolCall, redact: frozenset[str] = frozenset()) -> RecordedCall:
    """Return one call, as `recorded_turn` does."""
    failed = call.error is not None
    if call.capture is not Capture.CAPTURED or call.arguments is None:
        return RecordedCall(call.name, None, capture=call.capture, failed=failed)
    args: dict[str, JsonValue] = {}
    unknown: dict[str, str] = {}
    for name, value in call.arguments.items():
        if name in redact:
            args[name] = PRESENT
        elif name in call.argument_captures:
            unknown[name] = call.argument_captures[name].value.replace("_", " ")
        elif not is_json(value):
            unknown[name] = "not a value that JSON can hold"
        else:
            args[name] = _redacted(escape_literal(value), redact)
    return RecordedCall(call.name, args, unknown, failed=failed)


def _redacted(value: JsonValue, redact: frozenset[str]) -> JsonValue:
    """Replace what is not to be written, however deep; nothing can be replaced within what is literal."""
    if not redact:
        return value
    if is_sequence(value):
        return [_redacted(item, redact) for item in value]
    if not is_mapping(value):
        return value
    if LITERAL in value:
        return PRESENT if holds_name(value, redact) else value
    return {name: PRESENT if name in redact else _redacted(item, redact) for name, item in value.items()}


# A turn as a golden writes it.


class WrittenPart(NamedTuple):
    """Part of a golden file, and lines to write above values in it."""

    value: JsonValue
    comments: Comments


def written_turn(turn: RecordedTurn) -> WrittenPart:
    """Return a turn as a golden writes it."""
    calls: list[JsonValue] = []
    comments: dict[ValuePath, Sequence[str]] = {}
    for index, group in enumerate(turn.groups):
        written = [written_call(call) for call in group]
        for number, one in enumerate(written):
            if one.comments:
                comments["calls", index, *(("parallel", number) if len(written) > 1 else ())] = one.comments[()]
        calls.append({"parallel": [one.value for one in written]} if len(written) > 1 else written[0].value)
    user = {} if turn.user is None else {"user": turn.user}
    return WrittenPart({**user, "calls": calls} if calls else user, comments)


def written_call(call: RecordedCall) -> WrittenPart:
    """Return a call as a golden writes it."""
    if call.args is None:
        unknown = Capture.NOT_CAPTURED if call.capture is Capture.CAPTURED else call.capture
        return WrittenPart({"name": call.name}, {(): [f"arguments {CAPTURE_WORDS[unknown]} when this was recorded"]})
    lines = [f"{shown_name(name)}: {why} when this was recorded" for name, why in call.unknown.items()]
    value = {"name": call.name, "args": call.args} if call.args else {"name": call.name}
    return WrittenPart(value, {(): lines} if lines else {})


def choices(value: JsonValue) -> list[JsonValue]:
    """Return what an expected value chooses from; another one than `$any_of` is its only choice."""
    return list(value["$any_of"]) if is_mapping(value) and "$any_of" in value else [value]
