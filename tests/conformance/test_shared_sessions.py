"""Recorded sessions of every framework, as a process sees them that served only one of several turns."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from conformance.recordings import NAMES, files_of
from goldspan.mappers import read_sessions
from goldspan.scoring.api import score_session
from goldspan.scoring.goldens import ExpectedCall, Golden, GoldenTurn
from goldspan.scoring.sessions import Capture, Session, Turn
from goldspan.scoring.turn_join import places_of

HISTORY_ELSEWHERE = {
    "agent-framework-native-batch-concurrent",
    "agent-framework-native-servicesession",
    "agno-openinference-team",
    "haystack-native-batch",
    "js-ax",
    "js-genkit-handover",
    "js-genkit-throw",
    "langfuse-observe-agent",
    "langfuse-observe-batch",
    "openai-agents-logfire-batch",
    "openai-agents-openinference-batch",
    "openai-agents-traceloop-denied",
    "pydantic-ai-v5-denied",
    "py-bedrock-otel-pipeline",
    "py-llama-index-otel",
    "semantic-kernel-native-batch-concurrent",
}
"""Model inputs of later turns do not hold the earlier ones."""


def expected_turn(turn: Turn) -> GoldenTurn:
    calls = (call for call in turn.calls if not call.rejected)
    return GoldenTurn(
        tuple(
            ExpectedCall(call.name, call.arguments or {} if call.capture is Capture.CAPTURED else {}, literal=True)
            for call in calls
        )
    )


def conversations(name: str) -> list[Session]:
    return [session for session in read_sessions(files_of(name)) if len(session.turns) > 1]


@pytest.mark.parametrize("name", NAMES)
def test_a_right_turn_does_not_fail_where_the_others_were_served_elsewhere(name: str) -> None:
    for session in conversations(name):
        golden = Golden(session.id, tuple(map(expected_turn, session.turns)))
        assert score_session(golden, session).label != "fail"
        for index in range(1, len(session.turns)):
            one = replace(session, turns=session.turns[index : index + 1])
            assert not [turn for turn in score_session(golden, one).turns if turn.label == "fail"], index


def test_most_frameworks_that_record_messages_tell_the_places_of_turns() -> None:
    told, silent = 0, set[str]()
    for name in NAMES:
        for session in conversations(name):
            counted = [turn.user_messages for turn in session.turns if turn.user_messages]
            if places_of(session.turns) == list(range(1, len(session.turns) + 1)):
                told += 1
            elif len(counted) == len(session.turns):
                silent.add(name)
    assert told >= 76
    assert silent == HISTORY_ELSEWHERE
