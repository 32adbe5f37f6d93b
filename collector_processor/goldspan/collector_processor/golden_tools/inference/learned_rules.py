"""How each argument of each tool is to be compared, learnt from all tasks together.

Every matcher is tried on runs that it was not made from: the strictest one that hardly ever rejects such a run is
taken. A looser one is taken without proof only where it costs little and the strict one surely fails tomorrow:
generated ids, dates that count from today, ids of a result, prose.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from goldspan.collector_processor.golden_tools.inference.call_clusters import CallCluster, TaskCalls
from goldspan.collector_processor.golden_tools.inference.matcher_ladder import (
    ABSENT,
    BY_NAME,
    EDGES,
    FORMS,
    PRESENT,
    Form,
    PooledValues,
    SeenValues,
    accepts,
    any_of,
    distances,
    is_surely_generated,
)
from goldspan.collector_processor.golden_tools.inference.task_runs import Field, SeenCall, ValueOrigin, holds_name
from goldspan.scoring.comparison import canonical
from goldspan.scoring.json_values import is_mapping, is_number, is_sequence
from goldspan.scoring.matchers.kinds.prose import WrittenText
from goldspan.scoring.sessions import JsonValue

MOST_FAILURES = 0.02
"""The share of unseen runs that a matcher may reject and still be taken."""
UNEXPLAINED = 0.1
"""Up to this share, variation that no matcher explains is a matter for a person: the values seen are kept."""
_MOST_CHOICES, _LONGEST_CHOICE = 6, 24
_ENOUGH_LISTS = 10  # so many lists that all came in one order, and the order is taken to matter
_FEW_PLACES = 3
_ABOUT_A_YEAR = 400
_A_WEEK = 7
_MOSTLY = 0.6
_MOST_TRIED = 10  # so many runs of a task are left out in turn
_LITTLE = 0.001  # numbers that differ by this share are nearly the same
_OFTEN_SAID, _SOMETIMES = 6, 0.3
"""So many texts, and this share of all, say what a run's own call passed or got, where it was made."""
_LETTERS = re.compile(r"[^\W\d_]{2,}")
Argument = tuple[str, Field]
"""A tool, and a field of its arguments."""
Place = tuple[Sequence[JsonValue], Sequence[SeenCall]]
"""What runs passed in one place of a task, and the calls that did."""


@dataclass(frozen=True, slots=True)
class LearnedRule:
    """How an argument is compared in the whole set."""

    tool: str
    field: Field
    form: str
    pool: PooledValues
    optional: bool
    """Some runs left it out where others passed it."""
    tried: int
    """So many times a matcher was tried on a run that it was not made from."""
    failures: Mapping[str, int]
    """How often each form rejected such a run."""
    calls: int
    """So many calls passed it."""
    assumed: bool = False
    """The form was taken by what the values look like."""

    def expected(self, values: Sequence[JsonValue], calls: Sequence[SeenCall]) -> JsonValue:
        """Return what a golden expects where runs passed these values."""
        found = BY_NAME[self.form].fit(SeenValues(values, calls, self.pool))
        return any_of(values) if found is None else found

    @property
    def name(self) -> str:
        """The argument as a rule of a set names it."""
        return ".".join((self.tool, *self.field))

    @property
    def is_plain(self) -> bool:
        """Whether a golden's own values say all."""
        return self.form == "exact" and not self.optional

    @property
    def rejected_as_literals(self) -> int:
        """How many unseen runs the values alone would have rejected."""
        return self.failures.get("exact", 0)


