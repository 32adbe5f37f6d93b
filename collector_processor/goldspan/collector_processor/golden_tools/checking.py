"""What is probably wrong with golden sets although they can be read: `goldspan goldens check`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from goldspan.collector_processor.golden_tools.inference.matcher_ladder import is_surely_generated
from goldspan.scoring.api import score_turn
from goldspan.scoring.comparison import canonical
from goldspan.scoring.goldens import Golden, GoldenIndex, GoldenSet
from goldspan.scoring.goldens.documents import (
    MistakeCollector,
    Unreadable,
    ValuePath,
    nearest,
    path_text,
    read_document,
)
from goldspan.scoring.goldens.golden import ANY_TOOL, Ambiguous, ExpectedCall
from goldspan.scoring.json_values import is_mapping, is_sequence, shown, shown_name
from goldspan.scoring.matchers.kinds.single_values import Ignore
from goldspan.scoring.matchers.matcher import LITERAL, dollar_keys
from goldspan.scoring.sessions import JsonValue, Session
from goldspan.scoring.tool_definitions import declared_parameters, lists_of, schemas_of

_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_PROBES: Mapping[str, tuple[JsonValue, ...]] = {
    "any text": ("a", "Zz 9", "日本語", "-", "0", _LETTERS, "true", "a@b.c/d?e=f&g#h"),
    "any number": (0, 1, -1, 1e12, -1e12, 0.001),
    "any list": ([], [1], ["a", None], [[]]),
    "any object": ({}, {"a": 1}, {"b": None, "c": [1]}),
}
_SAYS_SO = frozenset({"$absent", "$from_result", "$ignore", LITERAL, "$not", "$present", "$type"})
"""Matchers that match much because they are asked to, or cannot be tried out."""
_MOST_COMPARED, _MOST_PAIRS = 5_000_000, 20_000
"""Pairs of patterns whose plain texts are compared, and those of them that are looked into: seconds each."""
_START, _END = re.compile(r"[*?\[]"), re.compile(r"[*?\]]")
"""Where the plain text at the start of a glob ends, and where that at its end begins."""
_ANY = "*"
_EXAMPLES = "x0aZ-_.~1b"  # characters tried where a pattern leaves one open


CODES = (
    "empty_calls",
    "generated_literal",
    "ignored_required",
    "list_order",
    "many_alternatives",
    "matches_anything",
    "names_only",
    "never_seen",
    "no_wildcard",
    "nothing_judged",
    "overlap",
    "prose_literal",
    "trace_id",
    "unknown_argument",
    "unknown_in_criterion",
    "unknown_tool",
    "unreachable",
)
"""Every kind of finding there is."""


class GoldenRemark(NamedTuple):
    """Something that a golden set probably does not mean: one of `CODES`, its file and line, its place, a message."""

    code: str
    source: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.source}: {self.path}: {self.message}" if self.path else f"{self.source}: {self.message}"


def check_goldens(goldens: GoldenIndex, sessions: Sequence[Session] | None = None) -> list[GoldenRemark]:
    """Look for goldens that no session reaches, patterns that overlap, matchers that match anything and empty lists.

    Also for names in criteria that no golden has, and for goldens that say nothing of arguments. With the sessions of
    traces also for goldens that none of them has, and for tools and arguments that these do not declare.
    """
    findings = [*_patterns(goldens), *_sessions_by_trace(goldens)]
    for one in goldens.sets:
        findings += _in_file(one.source)
        findings += _in_criteria(one)
    if sessions is not None:
        findings += _never_seen(goldens, sessions)
        findings += _not_declared(goldens, sessions)
    return sorted(dict.fromkeys(findings), key=_place)


def _place(finding: GoldenRemark) -> tuple[str, int]:
    file, _, line = finding.source.rpartition(":")
    return (file, int(line)) if line.isdigit() else (finding.source, 0)


def _patterns(goldens: GoldenIndex) -> Iterator[GoldenRemark]:
    exact = {golden.session: golden for golden in goldens.goldens if golden.session is not None}
    patterns = [golden for golden in goldens.goldens if golden.session_pattern is not None]
    for golden in patterns:
        yield from _pattern_alone(golden, exact)
    for one, other in islice(alike(patterns), _MOST_PAIRS):
        text = common_text(one.session_pattern or "", other.session_pattern or "")
        if text is not None and text not in exact:
            message = (
                f"{shown_name(other.session_pattern or '')} and {shown_name(one.session_pattern or '')} ({one.source}) "
                f"both match {shown(text)}: such a session has no golden"
            )
            yield GoldenRemark("overlap", other.source, "session_pattern", message)


def alike(patterns: Sequence[Golden]) -> Iterator[tuple[Golden, Golden]]:
    """Yield the pairs of patterns whose plain texts at start and end go together: no others can match one id."""
    globs = [golden.session_pattern or "" for golden in patterns]
    starts, ends = [_START.split(glob)[0] for glob in globs], [_END.split(glob)[-1] for glob in globs]
    order = sorted(range(len(globs)), key=starts.__getitem__)
    pairs = (
        (one, order[at])
        for place, one in enumerate(order)
        for at in takewhile(lambda at: starts[order[at]].startswith(starts[one]), range(place + 1, len(order)))  # noqa: B023
    )
    for one, other in map(sorted, islice(pairs, _MOST_COMPARED)):
        if ends[one].endswith(ends[other]) or ends[other].endswith(ends[one]):
            yield patterns[one], patterns[other]


def _pattern_alone(golden: Golden, exact: Mapping[str, Golden]) -> Iterator[GoldenRemark]:
    """Yield what is wrong with the pattern of one golden, given the goldens with `exact` sessions."""
    pattern = golden.session_pattern or ""
    if not set(pattern) & set("*?["):
        if pattern in exact:
            message = f"{shown_name(pattern)} is also a session ({exact[pattern].source}), which comes first"
            yield GoldenRemark("unreachable", golden.source, "session_pattern", f"never reached: {message}")
        else:
            message = f"{shown_name(pattern)} matches one session alone: write `session` instead"
            yield GoldenRemark("no_wildcard", golden.source, "session_pattern", message)
    elif common_text(pattern, "*") is None:
        message = f"never reached: no session id matches {shown_name(pattern)}"
        yield GoldenRemark("unreachable", golden.source, "session_pattern", message)


def _sessions_by_trace(goldens: GoldenIndex) -> Iterator[GoldenRemark]:
    for golden in goldens.goldens:
        if golden.session is not None and _TRACE_ID.fullmatch(golden.session):
            message = f"{golden.session} looks like a trace id, which no other run will have: name the sessions"
            yield GoldenRemark("trace_id", golden.source, "session", message)


def _in_file(source: str) -> Iterator[GoldenRemark]:
    """Look into a file of goldspan's own format; eval sets of ADK say nothing by an empty list."""
    notes = MistakeCollector(source)
    try:
        document = read_document(Path(source), notes)
    except Unreadable:
        return
    if is_mapping(document) and is_sequence(document.get("goldens")):
        calls: list[tuple[ValuePath, Mapping[str, Any]]] = []
        found: list[_Found] = []
        for index, golden in enumerate(document["goldens"]):
            if is_mapping(golden):
                found += _in_fields(golden, ("goldens", index))
                calls += _calls_in(golden, ("goldens", index))
        found += _fails_tomorrow(calls, document.get("arguments"))
        for code, where, message in found:
            line = notes.line(where)
            yield GoldenRemark(code, f"{source}:{line}" if line else source, path_text(where), message)


