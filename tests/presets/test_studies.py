"""The studies beside the presets: alignment policies on recorded sessions, and the reading of ADK issue 5643."""

from __future__ import annotations

import pytest

from presets import adk_issue_5643, alignment_policies
from presets.adk_issue_5643 import BOOLEANS, DECIMALS, GREEDY, PAIRS, READING

RECOMPUTED = (407, 398, 394, 356, 345, 333, 308)
"""By an independent script over the same sessions, in the order of the policies."""

OTHER_RULE = {
    BOOLEANS: {"bool_vs_int", "bool_vs_int_zero"},
    DECIMALS: {"large_int"},
    READING: {"mixed_calls_partial", "mixed_three_of_four_args"},
    PAIRS: {"dup_distinct_swapped", "dup_wrong_actual_reused"},
    GREEDY: {
        "dup_distinct_swapped",
        "dup_retry_then_right",
        "dup_superset_steals",
        "dup_wrong_actual_reused",
        "greedy_vs_optimal_subset",
        "interleaved_dups",
        "three_calls_rotated",
    },
}


@pytest.mark.skipif(not alignment_policies.TAU2.exists(), reason="the tau2 sessions are not beside the repository")
def test_policies_give_what_was_computed_independently() -> None:
    assert tuple(alignment_policies.table().values()) == RECOMPUTED


def test_cases_of_the_issue_fit_but_for_the_rules_that_are_listed() -> None:
    cases = list(adk_issue_5643.cases())
    found: dict[str, set[str]] = {}
    for case in cases:
        if not case.fits:
            found.setdefault(case.rule, set()).add(case.id)
    assert found == OTHER_RULE
    assert (len(cases), sum(case.fits for case in cases)) == (780, 730)


def test_what_differs_by_alignment_never_scores_lower() -> None:
    differing = [case for case in adk_issue_5643.cases() if not case.fits and case.rule in {GREEDY, PAIRS, READING}]
    assert [case for case in differing if (case.ours or 0) <= (case.derived or 0)] == []
