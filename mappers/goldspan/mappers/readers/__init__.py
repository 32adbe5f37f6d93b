"""Spans out of whatever holds them: one module for each container, one view for all.

    files: OTLP/JSON documents and lines, plain or gzipped     read_files
    SDK spans, OTLP messages, dicts, paths, given in memory    views

A reader decodes nothing before it is asked for, yields spans in the order of the input, and turns what it cannot
read into problems beside everything it can.
"""

from __future__ import annotations

from goldspan.mappers.readers.files import OnBytes, read_documents, read_files
from goldspan.mappers.readers.memory import views
from goldspan.mappers.readers.sdk import SdkReader

__all__ = ["OnBytes", "SdkReader", "read_documents", "read_files", "views"]
