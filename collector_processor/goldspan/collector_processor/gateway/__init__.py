"""The gateway: receives OTLP, adds scores to the spans, and forwards everything. Started by `goldspan serve`.

    receive -> journal -> worker, with an engine for each tenant -> deliver

`server` starts and stops all of it, `admin` serves health and metrics, `settings` declares what can be set.
"""

from __future__ import annotations
