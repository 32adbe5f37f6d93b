"""The installed dialects: goldspan's own in order of precedence, and those of other packages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from goldspan.mappers.dialects.autogen import AUTOGEN
from goldspan.mappers.dialects.claude_code import CLAUDE_CODE
from goldspan.mappers.dialects.eino import EINO
from goldspan.mappers.dialects.genkit import GENKIT
from goldspan.mappers.dialects.google_adk import GOOGLE_ADK
from goldspan.mappers.dialects.haystack import HAYSTACK, OPENINFERENCE_HAYSTACK
from goldspan.mappers.dialects.langfuse import LANGFUSE
from goldspan.mappers.dialects.langsmith import LANGSMITH
from goldspan.mappers.dialects.litellm import LITELLM
from goldspan.mappers.dialects.logfire import LOGFIRE
from goldspan.mappers.dialects.mastra import MASTRA
from goldspan.mappers.dialects.mcp import MCP
from goldspan.mappers.dialects.mlflow import MLFLOW
from goldspan.mappers.dialects.openinference import OPENINFERENCE
from goldspan.mappers.dialects.openlit import OPENLIT
from goldspan.mappers.dialects.openllmetry import OPENLLMETRY
from goldspan.mappers.dialects.otel_genai import OTEL_GENAI
from goldspan.mappers.dialects.pydantic_ai import PYDANTIC_AI
from goldspan.mappers.dialects.quarkus_langchain4j import QUARKUS_LANGCHAIN4J
from goldspan.mappers.dialects.reading.protocol import Dialect
from goldspan.mappers.dialects.semantic_kernel import SEMANTIC_KERNEL
from goldspan.mappers.dialects.shape import BY_SHAPE
from goldspan.mappers.dialects.spring_ai import SPRING_AI
from goldspan.mappers.dialects.uipath_traced import UIPATH
from goldspan.mappers.dialects.vercel_ai import VERCEL_AI
from goldspan.mappers.dialects.voltagent import VOLTAGENT
from goldspan.scoring.errors import Problem

ENTRY_POINT_GROUP = "goldspan.dialects"


def built_in_dialects() -> tuple[Dialect, ...]:
    """Return goldspan's own dialects in their order of precedence: the first that recognises a span's role names it.

    Specific dialects come before general ones.
    """
    return (
        GOOGLE_ADK,
        PYDANTIC_AI,
        SPRING_AI,
        QUARKUS_LANGCHAIN4J,
        EINO,
        GENKIT,
        LITELLM,
        OPENLLMETRY,
        LANGSMITH,
        VERCEL_AI,
        MASTRA,
        VOLTAGENT,
        LOGFIRE,
        LANGFUSE,
        MLFLOW,
        HAYSTACK,
        CLAUDE_CODE,
        SEMANTIC_KERNEL,
        UIPATH,
        AUTOGEN,
        OPENLIT,
        MCP,
        OPENINFERENCE_HAYSTACK,
        OPENINFERENCE,
        OTEL_GENAI,
        BY_SHAPE,
    )


def third_party_dialects(on_problem: Callable[[Problem], object]) -> Iterator[Dialect]:
    """Yield the dialects that other packages registered: an object each, or a callable that makes one.

    A registration that does not load, or loads no dialect, is a problem and nothing more.
    """
    for entry_point in _registered(tuple(map(_changed_at, sys.path))):
        try:
            loaded = entry_point.load()
            made = loaded if isinstance(loaded, Dialect) and not isinstance(loaded, type) else loaded()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - another package's code, maybe a script
            message = f"the dialect {entry_point.name!r} ({entry_point.value}) does not load: {error}"
            on_problem(Problem("bad_dialect", message, entry_point.name))
            continue
        if isinstance(made, Dialect):
            yield made
        else:
            message = f"{entry_point.value} makes a {type(made).__name__}; a dialect has a name, markers and read(span)"
            on_problem(Problem("bad_dialect", message, entry_point.name))


@lru_cache(1)
def _registered(_: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """Return what is registered in these folders; to look through every distribution takes longer than small traces."""
    return tuple(sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name))


def _changed_at(folder: str) -> tuple[str, int]:
    """Return a folder with when something was installed there last."""
    try:
        return folder, Path(folder).stat().st_mtime_ns
    except OSError:
        return folder, 0


def _ignore(_: Problem) -> None:
    pass


def default_dialects(on_problem: Callable[[Problem], object] = _ignore) -> tuple[Dialect, ...]:
    """Return the installed dialects in their order of precedence: third parties' first, then goldspan's."""
    return (*third_party_dialects(on_problem), *built_in_dialects())
