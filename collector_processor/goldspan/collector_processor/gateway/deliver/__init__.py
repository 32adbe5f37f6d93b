"""Delivering OTLP: the outbox, the dispatcher and its retries, exporters for HTTP and gRPC, dead letters."""

from __future__ import annotations