def _in_criteria(golden_set: GoldenSet) -> Iterator[GoldenRemark]:
    """Look for strategies of arguments and tools that no golden of the set has, and for goldens without arguments."""
    calls = [call for golden in golden_set.goldens for call in golden.all_calls()]
    tools = {call.name for call in calls}.union(*(golden.aliases for golden in golden_set.goldens))
    arguments = {name for call in calls for name in call.args}
    for golden in golden_set.goldens:
        criterion = golden.criterion
        for field, names, known in (
            ("per_arg_strategies", criterion.per_arg_strategies, arguments),
            ("tools", criterion.tools, tools),
        ):
            for name in names if known else ():
                if name not in known:
                    near = nearest(name, sorted(known))
                    advice = f": did you mean {shown_name(near)}?" if near else ""
                    message = f"no golden of the set has {shown_name(name)}{advice}"
                    yield GoldenRemark("unknown_in_criterion", golden_set.source, f"criterion.{field}", message)
        wanted = [call for call in golden.all_calls() if not call.forbidden]
        if wanted and not any(call.args for call in wanted):
            yield GoldenRemark("names_only", golden.source, "", "no call has `args`: only names are judged")


_Found = tuple[str, ValuePath, str]  # code, place and message


def _in_fields(fields: Mapping[str, Any], where: ValuePath) -> Iterator[_Found]:
    """Look into a golden, or into a turn of one."""
    calls = fields.get("calls")
    if is_sequence(calls) and not calls:
        message = (
            'expects nothing, so nothing is judged: where no tool may be called, write {name: "*", forbidden: true}'
        )
        yield "empty_calls", (*where, "calls"), message
    yield from _in_calls(calls, (*where, "calls"))
    for number, one in enumerate(fields.get("any_of") or ()):
        yield from _in_calls(one, (*where, "any_of", number))
    for index, turn in enumerate(fields.get("turns") or ()):
        if is_mapping(turn):
            yield from _in_fields(turn, (*where, "turns", index))


