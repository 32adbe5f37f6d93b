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
