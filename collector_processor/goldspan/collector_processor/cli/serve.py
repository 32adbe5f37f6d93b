"""`goldspan serve`: the gateway."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import click

from goldspan.collector_processor.cli.input_output import file_errors, refuse_without

_NEEDED = ("grpc", "httptools", "prometheus_client", "urllib3", "uvicorn", "zstandard")


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
        from goldspan.collector_processor.serving.process import (  # noqa: PLC0415
            configure_logs,
            end_process,
            keep_freed_memory,
        )

        keep_freed_memory()  # before gRPC is imported, whose first threads would have memory arenas already
        # Imported after that.
        from goldspan.collector_processor.gateway.server import check_gateway, run_gateway  # noqa: PLC0415 - see above
        from goldspan.collector_processor.gateway.settings.settings_file import (  # noqa: PLC0415 - see above
            load_settings,
            unknown_variables,
        )

        settings = load_settings(config, os.environ)
        unknown = unknown_variables(settings, os.environ)
        if check:
            check_gateway(settings, os.environ)
            if unknown:
                click.echo(f"goldspan: no setting has the variables {', '.join(unknown)}", err=True)
            click.echo("goldspan: the settings are good")
            return
        configure_logs(settings.log.level, settings.log.format)
        if unknown:
            logging.getLogger("goldspan.gateway").info("no setting has these variables", extra={"variables": unknown})
        run_gateway(settings, os.environ)
    end_process()


def refuse_without_libraries() -> None:
    """Raise SettingsError if a library of the gateway is not installed."""
    refuse_without(_NEEDED, "the gateway", "gateway")