def learn_arguments(
    tasks: Sequence[TaskCalls], writes: Set[str], hidden: frozenset[str] = frozenset()
) -> dict[Argument, LearnedRule]:
    """Return the rule of each argument that any run passed.

    `writes` are the tools that change something; arguments named in `hidden`, at any depth, only have to be present.
    """
    places: defaultdict[Argument, list[Place]] = defaultdict(list)
    left_out: set[Argument] = set()
    for task in tasks:
        for cluster in task.clusters:
            calls = list(cluster.calls.values())
            for field in dict.fromkeys(field for call in calls for field in call.args):
                having = [call for call in calls if field in call.args]
                places[cluster.tool, field].append(([call.args[field] for call in having], having))
                if len(having) < len(calls):
                    left_out.add((cluster.tool, field))
    together = _permuting_together(places)
    return {
        argument: _rule(
            argument, found, together.get(argument, ()), optional=argument in left_out, writes=writes, hidden=hidden
        )
        for argument, found in sorted(places.items())
        if argument not in {(tool, (other,)) for (tool, _), others in together.items() for other in others}
    }


def _permuting_together(places: Mapping[Argument, Sequence[Place]]) -> dict[Argument, Sequence[str]]:
    """Return, for the first of lists that always are of one length and are permuted alike, the names of the others."""
    found: dict[Argument, Sequence[str]] = {}
    lists: defaultdict[str, list[Field]] = defaultdict(list)
    for (tool, field), of_argument in sorted(places.items()):
        if len(field) == 1 and all(is_sequence(value) for values, _ in of_argument for value in values):
            lists[tool].append(field)
    for tool, fields in lists.items():
        calls = [call for _, of_place in places[tool, fields[0]] for call in of_place]
        if len(fields) > 1 and _are_of_one_length(fields, calls):
            found[tool, fields[0]] = [field[0] for field in fields[1:]]
    return found


def _are_of_one_length(fields: Sequence[Field], calls: Sequence[SeenCall]) -> bool:
    """Whether lists have as many elements as each other in each call, and more than one in some call."""
    lengths = [{len(call.args[field]) if field in call.args else -1 for field in fields} for call in calls]
    return all(len(one) == 1 for one in lengths) and any(max(one) > 1 for one in lengths)


def _rule(
    argument: Argument,
    places: Sequence[Place],
    together: Sequence[str],
    *,
    optional: bool,
    writes: Set[str],
    hidden: frozenset[str],
) -> LearnedRule:
    passed = sum(len(values) for values, _ in places)
    named = not hidden.isdisjoint(argument[1])
    if named or any(holds_name(value, hidden) for values, _ in places for value in values):
        return LearnedRule(*argument, PRESENT.name, PooledValues(), optional, 0, {}, passed, assumed=True)
    pool = _pooled(argument[1], places, together)
    tried = sum(min(len(values), _MOST_TRIED) for values, _ in places if len(values) > 1)
    fitting = {
        form.name
        for form in FORMS
        if all(form.fit(SeenValues(values, calls, pool)) is not None for values, calls in places)
    }
    failures = _failures(places, pool, [form for form in FORMS if form.name in fitting or form.name == "generated"])
    form, assumed = _choose(places, pool, fitting, failures, tried, writes)
    return LearnedRule(*argument, form, pool, optional, tried, dict(failures), passed, assumed)


def _failures(places: Sequence[Place], pool: PooledValues, forms: Sequence[Form]) -> Counter[str]:
    """Leave out one run after the other, of many runs the first, and count how often each form rejects it."""
    failures: Counter[str] = Counter()
    if all(len(set(map(canonical, values))) == 1 for values, _ in places):
        return failures
    for values, calls in places:
        for index in range(min(len(values), _MOST_TRIED) if len(values) > 1 else 0):
            others = SeenValues([*values[:index], *values[index + 1 :]], [*calls[:index], *calls[index + 1 :]], pool)
            for form in forms:
                expected = form.fit(others)
                if expected is None or not accepts(expected, values[index], calls[index]):
                    failures[form.name] += 1
    return failures


