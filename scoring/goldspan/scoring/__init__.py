"""Scores the arguments an agent passes to its tools: sessions in, exact and explained results out.

    result = score_sessions("goldens.yaml", sessions)
    assert result.passed, result

Pure: no OpenTelemetry, no clock, and no file but the goldens. Names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goldspan.scoring.api import score_session, score_sessions, score_turn
    from goldspan.scoring.criterion import Criterion
    from goldspan.scoring.errors import (
        CriterionError,
        CriterionFileError,
        GoldenFileError,
        GoldspanError,
        MatcherError,
        Mistake,
        Problem,
    )
    from goldspan.scoring.goldens.golden import ExpectedCall, Golden, GoldenSet, GoldenTurn
    from goldspan.scoring.goldens.golden_index import GoldenIndex
    from goldspan.scoring.goldens.loading import load_criterion, load_goldens
    from goldspan.scoring.metrics import Metric, find_metric, metric_names, register_metric
    from goldspan.scoring.results import ArgumentOutcome, ArgumentResult, CallResult, SessionResult, TurnResult, explain
    from goldspan.scoring.run import ScoringResult
    from goldspan.scoring.sessions import Capture, Content, Session, SpanRef, ToolCall, Turn
    from goldspan.scoring.verdict import Label, Reason, Verdict

__all__ = [
    "ArgumentOutcome",
    "ArgumentResult",
    "CallResult",
    "Capture",
    "Content",
    "Criterion",
    "CriterionError",
    "CriterionFileError",
    "ExpectedCall",
    "Golden",
    "GoldenFileError",
    "GoldenIndex",
    "GoldenSet",
    "GoldenTurn",
    "GoldspanError",
    "Label",
    "MatcherError",
    "Metric",
    "Mistake",
    "Problem",
    "Reason",
    "ScoringResult",
    "Session",
    "SessionResult",
    "SpanRef",
    "ToolCall",
    "Turn",
    "TurnResult",
    "Verdict",
    "explain",
    "find_metric",
    "load_criterion",
    "load_goldens",
    "metric_names",
    "register_metric",
    "score_session",
    "score_sessions",
    "score_turn",
]

_MODULES = {
    "api": ("score_session", "score_sessions", "score_turn"),
    "criterion": ("Criterion",),
    "errors": (
        "CriterionError",
        "CriterionFileError",
        "GoldenFileError",
        "GoldspanError",
        "MatcherError",
        "Mistake",
        "Problem",
    ),
    "goldens.golden": ("ExpectedCall", "Golden", "GoldenSet", "GoldenTurn"),
    "goldens.golden_index": ("GoldenIndex",),
    "goldens.loading": ("load_criterion", "load_goldens"),
    "metrics": ("Metric", "find_metric", "metric_names", "register_metric"),
    "results": ("ArgumentOutcome", "ArgumentResult", "CallResult", "SessionResult", "TurnResult", "explain"),
    "run": ("ScoringResult",),
    "sessions": ("Capture", "Content", "Session", "SpanRef", "ToolCall", "Turn"),
    "verdict": ("Label", "Reason", "Verdict"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name (PEP 562): reading sessions should not build models that only scoring needs."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
