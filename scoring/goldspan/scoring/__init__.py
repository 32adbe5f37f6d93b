"""Scores the arguments an agent passes to its tools: sessions in, exact and explained results out.

    result = score_sessions("goldens.yaml", sessions)
    assert result.passed, result

Pure: no OpenTelemetry, no clock, and no file but the goldens. Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goldspan.scoring.names_on_use import names_on_use

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
    from goldspan.scoring.goldens.golden import ExpectedCall, Golden, GoldenIndex, GoldenSet, GoldenTurn
    from goldspan.scoring.goldens.loading import load_criterion, load_goldens
    from goldspan.scoring.metrics.session_metrics import Metric, find_metric, metric_names, register_metric
    from goldspan.scoring.results import ArgumentOutcome, ArgumentResult, CallResult, SessionResult, TurnResult, explain
    from goldspan.scoring.run import ScoringResult
    from goldspan.scoring.sessions import Capture, Content, JsonValue, Session, SpanRef, ToolCall, Turn, UserMessages
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
    "JsonValue",
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
    "UserMessages",
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

__getattr__, __dir__ = names_on_use(
    __name__,
    {
        "goldspan.scoring.api": "score_session score_sessions score_turn",
        "goldspan.scoring.criterion": "Criterion",
        "goldspan.scoring.errors": (
            "CriterionError CriterionFileError GoldenFileError GoldspanError MatcherError Mistake Problem"
        ),
        "goldspan.scoring.goldens.golden": "ExpectedCall Golden GoldenIndex GoldenSet GoldenTurn",
        "goldspan.scoring.goldens.loading": "load_criterion load_goldens",
        "goldspan.scoring.metrics.session_metrics": "Metric find_metric metric_names register_metric",
        "goldspan.scoring.results": "ArgumentOutcome ArgumentResult CallResult SessionResult TurnResult explain",
        "goldspan.scoring.run": "ScoringResult",
        "goldspan.scoring.sessions": "Capture Content JsonValue Session SpanRef ToolCall Turn UserMessages",
        "goldspan.scoring.verdict": "Label Reason Verdict",
    },
)
