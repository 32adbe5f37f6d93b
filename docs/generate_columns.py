"""Print the columns of the table of results, from the declaration of its rows."""

from __future__ import annotations

import ast
import inspect
import sys
from datetime import datetime
from itertools import pairwise

from goldspan.collector_processor.engine.result_table import COLUMNS, ResultRow

TYPES = {str: "text", int: "int", float: "float", bool: "bool", datetime: "timestamp"}


def page() -> str:
    """Return the table."""
    [definition] = ast.parse(inspect.getsource(ResultRow)).body
    assert isinstance(definition, ast.ClassDef)
    meanings = {}
    for field, text in pairwise(definition.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(meaning))):
                told = " ".join(meaning.split()).replace("None", "null")
                meanings[name] = told[:1].upper() + told[1:]
            case _:
                pass
    rows = [f"| `{name}` | {TYPES[kind]} | {meanings.get(name, '')} |" for name, (kind, _) in COLUMNS.items()]
    return "\n".join(["| column | type | meaning |", "|---|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
