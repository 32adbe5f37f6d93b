"""The `goldspan` command: what holds for all of its commands, and the list of them."""

from __future__ import annotations

import gc
import io
import sys

import click

from goldspan.collector_processor.cli.goldens import goldens
from goldspan.collector_processor.cli.inspect import dialects, inspect
from goldspan.collector_processor.cli.score import score
from goldspan.collector_processor.cli.serve import serve


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="goldspan", message="goldspan %(version)s")
def main() -> None:
    """Score the arguments an agent passes to its tools, from the OpenTelemetry spans it already emits."""
    # Spans are kept as many small values without cycles: looking for cycles so often only takes time.
    gc.set_threshold(200_000, 20, 100)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


main.add_command(score)
main.add_command(inspect)
main.add_command(dialects)
main.add_command(goldens)
main.add_command(serve)