def _in_calls(calls: JsonValue, where: ValuePath) -> Iterator[_Found]:
    for index, item in enumerate(calls if is_sequence(calls) else ()):
        if is_mapping(item) and "parallel" in item:
            yield from _in_calls(item["parallel"], (*where, index, "parallel"))
        elif is_mapping(item):
            yield from _in_call(item, (*where, index))


def _in_call(call: Mapping[str, Any], where: ValuePath) -> Iterator[_Found]:
    args = call.get("args")
    if not is_mapping(args):
        return
    for name, value in args.items():
        yield from _in_value(value, (*where, "args", name))
    if args and all(is_mapping(value) and "$ignore" in value for value in args.values()):
        message = "every argument is ignored, so nothing of the call but its name is judged: leave `args` out"
        yield "nothing_judged", (*where, "args"), message


# What will fail tomorrow: values of one run that no other run has.

_LONG_TEXT, _MANY_WORDS, _MANY_VALUES = 40, 7, 4


def _calls_in(value: JsonValue, where: ValuePath) -> Iterator[tuple[ValuePath, Mapping[str, Any]]]:
    """Yield every expected call, however deep in turns, groups and alternatives."""
    if is_sequence(value):
        for index, item in enumerate(value):
            yield from _calls_in(item, (*where, index))
    elif is_mapping(value):
        if "name" in value and not value.get("forbidden"):
            yield where, value
        for field in ("turns", "calls", "any_of", "parallel"):
            yield from _calls_in(value.get(field), (*where, field))


def _fails_tomorrow(calls: Iterable[tuple[ValuePath, Mapping[str, Any]]], rules: JsonValue) -> Iterator[_Found]:
    """Look for values that another run will not have, where no rule of the set compares them in another way."""
    ruled = tuple(f"{key}." for key in rules) if is_mapping(rules) else ()
    orders: dict[tuple[str, object], tuple[object, ValuePath]] = {}
    for where, call in calls:
        args = call.get("args", call.get("arguments"))
        for name, value in args.items() if is_mapping(args) else ():
            if any(key.startswith(f"{call['name']}.{name}.") for key in ruled):
                continue
            place = (*where, "args", name)
            yield from _of_one_run(value, place)
            if is_sequence(value) and len(value) > 1:
                order, bag = canonical(value), frozenset(map(canonical, value))
                before, first = orders.setdefault((f"{call['name']}.{name}", bag), (order, place))
                if before != order:
                    message = f"the elements of {path_text(first)} in another order: write {{$unordered: [...]}}"
                    yield "list_order", place, message


def _of_one_run(value: JsonValue, where: ValuePath) -> Iterator[_Found]:
    if isinstance(value, str):
        if is_surely_generated(value):
            message = f"{shown(value, 60)} looks made anew in each run: write {{$generated: ...}}"
            yield "generated_literal", where, message
        elif len(value) >= _LONG_TEXT and len(value.split()) >= _MANY_WORDS:
            yield "prose_literal", where, "a text that another run puts in other words: write {$key_facts: [...]}"
    elif is_sequence(value):
        for index, item in enumerate(value):
            yield from _of_one_run(item, (*where, index))
    elif is_mapping(value) and not dollar_keys(value):
        for name, item in value.items():
            yield from _of_one_run(item, (*where, name))
    elif is_mapping(value) and is_sequence(among := value.get("$any_of")) and _are_ids(among):
        message = f"{len(among)} values of earlier runs, and the next has another: `goldens record` infers a rule"
        yield "many_alternatives", where, message


def _are_ids(values: Sequence[JsonValue]) -> bool:
    return len(values) >= _MANY_VALUES and all(isinstance(one, str) and any(map(str.isdigit, one)) for one in values)


def _in_value(value: JsonValue, where: ValuePath) -> Iterator[_Found]:
    if is_sequence(value):
        for index, item in enumerate(value):
            yield from _in_value(item, (*where, index))
    elif is_mapping(value) and (keys := dollar_keys(value)):
        if keys[0] not in _SAYS_SO and (what := _matches_any(value)):
            message = f"{shown(value, 60)} matches {what}: write {{$present: true}} if that is meant"
            yield "matches_anything", where, message
    elif is_mapping(value):
        for name, item in value.items():
            yield from _in_value(item, (*where, name))


def _matches_any(matcher: JsonValue) -> str | None:
    """Try a matcher on values of each kind."""
    expected = [ExpectedCall("tool", {"value": matcher})]
    for what, probes in _PROBES.items():
        if all(score_turn(expected, [{"name": "tool", "args": {"value": one}}]).verdict.score == 1 for one in probes):
            return what
    return None


