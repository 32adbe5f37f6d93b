"""What a person reads: pages for the terminal, made of results and nothing else."""

from __future__ import annotations
