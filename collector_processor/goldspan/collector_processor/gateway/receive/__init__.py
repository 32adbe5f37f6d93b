"""Receiving OTLP over HTTP and gRPC: authentication, limits, decompression, JSON, responses."""

from __future__ import annotations
