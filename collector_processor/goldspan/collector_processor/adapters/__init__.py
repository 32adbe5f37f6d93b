"""goldspan as a metric of other evaluation frameworks, one module for each. Import the one that you use."""

from __future__ import annotations
