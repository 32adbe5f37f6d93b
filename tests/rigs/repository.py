"""Where things are in the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests/fixtures"
RECORDINGS = FIXTURES / "recordings"
RECORDING_NAMES = sorted(path.name.removesuffix(".otlp.json") for path in RECORDINGS.glob("*.otlp.json"))
