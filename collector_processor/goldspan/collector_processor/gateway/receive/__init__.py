"""OTLP in: HTTP and gRPC receivers."""

from __future__ import annotations
