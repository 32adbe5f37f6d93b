"""Whatever a profile says, every door finds by it what `goldspan score` finds: drawn profiles x recordings x doors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from conformance.test_every_door import agree
from goldspan.collector_processor.gateway.profile_learner import ProfileLearner
from goldspan.mappers import read_sessions
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.metrics.argument_profile import Check, Family, Profile, ToolParameterProfile, learn
from goldspan.scoring.metrics.profile_file import load_profile, profile_document
from goldspan.scoring.run import scorer_of
from goldspan.scoring.sessions import Session
from rigs.otlp_containers import requests_of
from rigs.otlp_logs import LOGGED, log_documents
from rigs.pipeline_rig import Said
from rigs.repository import RECORDING_NAMES

PROFILE = "tool_parameter_profile"
WITHOUT_GOLDENS = GoldenIndex(sample=1.0)
TIMES = 7
"""A profile that is added to itself so often has seen more sessions than it needs to speak."""


def drawn_profile(seed: int, sessions: Iterable[Session]) -> Profile:
    """A profile of other sessions than these: some counts are of other tokens, some places off, pinned or generated."""
    chance, learnt = Random(seed), learn(sessions)
    for _ in range(TIMES):
        learnt = learnt.plus(learnt)
    counts: dict[Check, Mapping[str, int]] = {}
    for check, tokens in learnt.counts.items():
        counts[check] = dict(tokens)
        if chance.random() < 0.4:
            counts[check] = {f"other {token}" if token.isalpha() else token: many for token, many in tokens.items()}
    for check in [one for one in counts if one.family is Family.PASSED]:
        if chance.random() < 0.3:  # an argument that is always passed, and not here
            counts[check._replace(path=f"{check.path}_more")] = counts[check]
    places = [check._replace(field="") for check in counts]
    return replace(
        learnt,
        counts=counts,
        off=frozenset(chance.sample(places, len(places) // 8)),
        pinned=frozenset(chance.sample(places, len(places) // 8)),
    )


@pytest.mark.every_recording
@pytest.mark.costly
@pytest.mark.parametrize("name", RECORDING_NAMES)
def test_a_drawn_profile_finds_alike_at_every_door(name: str, tmp_path: Path) -> None:
    documents = [*requests_of(name), *(log_documents(name) if name in LOGGED else [])]
    drawn = drawn_profile(RECORDING_NAMES.index(name), read_sessions(documents))
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(profile_document(drawn)), "utf-8")
    read = load_profile(file)
    assert read == drawn
    agree(documents, WITHOUT_GOLDENS, scorer_of(metrics=[ToolParameterProfile(profile=read)]))


def findings_of(said: Said) -> int:
    return sum(
        one.get(f"{PROFILE}.level") == "call" and one.get("gen_ai.evaluation.score.value", 1) < 1
        for one in said.values()
    )


def test_drawn_profiles_find_something() -> None:
    """The law above would hold of profiles that say nothing."""
    found = 0
    for name in RECORDING_NAMES[::12]:
        documents = list(requests_of(name))
        drawn = drawn_profile(RECORDING_NAMES.index(name), read_sessions(documents))
        found += findings_of(
            agree(documents, WITHOUT_GOLDENS, scorer_of(metrics=[ToolParameterProfile(profile=drawn)]))
        )
    assert found > 5


def test_what_a_gateway_learns_is_used_by_every_door(tmp_path: Path) -> None:
    """It is what `goldspan profile learn` learns, and finds the same everywhere."""
    name = RECORDING_NAMES[0]
    documents = list(requests_of(name))
    [first, *_] = sessions = [one for one in read_sessions(documents) if any(turn.calls for turn in one.turns)]
    many = [replace(first, id=f"s-{number}") for number in range(120)]
    learner = ProfileLearner(tmp_path, 3600.0, lambda: 0.0, lambda _where, error: pytest.fail(str(error)))
    learner.thread.start()
    for one in many:
        learner.put("[]", one)
    learner.close(30)
    learnt = load_profile(tmp_path / "profile.yaml")
    assert learnt == learn(many)
    assert sessions
    said = agree(documents, WITHOUT_GOLDENS, scorer_of(metrics=[ToolParameterProfile(profile=learnt)]))
    assert any(one.get(f"{PROFILE}.level") == "call" for one in said.values()), "it judges, and finds nothing"
    assert findings_of(said) == 0
