"""An inferred golden set as a document: rules for the whole set with their evidence, short goldens, and questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from goldspan.collector_processor.golden_tools.inference.call_clusters import CallCluster, TaskCalls
from goldspan.collector_processor.golden_tools.inference.inferred_set import InferredSet
from goldspan.collector_processor.golden_tools.inference.learned_rules import Argument, LearnedRule
from goldspan.collector_processor.golden_tools.inference.matcher_ladder import ABSENT, BY_NAME
from goldspan.collector_processor.golden_tools.inference.task_runs import Field, only_reads
from goldspan.collector_processor.golden_tools.writing import Comments
from goldspan.scoring.goldens.documents import ValuePath
from goldspan.scoring.json_values import is_mapping
from goldspan.scoring.matchers.matcher import has_dollar_keys
from goldspan.scoring.pages import counted, listed
from goldspan.scoring.sessions import JsonValue

_OF_OWN_VALUE = ("$alphanumeric", "$unordered", "$key_facts", "$datetime", "$approx")
"""Matchers that a rule writes around the value of each golden."""
_DIVIDED = "; in one call or in several"
_IGNORE: JsonValue = {"$ignore": True}


@dataclass(frozen=True, slots=True)
class InferredDocument:
    """A golden set, with lines to write above items of it."""

    document: Mapping[str, JsonValue]
    comments: Comments


@dataclass(slots=True)
class _SetRules:
    """Rules for the whole set, on the way."""

    inferred: InferredSet
    rules: dict[Argument, JsonValue] = field(default_factory=dict[Argument, JsonValue])

    def __post_init__(self) -> None:
        values: dict[Argument, list[JsonValue]] = {}
        calls_of: Counter[str] = Counter()
        for task in self.inferred.tasks:
            for calls in self.inferred.expected_lists(task):
                for cluster, expected in calls:
                    calls_of[cluster.tool] += 1
                    for way, value in expected.items():
                        values.setdefault((cluster.tool, way), []).append(value)
        for argument, seen in values.items():
            if not all(_can_be_in_key(step) for step in argument[1]):
                continue
            rule = self._rule(self.inferred.rules[argument], seen, calls_of[argument[0]])
            if rule:
                self.rules[argument] = rule

    def _rule(self, rule: LearnedRule, seen: Sequence[JsonValue], calls: int) -> JsonValue:
        optional = {"optional": True} if rule.optional else {}
        seen = [value for value in seen if value != _IGNORE]
        matchers = [value for value in seen if _matcher_of(value)]
        if not matchers:
            return optional if seen else {}
        first = matchers[0]
        name = _matcher_of(first)
        if name in _OF_OWN_VALUE and not has_dollar_keys(first[name]):
            options = {key: one for key, one in first.items() if key not in (name, "together")}
            together = {"together": list(first["together"])} if first.get("together") else {}
            return {name: True, **options, **together, **optional}
        in_all = len(matchers) == len(seen) and (len(matchers) == calls or rule.optional)
        # What has no value of its own says nothing of an argument left out.
        if in_all and all(value == first for value in seen) and first[name] is not True:
            return {**first, "always": True, **optional}
        return optional

    def in_golden(self, tool: str, way: Field, value: JsonValue) -> tuple[bool, JsonValue]:
        """Return whether a golden has to write an argument, and its value there."""
        rule = self.rules.get((tool, way), {})
        if rule.get("always"):
            return False, None
        name = _matcher_of(value)
        if name and name in rule and not has_dollar_keys(value[name]):
            return True, value[name]
        if not self.inferred.rules[tool, way].optional or name == "$ignore" or (rule and not name):
            return True, value
        ways = value["$any_of"] if name == "$any_of" else [value]
        return True, value if ABSENT in ways else {"$any_of": [*ways, ABSENT]}


def _can_be_in_key(step: str) -> bool:
    """Whether a rule's key, `tool.argument.part`, can name an argument or a part so: else goldens write the matcher."""
    return bool(step) and step != "*" and "." not in step


def _matcher_of(value: JsonValue) -> str:
    if not is_mapping(value):
        return ""
    return next((key for key in value if key.startswith("$") and key != "$literal"), "")


def rules_of_set(inferred: InferredSet) -> Mapping[Argument, JsonValue]:
    """Return the rules that the whole set has for arguments."""
    return _SetRules(inferred).rules


def golden_document(inferred: InferredSet, name: str) -> InferredDocument:
    """Return the golden set."""
    rules = _SetRules(inferred)
    document: dict[str, JsonValue] = {
        "golden_set": name,
        "criterion": {"ordered": False, "failed_calls": "ignore"},
        "other_writes": "forbid",
        **_readers_and_writers(inferred),
    }
    comments: dict[ValuePath, Sequence[str]] = {}
    if rules.rules:
        document["arguments"] = {}
        for argument, rule in sorted(rules.rules.items()):
            key = ".".join((argument[0], *argument[1]))
            document["arguments"][key] = rule
            divided = argument[0] in inferred.divided and inferred.divided[argument[0]].field == argument[1]
            comments["arguments", key] = [evidence(inferred.rules[argument]) + (_DIVIDED if divided else "")]
    document["goldens"] = [_golden(inferred, task, rules) for task in inferred.tasks]
    for index, task in enumerate(inferred.tasks):
        if task.runs == 1:
            comments["goldens", index] = ["Seen in one run: what may differ in it is not known. Record a second one."]
    return InferredDocument(document, comments)


