"""The fields `metrics` and `preset` of a golden file. They hold names that are known already, and never import code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from goldspan.scoring.comparison import is_number
from goldspan.scoring.criterion_fields import is_mapping
from goldspan.scoring.errors import CriterionError, MetricError
from goldspan.scoring.goldens.chosen import MAIN, MetricChoice, PresetChoice
from goldspan.scoring.goldens.documents import Notes, Where, is_list
from goldspan.scoring.goldens.models import Golden
from goldspan.scoring.goldens.shapes import JsonSchema, found
from goldspan.scoring.sessions import JsonValue

_CODE = "goldens are data and import nothing: name a metric that is registered, or use `--metric {name}`"


@dataclass(frozen=True, slots=True)
class ChosenMetrics:
    """A list of names, or an object of thresholds by name."""

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
        """Note unknown names, and thresholds that are no numbers in a metric's range."""
        if not is_list(value) and not is_mapping(value):
            message = "expected a list of metrics such as [trajectory_f1], or thresholds by name: {trajectory_f1: 0.9}"
            notes.add(where, f"{found(value)}, {message}")
            return
        for step, name, threshold in _entries(value):
            self._metric(name, threshold, (*where, step), notes)

    def _metric(self, name: JsonValue, threshold: JsonValue, where: Where, notes: Notes) -> None:
        from goldspan.scoring.metrics.registry import metric_names, nearest_metric  # noqa: PLC0415 - scores with goldens

        if not isinstance(name, str):
            notes.add(where, f"{found(name)}, expected the name of a metric")
        elif ":" in name:
            notes.add(where, f"{found(name)}: {_CODE.format(name=name)}")
        elif name == MAIN:
            notes.add(where, f"{MAIN} is judged whatever else is: say its threshold in `criterion`")
        elif name not in metric_names():
            notes.add(where, f"no metric is called {name}; {nearest_metric(name)}")
        elif threshold is not None:
            self._threshold(name, threshold, where, notes)

    def _threshold(self, name: str, threshold: JsonValue, where: Where, notes: Notes) -> None:
        from goldspan.scoring.metrics.judging import threshold_of  # noqa: PLC0415 - scores with goldens
        from goldspan.scoring.metrics.registry import find_metric  # noqa: PLC0415 - likewise

        if is_mapping(threshold):
            for field in threshold.keys() - {"threshold"}:
                notes.add((*where, field), "unknown field: a metric has `threshold` alone")
            if "threshold" not in threshold:
                return
            where, threshold = (*where, "threshold"), threshold["threshold"]
        if isinstance(threshold, bool) or not isinstance(threshold, int | float):
            notes.add(where, f"{found(threshold)}, expected a number: the least score that passes")
            return
        try:
            threshold_of(find_metric(name), repr(threshold))
        except MetricError as error:
            notes.add(where, str(error))

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema; which metrics there are is not known to it."""
        number = {"type": "number"}
        one: JsonSchema = {
            "anyOf": [
                {"type": ["null", "number"]},
                {"type": "object", "properties": {"threshold": number}, "additionalProperties": False},
            ]
        }
        name = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}
        return {
            "anyOf": [
                {"type": "array", "items": name},
                {"type": "object", "propertyNames": name, "additionalProperties": one},
            ]
        }


@dataclass(frozen=True, slots=True)
class ChosenPresetShape:
    """A preset's name, or an object of `name` and the preset's own options."""

    def check(self, value: JsonValue, where: Where, notes: Notes) -> None:
        """Note an unknown preset, and options it does not have."""
        from goldspan.scoring.presets.judging import choose_preset  # noqa: PLC0415 - scores with goldens

        if value is None:
            return
        if not isinstance(value, str) and not (is_mapping(value) and isinstance(value.get("name"), str)):
            notes.add(where, f"{found(value)}, expected a preset's name, or an object of `name` and its options")
            return
        chosen = read_preset(value)
        try:
            choose_preset(chosen.name, chosen.options)
        except CriterionError as error:
            notes.add(where, str(error))

    def schema(self) -> JsonSchema:
        """Return the same as JSON Schema."""
        return {
            "anyOf": [
                {"type": ["null", "string"]},
                {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
            ]
        }


def read_metrics(value: JsonValue, above: tuple[MetricChoice, ...]) -> tuple[MetricChoice, ...]:
    """Add what a level chooses to what it inherits; its thresholds replace inherited ones. Mistakes are left out."""
    chosen = {choice.name: choice for choice in above}
    for _, name, threshold in _entries(value):
        number = threshold.get("threshold") if is_mapping(threshold) else threshold
        if isinstance(name, str):
            chosen[name] = MetricChoice(name, Fraction(Decimal(repr(number))) if is_number(number) else None)
    return tuple(chosen.values())


def read_preset(value: JsonValue) -> PresetChoice:
    """Return the preset that a field names."""
    if is_mapping(value):
        return PresetChoice(str(value.get("name")), {name: one for name, one in value.items() if name != "name"})
    return PresetChoice(str(value))


def with_choices(golden: Golden, given: Mapping[str, Any], above: Mapping[str, Any]) -> Golden:
    """Add what the golden (`given`) and its set (`above`) choose; a golden's preset replaces that of its set."""
    metrics = read_metrics(given.get("metrics"), read_metrics(above.get("metrics"), ()))
    preset = given["preset"] if "preset" in given else above.get("preset")
    if not metrics and preset is None:
        return golden
    return replace(golden, metrics=metrics, preset=None if preset is None else read_preset(preset))


def _entries(value: JsonValue) -> Iterator[tuple[str | int, Any, Any]]:
    if is_list(value):
        yield from ((index, name, None) for index, name in enumerate(value))
    elif is_mapping(value):
        thresholds: Mapping[str, Any] = value
        yield from ((name, name, threshold) for name, threshold in thresholds.items())
