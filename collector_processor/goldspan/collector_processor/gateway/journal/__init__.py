"""What the gateway keeps on disk: the log of received bodies, and a database of everything that changes."""

from __future__ import annotations
