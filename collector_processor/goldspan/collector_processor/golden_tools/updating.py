"""A golden file that accepts what was seen: `goldspan goldens update`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

from goldspan.collector_processor.golden_tools.golden_differences import NOTHING, CallPlace, Change, TraceDifference
from goldspan.collector_processor.golden_tools.inference.matcher_ladder import ABSENT, distinct, of_values_alone
from goldspan.collector_processor.golden_tools.recording import choices, refusal
from goldspan.collector_processor.golden_tools.writing import golden_set_text, is_json
from goldspan.collector_processor.golden_tools.yaml_editing import (
    Edit,
    InsertItem,
    RemoveValue,
    SetValue,
    edit_document,
    edit_yaml,
)
from goldspan.scoring.errors import FileError, Mistake
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.goldens.documents import READERS, MistakeCollector, ValuePath, path_text, read_text, read_yaml
from goldspan.scoring.goldens.loading import is_eval_set
from goldspan.scoring.json_values import is_mapping, is_sequence, shown_name
from goldspan.scoring.sessions import JsonValue

_INDENT = re.compile(r"\n( +)")


@dataclass(frozen=True, slots=True)
class AcceptableChange:
    """A change of the golden at this position: what several runs of it have in common, which can be accepted."""

    golden: int
    change: Change


@dataclass(frozen=True, slots=True)
class AcceptableChanges:
    """What an update may accept, and what it leaves."""

    changes: tuple[AcceptableChange, ...]
    extra_calls: tuple[AcceptableChange, ...]
    """Calls and turns that were not expected, on which no score depends: accepted on request only."""
    pattern_goldens: tuple[AcceptableChange, ...]
    """Changes of goldens that stand for several sessions: accepted on request only, since one wrong run would loosen
    the golden of all."""
    by_hand: tuple[str, ...]
    """What nobody but a person can decide, a sentence each."""


def acceptable_changes(
    goldens: GoldenIndex, difference: TraceDifference, *, extra_calls: bool = False, pattern_goldens: bool = False
) -> AcceptableChanges:
    """Sort what differs by what an update does with it.

    `extra_calls` and `pattern_goldens` ask for what is otherwise left. Where only some runs of a golden's session
    differ from it, or runs differ from each other, the golden is to accept all that was seen: values become a matcher
    that explains them, else `$any_of`; calls become optional.
    """
    found: list[AcceptableChange] = []
    extra: list[AcceptableChange] = []
    of_patterns: list[AcceptableChange] = []
    by_hand: list[str] = []
    for position, golden in enumerate(goldens.goldens):
        runs = [changes for one, changes in difference.runs if one is golden]
        for change in _combined(runs):
            name = change.tool or f"turn {(change.turn or 0) + 1}"
            if change.note == "forbidden":
                by_hand.append(f"{golden.key}: {name} is forbidden: change that by hand if it is allowed now")
            elif not change.tool and change.after is NOTHING:
                by_hand.append(f"{golden.key}: {name} was never seen: remove it by hand if that is right")
            elif refused := _refusal(change):
                by_hand.append(f"{golden.key}: {shown_name(name)}: {refused}: change that by hand")
            elif not change.scored and not extra_calls and change.field != "user":
                extra.append(AcceptableChange(position, change))
            elif golden.session is None and not pattern_goldens:
                of_patterns.append(AcceptableChange(position, change))
            else:
                found.append(AcceptableChange(position, change))
    return AcceptableChanges(tuple(found), tuple(extra), tuple(of_patterns), tuple(by_hand))


def _refusal(change: Change) -> str:
    """Return why no golden file can hold what was seen; empty if one can."""
    if change.after is NOTHING:
        return ""
    if change.path:
        return "" if is_json(change.after) else f"{change.field}: found a value that JSON cannot hold"
    return refusal({"session": "x", **({"calls": [change.after]} if change.place else {"turns": [change.after]})})


def _combined(runs: Sequence[Sequence[Change]]) -> Iterator[Change]:
    """Yield each change once, as all runs together show it."""
    runs = _of_whole_arguments(runs)
    for changes in _alike(runs):
        first = replace(changes[0], scored=any(change.scored for change in changes))
        if first.path:
            sides = distinct(ABSENT if change.after is NOTHING else change.after for change in changes)
            if len(changes) < len(runs):
                before = [ABSENT] if first.before is NOTHING else choices(first.before)
                sides = distinct([*before, *sides])
            after = of_values_alone(sides)
            yield replace(first, after=NOTHING if after == ABSENT else after)
        elif len(changes) >= len(runs) or not first.tool:
            yield first
        elif first.after is NOTHING:
            yield replace(first, field="optional", before=NOTHING, after=True, path=("optional",))
        elif is_mapping(first.after):
            yield replace(first, after={**first.after, "optional": True})


def _alike(runs: Sequence[Sequence[Change]]) -> Iterable[list[Change]]:
    """Return the changes in groups, of each run one at most: what changes there, and how often before in its run."""
    grouped: dict[object, list[Change]] = {}
    for changes in runs:
        times: Counter[object] = Counter()
        for change in changes:
            # What was put in somewhere is told apart by what it is; else the place alone counts.
            added = repr(change.after) if change.before is NOTHING and not change.path else ""
            what = (change.turn, change.tool, change.place, change.path, change.note, added)
            times[what] += 1
            grouped.setdefault((*what, times[what]), []).append(change)
    return grouped.values()


def _of_whole_arguments(runs: Sequence[Sequence[Change]]) -> Sequence[Sequence[Change]]:
    """Where runs differ in different parts of one argument, let it differ as a whole."""
    paths: dict[object, list[frozenset[ValuePath]]] = {}
    for changes in runs:
        parts: dict[object, set[ValuePath]] = {}
        for change in changes:
            if len(change.path) > 1:
                parts.setdefault((change.place, change.path[:2]), set()).add(change.path)
        for argument, of_run in parts.items():
            paths.setdefault(argument, []).append(frozenset(of_run))
    several = {argument for argument, of_runs in paths.items() if len(set(of_runs)) > 1}
    return [list(_lifted(changes, several)) for changes in runs]


def _lifted(changes: Sequence[Change], several: Collection[object]) -> Iterator[Change]:
    done: set[object] = set()
    for change in changes:
        argument = (change.place, change.path[:2])
        if argument not in several or len(change.path) == 2:
            yield change
        elif argument not in done:
            before, after = change.argument
            field = path_text(change.path[:2])
            yield replace(change, path=change.path[:2], field=field, before=before, after=after)
        done.add(argument)


class GoldenFile:
    """A file of one golden set, and its document.

    Raises FileError if it cannot be read, or is an eval set of ADK, which ADK's own tools keep.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.suffix = Path(file).suffix.lower()
        notes = MistakeCollector(file)
        if self.suffix not in READERS:
            raise FileError(Mistake(file, "", "expected a file whose name ends in .json, .jsonl, .yaml or .yml"))
        self.text = read_text(Path(file), notes)
        # Through text, since what aliases repeat must not be one and the same value here.
        self.document = json.loads(json.dumps(READERS[self.suffix](self.text, notes)))
        if is_eval_set(self.document):
            raise FileError(Mistake(file, "", "is an eval set of ADK: record it anew with ADK's own tools"))

    def accept(self, accepted: Sequence[AcceptableChange], added: Sequence[JsonValue] = ()) -> str:
        """Return the text of the file with these changes, and with these goldens behind the others.

        Raises FileError if the file is written in a way that cannot be changed in place.
        """
        editing = self._editing()
        for position in dict.fromkeys(acceptable.golden for acceptable in accepted):
            changes = [acceptable.change for acceptable in accepted if acceptable.golden == position]
            editing.accept(("goldens", position), changes)
        for golden in added:
            editing.append(("goldens",), golden)
        return self._edited(editing)

    def forbid(self, calls: Sequence[JsonValue]) -> str:
        """Return the text of the file with these calls behind those that no session may make. Raises as `accept`."""
        known: list[JsonValue] = self.document.get("forbidden") or []
        more = [call for call in calls if call not in known]
        if not more:
            return self.text
        editing = self._editing()
        if not known:
            editing.make(SetValue(("forbidden",), more))
        for call in more if known else ():
            editing.append(("forbidden",), call)
        return self._edited(editing)

    def _editing(self) -> _Editing:
        return _Editing(self.file, self.document, self.text if self.suffix in {".yaml", ".yml"} else None)

    def _edited(self, editing: _Editing) -> str:
        return self._rewritten(editing.document) if editing.text is None else editing.text

    def _rewritten(self, document: JsonValue) -> str:
        if self.suffix == ".jsonl":
            return golden_set_text(self.file, document)
        indent = _INDENT.search(self.text)
        width = len(indent.group(1)) if indent else None
        text = json.dumps(document, ensure_ascii=False, indent=width).encode("utf-8", "backslashreplace").decode()
        return text + ("\n" if self.text.endswith("\n") else "")


