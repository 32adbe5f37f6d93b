"""Print the tables of `emitted-names.md` from the declarations in `goldspan.collector_processor.emit.names`."""

from __future__ import annotations

from collections.abc import Iterable

from goldspan.collector_processor.emit import names

_BY_EXCEPTION = """\
Results are emitted by exception. Of metrics without golden (`tool_parameter_grounding`, `tool_call_repetition`, ...) a
call, a turn or a session in order has no event, and its span no attribute: the instruments below count it. In order is
what passes, what could not be evaluated, and without a threshold the best score. What one metric found in a call is one
event. Of goldens every result has an event. Settings: `scoring.events` of the gateway and the stream, `emit=` in the
agent's process (`GOLDSPAN_EMIT`), `goldspan score --events`:

| value | events of metrics without golden | events of goldens |
|---|---|---|
| `findings`, the default | findings | all |
| `failures` | findings | all but those of calls that pass: their spans have the score |
| `all` | all, and attributes of all spans | all |

A correction has an event if it is a finding, or if the result that it corrects had an event."""

Attribute = names.Attribute | names.SemconvAttribute


def page() -> str:
    """Return the tables, each with what holds for it."""
    return "\n".join(
        [
            "## Span attributes of a call",
            "",
            "On the outermost span of the tool's execution. A call that is missing has no span: it is an event on the",
            "root of its turn, and counted there.",
            "",
            *_attributes(names.CALL),
            "",
            "## Span attributes of a turn",
            "",
            "On the turn's root, the span of the outermost agent. A tool's span may be a turn's root; the keys never",
            "collide.",
            "",
            *_attributes(names.TURN),
            "",
            "## Metrics that need no golden",
            "",
            "They judge calls too. A call's span has `score`, `label`, `reason` and `revision` under the metric's",
            "name, and the arguments that lower its score, by place (`items[0].id`):",
            "",
            "| attribute | type | meaning |",
            "|---|---|---|",
            *(
                f"| `{key.of(metric)}` | {key.type} | {key.meaning} |"
                for metric, key in names.FAILED_ARGUMENTS_OF.items()
            ),
            f"| `METRIC.{names.FAILED.name}` | {names.FAILED.type} | {names.FAILED.meaning} |",
            "",
            f"The counter `METRIC.{names.FAILED_ARGUMENTS.name}` counts them by tool, argument and",
            f"`METRIC.{names.FINDING.name}`: {names.FINDING.meaning}.",
            "",
            f"## Event `{names.EVALUATION_RESULT}`",
            "",
            *_BY_EXCEPTION.splitlines(),
            "",
            "The event is a log record in the context of the evaluated span: the call's, the turn's root, or for a",
            "session the last turn's root. Its time is the end of that span. Every event has",
            f"{', '.join(f'`{n.shown}`' for n in _BASE)} as above, and:",
            "",
            *_attributes((*names.EVENT_SEMCONV, *names.EVENT)),
            "",
            "Events of calls and turns also have the other attributes of their spans. Events of sessions have:",
            "",
            *_attributes(names.SESSION),
            "",
            "## Metrics",
            "",
            *_instruments(names.METRICS),
            "",
            f"All points also have {', '.join(f'`{a}`' for a in sorted(_EVERY_POINT))}.",
            "",
            f"Boundaries of the histogram: {', '.join(f'{b:g}' for b in names.SCORE_BOUNDARIES)}; upper ends belong to",
            "their bucket, so exactly 0 and exactly 1 can each be counted. Points carry an exemplar that leads to the",
            f"judged span. Of each service {names.NAME_LIMIT} tools and as many arguments are named, those that occur",
            f"most; others are `{names.OTHER}`. `{names.AGENT_NAME.name}` is set for the agents in `agent_names`; the",
            "gateway and workers set it likewise for as many.",
            "",
            "| attribute | type | meaning |",
            "|---|---|---|",
            *(_row(a) for a in _POINT_ATTRIBUTES),
            "",
            "## Semantic conventions",
            "",
            "What is OpenTelemetry's among these names, and the release of its general conventions that first has it.",
            "1.21.0 is the first release apart from the specification. Since 1.42.0 the names under `gen_ai.` are in",
            "conventions of their own, which have no release yet. So the scope `goldspan` names the schema",
            f"`{names.SCHEMA_URL}`.",
            "",
            "| name | of | since | status |",
            "|---|---|---|---|",
            f"| `{names.EVALUATION_RESULT}` | event | 1.38.0 | development |",
            *(
                f"| `{a.name}` | {' and '.join(_signals(a))} | {a.since} | {'stable' if a.stable else 'development'} |"
                for a in (*names.EVENT_SEMCONV, names.SERVICE_NAME, names.SERVICE_VERSION, names.ENVIRONMENT)
            ),
            "",
            "The event stands in the context of the evaluated span, as its convention asks. The conventions have no",
            "name for a result that was not evaluated: the label is `not_evaluated` there, and no score is set. Nor do",
            "they have a metric of evaluations, or a name for the reference that one compares with.",
            "",
            "## About goldspan itself",
            "",
            *_instruments(names.SELF),
            "",
            "| attribute | type | meaning |",
            "|---|---|---|",
            _row(names.SELF_REASON),
            "",
        ]
    )


_BASE = (names.REASON, names.GOLDEN, names.GOLDEN_SET, names.PRESET, names.REVISION)
_POINT_ATTRIBUTES = (
    names.LEVEL,
    names.LABEL,
    names.REASON,
    names.GOLDEN_SET_NAME,
    names.ARGUMENT,
    names.DOUBT,
    names.DIALECT,
    names.TOOL_NAME,
    names.AGENT_NAME,
    names.SERVICE_NAME,
    names.SERVICE_VERSION,
    names.ENVIRONMENT,
)


_EVERY_POINT = set.intersection(*(set(instrument.attributes) for instrument in names.METRICS))
"""Attributes that all points have."""


def _signals(attribute: names.SemconvAttribute) -> list[str]:
    of_points = {name for instrument in names.METRICS for name in instrument.attributes}
    found = ["events"] if attribute in names.EVENT_SEMCONV else ["the events' resource"]
    return [*found, "points"] if attribute.name in of_points else found


def _attributes(declared: Iterable[Attribute]) -> list[str]:
    return ["| attribute | type | meaning |", "|---|---|---|", *(_row(a) for a in declared)]


def _row(attribute: Attribute) -> str:
    return f"| `{attribute.shown}` | {attribute.type} | {attribute.meaning} |"


def _instruments(declared: Iterable[names.Instrument]) -> list[str]:
    rows = [
        f"| `{i.shown}` | {i.kind} | `{i.unit}` | {i.meaning} | "
        f"{', '.join(f'`{a}`' for a in i.attributes if a not in _EVERY_POINT)} |"
        for i in declared
    ]
    return ["| metric | kind | unit | meaning | attributes |", "|---|---|---|---|---|", *rows]


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201 - its output is the page
