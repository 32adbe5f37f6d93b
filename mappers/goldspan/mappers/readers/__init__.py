"""Reads spans and log records from files and from memory: one module a container, one view for all.

    files and directories: OTLP (JSON, protobuf), Jaeger, Tempo, Zipkin    read_files, read_marked
    SDK spans, OTLP messages, parsed JSON, paths, given in memory          views

A reader decodes nothing before it is asked for, yields spans in the order of the input, and turns what it cannot
read into problems beside everything it can.
"""

from __future__ import annotations
