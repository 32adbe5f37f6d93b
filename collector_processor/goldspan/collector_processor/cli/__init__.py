"""The command line: `main` is the command `goldspan`, and each of its subcommands has a module."""

from __future__ import annotations

import gc
import io
import sys
from importlib import import_module

import click

_MODULES = {
    "score": "score",
    "inspect": "inspect",
    "doctor": "doctor",
    "dialects": "dialects",
    "goldens": "goldens",
    "serve": "serve",
    "stream": "stream",
}
"""By subcommand, the module that holds it."""


class _Subcommands(click.Group):
    """Subcommands that are imported when they are called, since each needs libraries that others do not."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_MODULES, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(f"{__name__}.{_MODULES[cmd_name]}"), cmd_name)
        return command


@click.group(cls=_Subcommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="goldspan", message="goldspan %(version)s")
def main() -> None:
    """Score the arguments an agent passes to its tools, from the OpenTelemetry spans it already emits."""
    # Spans are kept as many small values without cycles: looking for cycles so often only takes time.
    gc.set_threshold(200_000, 20, 100)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