def _readers_and_writers(inferred: InferredSet) -> dict[str, JsonValue]:
    """Return which tools read and write, where their names do not say it, or their calls prove nothing."""
    free = {use.tool: use.reads or use.incidental for use in inferred.tools.values()}
    if all(only_reads(tool) == reads for tool, reads in free.items()):
        return {}
    writes = sorted(tool for tool, reads in free.items() if not reads and only_reads(tool))
    return {"reads": sorted(tool for tool, reads in free.items() if reads), **({"writes": writes} if writes else {})}


@dataclass(frozen=True, slots=True)
class RuleQuestion:
    """What a person should confirm once for the set."""

    text: str
    evidence: tuple[str, ...]
    arguments: tuple[Argument, ...] = ()
    """The arguments whose values alone are expected if the answer is no."""
    tool: str = ""
    """The tool whose calls are expected if the answer is no."""
    worth: int = 0
    """How many unseen runs the answer decides."""


_TOGETHER = ("exact", "spelling", "same_instant", "unordered", "generated", "relative_date", "from_result")
"""Forms that are asked of all their arguments at once, of those that may be left out apart."""


def questions_of(inferred: InferredSet) -> list[RuleQuestion]:
    """Return what a person should confirm, the most valuable first."""
    asked: dict[tuple[str, ...], list[LearnedRule]] = {}
    for (tool, way), rule in inferred.rules.items():
        if inferred.tools[tool].expected and not rule.is_plain and rule.form != "present":
            key = (rule.form, str(rule.optional)) if rule.form in _TOGETHER else (tool, *way)
            asked.setdefault(key, []).append(rule)
    found = [_question_of_rules(rules) for rules in asked.values()]
    for use in inferred.tools.values():
        if use.incidental:
            text = f"{use.tool} changes something, and is left out in some runs that are right: its calls prove nothing"
            told = f"left out in some runs of {use.unsteady} of {counted(use.tasks, 'task')}"
            found.append(RuleQuestion(text, (told,), tool=use.tool, worth=use.unsteady))
        elif use.optional:
            told = f"runs of {counted(use.unsteady, 'task')} of {use.tasks} differ in nothing else"
            found.append(RuleQuestion(f"{use.tool} may be left out", (told,), tool=use.tool, worth=use.unsteady))
    return sorted(found, key=lambda one: (-one.worth, one.text))


def _question_of_rules(rules: Sequence[LearnedRule]) -> RuleQuestion:
    """Return the question about rules of one form, which one answer decides."""
    left_out = ", or is left out" if rules[0].optional else ""
    each = "each of " if len(rules) > 1 else ""
    return RuleQuestion(
        f"{each}{listed(one.name for one in rules)} {BY_NAME[rules[0].form].words}{left_out}",
        tuple(evidence(one) for one in rules),
        tuple((one.tool, one.field) for one in rules),
        worth=sum(one.rejected_as_literals or one.calls for one in rules),
    )


def evidence(rule: LearnedRule) -> str:
    """Return what runs say for a rule."""
    text = f"{BY_NAME[rule.form].words} in {counted(rule.calls, 'call')}"
    if rule.optional:
        text = f"left out in some runs; {text}"
    if rule.tried and rule.failures:
        fit, literal = rule.tried - rule.failures.get(rule.form, 0), rule.tried - rule.rejected_as_literals
        text += f": fits {fit} of {rule.tried} values that it was not made from, literals fit {literal}"
    return text


def _golden(inferred: InferredSet, task: TaskCalls, rules: _SetRules) -> dict[str, JsonValue]:
    lists = inferred.expected_lists(task)
    shared = [one for one in lists[0] if all(any(one[0] is other[0] for other in rest) for rest in lists)]
    calls: list[JsonValue] = [_call(cluster, expected, rules) for cluster, expected in shared]
    if len(lists) > 1:
        own = [[one for one in found if all(one[0] is not other[0] for other in shared)] for found in lists]
        calls.append({"any_of": [[_call(cluster, expected, rules) for cluster, expected in one] for one in own]})
    return {**task.task.join, "calls": calls}


def _call(cluster: CallCluster, expected: Mapping[Field, JsonValue], rules: _SetRules) -> dict[str, JsonValue]:
    args: dict[str, JsonValue] = {}
    for way, matcher in expected.items():
        named, value = rules.in_golden(cluster.tool, way, matcher)
        inside = args
        for step in way[:-1]:
            inside = inside.setdefault(step, {})
        if named:
            inside[way[-1]] = value
            rule = rules.rules.get((cluster.tool, way), {})
            for other in rule.get("together", ()):
                first = next(iter(cluster.calls.values()))
                args[other] = first.args[(other,)]
    return {"name": cluster.tool, **({"args": args} if args else {})}
