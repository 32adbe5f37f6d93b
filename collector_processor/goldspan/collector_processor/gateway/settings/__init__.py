"""The settings file of the gateway."""

from __future__ import annotations
