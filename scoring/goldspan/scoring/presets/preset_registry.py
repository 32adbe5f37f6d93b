"""The presets by name, and the one way to run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

from goldspan.scoring.errors import CriterionError
from goldspan.scoring.presets import adk_rules, axion_rules, bfcl, inputs, langchain, ragas, tau2, uipath_rules
from goldspan.scoring.verdict import PresetResult, Reason, not_evaluated, raised


@dataclass(frozen=True, slots=True)
class Preset(Generic[inputs.OptionsT]):
    """Another system's scorer: what it is, what it wants, and the function itself."""

    name: str
    system: str
    """What is reproduced, and of which version."""
    options: type[inputs.OptionsT]
    scorer: Callable[[object, object, inputs.OptionsT], PresetResult]
    needs: tuple[str, ...] = ()
    """What it reads beside calls; without it the result is `input_missing`."""
    by_turn: bool = False
    """It takes one list of calls per turn and means over them; the others take one list."""
    reads_arguments: Callable[[inputs.OptionsT], bool] = lambda _: True
    """Whether these options compare arguments: arguments that were not captured are then no answer, not `{}`."""
    raises: str = "EXCEPTION"
    """The status of a result the system would have raised an exception for."""
    reads_messages: Callable[[inputs.OptionsT], bool] = lambda _: False
    """Whether these options compare messages rather than calls."""
    reads_counts: Callable[[inputs.OptionsT], bool] = lambda _: False
    """Whether these options compare how often tools were called."""
    functions_option: str | None = None
    """The option that documents functions as BFCL does: where it is not given, a trace's tool definitions take it."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Be pickled by the name: its conditions cannot be."""
        return find_preset, (self.name,)

    def check(self, given: Mapping[str, Any]) -> inputs.OptionsT:
        """Return the options as the preset understands them.

        Raises CriterionError if an option is unknown or has a wrong value.
        """
        return inputs.read_options(self.name, self.options, given)

    def score(self, expected: object, actual: object, given: Mapping[str, Any]) -> PresetResult:
        """Score once. Raises CriterionError if an option is unknown or has a wrong value."""
        options = self.check(given)
        if self.reads_arguments(options) and (reason := inputs.unknown_arguments(actual)):
            return not_evaluated(self.name, reason, "the arguments of a call are not known")
        try:
            return self.scorer(expected, actual, options)
        except inputs.InputMissingError as missing:
            return not_evaluated(self.name, Reason.INPUT_MISSING, f"this preset needs {missing}")
        except Exception as problem:  # noqa: BLE001 - whatever a system raises over its input is its answer
            return raised(self.name, problem, self.raises)


PRESETS: Mapping[str, Preset[Any]] = {
    preset.name: preset
    for preset in (
        Preset(
            adk_rules.PARAMETER_MATCH_NAME,
            "google-adk tool_parameter_match, as in pull request 6726",
            adk_rules.AdkParameterMatchOptions,
            adk_rules.score_parameter_match,
            by_turn=True,
        ),
        Preset(
            adk_rules.TRAJECTORY_NAME,
            "google-adk 2.13.0 tool_trajectory_avg_score",
            adk_rules.AdkTrajectoryOptions,
            adk_rules.score_trajectory,
            by_turn=True,
            reads_arguments=lambda options: not options.ignore_args,
        ),
        Preset(
            axion_rules.NAME,
            "axion 7ab96dc ToolCorrectness",
            axion_rules.AxionOptions,
            axion_rules.score,
            reads_arguments=lambda options: options.check_parameters and options.probe is None,
        ),
        Preset(
            bfcl.NAME,
            "bfcl-eval 2026.3.23 ast_checker, Python",
            bfcl.BfclOptions,
            bfcl.score,
            needs=("tool schemas, or the types of the arguments in the golden",),
            functions_option="func_description",
        ),
        Preset(
            langchain.NAME,
            "agentevals 0.0.9 create_trajectory_match_evaluator",
            langchain.LangChainOptions,
            langchain.score,
            needs=("messages, for the mode strict",),
            reads_messages=lambda options: options.trajectory_match_mode == "strict",
        ),
        Preset(ragas.NAME, "ragas 3e28e9d ToolCallAccuracy and ToolCallF1", ragas.RagasOptions, ragas.score),
        Preset(tau2.NAME, "tau2-bench a2c0247 action check", tau2.Tau2Options, tau2.score),
        Preset(
            uipath_rules.NAME,
            "uipath 2.14.44 tool-call evaluators",
            uipath_rules.UiPathOptions,
            uipath_rules.score,
            needs=("expected outputs, for the evaluator output",),
            reads_arguments=lambda _: False,
            reads_counts=lambda options: options.evaluator == "count",
            raises="exception",
        ),
    )
}
"""Every preset by its name. Scores of different presets are different things: they are never averaged."""


def score_with_preset(name: str, expected: Any, actual: Any, /, **options: Any) -> PresetResult:
    """Score calls as another system does: `score_with_preset("axion", expected, actual, strict_order=True)`.

    `expected` and `actual` are lists of plain mappings (`{"name": ..., "args": {...}}`), of `ExpectedCall` and of
    `ToolCall`; the ADK presets also take a list of such lists, one per invocation, `langchain` takes messages and
    `uipath` takes spans and its own evaluation criteria. Values are compared as the system compares them: a golden's
    matchers are plain objects here. What the system raises over its input is a result with `error`, never an exception.
    Raises CriterionError if there is no such preset, or an option is unknown or has a wrong value.
    """
    return find_preset(name).score(expected, actual, options)


def find_preset(name: str) -> Preset[Any]:
    """Return the preset of a name. Raises CriterionError if there is none; the message has the nearest name."""
    if name not in PRESETS:
        raise CriterionError(inputs.unknown_name("there is no preset", name, PRESETS))
    return PRESETS[name]