class _Editing:
    """A golden file on the way to expecting what was seen: its document, and of YAML the text, edited in place."""

    def __init__(self, file: str, document: JsonValue, text: str | None) -> None:
        self.file, self.document, self.text = file, document, text

    def make(self, edit: Edit) -> None:
        self.document = edit_document(self.document, edit)
        if self.text is None:
            return
        notes = MistakeCollector(self.file)
        try:
            self.text = edit_yaml(self.text, edit)
            if read_yaml(self.text, notes) != self.document or notes.mistakes:
                raise ValueError("the text says something else")
        except Exception as error:
            message = (
                "cannot be changed in place (anchors, tags or unusual layout): change it by hand, or record it anew"
            )
            raise FileError(Mistake(self.file, path_text(edit.path), message)) from error

    def accept(self, top: ValuePath, changes: Sequence[Change]) -> None:
        """Make the golden at this place expect what was seen.

        Changes of single values come first, then lists of calls from their ends, so that every place is still what it
        was when its edit comes. Behind one call, what is put there comes before the call is removed.
        """
        placed = [(change.place, change) for change in changes if change.place is not None]
        for place, change in placed:
            if change.path:
                self.change_value((*self.call_path(top, place), *change.path), change.after)
        calls = [
            (-(place.turn or 0), -place.call, change.before is not NOTHING, place, change.after)
            for place, change in reversed(placed)
            if not change.path
        ]
        for *_, gone, place, call in sorted(calls, key=itemgetter(0, 1, 2)):
            if gone:
                self.remove_call(self.call_path(top, place))
            else:
                self.insert_call(top, place, call)
        for change in changes:
            if change.field == "user" and change.turn is not None:
                self.make(SetValue((*top, "turns", change.turn, "user"), change.after))
            elif not change.tool and change.turn is not None and change.before is NOTHING:
                self.append((*top, "turns"), change.after)

    def change_value(self, path: ValuePath, after: JsonValue) -> None:
        """Set a value, or remove it where nothing comes after it: with the arguments, if it is the only one."""
        gone = after is NOTHING
        if gone and path[-2] == "args" and len(self.at(path[:-1])) == 1:
            path = path[:-1]
        self.make(RemoveValue(path) if gone else SetValue(path, after))

    def append(self, path: ValuePath, value: JsonValue) -> None:
        self.make(InsertItem((*path, len(self.at(path))), value))

    def insert_call(self, top: ValuePath, place: CallPlace, call: JsonValue) -> None:
        lists = self.lists(top, place)
        if not lists:
            around = top if place.turn is None else (*top, "turns", place.turn)
            self.make(SetValue((*around, "calls"), [call]))
        elif place.call < 0:
            self.make(InsertItem((*lists[0], 0), call))
        else:
            path = self.call_path(top, place)
            if "parallel" in path and not place.in_group:
                path = path[: path.index("parallel")]
            if isinstance(index := path[-1], int):
                self.make(InsertItem((*path[:-1], index + 1), call))

    def remove_call(self, path: ValuePath) -> None:
        """Remove a call, and what is empty then."""
        if len(self.at(path[:-1])) > 1:
            self.make(RemoveValue(path))
        elif path[-2] == "parallel":
            self.remove_call(path[:-2])
        else:
            self.make(RemoveValue(path[:-1]) if "turns" in path else SetValue(path[:-1], []))

    def call_path(self, top: ValuePath, place: CallPlace) -> ValuePath:
        """Return the path to a call by its number. Raises LookupError where there is none."""
        return [path for calls in self.lists(top, place) for path in self.calls(calls)][place.call]

    def lists(self, top: ValuePath, place: CallPlace) -> list[ValuePath]:
        """Return the paths to the lists in which the call with this number is counted."""
        golden = self.at(top)
        around = [top] if place.turn is None else [(*top, "turns", place.turn)]
        if place.turn is None and "turns" in golden:
            around = [(*top, "turns", index) for index in range(len(golden["turns"]))]
        found: list[ValuePath] = []
        for path in around:
            fields = self.at(path)
            if "any_of" in fields:
                found.append((*path, "any_of", place.alternative or 0))
            elif "calls" in fields:
                found.append((*path, "calls"))
        return found

    def calls(self, path: ValuePath) -> Iterator[ValuePath]:
        for index, item in enumerate(self.at(path)):
            if is_mapping(item) and "parallel" in item:
                for number, _ in enumerate(item["parallel"]):
                    yield (*path, index, "parallel", number)
            else:
                yield (*path, index)

    def at(self, path: ValuePath) -> Any:
        found: Any = self.document
        for step in path:
            if not (is_mapping(found) or is_sequence(found)):
                raise LookupError(step)
            found = cast("Any", found)[step]
        return found
