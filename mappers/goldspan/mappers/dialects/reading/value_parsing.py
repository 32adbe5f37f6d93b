"""Reads recorded values: paths into them, ids, the arguments of a call, what is hidden, schemas.

Of arguments it tells whether they are complete (R10): absent, elided, redacted, cut off and unparsable are different
facts, and none of them is "no arguments".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from goldspan.scoring.json_values import is_dict, is_list, is_mapping, is_sequence, literal, loads, read_value
from goldspan.scoring.patterns import regex
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content

# Steps that dialect tables use to extract part of a recorded value. None means "not here".

Take = Callable[[Any], Any]


def decoded(value: Any) -> Any:
    """Decode JSON text; None if it is invalid. Other values are returned unchanged."""
    if isinstance(value, str):
        try:
            return loads(value)
        except (ValueError, RecursionError):
            return None
    return value


def decoded_dict(value: Any) -> dict[str, Any] | None:
    """Decode the text of an object, or take an object; none for anything else."""
    value = read_value(value)
    return value if is_dict(value) else None


def at(*path: str | int) -> Take:
    """Return a step that follows a path of keys and positions, and decodes text on the way."""

    def take(value: Any) -> Any:
        for step in path:
            value = read_value(value)
            if isinstance(step, str):
                value = _under(value, step)
            else:
                value = value[step] if is_sequence(value) and -len(value) <= step < len(value) else None
        return value

    return take


def _under(value: Any, key: str) -> Any:
    """Return what is under a key of an object, or of the only one in it: someone may have wrapped it."""
    for _ in range(3):
        if not is_mapping(value) or len(value) != 1 or key in value:
            break
        [value] = map(read_value, value.values())
    return value.get(key) if is_mapping(value) else None


def text_at(*path: str | int) -> Take:
    """Return a step that follows a path to a text; None if it finds anything else."""
    down = at(*path)

    def take(value: Any) -> Any:
        found = down(value)
        return found if isinstance(found, str) else None

    return take


def plain_text(value: Any) -> Any:
    """Take text as it is, and JSON text of a string as that string; objects and arrays are no text."""
    if not isinstance(value, str) or value[:1] in {"{", "["}:
        return None
    inner = decoded(value) if value[:1] == '"' else value
    return inner if isinstance(inner, str) else value


def only_text(value: Any) -> Any:
    """Take the only text among a call's arguments: plain, by name or by position."""
    if (text := plain_text(value)) is not None:
        return text
    found = decoded(value)
    if not is_mapping(found):
        return None
    args, kwargs = found.get("args"), found.get("kwargs")
    values = list(found.values())
    if is_sequence(args) and is_mapping(kwargs):
        values = [*args, *kwargs.values()]
    texts = [text for text in values if isinstance(text, str)]
    return texts[0] if len(texts) == 1 else None


def first_of(*steps: Take) -> Take:
    """Return the first of several steps that finds something."""

    def take(value: Any) -> Any:
        for step in steps:
            if (found := step(value)) is not None:
                return found
        return None

    return take


# Ids as senders write them.

_MAX_DIGITS_BITS = 512


_NULLS = frozenset({"null", "None", "undefined", "unknown"})
"""How writers of text write that there is no id: one for all who have none would join them."""


def identifier(value: object) -> str | None:
    """Return an id as text. Whole numbers are ids; blanks, nulls, what stands for a hidden one, other types are not."""
    if isinstance(value, str):
        text = str.__str__(value)  # plain text, whatever its class
        return text if text and not text.isspace() and text not in _NULLS and not is_redacted(text) else None
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _MAX_DIGITS_BITS:
        return str(value)
    return None


def positive_number(value: object) -> int | None:
    """Return a whole number from 1, also if it is written as text."""
    number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else value
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 < number < 1 << 31 else None


_OF_RESPONSE = "resp_"
"""How the ids of OpenAI's responses begin. Agent Framework writes that of the last one as the conversation's."""


def session_identifier(value: object) -> str | None:
    """Return the id of a session as text: no id of one answer, which is another in each turn."""
    found = identifier(value)
    return None if found is None or found.startswith(_OF_RESPONSE) else found


