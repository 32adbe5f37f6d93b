"""Traces that a platform stores, read by its API into files: Phoenix, Langfuse, MLflow, Tempo and Jaeger.

An adapter is a generator of pages; `download.py` asks for them, retries, and keeps each answer as a file.
"""

from __future__ import annotations
