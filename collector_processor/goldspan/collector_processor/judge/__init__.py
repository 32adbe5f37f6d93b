"""The judge: asks a model of the user's choice about calls, within a budget, for `tool_parameter_accuracy`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goldspan.scoring.names_on_use import names_on_use

if TYPE_CHECKING:
    from goldspan.collector_processor.judge.judging import Judge, JudgeUsage
    from goldspan.collector_processor.judge.model_clients import JudgeBudget, JudgeOptions, load_judge_options
    from goldspan.scoring.metrics.judge import JudgeAnswer, Question

__all__ = [
    "Judge",
    "JudgeAnswer",
    "JudgeBudget",
    "JudgeOptions",
    "JudgeUsage",
    "Question",
    "load_judge_options",
]

__getattr__, __dir__ = names_on_use(
    __name__,
    {
        "goldspan.collector_processor.judge.judging": "Judge JudgeUsage",
        "goldspan.collector_processor.judge.model_clients": "JudgeBudget JudgeOptions load_judge_options",
        "goldspan.scoring.metrics.judge": "JudgeAnswer Question",
    },
)
