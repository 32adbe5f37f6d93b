"""An ADK agent as `adk eval` wants it: a folder with a module `agent`."""

from __future__ import annotations

from . import agent as agent
