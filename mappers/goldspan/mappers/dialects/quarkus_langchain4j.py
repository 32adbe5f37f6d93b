"""LangChain4j in Quarkus, with its extension for OpenTelemetry.

https://docs.quarkiverse.io/quarkus-langchain4j/dev/observability.html . The scope is that of every span of
Quarkus. Tools are written by the conventions, but the span of one that throws has no error status. Models' messages are
one text without roles and without requests. The span of an AI service, a turn, has nothing but its name.
"""

from __future__ import annotations

from goldspan.mappers.dialects import Affixes, DialectTable, Role, Rule, Source

_SCOPE = "io.quarkus.opentelemetry"

QUARKUS_LANGCHAIN4J = DialectTable(
    name="quarkus_langchain4j",
    title="Quarkus LangChain4j",
    docs="https://docs.quarkiverse.io/quarkus-langchain4j/dev/observability.html",
    rules=(
        Rule(Role.TOOL, "gen_ai.tool.name", name_prefix="langchain4j.tools."),
        Rule(Role.MODEL, "gen_ai.request.model", scope=_SCOPE, name_prefix="completion ", without_output=True),
        Rule(Role.AGENT, scope=_SCOPE, name_prefix="langchain4j.aiservices."),
    ),
    tool_name=("gen_ai.tool.name",),
    span_name_affixes=Affixes(prefixes=("langchain4j.tools.",)),
    answer=(Source("gen_ai.completion"),),
)