def _never_seen(goldens: GoldenIndex, sessions: Iterable[Session]) -> Iterator[GoldenRemark]:
    seen: list[Golden] = []
    for session in sessions:
        found = goldens.find(session)
        if found is not None:
            seen += found.goldens if isinstance(found, Ambiguous) else (found,)
    for golden in goldens.never_seen(seen):
        message = f"no session of these traces is the one of {shown_name(golden.key)}"
        yield GoldenRemark("never_seen", golden.source, "", message)


def _not_declared(goldens: GoldenIndex, sessions: Iterable[Session]) -> Iterator[GoldenRemark]:
    declared: dict[str, set[str] | None] = {}
    required: dict[str, set[str]] = {}
    called: set[str] = set()
    for session in sessions:
        called.update(call.name for call in session.calls)
        for definitions in lists_of(session.turns):
            for name, schema in schemas_of(definitions).items():
                needed = schema.get("required")
                required.setdefault(name, set()).update(map(str, needed) if is_sequence(needed) else ())
            for name, parameters in declared_parameters(definitions).items():
                known = declared.setdefault(name, set())
                if parameters is None:
                    declared[name] = None
                elif known is not None:
                    known.update(parameters)
    tools = declared.keys() | called
    if not tools:
        return
    yield from dict.fromkeys(
        GoldenRemark(code, golden.source, "", message)
        for golden in goldens.goldens
        for call in golden.all_calls()
        for code, message in (*_of_call(call, tools, declared), *_ignored(call, required.get(call.name, ())))
    )


def _ignored(call: ExpectedCall, required: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in required:
        if isinstance(call.values.get(name), Ignore):
            message = f"{{$ignore: true}} also accepts a call without {shown_name(name)}, which the tool requires"
            yield "ignored_required", f"{shown_name(call.name)}: {message}: write {{$present: true}}"


def _of_call(
    call: ExpectedCall, tools: Iterable[str], declared: Mapping[str, set[str] | None]
) -> Iterator[tuple[str, str]]:
    name = shown_name(call.name)
    if call.name not in tools:
        if call.name != ANY_TOOL and not call.forbidden:
            near = nearest(call.name, sorted(tools))
            advice = f": did you mean {shown_name(near)}?" if near else ""
            yield "unknown_tool", f"{name} is neither called nor declared in these traces{advice}"
        return
    parameters = declared.get(call.name)
    for argument in call.args if parameters is not None else ():
        if argument not in (parameters or ()):
            near = nearest(argument, sorted(parameters or ()))
            advice = f": did you mean {shown_name(near)}?" if near else f", only {', '.join(sorted(parameters or ()))}"
            yield "unknown_argument", f"{name} declares no argument {shown_name(argument)}{advice}"


# Whether two globs can match the same text, and which: what makes two patterns of a golden set ambiguous.


def common_text(one: str, other: str) -> str | None:
    """Return some short text that both globs match, or None where there is none."""
    left, right = _tokens(one), _tokens(other)
    # What the rest of both globs has in common, from their ends: places in both, and a text that starts there.
    found = {(len(left), len(right)): ""}
    for first in range(len(left), -1, -1):
        for second in range(len(right), -1, -1):
            ways: list[str] = []
            for tokens, place in _steps(left, right, first, second):
                character = _character(*tokens) if tokens else ""
                if character is not None and place in found:
                    ways.append(character + found[place])
            if ways:
                found[first, second] = min(ways, key=lambda text: (len(text), text))
    return found.get((0, 0))


def _steps(
    left: Sequence[str], right: Sequence[str], first: int, second: int
) -> Iterator[tuple[tuple[str, ...], tuple[int, int]]]:
    """Yield what the next character has to match, and the places behind it; a `*` is also left without one."""
    mine, its = "".join(left[first : first + 1]), "".join(right[second : second + 1])
    if mine == _ANY:
        yield (), (first + 1, second)
    if its == _ANY:
        yield (), (first, second + 1)
    if mine and its and (mine, its) != (_ANY, _ANY):
        tokens = tuple(token for token in (mine, its) if token != _ANY)
        yield tokens, (first + (mine != _ANY), second + (its != _ANY))


def _character(*tokens: str) -> str | None:
    own = "".join(tokens) + _EXAMPLES
    return next((one for one in own if all(fnmatchcase(one, token) for token in tokens)), None)


def _tokens(glob: str) -> list[str]:
    """Cut a glob into parts that match one character each, and `*`."""
    tokens: list[str] = []
    place = 0
    while place < len(glob):
        end = place + 1
        if glob[place] == "[":
            # As fnmatch reads it: a bracket right at the start, also behind `!`, is a member.
            close = glob.find("]", place + 2 + (glob[place + 1 : place + 2] == "!"))
            end = close + 1 if close > 0 else end
        token = glob[place:end]
        if not (token == _ANY and tokens and tokens[-1] == _ANY):
            tokens.append(token)
        place = end
    return tokens
