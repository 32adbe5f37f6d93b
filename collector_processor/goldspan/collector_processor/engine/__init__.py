"""The engine, without I/O: records in, evaluations out.

- `reading_policy`: which spans a door reads, which stay unread for a while, and which it holds.
- `trace_machine`: which turns of a trace are complete, which spans wait for a score, when a trace is dropped; settings.
- `session_scorer`: scores the turns and runs of a session; `evaluations` makes results and their corrections of that.
- `engine`: feeds both from a `store` of open traces, sessions and tombstones. The stages of a stream do so from rows.
"""

from __future__ import annotations
