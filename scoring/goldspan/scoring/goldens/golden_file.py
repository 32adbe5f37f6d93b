"""goldspan's own golden file: its pydantic models, the messages of their mistakes, and the golden set they make.

A document is checked whole: each entry adds its own mistakes to those of pydantic, so that all are reported at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from math import prod
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, cast

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from goldspan.scoring.criterion import Criterion
from goldspan.scoring.field_docstrings import describe_fields, field_docstrings
from goldspan.scoring.goldens import criteria_and_rules, documents, golden_file_values
from goldspan.scoring.goldens.criteria_and_rules import CriterionMapping
from goldspan.scoring.goldens.golden import (
    ANY_TOOL,
    MOST_ALTERNATIVES,
    ExpectedCall,
    Golden,
    GoldenSet,
    GoldenTurn,
    Repeat,
)
from goldspan.scoring.json_values import is_list, is_mapping
from goldspan.scoring.sessions import JsonValue

# Mistakes


def _say_nothing(_where: documents.ValuePath, _message: str) -> None:
    """Note nothing."""


Findings = Iterable[tuple[documents.ValuePath, str]]
"""Ways to values, each with what is wrong there."""


_NOTHING_NEEDED = "an alternative of optional calls alone is always right: mark single calls `optional` instead"
_EXAMPLES = {
    "arguments": "{send.body: {$key_facts: true}}",
    "attribute": "{test.case.name: weather in Paris}",
    "call_counts": "{search: 2}",
}


def _message(error: ErrorDetails, entry: type[_Entry]) -> str:
    """Return goldspan's words for a mistake that pydantic found in an entry."""
    value, path = error["input"], error["loc"]
    names = [step for step in path if isinstance(step, str)]
    name = names[-1] if names else ""
    match error["type"]:
        case "mistake":
            return str(error.get("ctx", {})["message"])
        case "missing":
            return f"`{name}` is missing: {field_docstrings(entry)[name]}"
        case "extra_forbidden":
            near = documents.nearest(name, list(entry.model_fields))
            own_first = sorted(entry.model_fields, key=lambda field: field not in entry.__annotations__)
            advice = f"did you mean `{near}`?" if near else f"{entry.WHAT} has {', '.join(own_first)}"
            return f"unknown field: {advice}"
        case "too_long":
            return f"found {len(value)} alternatives, expected at most {MOST_ALTERNATIVES}"
        case "too_short" if is_list(value):
            return _NOTHING_NEEDED
        case _:
            return f"{documents.found(value)}, expected {_expected(error, name)}"


def _expected(error: ErrorDetails, name: str) -> str:
    """Return what was expected in the field of this name, in place of a value of another type or form."""
    match error["type"]:
        case "string_type" if isinstance(error["input"], bool | int | float):
            return "text: put it in quotes"
        case "string_type":
            return "text"
        case "string_unicode":
            return "text without halves of characters"
        case "string_pattern_mismatch":
            return "text that is not blank"
        case "bool_type":
            return "true or false"
        case "list_type":
            return f"a list of {'calls' if name in ('', 'parallel') else name}"
        case "dict_type" | "too_short":
            return f"an object such as {_EXAMPLES[name]}"
        case "literal_error":
            return str(error.get("ctx", {})["expected"]).replace("'", "`")
        case _ if name == "format":
            return "1: a newer goldspan may read other formats"
        case _:  # runs and passes
            return "a whole number from 1"


def _validated(
    handler: Callable[[Any], Any],
    value: object,
    mistakes: golden_file_values.FieldMistakes,
    entry: type[_Entry] | None = None,
    ignore: Collection[tuple[str, str | int | None]] = (),
) -> Any:
    """Return what pydantic makes of a value; raise its mistakes together with those already found.

    `ignore` has kinds of errors and names of fields.
    """
    made = None
    try:
        made = handler(value)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            if (one["type"], one["loc"][-1] if one["loc"] else None) not in ignore:
                path = one["loc"][:-1] if one["type"] == "missing" else one["loc"]
                mistakes.add(path, _message(one, entry or _Entry))
    mistakes.refuse()
    return made


def _alternatives(value: JsonValue, handler: Callable[[JsonValue], Any]) -> Any:
    if not is_list(value) or len(value) < 2:
        raise golden_file_values.refused(
            f"{documents.found(value)}, expected a list of at least two lists of calls: [[...], [...]]"
        )
    mistakes = golden_file_values.FieldMistakes()
    for index, calls in enumerate(value):
        if is_list(calls) and calls and all(is_mapping(call) and call.get("optional") is True for call in calls):
            mistakes.add((index,), _NOTHING_NEEDED)
    return _validated(handler, value, mistakes)


