"""The engine, without I/O: records in, evaluations out.

- `engine`: de-duplication by trace and span id, completion of traces, late spans, and what is dropped when.
- `judge`: scores complete turns and sessions, and makes evaluations and their corrections.
- `store`: the state: open traces, sessions, tombstones; and spans that a door did not feed, kept a while in case a
  golden wants their trace.
- `settings`: timeouts, bounds and counters.
"""

from __future__ import annotations
