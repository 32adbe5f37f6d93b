"""tau2-bench's action check (`Action.compare_with_tool_call`, sierra-research/tau2-bench a2c0247).

What has to agree are the arguments named in the action's `compare_args`, else the arguments *of the call*: one that
leaves an expected argument out still matches.
"""

from __future__ import annotations

from typing import Any

from goldspan.scoring.presets.inputs import PlainCall, PresetOptions, named_call, plain_calls
from goldspan.scoring.verdict import PresetResult, judged

NAME = "tau2"


class Tau2Options(PresetOptions):
    """tau2's action check has no options: each action's `compare_args` says what to compare."""


def score(expected: object, actual: object, options: Tau2Options) -> PresetResult:  # noqa: ARG001 - it has none
    """Score the calls of a whole session; `per_call` has `action_match` of each expected action."""
    if expected is None:
        return _rewarded("No evaluation criteria")
    actions = plain_calls(expected)
    if not actions:
        return _rewarded("No actions to evaluate")
    calls = [named_call(plain) for plain in plain_calls(actual)]
    matches = [any(_matches(action, name, args) for name, args in calls) for action in actions]
    return PresetResult(
        NAME,
        1.0 if all(matches) else 0.0,
        label=judged(passed=all(matches)),
        per_call=tuple(
            {"expected_index": index, "action_match": match, "score": 1.0 if match else 0.0}
            for index, match in enumerate(matches)
        ),
    )


def _rewarded(note: str) -> PresetResult:
    return PresetResult(NAME, 1.0, label=judged(passed=True), per_call=(), explanation={"note": note})


def _matches(action: PlainCall, name: str, args: dict[str, Any]) -> bool:
    wanted_name, wanted = named_call(action)
    if wanted_name != name:
        return False
    compared = action.get("compare_args")
    keys = args.keys() if compared is None else compared
    if len(keys) == 0:
        return True
    return {key: value for key, value in args.items() if key in keys} == {
        key: value for key, value in wanted.items() if key in keys
    }
