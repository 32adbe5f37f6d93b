"""The in-process door for agents whose code is not touched: set up by environment variables or a configuration file.

`opentelemetry-instrument` finds both parts by their entry points: the exporter `tool_parameter_match`
(`opentelemetry_traces_exporter`), chosen by `OTEL_TRACES_EXPORTER` or in the file of `OTEL_CONFIG_FILE`, and the
instrumentor `goldspan` (`opentelemetry_instrumentor`), which stamps sessions and sees to the end of the process.
"""

from __future__ import annotations