def _criterion(level: criteria_and_rules.CriterionLevel) -> WithJsonSchema:
    return WithJsonSchema({"definition": level.definition_name})


# Entries


def _entry_schema(schema: documents.JsonSchema, entry: type[_Entry]) -> None:
    """Add to an entry's JSON Schema the rules that join its fields, and the fields' descriptions."""
    describe_fields(schema, entry)
    if entry.ONE_OF:
        schema["allOf"] = [{"oneOf": [{"required": [name]} for name in group]} for group in entry.ONE_OF]
    if entry.NEVER_BOTH:
        schema["not"] = {"anyOf": [{"required": list(pair)} for pair in entry.NEVER_BOTH]}
    for name, other in entry.OTHER_NAMES.items():
        schema["properties"][other] = schema["properties"][name]


class _Given(NamedTuple):
    value: Mapping[str, Any]
    above: CriterionMapping  # what it inherits
    criterion: CriterionMapping  # what holds there


class _Entry(BaseModel):
    """An object of the golden file. Of fields that are not there `model_fields_set` knows."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        defer_build=True,  # agents import this module: models are built when the first golden file is read
        json_schema_extra=cast("Any", _entry_schema),
    )

    WHAT: ClassVar[str] = ""  # with its article: `a golden`
    LEVEL: ClassVar[criteria_and_rules.CriterionLevel | None] = None  # what `criterion` may set there
    ONE_OF: ClassVar[Sequence[tuple[str, ...]]] = ()  # groups of fields of which exactly one must be there
    NEVER_BOTH: ClassVar[Sequence[tuple[str, str]]] = ()  # fields that contradict each other
    OTHER_NAMES: ClassVar[Mapping[str, str]] = {}  # a second name that a field may have
    OF_CRITERION: ClassVar[tuple[str, ...]] = ()  # fields that stand for those of the criterion

    _criterion: CriterionMapping = PrivateAttr(default_factory=dict[str, JsonValue])
    """What holds there: what the levels above set, and `criterion` merged into it."""

    @model_validator(mode="wrap")
    @classmethod
    def _with_every_mistake(cls, value: object, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        if not is_mapping(value):
            needed = [name for name, one in cls.model_fields.items() if one.is_required()]
            needed += [" or ".join(group) for group in cls.ONE_OF]
            raise golden_file_values.refused(
                f"{documents.found(value)}, expected {cls.WHAT}: an object with {', '.join(needed or cls.model_fields)}"
            )
        levels = cast("list[CriterionMapping]", info.context)
        mistakes = golden_file_values.FieldMistakes()
        above = criterion = levels[-1]
        if cls.LEVEL is not None and "criterion" in value:
            criterion = criteria_and_rules.inherit(above, value["criterion"], cls.LEVEL, ("criterion",), mistakes.add)
        criterion = cls._with_own_fields(value, criterion, mistakes)
        levels.append(criterion)
        # A misspelled field is one mistake: it is not missing too.
        there = {
            *value,
            *(documents.nearest(name, list(cls.model_fields)) for name in value if name not in cls.model_fields),
        }
        mistakes += cls._exclusive(value, there)
        mistakes += cls._together(_Given(value, above, criterion))
        ignore = {
            *(("missing", name) for name in there),
            *(("extra_forbidden", name) for name in cls.OTHER_NAMES.values()),
        }
        try:
            made = cast("Self", _validated(handler, value, mistakes, cls, ignore))
        finally:
            levels.pop()
        made._criterion = criterion  # noqa: SLF001 - of its own class
        return made

    @classmethod
    def _with_own_fields(
        cls, value: Mapping[str, Any], criterion: CriterionMapping, mistakes: golden_file_values.FieldMistakes
    ) -> CriterionMapping:
        """Return the criterion with what fields say that stand for its own. What is wrong with them they tell."""
        del mistakes
        own = {name: value[name] for name in cls.OF_CRITERION if name in value}
        return (
            criteria_and_rules.inherit(criterion, own, cls.LEVEL, (), _say_nothing) if own and cls.LEVEL else criterion
        )

    @property
    def inherited(self) -> CriterionMapping:
        """What the levels below inherit."""
        return self._criterion

    def own_criterion(self, above: CriterionMapping) -> Criterion | None:
        """Return the criterion where it differs from the one above, else None."""
        return None if self._criterion is above else Criterion.parse(self._criterion)

    @classmethod
    def _exclusive(cls, value: Mapping[str, Any], there: Iterable[str | None]) -> Findings:
        for group in cls.ONE_OF:
            present = [f"`{name}`" for name in group if name in there]
            either = " or ".join(f"`{name}`" for name in group)
            if not present:
                none = "neither" if len(group) == 2 else "none of them"
                yield (), f"{cls.WHAT} has {either}, and {none} is there"
            elif len(present) > 1:
                both = " and ".join(present)
                yield (), f"found both {both}, expected only one of them: {cls.WHAT} has {either}"
        for first, second in cls.NEVER_BOTH:
            if first in value and second in value:
                yield (), f"found both `{first}` and `{second}`, expected only one of them"

    @classmethod
    def _together(cls, given: _Given) -> Findings:
        """Return what is wrong with fields together."""
        del given
        return ()


class OfSet(NamedTuple):
    """What a set says of the calls of its goldens."""

    aliases: Mapping[str, str]
    rules: criteria_and_rules.ArgumentRules
    forbidden: Sequence[CallEntry]


class CallEntry(_Entry):
    """One expected or forbidden call."""

    WHAT = "a call"
    LEVEL = criteria_and_rules.CALL_LEVEL
    NEVER_BOTH = (("optional", "forbidden"), ("args", "arguments"))
    OTHER_NAMES: ClassVar = {"args": "arguments"}

    name: golden_file_values.Text
    """the tool's name, as the agent's framework knows it"""
    args: golden_file_values.Arguments = Field(default={}, validation_alias=AliasChoices("args", "arguments"))
    """the expected arguments by parameter name; others are reported, not scored"""
    optional: bool = False
    """the call may be left out; if it is made, it is scored outside the mean"""
    forbidden: bool = False
    """the call must not be made; without args, whatever its arguments; with the name *, whatever the tool"""
    agent: golden_file_values.Text = ""
    """the agent that makes the call"""
    status: Literal["succeeded", "failed", "unrecovered"] | None = None
    """how the call ends; unrecovered, of a forbidden call: it failed, and no later call of the tool succeeded"""
    result: golden_file_values.Result = None
    """what the call should return, for metrics that score it"""
    criterion: Annotated[Any, _criterion(criteria_and_rules.CALL_LEVEL)] = None
    """what differs for this call from the criterion of its turn"""

    @classmethod
    def _together(cls, given: _Given) -> Findings:
        if given.value.get("name") == ANY_TOOL and given.value.get("forbidden") is not True:
            yield ("name",), "`*` means any tool and needs `forbidden: true` beside it"
        if given.value.get("status") == "unrecovered" and given.value.get("forbidden") is not True:
            yield ("status",), "`unrecovered` needs `forbidden: true` beside it: write `succeeded` of an expected call"

    def call(self, of_set: OfSet, above: CriterionMapping, group: int = 0) -> ExpectedCall:
        """Return the call."""
        name = of_set.aliases.get(self.name, self.name)
        return ExpectedCall(
            name,
            self.args if self.forbidden else of_set.rules.applied(name, self.args),
            self.own_criterion(above),
            optional=self.optional,
            forbidden=self.forbidden,
            group=group,
            result=self.result,
            agent=self.agent or None,
            status=self.status,
        )


class GroupEntry(_Entry):
    """Calls in any order."""

    WHAT = "a group"

    parallel: list[CallEntry]
    """calls whose order among themselves is free"""


class ChoiceEntry(_Entry):
    """One of several lists of calls, among calls that all alternatives share."""

    WHAT = "a choice"

    any_of: Annotated[list[list[Item]], Field(min_length=2, max_length=MOST_ALTERNATIVES)]
    """lists of calls, any of which is right at this place; an empty one: none of them"""


def _call_or_group(
    value: JsonValue, _: Callable[[Any], Any], info: ValidationInfo
) -> CallEntry | GroupEntry | ChoiceEntry:
    kinds: dict[str, type[GroupEntry | ChoiceEntry]] = {"parallel": GroupEntry, "any_of": ChoiceEntry}
    names = () if not is_mapping(value) or "name" in value else value
    kind = next((kinds[near] for name in names if (near := documents.nearest(name, list(kinds)))), None)
    return (kind or CallEntry).model_validate(value, context=info.context)


Item = Annotated["CallEntry | GroupEntry | ChoiceEntry", WrapValidator(_call_or_group)]


def _ways(item: JsonValue) -> int:
    """Return how many lists of calls an item of a list stands for, as far as it is one."""
    lists = item.get("any_of") if is_mapping(item) else None
    if not is_list(lists):
        return 1
    return sum(min(prod(map(_ways, one)), MOST_ALTERNATIVES + 1) for one in lists if is_list(one))


def _without_choices(calls: Sequence[CallEntry | GroupEntry | ChoiceEntry]) -> Iterator[list[CallEntry | GroupEntry]]:
    """Yield every list of calls that the choices in a list allow, in the order of the file."""
    ways = [
        [list(one) for alternative in item.any_of for one in _without_choices(alternative)]
        if isinstance(item, ChoiceEntry)
        else [[item]]
        for item in calls
    ]
    return ([one for part in chosen for one in part] for chosen in product(*ways))


Calls = list[Item]
Alternatives = Annotated[
    list[Annotated[Calls, Field(min_length=1)]],
    Field(min_length=2, max_length=MOST_ALTERNATIVES),
    WrapValidator(_alternatives),
]


class RepeatEntry(_Entry):
    """A golden scored over several runs."""

    WHAT = "a repeat"

    runs: golden_file_values.Whole
    """how many runs belong together"""
    passes: golden_file_values.Whole = 0
    """how many of them must pass; all, where it is left out"""

    @classmethod
    def _together(cls, given: _Given) -> Findings:
        runs, passes = given.value.get("runs"), given.value.get("passes")
        if type(runs) is int and type(passes) is int and passes > runs:
            yield ("passes",), f"{documents.found(passes)}, expected at most {runs}, as many as there are `runs`"


class _WithCalls(_Entry):
    """A turn or a golden: calls, or alternatives to choose from."""

    calls: Calls = []
    """the calls expected here; none: nothing is expected"""
    any_of: Alternatives = []
    """lists of calls, any of which is right, in the place of `calls`; the best counts"""
    call_counts: Annotated[dict[str, golden_file_values.Count], Field(min_length=1)] = {}
    """how often tools should be called, for metrics that count: {search: 2, book: "<= 1"}"""

    @classmethod
    def _together(cls, given: _Given) -> Findings:
        ways = _ways({"any_of": [given.value.get("calls")]}) + _ways(given.value)
        if ways - 1 > MOST_ALTERNATIVES:
            yield (), f"its choices make more than {MOST_ALTERNATIVES} alternatives together: leave some out"

    def lists(self, of_set: OfSet) -> tuple[tuple[ExpectedCall, ...], ...]:
        """Return the list of calls, or the alternatives, with what the set forbids; empty where there is neither."""
        lists = [self.calls] if "calls" in self.model_fields_set else self.any_of
        forbidden = tuple(call.call(of_set, self._criterion) for call in of_set.forbidden)
        return tuple((*self._listed(chosen, of_set), *forbidden) for one in lists for chosen in _without_choices(one))

    def _listed(self, calls: Iterable[CallEntry | GroupEntry], of_set: OfSet) -> Iterator[ExpectedCall]:
        for group, one in enumerate(calls, start=1):
            if isinstance(one, GroupEntry):
                yield from (call.call(of_set, self._criterion, group) for call in one.parallel)
            else:
                yield one.call(of_set, self._criterion)


class TurnEntry(_WithCalls):
    """What one turn should have done."""

    WHAT = "a turn"
    LEVEL = criteria_and_rules.TURN_LEVEL
    NEVER_BOTH = (("calls", "any_of"),)

    user: golden_file_values.Text = ""
    """the user's message, by which the turn is found; white space is folded"""
    turn_id: golden_file_values.Text = ""
    """the framework's own id of the turn, by which it is found before `user`"""
    criterion: Annotated[Any, _criterion(criteria_and_rules.TURN_LEVEL)] = None
    """what differs for this turn from the criterion of its golden"""

    @classmethod
    def _together(cls, given: _Given) -> Findings:
        mistakes = golden_file_values.FieldMistakes(super()._together(given))
        if given.above.get("scope") == "session":
            criteria_and_rules.check_turn_of_whole_session(given.value.get("criterion"), ("criterion",), mistakes.add)
        return mistakes

    def turn(self, of_set: OfSet, above: CriterionMapping) -> GoldenTurn:
        """Return the turn."""
        lists = self.lists(of_set)
        return GoldenTurn(
            calls=lists[0] if lists else (),
            user=self.user or None,
            turn_id=self.turn_id or None,
            criterion=self.own_criterion(above),
            alternatives=lists[1:],
            call_counts=self.call_counts,
        )


