"""The command line: one module for each command, and `main`, the group that holds them."""

from __future__ import annotations

from goldspan.collector_processor.cli.group import main as main
