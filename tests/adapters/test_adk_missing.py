"""The adapter where google-adk is not installed."""

from __future__ import annotations

import subprocess
import sys

IMPORT = """
import sys
sys.modules["google.adk"] = None
try:
    import goldspan.collector_processor.adapters.adk
except ImportError as error:
    print(error)
"""


def test_the_extra_is_named() -> None:
    ran = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
    assert "needs google-adk" in ran.stdout
    assert "pip install 'goldspan[adk]'" in ran.stdout


def test_the_package_imports_nothing() -> None:
    program = "import sys; import goldspan.collector_processor.adapters; print('google.adk' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