class GoldenEntry(_WithCalls):
    """What one session should have done."""

    WHAT = "a golden"
    LEVEL = criteria_and_rules.GOLDEN_LEVEL
    OF_CRITERION = ("other_writes",)
    ONE_OF = (("session", "session_pattern", "attribute", "first_user_text"), ("turns", "calls", "any_of"))

    session: golden_file_values.Text = ""
    """the id of the session it belongs to"""
    session_pattern: golden_file_values.Text = ""
    """a glob that matches whole session ids, such as nightly-*-weather"""
    attribute: Annotated[dict[str, golden_file_values.Scalar], Field(min_length=1)] = {}
    """attributes that the session's spans or resource have: {test.case.name: weather in Paris}"""
    first_user_text: golden_file_values.Text = ""
    """the first message of the user; white space is folded"""
    turns: list[TurnEntry] = []
    """what is expected, turn by turn"""
    repeat: RepeatEntry | None = None
    """scores the golden over several runs: {runs: 5, passes: 4}"""
    other_writes: golden_file_values.OtherWrites = "report"
    """forbid: a call that writes and is not expected fails; report, the default: it is shown"""
    criterion: Annotated[Any, _criterion(criteria_and_rules.GOLDEN_LEVEL)] = None
    """what differs for this golden from the criterion of its set"""
    metrics: golden_file_values.Metrics = ()
    """what is scored beside tool_parameter_match: names, or thresholds by name"""
    preset: golden_file_values.Preset = None
    """another system's scorer, in the place of tool_parameter_match"""
    description: golden_file_values.Text = ""
    """for people"""

    @classmethod
    def _together(cls, given: _Given) -> Findings:
        yield from super()._together(given)
        turns = given.value.get("turns")
        if given.criterion.get("scope") != "session" or not is_list(turns):
            return
        lists = [turn.get("any_of") for turn in turns if is_mapping(turn) and "calls" not in turn]
        if prod(len(one) for one in lists if is_list(one) and one) > MOST_ALTERNATIVES:
            message = f"with `scope: session` the alternatives of its turns make more than {MOST_ALTERNATIVES} together"
            yield ("turns",), f"{message}: leave some out, or use `any_of` once for the golden"

    def golden(self, owner: GoldenSetEntry, of_set: OfSet, built: GoldenSet, source: str) -> Golden:
        """Return the golden."""
        lists = self.lists(of_set)
        chosen = {choice.name: choice for choice in (*owner.metrics, *self.metrics)}
        return Golden(
            session=self.session or None,
            session_pattern=self.session_pattern or None,
            attribute=self.attribute,
            first_user_text=self.first_user_text or None,
            turns=tuple(turn.turn(of_set, self._criterion) for turn in self.turns),
            calls=lists[0] if lists else None,
            alternatives=lists[1:],
            criterion=self.own_criterion(owner.inherited) or built.criterion,
            golden_set=built.label,
            digest=built.digest,
            source=source,
            metrics=tuple(chosen.values()),
            preset=self.preset if "preset" in self.model_fields_set else owner.preset,
            repeat=None if self.repeat is None else Repeat(self.repeat.runs, self.repeat.passes or self.repeat.runs),
            call_counts=self.call_counts,
            aliases=owner.aliases,
        )


