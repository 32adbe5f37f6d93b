"""The gateway: OTLP in, OTLP out, with scores on the spans that pass. Started by `goldspan serve`."""

from __future__ import annotations