def session_identifiers(attributes: Mapping[str, Any], keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each of these keys that holds the id of a session, with the id."""
    for key in keys:
        if (found := session_identifier(attributes.get(key))) is not None:
            yield key, found


def first_identifier(attributes: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    """Return the first id under one of these keys."""
    return next((found for key in keys if (found := identifier(attributes.get(key))) is not None), None)


# Which recorded values are hidden or cut off (R10): redaction tokens, length limits, marks of truncation.

REDACTION_TOKENS = frozenset(
    {
        "__REDACTED__",  # OpenInference's TraceConfig
        "HIDDEN:non-empty",  # Koog, unless it is verbose
        "redacted-by-litellm",
        *("REDACTED", "MASKED"),
    }
)
"""Texts that replace a hidden value. A dialect may add its own."""

_MARK = regex(
    r"\*{3,}|\[Scrubbed due to.*"
    r"|[\[<({](?:redacted|masked|hidden|filtered|elided)(?![a-z])[^\[\]<>(){}]{0,80}[\]>)}]",
    re.IGNORECASE | re.DOTALL,
)
"""What masking writes in place of a whole text: `****` (the Collector's redaction processor, Presidio), `[REDACTED]`
(Strands, LangSmith), `<elided>` (google-adk), `[Filtered]` (Sentry), `[Scrubbed due to 'password']` (Logfire),
`[REDACTED_PERSON_1]` (LLM Guard)."""
_MARKS_BEGIN = frozenset("*[<({")
_CUT_MARKS = ("...", "\N{HORIZONTAL ELLIPSIS}", "[truncated]", "<truncated>", "(truncated)", "[TRUNCATED]")
_LITERALS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
_SCALARS = frozenset({str, int, float, bool, type(None), bytes})
_MAX_DEPTH = 100  # how deeply values are read, and searched for what is hidden


def is_redacted(text: str, tokens: frozenset[str] = REDACTION_TOKENS) -> bool:
    """Return whether a text is in the place of a value that was hidden."""
    return text in tokens or (text[:1] in _MARKS_BEGIN and _MARK.fullmatch(text) is not None)


def hidden_arguments(arguments: Mapping[str, Any], tokens: frozenset[str]) -> Mapping[str, Capture] | None:
    """Return the arguments that are hidden, by name; none where all are there."""
    if not _any_hidden(arguments.values(), tokens):
        return None
    return {name: Capture.REDACTED for name, value in arguments.items() if _any_hidden((value,), tokens)}


def _any_hidden(values: Iterable[Any], tokens: frozenset[str], depth: int = 0) -> bool:
    for value in values:
        if isinstance(value, str):
            if is_redacted(value, tokens):
                return True
        elif is_dict(value) or is_list(value):
            inside: Iterable[Any] = value.values() if is_dict(value) else value
            if depth <= _MAX_DEPTH and _any_hidden(inside, tokens, depth + 1):
                return True
    return False


def why_unparsable(written: str, text: str, error: Exception, beside: Mapping[str, Any]) -> Capture:
    """Tell JSON that a length limit cut from text that never was JSON, or that a model left unfinished."""
    if text[0] not in '{["':
        return Capture.UNPARSABLE
    if text.endswith(_CUT_MARKS):
        return Capture.TRUNCATED
    if isinstance(error, json.JSONDecodeError) and _ends_early(text, error) and _ends_at_a_limit(written, beside):
        return Capture.TRUNCATED
    return Capture.UNPARSABLE


def _ends_early(text: str, error: json.JSONDecodeError) -> bool:
    """Return whether more text could complete this JSON."""
    rest = text[error.pos :]
    return (
        not rest
        or error.msg.startswith("Unterminated string")
        or (error.msg.startswith("Invalid \\") and len(rest) <= 6)
        or any(literal.startswith(rest) for literal in _LITERALS)
        or rest in {"-", ".", "e", "E", "e+", "e-", "E+", "E-"}
    )


def _ends_at_a_limit(text: str, beside: Mapping[str, Any]) -> bool:
    """Return whether no text of the span is longer, and another text or a usual limit has this length.

    OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT counts characters; other processors count bytes, and drop a character that
    is cut in the middle.
    """
    texts = [value for value in beside.values() if isinstance(value, str)]
    lengths = [len(other) for other in texts]
    if len(text) == max(lengths, default=0) and (lengths.count(len(text)) > 1 or _is_usual_limit(len(text))):
        return True
    limit = max((_size(other) for other in texts), default=0)
    shared = sum(_may_end_at(other, limit) for other in texts) > 1
    return _may_end_at(text, limit) and (shared or _is_usual_limit(limit))


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", errors="replace"))


def _may_end_at(text: str, limit: int) -> bool:
    return limit - (0 if text.isascii() else 3) <= _size(text) <= limit


def _is_usual_limit(length: int) -> bool:
    """Limits are powers of two, or round numbers."""
    for limit in (length, length + 1):
        if limit >= 64 and limit & (limit - 1) == 0:
            return True
    digits = str(length)
    return length >= 100 and len(digits.rstrip("0")) <= 2 and digits.endswith("0")


Unwrap = Callable[[Any], Any]
"""Takes the decoded value and returns the arguments inside its envelope, or none where it is no such envelope."""


class Arguments(NamedTuple):
    """What is known of the arguments of one call."""

    content: Content = NO_CONTENT
    """Captured arguments are a dict in `raw`."""
    captures: Mapping[str, Capture] | None = None
    """Single arguments that are hidden, by name."""


NO_ARGUMENTS = Arguments()


def read_arguments(
    raw: object,
    beside: Mapping[str, Any],
    *,
    unwrap: Unwrap | None = None,
    python_repr: bool = False,
    tokens: frozenset[str] = REDACTION_TOKENS,
) -> Arguments:
    """Read arguments from an attribute value: JSON text, JSON in JSON, or an object.

    `beside` are the attributes of the same span: texts of theirs that end at the same length tell a length limit.
    `python_repr` says that the dialect writes Python literals where JSON is expected. Positional arguments have no
    names, so that a list is unparsable.
    """
    value = raw
    for _ in range(3):
        if isinstance(value, bytes):
            value = value.decode("utf-8", errors="replace")
        if not isinstance(value, str):
            break
        text = value.strip()
        if not text:
            return NO_ARGUMENTS
        if is_redacted(text, tokens):
            return Arguments(Content(raw, Capture.REDACTED))
        try:
            value = loads(text)
        except (ValueError, RecursionError) as error:
            evaluated = literal(text) if python_repr else None
            if evaluated is None:
                return Arguments(Content(raw, why_unparsable(value, text, error, beside)))
            value = evaluated
    if value is None:
        return NO_ARGUMENTS
    if unwrap is not None and (inner := unwrap(lists_and_dicts(value))) is not None:
        value = inner
    elif is_mapping(value) and (bound := unbound(value)) is not None:
        value = bound
    if not is_mapping(value):
        return Arguments(Content(raw, Capture.UNPARSABLE))
    arguments: dict[str, Any] = value if is_dict(value) and isinstance(raw, str) else lists_and_dicts(value)
    return Arguments(Content(arguments, Capture.CAPTURED), hidden_arguments(arguments, tokens))


def read_content(raw: object, tokens: frozenset[str] = REDACTION_TOKENS) -> Content:
    """Read a result, an answer or messages. They are kept as recorded and decoded on first use."""
    if raw is None:
        return NO_CONTENT
    if isinstance(raw, str):
        hidden = is_redacted(raw, tokens)
        return Content(raw, Capture.REDACTED if hidden else Capture.CAPTURED)
    return Content(lists_and_dicts(raw), Capture.CAPTURED)


def lists_and_dicts(value: Any, depth: int = 0) -> Any:
    """Turn the SDK's tuples and mappings into lists and dicts."""
    below = depth + 1
    if is_mapping(value):
        if depth >= _MAX_DEPTH:
            return None
        items = value.items()
        return {str(key): inner if type(inner) in _SCALARS else lists_and_dicts(inner, below) for key, inner in items}
    if is_sequence(value):
        if depth >= _MAX_DEPTH:
            return None
        return [inner if type(inner) in _SCALARS else lists_and_dicts(inner, below) for inner in value]
    return value


# Wrappings that instrumentations put around arguments. A dialect names the one it uses; nothing is guessed (R2).
#
# Each takes the decoded value and returns its content, or None if the value is not that envelope.


_BOUND: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "kwargs": {"args": [[]]},
    "value": {"type": ["json", "object", "text"]},
}
"""How a call in Python binds arguments, `{"args": [], "kwargs": {...}}`, and how a value is given with its type."""


def unbound(found: Mapping[str, Any]) -> Any:
    """Return what is in one of these envelopes, which no tool's own arguments look like; None for anything else."""
    for name, marks in _BOUND.items() if len(found) == 2 else ():
        if name in found and all(found.get(key, name) in values for key, values in marks.items()):
            return found[name]
    return None


def out_of_envelope(arguments: Arguments, name: str, schema: object) -> Arguments:
    """Return what is inside objects around a call's arguments, where the tool's schema knows that alone.

    So is what stands beside nothing but the tool's name: `{"tool_name": ..., "arguments": {...}}`. Around the arguments
    of a tool that takes none there are only empty values.
    """
    found = arguments.content.raw
    inside = _inside(found, name, schema) if is_mapping(found) else None
    return arguments if inside is None else Arguments(Content(inside, Capture.CAPTURED), arguments.captures)


def _inside(found: Mapping[str, Any], name: str, schema: object) -> Mapping[str, Any] | None:
    own = read_value(found.get("arguments")) if len(found) == 2 else None
    if is_mapping(own) and name in found.values():
        return own
    declared = read_value(schema) if any(map(is_mapping, found.values())) else None
    known = declared.get("properties") if is_mapping(declared) else None
    if known == {} and not any(found.values()):
        return {}
    while is_mapping(known) and known.keys().isdisjoint(found.keys()):
        inner = [value for value in found.values() if is_mapping(value) and value]
        if len(inner) != 1:
            return None
        found = inner[0]
        if known.keys() >= found.keys():
            return found
    return None


def bound_call(value: Any) -> Any:
    """`{"kwargs": {...}}` or `{"args": [], "kwargs": {...}}` of a Python call; `{"input_str", "inputs"}` of LangChain.

    Positional arguments have no names, so that they stay a list.
    """
    if not is_dict(value):
        return None
    if "input_str" in value:
        return value["inputs"] if is_dict(value.get("inputs")) else None
    args, kwargs = value.get("args", [] if len(value) == 1 else None), value.get("kwargs")
    if not is_list(args) or not is_dict(kwargs):
        return None
    return [*args, kwargs] if args else kwargs


# The schema of a tool's parameters from the arguments of a call: attributes named `parameters` hold either.

_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_COMBINING = frozenset({"anyOf", "allOf", "oneOf", "$ref", "enum", "const"})
_DESCRIBING = frozenset({"description", "title", "default", "examples"})


def is_schema(value: Any) -> bool:
    """Say whether a value, or its JSON text, is the schema of an object: JSON Schema, Gemini's, a dump of zod 3 or 4.

    A tool's definition around one is a schema too. An empty object is none.
    """
    value = decoded(value)
    return is_mapping(value) and (_declares_object(value) or _is_zod(value) or _is_wrapped(value))


def describes_parameters(value: Any) -> bool:
    """Say whether a value is a schema, or the map of a schema's properties by itself."""
    value = decoded(value)
    return is_schema(value) or (is_mapping(value) and bool(value) and _describes_each(value))


def _declares_object(value: Mapping[str, Any]) -> bool:
    if "$schema" in value:
        return True
    if _type_of(value) == "object":
        return any(key in value for key in ("properties", "additionalProperties", "required")) or len(value) == 1
    return is_mapping(value.get("properties")) and (not value["properties"] or _describes_each(value["properties"]))


def _type_of(value: Mapping[str, Any]) -> str | None:
    """Return the JSON type that a schema names; Gemini's are in capitals, and an enum's in Python's repr."""
    named = value.get("type", value.get("type_"))
    named = named[0] if is_sequence(named) and len(named) else named
    name = named.rpartition(".")[2].lower() if isinstance(named, str) else None
    return name if name in _TYPES else None


def _is_zod(value: Mapping[str, Any]) -> bool:
    """Say whether this is a dump of a zod schema, whose definition is `_def` (3), or `def` (4)."""
    if "~standard" in value or "_zod" in value:
        return True
    definition = value.get("_def", value.get("def"))
    return is_mapping(definition) and (isinstance(definition.get("typeName"), str) or "type" in definition)


def _is_wrapped(value: Mapping[str, Any]) -> bool:
    """Say whether this holds a schema: OpenAI's function, AI SDK's `jsonSchema`, MCP's and Anthropic's tool."""
    inner = value.get("function") if value.get("type") == "function" else None
    holders = (inner, value) if is_mapping(inner) else (value,)
    keys = ("parameters", "jsonSchema", "json_schema", "inputSchema", "input_schema", "schema")
    schemas = (schema for holder in holders for key in keys if is_mapping(schema := holder.get(key)))
    return any(_declares_object(schema) or _is_zod(schema) for schema in schemas)


def _describes_each(value: Mapping[str, Any]) -> bool:
    return all(is_mapping(inner) and _describes_one(inner) for inner in value.values())


def _describes_one(value: Mapping[str, Any]) -> bool:
    if _type_of(value) or not _COMBINING.isdisjoint(value):
        return True
    return _is_zod(value) or (not _DESCRIBING.isdisjoint(value) and (_DESCRIBING | {"type"}).issuperset(value))
