"""Run benchmarks, the named ones or all: `python -m benchmarks [NAME...]`."""

from __future__ import annotations

import platform
import sys
from importlib import import_module
from importlib.metadata import version

from benchmarks import cost
from benchmarks.harness import NOISE, print_tables

NAMES = ("emit", "gateway", "growth", "in_process", "jobs", "mixed", "readers", "replay", "scoring", "startup")


def main(names: list[str]) -> int:
    """Run and print them."""
    if unknown := set(names) - {*NAMES, "cost"}:
        known = ", ".join((*NAMES, "and by itself cost"))
        print(f"no such benchmark: {', '.join(sorted(unknown))}; there are {known}", file=sys.stderr)
        return 2
    sdk = version("opentelemetry-sdk")
    print(f"Python {platform.python_version()}, opentelemetry-sdk {sdk}, on one core where it can be kept there.")
    print("Ratios of CPU time to the reference of the same run: of the fastest slices, and of the first quartiles.")
    print(f"Less is better. A ratio means as much as the A/A control beside it is near 1 (limit {NOISE:.0%}).")
    sys.stdout.flush()
    if names == ["cost"]:
        cost.main((), write=True)
        return 0
    for name in names or NAMES:
        print_tables(import_module(f"benchmarks.{name}").run())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
