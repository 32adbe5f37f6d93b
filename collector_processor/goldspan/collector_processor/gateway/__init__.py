"""The gateway: receives OTLP, adds scores to the spans, and forwards everything. Started by `goldspan serve`.

    receive -> journal -> worker, with an engine for each tenant -> deliver

`pipeline` draws the way of one request. `server` starts and stops all of it, `admin` serves health and metrics,
`settings` declares what can be set. Where to look:

- a body is written before its request is acknowledged: `journal/body_log`
- recovery after a crash: `recovery`
- retries: `deliver/dispatcher`; requests refused for good: `deliver/outbox`
- which spans are read and which wait, memory of each tenant: `tenant`; quiet sessions: `compressed_store`
- attributes are appended to a span's bytes: `encoded_spans`
- a model is asked about sessions that are over: `background_judge`
- golden files are reloaded: `serving/process`; goldens seen and never seen: `worker`
- complete traces, late spans, duplicates: `goldspan.collector_processor.engine.engine`
"""

from __future__ import annotations
