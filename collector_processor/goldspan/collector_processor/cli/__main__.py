"""`python -m goldspan.collector_processor.cli` is `goldspan`."""

from __future__ import annotations

from goldspan.collector_processor.cli import main

if __name__ == "__main__":
    main()
