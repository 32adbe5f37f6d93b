"""MLflow Tracing over OTLP, unless it is set to write OpenTelemetry's conventions.

https://mlflow.org/docs/latest/genai/tracing/ . Every attribute is JSON text, single strings too.
"""

from __future__ import annotations

from msgspec.structs import replace

from goldspan.mappers.dialects import Affixes, Attributes, DialectTable, Role, Rule, Source, SpanView, ToolFacts, at
from goldspan.mappers.dialects.reading.value_parsing import only_text, plain_text

_TYPE = "mlflow.spanType"


def _function_name(_: SpanView, attributes: Attributes, tool: ToolFacts) -> ToolFacts:
    """Name the tool by its function: span names of repeated calls get numbers in some versions."""
    name = plain_text(attributes.get("mlflow.spanFunctionName"))
    return replace(tool, name=name) if name else tool


MLFLOW = DialectTable(
    name="mlflow",
    title="MLflow Tracing",
    docs="https://mlflow.org/docs/latest/genai/tracing/",
    rules=(
        Rule(Role.TOOL, _TYPE, frozenset({'"TOOL"', "TOOL"})),
        Rule(Role.MODEL, _TYPE, frozenset({'"CHAT_MODEL"', "CHAT_MODEL", '"LLM"', "LLM"})),
        Rule(Role.AGENT, _TYPE, frozenset({'"AGENT"', "AGENT"})),
    ),
    arguments=(Source("mlflow.spanInputs"),),
    result=(Source("mlflow.spanOutputs"),),
    output=(Source("mlflow.spanOutputs"),),
    input=(Source("mlflow.spanInputs", take=at("messages")),),
    user_text=(Source("mlflow.spanInputs", take=only_text),),
    answer=(Source("mlflow.spanOutputs", take=plain_text),),
    tool_definitions=(Source("mlflow.chat.tools"),),
    span_name_affixes=Affixes(prefixes=("Tool.",)),  # DSPy's tools
    tool_hook=_function_name,
)
