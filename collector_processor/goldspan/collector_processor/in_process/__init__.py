"""What the in-process door is made of: the spans it holds, the alarm that wakes it, and the pipeline they serve."""

from __future__ import annotations
