"""A golden file that accepts what was seen: `goldspan goldens update`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from goldspan.collector_processor.golden_tools.differences import NOTHING, Change, TraceDifference, Way
from goldspan.collector_processor.golden_tools.recording import ABSENT, any_of, choices
from goldspan.collector_processor.golden_tools.writing import golden_set_text
from goldspan.collector_processor.golden_tools.yaml_editing import Edit, edit_yaml, edits_for
from goldspan.scoring.errors import FileError, Mistake
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.goldens.adk_eval_set import is_eval_set
from goldspan.scoring.goldens.documents import MistakeCollector, path_text, read_text
from goldspan.scoring.goldens.loading import READERS
from goldspan.scoring.goldens.yaml_text import read_yaml
from goldspan.scoring.sessions import JsonValue
from goldspan.scoring.type_guards import is_mapping

_FORBIDDEN = "is forbidden: change that by hand if it is allowed now"
_UNSEEN = "was never seen: remove it by hand if that is right"
_INDENT = re.compile(r"\n( +)")


@dataclass(frozen=True, slots=True)
class Decision:
    """A change that can be accepted: what several runs of one golden have in common."""

    golden: int
    """The golden's position in the file."""
    change: Change


def decisions(goldens: GoldenIndex, difference: TraceDifference) -> tuple[list[Decision], list[str]]:
    """Return what may be accepted, and what nobody but a person can decide.

    Where only some runs of a golden's session differ from it, or runs differ from each other, the golden is to accept
    all that was seen: values become `$any_of`, calls optional.
    """
    found: list[Decision] = []
    left: list[str] = []
    for position, golden in enumerate(goldens.goldens):
        runs = [changes for one, changes in difference.runs if one is golden]
        for change in _combined(runs):
            name = change.tool or f"turn {(change.turn or 0) + 1}"
            if change.note == "forbidden":
                left.append(f"{golden.key}: {name} {_FORBIDDEN}")
            elif not change.tool and change.after is NOTHING:
                left.append(f"{golden.key}: {name} {_UNSEEN}")
            else:
                found.append(Decision(position, change))
    return found, left


def _combined(runs: Sequence[Sequence[Change]]) -> Iterator[Change]:
    """Yield each change once, as all runs together show it."""
    runs = _of_whole_arguments(runs)
    grouped: dict[object, list[Change]] = {}
    for changes in runs:
        times: Counter[object] = Counter()
        for change in changes:
            # What was put in somewhere is told apart by what it is; else the place alone counts.
            added = repr(change.after) if change.before is NOTHING and not change.way else ""
            what = (change.turn, change.tool, change.place, change.way, change.note, added)
            times[what] += 1
            grouped.setdefault((*what, times[what]), []).append(change)
    for changes in grouped.values():
        first = changes[0]
        if first.way:
            sides = any_of(ABSENT if change.after is NOTHING else change.after for change in changes)
            if len(changes) < len(runs):
                before = [ABSENT] if first.before is NOTHING else choices(first.before)
                sides = any_of([*before, *sides])
            after = sides[0] if len(sides) == 1 else {"$any_of": sides}
            yield replace(first, after=NOTHING if after == ABSENT else after)
        elif len(changes) >= len(runs) or not first.tool:
            yield first
        elif first.after is NOTHING:
            yield replace(first, field="optional", before=NOTHING, after=True, way=("optional",))
        elif is_mapping(first.after):
            yield replace(first, after={**first.after, "optional": True})


def _of_whole_arguments(runs: Sequence[Sequence[Change]]) -> Sequence[Sequence[Change]]:
    """Where runs differ in different parts of one argument, let it differ as a whole."""
    ways: dict[object, list[frozenset[Way]]] = {}
    for changes in runs:
        parts: dict[object, set[Way]] = {}
        for change in changes:
            if len(change.way) > 1:
                parts.setdefault((change.place, change.way[:2]), set()).add(change.way)
        for argument, of_run in parts.items():
            ways.setdefault(argument, []).append(frozenset(of_run))
    several = {argument for argument, of_runs in ways.items() if len(set(of_runs)) > 1}
    return [list(_lifted(changes, several)) for changes in runs]


def _lifted(changes: Sequence[Change], several: Collection[object]) -> Iterator[Change]:
    done: set[object] = set()
    for change in changes:
        argument = (change.place, change.way[:2])
        if argument not in several or len(change.way) == 2:
            yield change
        elif argument not in done:
            before, after = change.argument
            field = path_text(change.way[:2])
            yield replace(change, way=change.way[:2], field=field, before=before, after=after)
        done.add(argument)


class GoldenFile:
    """A file of one golden set, and its document.

    Raises:
        FileError: it cannot be read, or is an eval set of ADK, which ADK's own tools keep.

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

    def accept(self, accepted: Sequence[Decision]) -> str:
        """Return the text of the file with these changes.

        Raises:
            FileError: the file is written in a way that cannot be changed in place.

        """
        document, text = self.document, self.text
        for position in dict.fromkeys(decision.golden for decision in accepted):
            changes = [decision.change for decision in accepted if decision.golden == position]
            for edit, edited in edits_for(document, position, changes):
                document = edited
                if self.suffix in {".yaml", ".yml"}:
                    text = self._edited(text, edit, document)
        return text if self.suffix in {".yaml", ".yml"} else self._rewritten(document)

    def _edited(self, text: str, edit: Edit, expected: JsonValue) -> str:
        notes = MistakeCollector(self.file)
        try:
            text = edit_yaml(text, edit)
            fine = read_yaml(text, notes) == expected and not notes.mistakes
        except Exception as error:
            raise self._refused(edit.way) from error
        if not fine:
            raise self._refused(edit.way)
        return text

    def _refused(self, way: Way) -> FileError:
        message = "cannot be changed in place (anchors, tags or unusual layout): change it by hand, or record it anew"
        return FileError(Mistake(self.file, path_text(way), message))

    def _rewritten(self, document: JsonValue) -> str:
        if self.suffix == ".jsonl":
            return golden_set_text(self.file, document)
        indent = _INDENT.search(self.text)
        width = len(indent.group(1)) if indent else None
        text = json.dumps(document, ensure_ascii=False, indent=width).encode("utf-8", "backslashreplace").decode()
        return text + ("\n" if self.text.endswith("\n") else "")
