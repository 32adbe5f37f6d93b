"""What the gateway keeps on disk."""

from __future__ import annotations
