"""Reads spans and log records from files and from memory: one module a container, one view for all.

    files and directories: OTLP (JSON, protobuf), Jaeger, Tempo, Zipkin    read_files, read_marked
    SDK spans, OTLP messages, parsed JSON, paths, given in memory          views

A reader decodes nothing before it is asked for, yields spans in the order of the input, and turns what it cannot
read into problems beside everything it can.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goldspan.mappers.readers.decompression import OnBytes
    from goldspan.mappers.readers.files import (
        RangeReading,
        read_documents,
        read_files,
        read_marked,
        reading_order,
        trace_files_in,
        views,
    )
    from goldspan.mappers.readers.sdk import SdkReader

__all__ = [
    "OnBytes",
    "RangeReading",
    "SdkReader",
    "read_documents",
    "read_files",
    "read_marked",
    "reading_order",
    "trace_files_in",
    "views",
]

_MODULES = {"OnBytes": "decompression", "SdkReader": "sdk"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562): an agent reads spans of the SDK, and no files."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'files')}"), name)
