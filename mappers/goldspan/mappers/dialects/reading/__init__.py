"""What dialects are made of: rules, places of facts, messages, arguments."""

from __future__ import annotations