class GoldenSetEntry(_Entry):
    """The whole file."""

    WHAT = "a golden set"
    LEVEL = criteria_and_rules.SET_LEVEL
    OF_CRITERION = ("reads", "writes", "other_writes")

    format: Annotated[int, Field(ge=1, le=1)] = 1
    """the format of this file: 1"""
    golden_set: golden_file_values.Text
    """the name of the set, which results carry"""
    version: golden_file_values.Text = ""
    """the version of the set, which results carry; quote numbers"""
    description: golden_file_values.Text = ""
    """for people"""
    criterion: Annotated[Any, _criterion(criteria_and_rules.SET_LEVEL)] = None
    """how calls are aligned, compared and aggregated; goldens inherit it"""
    metrics: golden_file_values.Metrics = ()
    """what is scored beside tool_parameter_match: names, or thresholds by name"""
    preset: golden_file_values.Preset = None
    """another system's scorer, in the place of tool_parameter_match"""
    aliases: golden_file_values.Aliases = {}
    """other names that tools have in traces: {get_weather: [weather.get]}"""
    reads: golden_file_values.Globs = ()
    """tools that only read, with * as in get_*; then all others write whose names do not say that they read"""
    writes: golden_file_values.Globs = ()
    """the tools that write, with * as in create_*; without `reads`, all others read"""
    other_writes: golden_file_values.OtherWrites = "report"
    """forbid: a call that writes and is not expected fails; report, the default: it is shown"""
    forbidden: list[CallEntry] = []
    """calls that no session of the set may make: {name: delete_account}, {name: "*", status: unrecovered}"""
    arguments: golden_file_values.Rules = {}
    """how arguments are compared in the whole set, by tool.argument: {send.body: {$key_facts: true}}"""
    goldens: list[GoldenEntry]
    """one golden for each session"""

    @classmethod
    def _with_own_fields(
        cls, value: Mapping[str, Any], criterion: CriterionMapping, mistakes: golden_file_values.FieldMistakes
    ) -> CriterionMapping:
        rules = _rules_of(value, lambda way, message: mistakes.add(("arguments", *way), message))

        def of_rule(way: documents.ValuePath, message: str) -> None:
            key = rules.keys.get((str(way[1]), str(way[3]))) if len(way) > 3 else None
            mistakes.add(("arguments",) if key is None else ("arguments", key, *way[4:]), message)

        criteria_and_rules.misspelt(
            value.get("criterion"),
            value.get("goldens"),
            _aliases_of(value),
            lambda way, message: mistakes.add(("criterion", *way), message),
        )
        own = super()._with_own_fields(value, criterion, mistakes)
        return (
            criteria_and_rules.inherit(own, {"tools": rules.tools}, criteria_and_rules.SET_LEVEL, (), of_rule)
            if rules.tools
            else own
        )


