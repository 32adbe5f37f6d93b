"""Parts of pages that the code knows. They are made when the site is built, so that none is ever old.

A page names such a part by a comment, and says in the paragraph below how a reader of the repository gets it:

    <!-- made by generate_switches.page -->
    *Made when the site is built: `make docs`. `python docs/generate_switches.py` prints it.*
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).resolve().parent
PART = re.compile(r"<!-- made by (\w+)\.(\w+) -->\n(?:.+\n)*")


def filled(page: str) -> str:
    """Return the text of a page with its parts in the places of comments and paragraphs."""
    if str(HERE) not in sys.path:
        sys.path.append(str(HERE))
    return PART.sub(lambda part: getattr(import_module(part[1]), part[2])().rstrip() + "\n", page)
