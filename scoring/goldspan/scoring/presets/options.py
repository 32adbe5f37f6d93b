"""Options of a preset: typed, named as the reproduced system names them, unknown ones refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from goldspan.scoring.errors import CriterionError


class PresetOptions(BaseModel):
    """The ancestor of every preset's options; camelCase is accepted beside snake_case."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, arbitrary_types_allowed=True
    )


OptionsT = TypeVar("OptionsT", bound=PresetOptions)


def read_options(preset: str, model: type[OptionsT], given: Mapping[str, Any]) -> OptionsT:
    """Check what the caller gave.

    Raises:
        CriterionError: an option is unknown (the message has the nearest name) or has a wrong value; all are listed.

    """
    aliases = {field.alias for field in model.model_fields.values() if field.alias}
    mistakes = [
        unknown_name(f"preset {preset!r} has no option", option, model.model_fields)
        for option in given
        if option not in model.model_fields and option not in aliases
    ]
    if mistakes:
        raise CriterionError("; ".join(mistakes))
    try:
        return model.model_validate(dict(given))
    except ValidationError as invalid:
        where = f"preset {preset!r}, option"
        wrong = (
            f"{where} {'.'.join(map(str, error['loc']))!r}: {error['msg']}, found {error['input']!r}"
            for error in invalid.errors(include_url=False)
        )
        raise CriterionError("; ".join(wrong)) from None


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """Write `what 'nmae': did you mean 'name'? It has to be one of name, other`."""
    choices = sorted(known)
    near = get_close_matches(name, choices, n=1)
    hint = f": did you mean {near[0]!r}?" if near else "."
    ruled = f" It has to be one of {', '.join(choices)}" if choices else " It takes none"
    return f"{what} {name!r}{hint}{ruled}"
