"""The engine: de-duplication, completion, joining and revisions, without I/O."""

from __future__ import annotations
