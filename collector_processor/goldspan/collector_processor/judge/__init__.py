"""The judge: asks a model of the user's choice about calls, within a budget, for `tool_parameter_accuracy`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goldspan.collector_processor.judge.judging import Judge, JudgeUsage
    from goldspan.collector_processor.judge.options import JudgeBudget, JudgeOptions, load_judge_options
    from goldspan.scoring.metrics.judge import JudgeAnswer, Question

__all__ = ["Judge", "JudgeAnswer", "JudgeBudget", "JudgeOptions", "JudgeUsage", "Question", "load_judge_options"]

_MODULES = {
    "JudgeAnswer": "scoring.metrics.judge",
    "Judge": "collector_processor.judge.judging",
    "JudgeBudget": "collector_processor.judge.options",
    "JudgeOptions": "collector_processor.judge.options",
    "JudgeUsage": "collector_processor.judge.judging",
    "Question": "scoring.metrics.judge",
    "load_judge_options": "collector_processor.judge.options",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"goldspan.{_MODULES[name]}"), name)
