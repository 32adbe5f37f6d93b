"""An evaluation is a value: it can be compared, copied and sent to another process."""

from __future__ import annotations

import copy
import pickle

import pytest
from msgspec.structs import replace

from goldspan.collector_processor.emit.evaluation import DetailDigest, Evaluation
from goldspan.collector_processor.sinks.score_exporter import score_from
from rigs import evaluation_examples as given

EVALUATIONS = {
    "aligned call": given.evaluation(given.ALIGNED),
    "missing call": given.evaluation(given.MISSING),
    "unexpected call": given.evaluation(given.UNEXPECTED),
    "turn": given.evaluation(given.TURN),
    "session": given.evaluation(given.SESSION),
    "digest": replace(given.evaluation(given.SESSION), detail=DetailDigest("0123456789abcdef")),
}


@pytest.mark.parametrize("evaluation", EVALUATIONS.values(), ids=EVALUATIONS)
def test_an_evaluation_pickles_and_copies(evaluation: Evaluation) -> None:
    assert pickle.loads(pickle.dumps(evaluation)) == evaluation
    assert copy.deepcopy(evaluation) == evaluation
    score = score_from(evaluation)
    assert score is not None
    assert pickle.loads(pickle.dumps(score)) == score


def test_an_evaluation_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        EVALUATIONS["turn"].revision = 2  # type: ignore[misc]
