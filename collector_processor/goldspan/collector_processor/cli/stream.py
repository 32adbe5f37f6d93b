"""`goldspan stream`: a worker that scores what is in Kafka."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import click

from goldspan.collector_processor.cli.input_output import file_errors, refuse_without

_NEEDED = ("confluent_kafka", "httptools", "prometheus_client", "quixstreams", "urllib3", "uvicorn", "zstandard")


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
        refuse_without(_NEEDED, "`goldspan stream`", "kafka")
        # Imported when asked for, since they need the extra `kafka`.
        from goldspan.collector_processor.gateway.settings.settings_file import (  # noqa: PLC0415 - see above
            load_settings,
            unknown_variables,
        )
        from goldspan.collector_processor.serving.process import (  # noqa: PLC0415 - see above
            configure_logs,
            end_process,
            keep_freed_memory,
        )
        from goldspan.collector_processor.stream.stream_server import check_stream, run_stream  # noqa: PLC0415 - see above
        from goldspan.collector_processor.stream.stream_settings import StreamSettings  # noqa: PLC0415 - see above

        settings = load_settings(config, os.environ, StreamSettings)
        unknown = unknown_variables(settings, os.environ)
        if check:
            for line in check_stream(settings, os.environ):
                click.echo(f"goldspan: {line}")
            if unknown:
                click.echo(f"goldspan: no setting has the variables {', '.join(unknown)}", err=True)
            return
        keep_freed_memory()
        configure_logs(settings.log.level, settings.log.format)
        if unknown:
            logging.getLogger("goldspan.stream").info("no setting has these variables", extra={"variables": unknown})
        run_stream(settings, os.environ)
    end_process()
