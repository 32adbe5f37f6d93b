"""Every recording held against what the recorded agents are known to have done. Run it for the table.

python tests/conformance/recordings.py [NAME | FOLDER ...]

A folder holds `NAME.otlp.jsonl` files and a `truth.json`. Its `_played` has `calls_by_turn`; each other key is the name
of a recording, with `session_id`, `arguments` (captured, redacted, not_captured), `failed` and, where they apply,
`session_from`, `session_emitted` and `notes`. Without `session_from`, a
session id that is nowhere in the recording is not expected.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from goldspan.mappers import read_sessions
from goldspan.scoring.sessions import Capture, Session, ToolCall

FOLDER = Path(__file__).parent.parent / "fixtures" / "recordings"
TRUTH: dict[str, Any] = json.loads((FOLDER / "truth.json").read_text())
NAMES = sorted(TRUTH["files"])

STRAY_CALL = {"langfuse-observe", "uipath-traced", "traceloop-decorators", "mlflow-otlp", "mlflow-otlp-genai"}
"""After the conversation these call one tool more, under a root of its own."""


SESSIONS_LOST = "dropped by the SDK"
"""What the truth says of a recording whose session ids an attribute limit took from most of its spans."""


@dataclass
class Row:
    """What was found in one recording, and what of it is wrong."""

    name: str
    sessions: list[Session]
    wrong: list[str] = field(default_factory=list[str])

    @property
    def turns(self) -> list[tuple[ToolCall, ...]]:
        turns = sorted((turn for session in self.sessions for turn in session.turns), key=lambda turn: turn.start)
        return [tuple(call for call in turn.calls if not call.rejected) for turn in turns]

    @property
    def doubts(self) -> dict[str, set[str]]:
        """The codes of the doubts about what was read, by the fact that is in doubt."""
        found: dict[str, set[str]] = {}
        for doubt in (doubt for session in self.sessions for turn in session.turns for doubt in turn.doubts):
            found.setdefault(doubt.fact.value, set()).add(doubt.code)
        return found


def files_of(name: str) -> list[Path]:
    """The files of one recording: its spans, and its log records where there are some."""
    return [path for path in (FOLDER / f"{name}.otlp.json", FOLDER / f"{name}.logs.json") if path.exists()]


def read(name: str) -> Row:
    """Read one recording, with its log records where there are some, and check it."""
    return checked(Row(name, read_sessions(files_of(name))), TRUTH["files"][name])


def checked(row: Row, truth: Any) -> Row:
    """Compare what was read with what happened."""
    if isinstance(truth["turns"], dict):
        check_conversations(row, truth)
        return row
    if truth["turns"] == "hidden":
        check_hidden(row)
        return row
    turns = [turn for turn in row.turns if turn or truth["turns"] != "raw"]
    if row.name in STRAY_CALL:
        check_stray(row, turns.pop() if len(turns) > 2 else ())
    expected = executed(row.sessions, truth["turns"])
    one_trace_a_call = truth["turns"] == "raw" and truth["session_id"] is None
    note = truth.get("note", "")
    if one_trace_a_call or "split" in note or SESSIONS_LOST in note:
        turns = [tuple(call for turn in turns for call in turn)]
        expected = [[{**call, "batch": call["batch"] + 10 * n} for n, turn in enumerate(expected) for call in turn]]
    check_turns(row, turns, expected, truth)
    check_session(row, truth)
    return row


def read_folder(folder: Path) -> list[Row]:
    """Read and check the recordings of a folder with a `truth.json` of its own."""
    truths: dict[str, Any] = json.loads((folder / "truth.json").read_text("utf-8"))
    turns = scenario_of(truths["_played"]["calls_by_turn"])
    rows: list[Row] = []
    for path in sorted(folder.glob("*.otlp.jsonl")):
        row = Row(path.name.removesuffix(".otlp.jsonl"), read_sessions([path]))
        if row.name in truths:
            truth = truth_of(truths[row.name], turns)
            if truth["session_id"] and not (truth["session_keys"] or truth["session_id"] in path.read_text("utf-8")):
                truth["session_id"] = None
            rows.append(checked(row, truth))
        else:
            rows.append(row)
            row.wrong.append("truth.json does not name it")
    return rows


def scenario_of(calls_by_turn: Any) -> str:
    """Name the turns of these calls: those that are known have batches and failures too."""
    for name, turns in TRUTH["turns"].items():
        if [[[call["name"], call["args"]] for call in turn] for turn in turns] == calls_by_turn:
            return str(name)
    raise SystemExit(f"{FOLDER}/truth.json has no turns of the calls {calls_by_turn}")


def truth_of(entry: Any, turns: str) -> dict[str, Any]:
    """Say what is known of another folder's recording as this folder's `truth.json` says it."""
    arguments, notes = str(entry["arguments"]), str(entry.get("notes", ""))
    failed, emitted = str(entry["failed"]) if "failed" in entry else "not visible", entry.get("session_emitted", True)
    if "calls are not visible" in arguments:
        turns = "hidden"
    elif "each model call a trace of its own" in notes:
        turns = "raw"
    in_result = failed.startswith("in the result") and "status: error" not in failed
    capture = re.split(r"[:; ]", arguments, maxsplit=1)[0]
    return {
        "turns": turns,
        "session_id": entry["session_id"] if emitted else None,
        "session_keys": [entry["session_from"]] if "session_from" in entry else [],
        "session_optional": isinstance(emitted, str),
        "arguments": capture,
        "error": "text" if in_result else "missing" if failed.startswith("not visible") else "status",
        "batches": "visible" if turns != "raw" and capture == "captured" else "unseen",
        "nulls_omitted": "omitted by Go where null" in notes,
        "note": notes,
    }


def check_hidden(row: Row) -> None:
    """Tools were called, and nothing says which: that is to be said, and not that there was no call."""
    if any(row.turns):
        row.wrong.append(f"calls {[call.name for turn in row.turns for call in turn]}, where none can be seen")
    if all(turn.calls_visible for session in row.sessions for turn in session.turns):
        row.wrong.append("no turn says that its calls are not visible")


def check_conversations(row: Row, truth: Any) -> None:
    """Several conversations in one recording: the truth names the turns of each by its session id."""
    if sorted(session.id for session in row.sessions) != sorted(truth["turns"]):
        row.wrong.append(f"sessions {[session.id for session in row.sessions]}, expected {sorted(truth['turns'])}")
    for session in row.sessions:
        if session.id in truth["turns"]:
            expected = executed([session], truth["turns"][session.id])
            check_turns(row, Row(row.name, [session]).turns, expected, truth)


def executed(sessions: list[Session], turns: str) -> list[list[dict[str, Any]]]:
    """Return the calls to expect: a refused request may be rejected, a call that failed, or one nobody saw executed."""
    rejected = [call for session in sessions for turn in session.turns for call in turn.calls if call.rejected]
    expected: list[list[dict[str, Any]]] = TRUTH["turns"]["standard" if turns == "raw" else turns]
    return [
        [
            call
            for call in turn
            if not (call.get("refused") and any(fits(one, call, {"arguments": "captured"}) for one in rejected))
        ]
        for turn in expected
    ]


def check_turns(row: Row, turns: list[tuple[ToolCall, ...]], expected: list[list[dict[str, Any]]], truth: Any) -> None:
    if len(turns) != len(expected):
        row.wrong.append(f"{len(turns)} turns, expected {len(expected)}")
    for number, (turn, calls) in enumerate(zip(turns, expected, strict=False), start=1):
        check_turn(row, number, turn, calls, truth)


def check_turn(row: Row, number: int, turn: tuple[ToolCall, ...], expected: list[dict[str, Any]], truth: Any) -> None:
    """Compare names, arguments, capture and errors; order inside a parallel batch means nothing."""
    if len(turn) != len(expected):
        row.wrong.append(f"turn {number}: calls {[call.name for call in turn]}, expected {len(expected)}")
        return
    at = 0
    for batch in sorted({call["batch"] for call in expected}):
        wanted = [call for call in expected if call["batch"] == batch]
        left = list(turn[at : at + len(wanted)])
        at += len(wanted)
        for call in wanted:
            partner = next((one for one in left if fits(one, call, truth)), None)
            if partner is None:
                found = [(one.name, one.arguments, one.capture.value) for one in left]
                row.wrong.append(f"turn {number}: no {call['name']} {call['args']} in {found}")
                continue
            left.remove(partner)
            failed = bool(partner.error) or (partner.requested and "refused" in call)
            if failures_are_visible(truth) and failed != bool(call.get("error") or call.get("refused")):
                row.wrong.append(f"turn {number}: {call['name']} error is {partner.error!r}")
    if truth.get("batches") == "visible":
        check_batches(row, number, turn, expected)


def check_batches(row: Row, number: int, turn: tuple[ToolCall, ...], expected: list[dict[str, Any]]) -> None:
    """Compare which calls were asked for at once, and the order in which they were."""
    found = [[call.name for call in calls] for _, calls in groupby(turn, lambda call: call.batch)]
    wanted = [[call["name"] for call in calls] for _, calls in groupby(expected, lambda call: call["batch"])]
    if found != wanted:
        row.wrong.append(f"turn {number}: batches {found}, expected {wanted}")


def failures_are_visible(truth: Any) -> bool:
    """Raw SDKs write no result but as the next request's message; one file loses the failed span altogether."""
    return truth["turns"] != "raw" and truth.get("error") not in ("text", "missing")