def _choose(
    places: Sequence[Place], pool: PooledValues, fitting: Set[str], failures: Counter[str], tried: int, writes: Set[str]
) -> tuple[str, bool]:
    """Return the form, and whether it was taken by what the values look like."""
    allowed = MOST_FAILURES * tried
    explaining = [name for name in (*_DATES, *_CHEAP) if name in fitting and _explains(name, places, pool)]
    prior = _prior(places, pool, fitting, writes)
    if prior == "relative_date":
        prior = min(_DATES, key=lambda name: (name not in fitting, failures[name] > allowed, name not in explaining))
    if prior is not None and failures[prior] <= failures["exact"] + allowed:
        return prior, True
    base = _base(places, pool, fitting, explaining)
    if failures[base] <= allowed:
        return base, False
    candidates = [form.name for form in FORMS if form.name in fitting]
    best = min(candidates, key=lambda name: (failures[name], candidates.index(name)))
    found = next((name for name in candidates if failures[name] <= allowed), best)
    if found in ("type", "generated"):
        # Rare variation that nothing explains is a matter for a person.
        found = next((name for name in (base, *candidates) if failures[name] <= UNEXPLAINED * tried), found)
    return found, False


def _base(places: Sequence[Place], pool: PooledValues, fitting: Set[str], explaining: Sequence[str]) -> str:
    """Return the strictest form that leaves nothing of the values seen unexplained, else `exact`."""
    if "unordered" in fitting and _order_is_open(places):
        return "together" if "together" in fitting else "unordered"
    if _explains("exact", places, pool):
        return "exact"
    cheap = next((name for name in _CHEAP if name in explaining), None)
    return cheap or ("choice" if pool.choices and _mostly_varies(places) else "exact")


_DATES = ("relative_date", "relative_instant", "calendar_date", "relative_day", "generated")
"""How a date may follow from the day of the call; one that none explains is taken for what the first makes of it."""
_CHEAP = ("spelling", "same_instant", "amount", "near")  # forms that accept little more than the values seen


def _mostly_varies(places: Sequence[Place]) -> bool:
    """Whether an argument has several values in most tasks with several runs."""
    several = [len(set(map(canonical, values))) > 1 for values, _ in places if len(values) > 1]
    return 2 * sum(several) > len(several)


def _explains(form: str, places: Sequence[Place], pool: PooledValues) -> bool:
    """Whether a form makes all values of each place one, without alternatives."""
    found = (BY_NAME[form].fit(SeenValues(values, calls, pool)) for values, calls in places)
    return not any(is_mapping(one) and "$any_of" in one for one in found)


def _order_is_open(places: Sequence[Place]) -> bool:
    """Whether lists came in several orders, or too few came to tell."""
    same = 0
    for values, _ in places:
        lists = [value for value in values if is_sequence(value) and len(value) > 1]
        orders = {canonical(value) for value in lists}
        sets = {frozenset(map(canonical, value)) for value in lists}
        if len(orders) > len(sets):
            return True
        same += max(0, len(lists) - len(orders))
    return same < _ENOUGH_LISTS


def _pooled(field: Field, places: Sequence[Place], together: Sequence[str]) -> PooledValues:
    """Look at an argument over all tasks."""
    flat = _flat(places)
    lists = [is_sequence(value) for value, _ in flat]
    pool = PooledValues(
        choices=_choices(places),
        common_keys=_common_keys(flat),
        together=together,
        spread=_spread(places),
        in_list=any(lists) and not all(lists),
        edge=_edge(flat),
        after_a_week=any(days > _A_WEEK for one in flat for days, _ in distances(*one)),
    )
    return replace(pool, mentions=_mentioned(field, flat, len(places)))


def _spread(places: Sequence[Place]) -> float:
    """Return by how much numbers differ in a task at most, as a power of ten; 0 if that is more than a little."""
    if not all(is_number(value) for values, _ in places for value in values):
        return 0
    apart = max((max(values) - min(values) for values, _ in places), default=0)
    least = min((abs(value) for values, _ in places for value in values if value), default=0)
    if all(value == int(value) for values, _ in places for value in values):
        return 0  # these count something
    tolerance = 10.0 ** math.ceil(math.log10(apart)) if apart else 0
    return round(tolerance, 9) if tolerance <= max(0.01, _LITTLE * least) else 0


