"""Print the JSON Schema of golden files, for editors.

python docs/generate_golden_schema.py > config/golden-set.schema.json
"""

from __future__ import annotations

import json
import sys

from goldspan.scoring.goldens.json_schema import golden_set_schema


def page() -> str:
    """Return the whole file."""
    return json.dumps(golden_set_schema(), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
