"""The published schemas of the documents of the command line."""

from __future__ import annotations

import json

from jsonschema import Draft202012Validator

from rigs.repository import ROOT


def _published(document: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((ROOT / f"config/{document}.schema.json").read_text("utf-8")))


INSPECT_SCHEMA = _published("inspect")
SCORE_SCHEMA = _published("score")