def _edge(flat: Sequence[tuple[JsonValue, SeenCall]]) -> str:
    """Return which edge of a month, quarter or year all dates are; empty if they are none."""
    if not flat or not all(_is_near(value, call) for value, call in flat):
        return ""
    fitting = (one for one in EDGES if all(accepts({"$date": one}, value, call) for value, call in flat))
    return next(fitting, "")


def _flat(places: Sequence[Place]) -> list[tuple[JsonValue, SeenCall]]:
    return [one for values, calls in places for one in zip(values, calls, strict=True)]


def _choices(places: Sequence[Place]) -> list[JsonValue]:
    """Return the values of an argument that varies in a task and has few values in all; else none."""
    passed = [value for values, _ in places for value in values]
    distinct = {canonical(value): value for value in passed}
    if len(distinct) > min(_MOST_CHOICES, (len(passed) - 1) // 2) or not all(map(_is_choice, distinct.values())):
        return []
    varied = [values for values, _ in places if len(set(map(canonical, values))) > 1]
    return list({canonical(value): value for values in varied for value in values}.values())


def _is_choice(value: JsonValue) -> bool:
    return isinstance(value, bool) or (
        isinstance(value, str) and len(value) <= _LONGEST_CHOICE and not any(map(str.isdigit, value))
    )


def _common_keys(flat: Sequence[tuple[JsonValue, SeenCall]]) -> frozenset[str]:
    """Return the keys that all objects in lists have, but ids made anew; none if these are all keys."""
    objects = [(item, call) for value, call in flat if is_sequence(value) for item in value]
    if (
        not all(is_sequence(value) for value, _ in flat)
        or not objects
        or not all(is_mapping(one) for one, _ in objects)
    ):
        return frozenset()
    common = frozenset[str].intersection(*(frozenset(item) for item, _ in objects))
    common -= {key for key in common if all(_is_new_id(item[key], call) for item, call in objects)}
    return common if any(len(item) > len(common) for item, _ in objects) else frozenset()


def _is_new_id(value: JsonValue, call: SeenCall) -> bool:
    return isinstance(value, str) and is_surely_generated(value) and not call.is_grounded(value)


def _mentioned(field: Field, flat: Sequence[tuple[JsonValue, SeenCall]], places: int) -> list[JsonValue]:
    """Return the values of the run that prose repeats."""
    texts = [(WrittenText(value), call) for value, call in flat if isinstance(value, str)]
    prose = sum(len(_LETTERS.findall(text.text)) > 1 for text, _ in texts)
    if places < _FEW_PLACES or len(texts) < len(flat) or prose <= _MOSTLY * len(texts):
        return []
    found: list[JsonValue] = []
    said: set[tuple[int, object]] = set()
    for name, values in sorted(
        _repeated(field, texts).items(), key=lambda one: (-len(one[1]), *_written_shortest(one[0]))
    ):
        written = {"call": name.tool, "path": name.pointer} if name.pointer[:1] == "/" else name.dotted
        # What two places say alike is asked once.
        if not values <= said and _hold({"$mentions": [written]}, flat):
            found.append(written)
            said |= values
    return found


def _hold(expected: JsonValue, flat: Sequence[tuple[JsonValue, SeenCall]]) -> bool:
    """Whether a golden's value accepts nearly all that was passed."""
    return sum(not accepts(expected, value, call) for value, call in flat) <= 0.01 * len(flat)


def _repeated(
    field: Field, texts: Sequence[tuple[WrittenText, SeenCall]]
) -> dict[ValueOrigin, set[tuple[int, object]]]:
    """Return the places, but the text's own, that nearly every text repeats a value of, with texts and values."""
    said: Counter[ValueOrigin] = Counter()
    there: Counter[ValueOrigin] = Counter()
    values: defaultdict[ValueOrigin, set[tuple[int, object]]] = defaultdict(set)
    own = ValueOrigin("", ".".join(field))
    for number, (text, call) in enumerate(texts):
        for name, found in call.known_values().items():
            there[name] += 1
            repeated = [canonical(value) for value in found if text.says(value)]
            said[name] += bool(repeated)
            values[name].update((number, value) for value in repeated)
    often = max(_OFTEN_SAID, _SOMETIMES * len(texts))
    return {
        name: values[name]
        for name in said
        if name != own
        and there[name] >= often
        and said[name] >= 0.99 * there[name]
        and len({value for _, value in values[name]}) > 1
    }


def _written_shortest(place: ValueOrigin) -> tuple[bool, int, ValueOrigin]:
    return place.pointer.startswith("/"), len(place.pointer), place


def _prior(places: Sequence[Place], pool: PooledValues, fitting: Set[str], writes: Set[str]) -> str | None:
    """Return the form that values call for by what they look like."""
    flat = _flat(places)
    texts = [value for value, _ in flat if isinstance(value, str)]
    if len(texts) < len(flat) or not texts:
        return None
    if _is_prose(texts, len(places)) and sum(call.was_said(text) for text, call in flat) < 0.5 * len(flat):
        return "mentions" if pool.mentions else "key_facts" if "key_facts" in fitting else "type"
    if all(_is_new_id(text, call) for text, call in flat):
        return "generated"
    return _prior_of_origins(flat, fitting, writes)


def _prior_of_origins(flat: Sequence[tuple[JsonValue, SeenCall]], fitting: Set[str], writes: Set[str]) -> str | None:
    """Return the form that texts call for by where they come from: the day of the call, or an earlier result."""
    grounded = sum(call.is_grounded(text) for text, call in flat)
    if "relative_date" in fitting and grounded < 0.5 * len(flat) and all(itertools.starmap(_is_near, flat)):
        return "relative_date"
    if "from_result" in fitting and all(_comes_from(writes, text, call) for text, call in flat):
        return "from_result"
    return None


def _is_prose(texts: Sequence[str], places: int) -> bool:
    long = sum(len(text.split()) >= 3 and len(text) >= 20 for text in texts)
    return long > _MOSTLY * len(texts) and len(set(texts)) > 0.4 * places


def _is_near(text: JsonValue, call: SeenCall) -> bool:
    """Whether a text is a date about a year away at most."""
    found = distances(text, call)
    return bool(found) and all(abs(days) < _ABOUT_A_YEAR for days, _ in found)


def _comes_from(writes: Set[str], text: JsonValue, call: SeenCall) -> bool:
    """Whether the user did not say a text, and a writing call returned it."""
    return not call.was_said(text) and any(origin.tool in writes for origin in call.origins(text))


def expected_arguments(cluster: CallCluster, rules: Mapping[Argument, LearnedRule]) -> dict[Field, JsonValue]:
    """Return what a golden expects of a call, by field."""
    calls = list(cluster.calls.values())
    found: dict[Field, JsonValue] = {}
    for field in dict.fromkeys(field for call in calls for field in call.args):
        rule = rules.get((cluster.tool, field))
        if rule is not None:  # else it is compared together with another argument
            having = [call for call in calls if field in call.args]
            expected = rule.expected([call.args[field] for call in having], having)
            optional = rule.optional or len(having) < len(calls)
            found[field] = {"$any_of": [expected, ABSENT]} if optional else expected
    inside = {field[:at] for field in found for at in range(1, len(field))}
    unseen = (field for (tool, field), rule in rules.items() if tool == cluster.tool and rule.optional)
    # Fields of an object that no run of this task has.
    return found | {field: {"$ignore": True} for field in unseen if field not in found and field[:-1] in inside}
