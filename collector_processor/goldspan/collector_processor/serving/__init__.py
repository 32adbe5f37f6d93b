"""What long-running servers share: the HTTP server, admin pages, TLS, reloading, settings and the process itself."""

from __future__ import annotations