def fits(call: ToolCall, wanted: dict[str, Any], truth: Any) -> bool:
    """Compare one call with the truth, as far as the recording can show it."""
    arguments, args = truth["arguments"], wanted["args"]
    read = call.arguments
    if truth.get("nulls_omitted"):  # by some of its spans, at least
        args, read = ({name: value for name, value in one.items() if value is not None} for one in (args, read or {}))
    if call.name != wanted["name"]:
        return False
    if arguments in ("not_captured", "redacted") or (arguments == "truncated" and wanted["name"] == "book_table"):
        return call.capture.value == arguments and call.arguments is None
    if arguments == "span-repr" and wanted.get("error") and call.capture is Capture.NOT_CAPTURED:
        return True  # written only after the tool has returned, so never for a call that failed
    return call.capture is Capture.CAPTURED and read == args


def check_stray(row: Row, calls: tuple[ToolCall, ...]) -> None:
    """The call after the conversation: its city was passed by position, so that some dialects cannot name it."""
    if [call.name for call in calls] != ["get_weather"]:
        row.wrong.append(f"stray call: {[call.name for call in calls]}")


def check_session(row: Row, truth: Any) -> None:
    """Every turn of the conversation is in the session, or honestly in its trace's."""
    found = {(session.id, session.id_source) for session in row.sessions}
    if truth["session_id"] is None:
        if {source for _, source in found} - {"trace_id", "logs"}:
            row.wrong.append(f"sessions {sorted(found)}, expected none")
    elif truth.get("session_optional") and {source for _, source in found} == {"trace_id"}:
        return
    elif truth["session_id"] not in {session_id for session_id, _ in found}:
        row.wrong.append(f"sessions {sorted(found)}, expected {truth['session_id']}")
    elif len(found) > 1 + (row.name in STRAY_CALL) and SESSIONS_LOST not in truth.get("note", ""):
        row.wrong.append(f"sessions {sorted(found)}, expected only {truth['session_id']}")
    elif (keys := truth.get("session_keys")) and not {source for _, source in found}.intersection(keys):
        row.wrong.append(f"sessions {sorted(found)}, expected their ids from {', '.join(keys)}")