def _rules_of(
    document: Mapping[str, Any], note: criteria_and_rules.Note = _say_nothing
) -> criteria_and_rules.RulesOfSet:
    """Read the rules for arguments in a golden set, which may be wrong in other places."""
    given = document.get("arguments")
    if not is_mapping(given):
        return criteria_and_rules.NO_RULES
    return criteria_and_rules.read_rules(given, document.get("goldens"), _aliases_of(document), note)


def _aliases_of(document: Mapping[str, Any]) -> Mapping[str, str]:
    if (aliases := document.get("aliases")) is not None:
        with suppress(PydanticCustomError, ValidationError):
            return golden_file_values.read_aliases(aliases)
    return {}


def read_golden_set(document: JsonValue, notes: documents.MistakeCollector, defaults: CriterionMapping) -> GoldenSet:
    """Make a golden set of a document. After mistakes, which are noted, it has only what duplicates are found by."""
    try:
        entry = GoldenSetEntry.model_validate(document, context=[defaults])
    except ValidationError as error:
        for one in error.errors(include_url=False):
            notes.add(one["loc"], _message(one, GoldenSetEntry))
        return _outline(document, notes)
    built = GoldenSet(
        name=entry.golden_set,
        version=entry.version or None,
        digest="" if notes.mistakes else content_digest(document),
        criterion=Criterion.parse(entry.inherited),
        source=notes.source(()),
    )
    of_set = OfSet(entry.aliases, _rules_of(cast("Mapping[str, Any]", document)).rules, entry.forbidden)
    goldens = (
        one.golden(entry, of_set, built, notes.source(("goldens", index))) for index, one in enumerate(entry.goldens)
    )
    return replace(built, goldens=tuple(goldens))


def _outline(document: JsonValue, notes: documents.MistakeCollector) -> GoldenSet:
    given: Mapping[str, Any] = document if is_mapping(document) else {}
    names = {key: value for key in ("golden_set", "version") if isinstance(value := given.get(key), str)}
    goldens: list[Golden] = []
    for index, one in enumerate(entries if is_list(entries := given.get("goldens")) else ()):
        if is_mapping(one):
            keys = ("session", "session_pattern", "first_user_text")
            joins: dict[str, Any] = {key: value for key in keys if isinstance(value := one.get(key), str)}
            goldens.append(Golden(**joins, source=notes.source(("goldens", index))))
    return GoldenSet(names.get("golden_set", ""), names.get("version"), goldens=tuple(goldens), source=notes.source(()))


def content_digest(document: JsonValue) -> str:
    """Return 16 hex digits that are the same for the same content, however it is formatted and ordered."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
