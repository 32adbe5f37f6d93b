"""`goldspan dialects`: what is read, and what to switch on."""

from __future__ import annotations

import click

from goldspan.collector_processor.cli.options import COLOR, FORMAT
from goldspan.collector_processor.cli.output import plain_errors, show, write_json
from goldspan.collector_processor.report.dialects_page import dialects_json, dialects_page
from goldspan.mappers.dialects import DialectRegistry


@click.command()
@FORMAT
@COLOR
def dialects(*, as_format: str, color: str) -> None:
    """List the dialects that are read, and what to switch on in each."""
    with plain_errors():
        registry = DialectRegistry()
        if as_format == "json":
            write_json(dialects_json(registry))
        else:
            show(color, lambda page: dialects_page(page, registry))
