"""Every call of the gateway that can fail, failing in each way it can: one night for each.

    python -m faults.campaign [--nights N] [--seed N] [--jobs N] [--only TEXT]

A first night without a fault tells which calls there are. `make faults` runs all nights and prints a table.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from faults.forked_gateway import Nursery
from faults.injection import KINDS, LIMITS, Fault
from faults.night import FIRST, PATIENCE, SECOND, Morning, Night, expected
from rigs.operator_acts import ACTS

PROTOCOLS = ("http/protobuf", "grpc")
_A_WHILE, _TILL_DAWN = 0.8, 60.0
"""Seconds: longer than some ticks and shorter than a client waits; longer than a process lives."""


@dataclass(frozen=True)
class Case:
    """One night."""

    protocol: str
    """Of the export."""
    life: str
    fault: Fault

    def __str__(self) -> str:
        fault = self.fault
        if fault.storm:
            return f"{self.protocol} {self.life}: storm {fault.seed}: {fault.storm:.0%} for {fault.seconds} s"
        if fault.begins == "half":
            return f"{self.protocol} {self.life}: operator: {fault.kind}"
        if fault.begins:
            return f"{self.protocol} {self.life}: {fault.kind} from the {fault.begins}, for {fault.seconds} s"
        lasts = f" for {fault.seconds} s" if fault.seconds else ""
        return f"{self.protocol} {self.life}: {fault.kind} at call {fault.call} of [{fault.site}]{lasts}"


class Campaign:
    """Nights with one nursery."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._nursery = Nursery()
        self._quiet: dict[str, Morning] = {}

    def close(self) -> None:
        self._nursery.close()

    def quiet(self, protocol: str) -> Morning:
        """A night without a fault."""
        if protocol not in self._quiet:
            self._quiet[protocol] = self._run(protocol, {})
        return self._quiet[protocol]

    def run(self, case: Case, patience: float = PATIENCE) -> Morning:
        morning = self._run(case.protocol, {case.life: case.fault}, patience)
        if morning.threads and morning.threads != (alive := self.quiet(case.protocol).threads):
            morning.findings.append(f"threads alive: {morning.threads}, expected {alive}")
        return morning

    def run_all(self, cases: Iterable[Case], jobs: int) -> Iterator[tuple[Case, Morning]]:
        with ThreadPoolExecutor(jobs) as pool:
            cases = list(cases)
            yield from zip(cases, pool.map(self.run, cases), strict=True)

    def _run(self, protocol: str, faults: dict[str, Fault], patience: float = PATIENCE) -> Morning:
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            return Night(self._nursery, folder, protocol, faults, patience).run()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def cases_of(protocol: str, quiet: Morning, known: set[tuple[str, str]]) -> list[Case]:
    """Every fault that can happen to the calls of a night: once, early and late, and for a while.

    Calls that are `known` from another protocol are left out, and added to otherwise.
    """
    found: list[Case] = []
    for life in (FIRST, SECOND):
        for site, calls in sorted(quiet.sites[life].items()):
            if (life, site) in known:
                continue
            known.add((life, site))
            does = max((one for one in KINDS if site.startswith(one)), key=len)
            for kind in KINDS[does]:
                if kind not in LIMITS:
                    found += [Case(protocol, life, Fault(site, kind, call)) for call in {1, (calls + 1) // 2, calls}]
                if not kind.startswith("crash"):
                    found.append(Case(protocol, life, Fault(site, kind, (calls + 1) // 2, _A_WHILE)))
        found += [
            Case(protocol, life, Fault(storm=share, seconds=1.5, seed=seed))
            for share in (0.02, 0.1)
            for seed in range(4)
        ]
        found += [Case(protocol, life, Fault(kind=act, begins="half")) for act in ACTS]
    for kind in ("ENOSPC", "EMFILE", "EIO", "locked"):
        found.append(Case(protocol, SECOND, Fault(kind=kind, seconds=_TILL_DAWN, begins="end")))
        found.append(Case(protocol, SECOND, Fault(kind=kind, seconds=3.0, begins="start")))
    return found


def sample(cases: Sequence[Case], count: int, seed: int) -> list[Case]:
    """Some of the cases, of as many kinds and sites as can be."""
    rng = random.Random(seed)
    left = rng.sample(cases, len(cases))
    seen = Counter[str]()
    chosen: list[Case] = []
    while left and len(chosen) < count:
        best = min(left, key=lambda case: 3 * seen[case.fault.kind] + seen[case.fault.site])
        left.remove(best)
        chosen.append(best)
        seen.update((best.fault.kind, best.fault.site))
    return chosen


class Table:
    """What all nights came to, by kind of fault."""

    COLUMNS = ("nights", "reached", "failed calls", "acknowledged", "lost", "set aside", "sent again", "starts")

    def __init__(self) -> None:
        self._rows: dict[str, Counter[str]] = {}
        self.places: set[tuple[str, str]] = set()

    def add(self, case: Case, morning: Morning, quiet: Morning) -> None:
        fault = case.fault
        self.places.add((case.life, fault.site))
        reached = bool(morning.failed) or fault.kind.startswith("crash") or fault.kind in LIMITS
        counts = (1, reached, morning.failed, morning.acknowledged, len(morning.lost), morning.set_aside)
        more = (morning.again - quiet.again, morning.starts)
        for kind in ("storm" if fault.storm else fault.kind, "all"):
            self._rows.setdefault(kind, Counter()).update(dict(zip(self.COLUMNS, (*counts, *more), strict=True)))

    def __str__(self) -> str:
        lines = [f"{'':22}" + "".join(f"{name:>14}" for name in self.COLUMNS)]
        lines += [
            f"{kind:22}" + "".join(f"{self._rows[kind][name]:>14,}" for name in self.COLUMNS)
            for kind in sorted(self._rows, key=lambda kind: (kind == "all", kind))
        ]
        return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nights", type=int, help="a sample of so many for each protocol; default: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=8, help="nights at once")
    parser.add_argument("--only", default="", help="only cases with this text")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    table, known, bad = Table(), set[tuple[str, str]](), 0
    with tempfile.TemporaryDirectory(prefix="goldspan-faults-") as folder:
        campaign = Campaign(Path(folder))
        for protocol in PROTOCOLS:
            quiet = campaign.quiet(protocol)
            for finding in quiet.findings:
                print(f"without a fault, {protocol}: {finding}")
            bad += bool(quiet.findings)
            cases = [case for case in cases_of(protocol, quiet, known) if options.only in str(case)]
            if options.nights is not None:
                cases = sample(cases, options.nights, options.seed)
            for number, (case, morning) in enumerate(campaign.run_all(cases, options.jobs), 1):
                table.add(case, morning, quiet)
                if not number % 100:
                    seconds = time.monotonic() - began
                    print(f"{protocol}: {number} of {len(cases)} nights, {seconds:.0f} s", file=sys.stderr, flush=True)
                if morning.findings:
                    bad += 1
                    print(told(case, morning), flush=True)
        campaign.close()
    print(table)
    items, seconds = len(expected()[0]), time.monotonic() - began
    print(f"{len(table.places)} places, {items} items a night, {seconds:.0f} s; {bad} nights with findings")
    raise SystemExit(bool(bad))


def told(case: Case, morning: Morning) -> str:
    """What went wrong in a night, and what the gateway said."""
    lines = [f"{case}  ({morning.seconds:.1f} s)", *(f"    {finding}" for finding in dict.fromkeys(morning.findings))]
    lines += dict.fromkeys(
        f"      {record['level']}: {record['message'][-160:]} {record.get('exception', '')[:160]}"
        for record in morning.log
        if record["level"] not in ("debug", "info")
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
