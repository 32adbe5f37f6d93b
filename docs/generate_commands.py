"""Print every command of `goldspan` with its options, from what `--help` says."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from goldspan.collector_processor.cli import main


def page() -> str:
    """Return a section for each command."""
    return "\n".join(_sections(main, click.Context(main, info_name="goldspan")))


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if (below := command.get_command(context, name)) and not below.hidden:
                yield from _sections(below, click.Context(below, info_name=name, parent=context))
        return
    usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
    yield from (f"## {context.command_path}", "", f"`{usage}`", "")
    for paragraph in (command.help or "").replace("\b\n", "").split("\n\n"):
        yield from (_cell(paragraph), "")
    rows = [record for param in command.params if (record := param.get_help_record(context)) and record[1]]
    if rows:
        yield from ("| option | meaning |", "|---|---|")
        yield from (f"| `{option.replace('|', chr(92) + '|')}` | {_cell(meaning)} |" for option, meaning in rows)
        yield ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.stdout.write(page())
