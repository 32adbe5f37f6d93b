"""The settings of the gateway: sections and their fields, field types, and reading them from file and variables."""

from __future__ import annotations
