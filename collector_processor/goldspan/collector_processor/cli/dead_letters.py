"""`goldspan dead-letters`: requests that the next receiver refused, listed and sent again."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from goldspan.collector_processor.cli.input_output import file_errors, options
from goldspan.collector_processor.cli.serve import refuse_without_libraries
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.scoring.json_values import is_dict
from goldspan.scoring.pages import counted, printable

if TYPE_CHECKING:
    from goldspan.collector_processor.gateway.settings.sections import GatewaySettings

_letters_of = options(
    "dead-letters", config=click.Path(path_type=Path), folder=click.Path(path_type=Path, exists=True, file_okay=False)
)


class _Letter(NamedTuple):
    """A request on the disk: the file of its body, and what was noted of it."""

    body: Path
    signal: Signal
    noted: dict[str, Any]

    @property
    def time(self) -> str:
        """When it was refused, by the name of its file."""
        with suppress(ValueError, OverflowError, OSError):
            seconds = float(self.body.name.partition("-")[0])
            return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return "?"


@click.group("dead-letters")
def dead_letters() -> None:
    """List the requests that the next receiver refused for good, or send them again."""


@dead_letters.command("list")
@_letters_of
def list_letters(*, config: Path | None, folder: Path | None) -> None:
    """List dead letters, the oldest first: when, which signal, how large, and why."""
    with file_errors():
        settings = None if folder is not None else _settings(config)
        found = list(_letters(_folder_of(settings, folder)))
    for one in found:
        names = " ".join(one.noted.get("headers", []))
        reason = printable(str(one.noted.get("reason", ""))) + (f"  headers: {names}" if names else "")
        click.echo(f"{one.time} {one.signal.value:<7} {one.body.stat().st_size:>9,} bytes  {reason}")
    click.echo(f"goldspan: {counted(len(found), 'dead letter')}")


@dead_letters.command("send")
@_letters_of
@options("dead-letters send")
def send_letters(*, config: Path | None, folder: Path | None, url: str | None, headers: tuple[str, ...]) -> None:
    """Send dead letters again, the oldest first; those that are accepted are deleted.

    The values of tenants' headers are not kept with dead letters: give them by --header.

    Exit codes: 0 all were accepted; 1 some were not, and stay; 2 something is wrong with the settings.
    """
    pairs = [one.partition("=") for one in headers]
    if any(not (name and equals) for name, equals, _ in pairs):
        raise click.BadParameter("expected NAME=VALUE", param_hint="--header")
    given = {name.lower(): value for name, _, value in pairs}
    sent, left = 0, 0
    with file_errors():
        refuse_without_libraries()
        settings = None if folder is not None and url is not None else _settings(config)
        for one in _letters(_folder_of(settings, folder)):
            if (refusal := _send(one, settings, url, given)) is not None:
                click.echo(f"goldspan: {one.body.name}: {printable(refusal)}", err=True)
                left += 1
                continue
            one.body.unlink(missing_ok=True)
            one.body.with_suffix(".json").unlink(missing_ok=True)
            sent += 1
    click.echo(f"goldspan: {counted(sent, 'dead letter')} sent, {left} left")
    sys.exit(1 if left else 0)


def _send(one: _Letter, settings: GatewaySettings | None, url: str | None, headers: dict[str, str]) -> str | None:
    """Send a dead letter once. Return why it was not accepted; None if it was."""
    # Imported when asked for, since they need the extra `gateway`.
    from goldspan.collector_processor.gateway import interfaces  # noqa: PLC0415
    from goldspan.collector_processor.gateway.deliver.exporters import open_exporter  # noqa: PLC0415
    from goldspan.collector_processor.gateway.settings.sections import Destination  # noqa: PLC0415

    if lacking := set(one.noted.get("headers", [])) - headers.keys():
        return f"needs --header {min(lacking)}=..."
    destination = Destination(url) if url is not None else None
    if destination is None and settings is not None:
        destination = settings.export.destination(one.signal, os.environ)
    if destination is None:
        return "the settings do not send this signal"
    exporter = open_exporter(destination)
    answer = exporter.deliver(interfaces.ExportRequest(one.signal, one.body.read_bytes(), tuple(headers.items())))
    exporter.close()
    if isinstance(answer, interfaces.Delivered):
        return answer.message if answer.rejected else None
    return answer.reason


def _settings(config: Path | None) -> GatewaySettings:
    refuse_without_libraries()
    from goldspan.collector_processor.gateway.settings.settings_file import load_settings  # noqa: PLC0415 - as above

    return load_settings(config, os.environ)


def _folder_of(settings: GatewaySettings | None, folder: Path | None) -> Path:
    if folder is not None or settings is None:
        return folder or Path()
    return settings.pipeline(os.environ).dead_letters or Path()


def _letters(folder: Path) -> Iterator[_Letter]:
    """Yield the dead letters of a folder, the oldest first; what is not one is passed over."""
    for body in sorted(folder.glob("*.pb")):
        noted: object = None
        with suppress(OSError, ValueError, RecursionError):
            noted = json.loads(body.with_suffix(".json").read_bytes())
        with suppress(ValueError):
            yield _Letter(body, Signal(body.stem.rpartition("-")[2]), noted if is_dict(noted) else {})
