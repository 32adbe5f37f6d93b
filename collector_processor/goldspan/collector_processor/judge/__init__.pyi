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
