from goldspan.scoring.goldens.golden import ExpectedCall, Golden, GoldenIndex, GoldenSet, GoldenTurn
from goldspan.scoring.goldens.loading import load_criterion, load_goldens

__all__ = [
    "ExpectedCall",
    "Golden",
    "GoldenIndex",
    "GoldenSet",
    "GoldenTurn",
    "load_criterion",
    "load_goldens",
]
