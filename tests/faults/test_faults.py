"""Whatever call of the gateway fails, what was acknowledged arrives, and is scored as by a replay.

A quick run tries a few nights, `--all` some hundred, and `make faults` all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faults.campaign import PROTOCOLS, Campaign, Case, cases_of, sample, told
from faults.injection import SKIPPED, Fault
from faults.night import FIRST, expected
from quick_run import part_of_a_whole_run

QUICK, WHOLE = 6, 60
"""Nights for each protocol."""
AT_ONCE = 6


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    running = Campaign(tmp_path_factory.mktemp("nights"))
    yield running
    running.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_was_acknowledged_arrives_whatever_fails(
    protocol: str, campaign: Campaign, request: pytest.FixtureRequest
) -> None:
    quiet = campaign.quiet(protocol)
    assert not quiet.findings
    assert (quiet.again, quiet.acknowledged) == (0, len(expected()[0]) + 1)
    nights = WHOLE // part_of_a_whole_run(request.config) if request.config.getoption("--all") else QUICK
    cases = sample(cases_of(protocol, quiet, set()), nights, seed=1)
    bad = [told(case, morning) for case, morning in campaign.run_all(cases, AT_ONCE) if morning.findings]
    assert not bad, "\n".join(bad)


def test_a_body_that_never_reached_the_disk_is_missed(campaign: Campaign) -> None:
    """Nothing can be done about that: so it shows that a loss is seen."""
    sites = campaign.quiet(PROTOCOLS[0]).sites[FIRST]
    site, calls = next((site, calls) for site, calls in sites.items() if site.startswith("write writev"))
    morning = campaign.run(Case(PROTOCOLS[0], FIRST, Fault(site, SKIPPED, calls - 1)), patience=3.0)
    assert morning.lost
    assert morning.findings
