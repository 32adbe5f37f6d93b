"""How the parts of a dialect are read: rules, arguments, messages, log records, and what is hidden in them."""

from __future__ import annotations
