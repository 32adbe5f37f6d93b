"""The command line: `main` is the command `goldspan`, whose subcommands are in modules of their own."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from importlib import import_module
from typing import Any

import click

_COMMANDS = {
    "score": "Score traces against goldens, and by metrics that need none.",
    "compare": "Say what became better or worse between two runs, and how sure that is.",
    "inspect": "Show what goldspan finds in traces, what it does not recognise, and what to switch on.",
    "doctor": "Say what keeps tool calls from being scored, and what to switch on.",
    "dialects": "List the dialects that goldspan reads, and what to switch on in each.",
    "goldens": "Make golden sets from traces, check them, compare them and keep them up to date.",
    "profile": "Learn what is normal for an agent's arguments, without goldens.",
    "serve": "Receive OTLP, score the tool calls in it, and send it on with the scores.",
    "stream": "Score the tool calls in OTLP traces and logs that a Collector writes to Kafka.",
    "dead-letters": "List the requests that the next receiver refused for good, or send them again.",
}
"""The subcommands, and the first sentence of their help."""
_MODULES = {"dialects": "inspect", "stream": "serve"}
"""The modules of subcommands that stand beside another one; the others have a module of their name."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Why standard output takes nothing more; a pipe whose reader went away ends a command without a word."""
_SERVING = ("serve", "stream")


class _Subcommands(click.Group):
    """Subcommands that are imported when they are called, since each needs libraries that others do not."""

    _owns_process = False

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command. Without arguments it is the one that the process was started with."""
        self._owns_process = not args and "args" not in options
        try:
            return super().main(*args, **options)
        except OSError as error:
            if error.errno not in _FULL or error.filename is not None:
                raise
            click.echo(f"goldspan: the output cannot be written: {error.strerror}", err=True)
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - what is left fails again at the end
            sys.exit(2)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        # Imports and spans make many small values without cycles: looking for cycles so often only takes time. What
        # serves must not pause long for it.
        gc.set_threshold(200_000 if cmd_name in _SERVING else 1_000_000, 20, 100)
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"{__name__}.{_MODULES.get(name, name)}"), name)
        if self._owns_process:
            gc.freeze()  # what was imported stays until the end, and is not searched for cycles then
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Subcommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="goldspan", message="goldspan %(version)s")
def main() -> None:
    """Score the arguments an agent passes to its tools, from the OpenTelemetry spans it already emits."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
