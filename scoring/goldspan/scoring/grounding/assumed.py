"""Values that no rule explains and an agent may have chosen with reason: what was said cannot tell right from wrong.

number_of_tickets: 1      nothing was said of a number
latitude: 48.8566         the user named Paris, and what everyone knows of it is in no text
symbol: "AMZN"            the user said Amazon
category: "shoes"         the user wrote in Chinese, and the tool's words are English
"""

from __future__ import annotations

import re
from itertools import islice

from goldspan.scoring.grounding.codes import is_currency
from goldspan.scoring.grounding.conversation import Conversation
from goldspan.scoring.grounding.dates import full_name, is_range_name
from goldspan.scoring.grounding.leaves import Kind, Leaf, Origin, name_says, text_of_leaf
from goldspan.scoring.grounding.quantities import as_number
from goldspan.scoring.patterns import regex

_COUNTS = frozenset((
    "number", "count", "quantity", "amount", "num", "adults", "children", "infants", "passengers", "guests", "people",
    "persons", "seats", "tickets", "rooms", "size", "min", "minimum", "level",
))  # fmt: skip
_PEOPLE_COUNTED = frozenset(("passengers", "guests", "people", "persons", "adults", "travelers", "party", "seats"))
_COORDINATES = frozenset(("latitude", "longitude", "lat", "lon", "lng", "coordinates"))
_PEOPLE = ("user", "assistant")
_MOST_PASSAGES = 50
"""So many of the latest passages are searched for a name."""
_NAME = regex(r"[A-Z]\w{2,}(?: [A-Z]\w+){0,2}")
_RANGE = regex(r"between|from|rang|scale|minimum|maximum|lowest|highest|at (?:least|most)")
_LAST_LATIN = "\u024f"


def assumed(leaf: Leaf, conversation: Conversation, passages: int, *, is_choice: bool) -> Origin | None:
    """Return why an agent may have chosen a value; none if what was said is all that it can come from."""
    value = leaf.value
    if isinstance(value, (int, float)):
        return _assumed_number(leaf, value, conversation, passages)
    text = text_of_leaf(value)
    words = text.isascii() and not any(map(str.isdigit, text)) and "@" not in text
    is_day = is_range_name(full_name(text.casefold()))
    if words and is_choice and not is_day and conversation.is_foreign(passages):
        return Origin(Kind.ASSUMED, "a choice in another language than what was said")
    if words and not is_currency(text) and _in_other_letters(conversation, passages):
        return Origin(Kind.ASSUMED, "in other letters than what was said")
    if 2 < len(text) < 6 and text.isupper() and text.isalpha():
        at = _named_by(text, conversation, passages)
        return None if at is None else Origin(Kind.ASSUMED, "a code of a name", at)
    return None


def _assumed_number(leaf: Leaf, value: float, conversation: Conversation, passages: int) -> Origin | None:
    if value in (0, 1) and name_says(leaf.path, _COUNTS):
        return Origin(Kind.ASSUMED, "none or one, where no number was said")
    others_counted = name_says(leaf.path, _PEOPLE_COUNTED) and conversation.number(value - 1, passages) is not None
    if others_counted and any(conversation.was_said(word, passages) for word in ("me", "myself")):
        return Origin(Kind.ASSUMED, "those who were counted, and the one who speaks")
    description = leaf.schema.get("description")
    if isinstance(description, str) and _RANGE.search(description.lower()):
        numbers = [as_number(word) for word in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w]|\.\d)", description)]
        if value in numbers:
            return Origin(Kind.ASSUMED, "a limit of its range")
    is_place = (
        abs(value) <= 180 and name_says(leaf.path, _COORDINATES) and not _speaks_of_coordinates(conversation, passages)
    )
    return Origin(Kind.ASSUMED, "the place of something that was named") if is_place else None


def _speaks_of_coordinates(conversation: Conversation, passages: int) -> bool:
    spoken = conversation.in_english(passages) or conversation
    return any(spoken.was_said(word, passages) for word in _COORDINATES)


def _in_other_letters(conversation: Conversation, passages: int) -> bool:
    """Whether a person said last, and most, in another script than Latin."""
    said = (at for at in range(passages - 1, -1, -1) if conversation.passages[at].kind == Kind.USER)
    texts = [conversation.texts[at] for at in islice(said, 5)]
    if all(map(str.isascii, texts)):
        return False
    text = "".join(texts)
    return 2 * sum(char > _LAST_LATIN for char in text) > sum(map(str.isalpha, text))


def _named_by(code: str, conversation: Conversation, passages: int) -> int | None:
    """Return the passage of a person with a name that begins like a code and has all its letters."""
    letters = set(code.lower())
    for at in range(passages - 1, max(-1, passages - 1 - _MOST_PASSAGES), -1):
        if conversation.passages[at].kind in _PEOPLE:
            names = (
                match[0].lower() for match in _NAME.finditer(conversation.passages[at].text) if match[0][0] == code[0]
            )
            if any(letters.issubset(name) for name in names):
                return at
    return None
