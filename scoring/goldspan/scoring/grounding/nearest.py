"""For explanations: the known value that is most like one that came from nowhere, and where a value is in a result."""

from __future__ import annotations

import json
import re
from difflib import SequenceMatcher
from itertools import chain, islice
from typing import NamedTuple

from goldspan.scoring.grounding.conversation import Conversation, Passage
from goldspan.scoring.grounding.words import normalised, words_of
from goldspan.scoring.json_values import is_mapping, is_sequence, plain, pointer_to

_LEAST_ALIKE = 0.7
_TRIED = 200
_MOST_PLACES = 100_000
_LONGEST = 60
_AROUND = r"[^\s\"',;:()\[\]{}<>]*"


class Near(NamedTuple):
    """A known value, as it was written, and where."""

    text: str
    passage: Passage


def nearest_known(value: str, conversation: Conversation, passages: int) -> Near | None:
    """Return the known word most like a value, by its most telling word; None if none is alike as a whole."""
    words = reversed(words_of(normalised(value)))
    telling = max(words, key=lambda word: (any(map(str.isdigit, word)), len(word)), default="")
    if len(telling) < 4:
        return None
    wanted, end = telling[:_LONGEST], conversation.end(passages)
    half = len(wanted) // 2
    alike = chain(conversation.words_beginning(wanted[:half], end), conversation.words_ending(wanted[-half:], end))
    near = list(islice((one for one in alike if abs(len(one) - len(wanted)) <= 2 and one != wanted), _TRIED))
    if not near:
        return None
    best, best_ratio = "", _LEAST_ALIKE
    matcher = SequenceMatcher(None, "", wanted, autojunk=False)
    for word in near:
        matcher.set_seq1(word)
        if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio:
            ratio = matcher.ratio()
            if ratio > best_ratio:
                best, best_ratio = word, ratio
    position = conversation.word_at(best, end) if best else None
    if position is None:
        return None
    passage = conversation.passages[conversation.passage_at(position)]
    written = str(plain(_as_written(passage.text, best)))
    matcher.set_seqs(normalised(written), normalised(value)[:_LONGEST])
    return Near(written, passage) if matcher.ratio() >= _LEAST_ALIKE else None  # a piece of it explains nothing


def _as_written(text: str, word: str) -> str:
    """Return a word with what surrounds it up to white space and quotes: `#W2890441` for `w2890441`."""
    found = re.search(f"{_AROUND}{re.escape(word)}{_AROUND}", text, re.IGNORECASE)
    return word if found is None else found[0].rstrip(".?!\u3002\uff0c\u3001")[:80]


def place_in(passage: Passage, value: object) -> str:
    """Return the JSON Pointer of a value, or of the first text that holds it, in a result that is JSON; else `""`."""
    try:
        document = json.loads(passage.text) if passage.kind == "tool_result" else None
    except (ValueError, RecursionError):
        return ""
    wanted = f" {' '.join(words_of(normalised(str(value))))} "
    holding = ""
    waiting: list[tuple[tuple[str, ...], object]] = [((), document)]
    for _ in range(_MOST_PLACES):
        if not waiting:
            break
        steps, one = waiting.pop()
        if is_mapping(one):
            waiting += reversed([((*steps, key), inner) for key, inner in one.items()])
        elif is_sequence(one):
            waiting += reversed([((*steps, str(at)), inner) for at, inner in enumerate(one)])
        elif one == value and isinstance(one, bool) == isinstance(value, bool):
            return pointer_to(steps)
        elif not holding and wanted.strip() and wanted in f" {' '.join(words_of(normalised(str(one))))} ":
            holding = pointer_to(steps)
    return holding
