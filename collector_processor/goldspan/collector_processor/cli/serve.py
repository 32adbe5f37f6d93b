"""`goldspan serve`, the gateway, and `goldspan stream`, a worker that scores what is in Kafka."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from goldspan.collector_processor.cli.input_output import UNUSABLE, file_errors, refuse_without
from goldspan.scoring.errors import SettingsError

if TYPE_CHECKING:
    from goldspan.collector_processor.gateway.settings.sections import GatewaySettings
    from goldspan.collector_processor.stream.stream_settings import StreamSettings
    from goldspan.mappers.dialect_registry import DialectRegistry
    from goldspan.mappers.spans import RecordView

_OF_EACH = ("httptools", "prometheus_client", "urllib3", "uvicorn", "zstandard")
_OF_GATEWAY, _OF_STREAM = ("grpc", *_OF_EACH), ("confluent_kafka", "quixstreams", *_OF_EACH)


@click.command()
@click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help="The settings, a YAML file.")
@click.option("--check", is_flag=True, help="Read settings, goldens, secrets and certificates, and end.")
def serve(*, config: Path | None, check: bool) -> None:
    """Receive OTLP, score the tool calls in it, and send it on with the scores.

    Every option of the settings can be given as a variable instead, such as GOLDSPAN_EXPORT_ENDPOINT.

    Exit codes: 0 shut down by a signal, or checked; 2 something is wrong with settings, goldens or addresses.
    """
    with file_errors():
        refuse_without_libraries()
        # Imported when asked for, since they need the extra `gateway`.
        from goldspan.collector_processor.serving.process import end_process, keep_freed_memory  # noqa: PLC0415

        keep_freed_memory()  # before gRPC is imported, whose first threads would have memory arenas already
        # Imported after that.
        from goldspan.collector_processor.gateway.server import check_gateway, run_gateway  # noqa: PLC0415 - see above
        from goldspan.collector_processor.gateway.settings.settings_file import load_settings  # noqa: PLC0415 - see above

        settings = load_settings(config, os.environ)
        if check:
            check_gateway(settings, os.environ)
        _tell_unknown_variables(settings, "goldspan.gateway", check=check)
        if check:
            click.echo("goldspan: the settings are good")
            return
        run_gateway(settings, os.environ, _advice)
    end_process()


def _advice(views: Sequence[RecordView], registry: DialectRegistry) -> list[dict[str, str]]:
    """Return what `goldspan inspect` advises of these spans."""
    # Imported when asked for: most gateways never are.
    from goldspan.collector_processor.replay.inspection import inspect_spans  # noqa: PLC0415

    return [hint._asdict() for hint in inspect_spans(views, registry, []).hints]


def refuse_without_libraries() -> None:
    """Raise SettingsError if a library of the gateway is not installed."""
    refuse_without(_OF_GATEWAY, "the gateway", "gateway")


@click.command()
@click.argument("config", metavar="CONFIG", required=False, type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Say what would be read and written, and end.")
def stream(*, config: Path | None, check: bool) -> None:
    """Score the tool calls in OTLP traces and logs that a Collector writes to Kafka.

    CONFIG is a YAML file with the settings. Every option can be given as a variable instead, such as
    GOLDSPAN_KAFKA_BROKERS. Any number of workers with one `kafka.group` share the work.

    Exit codes: 0 ended by a signal, or checked; 2 something is wrong with settings, goldens, topics or the disk.
    """
    with file_errors():
        refuse_without(_OF_STREAM, "`goldspan stream`", "kafka")
        # Imported when asked for, since they need the extra `kafka`.
        from goldspan.collector_processor.gateway.settings.settings_file import load_settings  # noqa: PLC0415 - see above
        from goldspan.collector_processor.serving.process import end_process, keep_freed_memory  # noqa: PLC0415 - see above
        from goldspan.collector_processor.stream.stream_server import check_stream, run_stream  # noqa: PLC0415 - see above
        from goldspan.collector_processor.stream.stream_settings import StreamSettings  # noqa: PLC0415 - see above

        settings = load_settings(config, os.environ, StreamSettings)
        for line in check_stream(settings, os.environ) if check else ():
            click.echo(f"goldspan: {line}")
        _tell_unknown_variables(settings, "goldspan.stream", check=check)
        if check:
            return
        keep_freed_memory()
        try:
            run_stream(settings, os.environ)
        except SettingsError as error:  # its log has begun: there is one line, of the log
            logging.getLogger("goldspan.stream").error("the worker ends: %s", error)  # noqa: TRY400 - no traceback
            sys.exit(UNUSABLE)
    end_process()


def _tell_unknown_variables(settings: GatewaySettings | StreamSettings, logger: str, *, check: bool) -> None:
    """Name the variables that no setting has: of a check on standard error, of a server in its log, which begins."""
    # Imported when asked for, as the servers are.
    from goldspan.collector_processor.gateway.settings.settings_file import unknown_variables  # noqa: PLC0415
    from goldspan.collector_processor.serving.process import configure_logs  # noqa: PLC0415

    if not check:
        configure_logs(settings.log.level, settings.log.format)
    if not (unknown := unknown_variables(settings, os.environ)):
        return
    if check:
        click.echo(f"goldspan: no setting has the variables {', '.join(unknown)}", err=True)
    else:
        logging.getLogger(logger).info("no setting has these variables", extra={"variables": unknown})
