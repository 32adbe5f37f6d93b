"""The exporter `tool_parameter_match` of zero-code set-ups."""

from __future__ import annotations

import logging
import os
import weakref
from typing import Any

from goldspan.collector_processor.exporter import ToolParameterMatchExporter
from goldspan.collector_processor.zero_code.environment import OPTIONS, options_of
from goldspan.collector_processor.zero_code.inner_exporter import OWN_NAME, make_exporter
from goldspan.scoring.errors import GoldspanError, SettingsError
from goldspan.scoring.goldens import load_criterion

_logger = logging.getLogger("goldspan")

NO_GOLDENS: dict[str, object] = {"golden_set": "none", "goldens": []}

doors: weakref.WeakSet[ToolParameterMatchExporter] = weakref.WeakSet()
"""The exporters made here that live, for what is to be done at the end of the process."""


class ZeroCodeExporter(ToolParameterMatchExporter):
    """`ToolParameterMatchExporter` around an exporter that is named, with options that come from outside the code.

    What stands in a configuration file comes first, then environment variables (`environment.OPTIONS`), then the
    defaults; the inner exporter is `otlp` where none is named. An option that is wrong is one warning, and the
    defaults are used: the agent starts, and its spans are exported.
    """

    def __init__(self, **options: Any) -> None:
        """Take the options of a configuration file; none when chosen by `OTEL_TRACES_EXPORTER`."""
        chosen = _chosen(options)
        name = chosen.pop("exporter", "otlp")
        inner = _inner(name)
        if "goldens" not in chosen:
            _logger.warning(
                "exporter %s: no goldens, so that nothing is scored. Set GOLDSPAN_GOLDENS to a golden file.", OWN_NAME
            )
            chosen["goldens"] = NO_GOLDENS
        try:
            if (criterion := chosen.get("criterion")) is not None:
                chosen["criterion"] = load_criterion(criterion)
            super().__init__(inner, **chosen)
        except (GoldspanError, TypeError) as error:
            _logger.warning("exporter %s: %s. Its defaults are used.", OWN_NAME, error)
            super().__init__(inner, goldens=chosen["goldens"])
        doors.add(self)
        _warn_of_double_route(name)


def _chosen(options: dict[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        _logger.warning(
            "exporter %s: found %s, expected %s. The rest is used.", OWN_NAME, ", ".join(unknown), ", ".join(OPTIONS)
        )
    try:
        outside = options_of(os.environ)
    except SettingsError as error:
        _logger.warning("exporter %s: %s. No variable is used.", OWN_NAME, error)
        outside = {}
    return {**outside, **{name: value for name, value in options.items() if name in OPTIONS and value is not None}}


def _inner(name: Any) -> Any:
    try:
        return make_exporter(name, os.environ)
    except SettingsError as error:
        if name == "otlp":
            raise
        _logger.warning("exporter %s: %s. Spans are sent by otlp.", OWN_NAME, error)
        return make_exporter("otlp", os.environ)


def _warn_of_double_route(name: object) -> None:
    """Say so where both exporters are listed: each gets every span, one time as it came, one time with its score."""
    listed = [part.strip() for part in os.environ.get("OTEL_TRACES_EXPORTER", "").split(",")]
    if OWN_NAME in listed and name in listed:
        _logger.warning(
            "OTEL_TRACES_EXPORTER=%s sends every span twice: %s sends by %s itself. List only %s.",
            ",".join(listed),
            OWN_NAME,
            name,
            OWN_NAME,
        )