def main(names: list[str]) -> int:
    """Print the table; exit 1 if a line of it is wrong for another reason than one that is known."""
    folders = [Path(name) for name in names if Path(name, "truth.json").is_file()]
    own = [name for name in names if Path(name) not in folders]
    if unknown := [name for name in own if name not in NAMES]:
        print(f"no recording or folder with a truth.json is named {', '.join(unknown)}", file=sys.stderr)
        return 2
    rows = [read(name) for name in own or (() if folders else NAMES)]
    gaps = {row.name: TRUTH["files"][row.name].get("known_gap") for row in rows if row.wrong}
    for row in (row for folder in folders for row in read_folder(folder)):
        rows.append(row)
        if row.wrong:
            gaps[row.name] = None
    for row in rows:
        calls = [call for turn in row.turns for call in turn]
        sources = ",".join(sorted({session.id_source for session in row.sessions})) or "-"
        captures = ",".join(sorted({call.capture.value for call in calls})) or "-"
        verdict = "ok" if not row.wrong else "gap" if gaps[row.name] else "WRONG"
        print(f"{verdict:5} {row.name:42} {len(row.turns):2} turns {len(calls)} calls  {captures:24} {sources}")
        for line in [gaps[row.name]] if gaps.get(row.name) else row.wrong:
            print(f"      {line}")
        for fact, codes in row.doubts.items():
            print(f"      in doubt: {fact} ({', '.join(sorted(codes))})")
    doubted = sum(bool(row.doubts) for row in rows if not row.wrong)
    print(f"{len(rows) - len(gaps)} of {len(rows)} recordings right, {doubted} of these in doubt")
    return 0 if all(gaps.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
