"""The known value that is most like one that came from nowhere: for explanations."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import NamedTuple

from goldspan.scoring.grounding.conversation import Conversation
from goldspan.scoring.grounding.words import normalised, words_of

_LEAST_ALIKE = 0.7
_TRIED = 2000
_AROUND = re.compile(r"[^\s\"',;:()\[\]{}<>]*")


class Near(NamedTuple):
    """A known value, as it was written, and where."""

    text: str
    where: str


def nearest_known(value: str, conversation: Conversation, passages: int) -> Near | None:
    """Return the known word most like the most telling word of a value; None if none is alike."""
    words = sorted(words_of(normalised(value)), key=lambda word: (any(map(str.isdigit, word)), len(word)))
    if not words or len(words[-1]) < 4:
        return None
    wanted, end = words[-1], conversation.end(passages)
    best, best_ratio = "", _LEAST_ALIKE
    matcher = SequenceMatcher(None, "", wanted, autojunk=False)
    tried = 0
    for word in conversation.words(end):
        if abs(len(word) - len(wanted)) > 2 or len(word) < 4 or word == wanted:
            continue
        tried += 1
        matcher.set_seq1(word)
        if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio:
            ratio = matcher.ratio()
            if ratio > best_ratio:
                best, best_ratio = word, ratio
        if tried == _TRIED:
            break
    position = conversation.word_at(best, end) if best else None
    if position is None:
        return None
    passage = conversation.passages[conversation.passage_at(position)]
    return Near(_as_written(passage.text, best), passage.where)


def _as_written(text: str, word: str) -> str:
    """Return a word with what surrounds it up to white space and quotes: `#W2890441` for `w2890441`."""
    found = re.search(rf"[^\s\"',;:()\[\]{{}}<>]*{re.escape(word)}", text, re.IGNORECASE)
    if found is None:
        return word
    rest = _AROUND.match(text, found.end())
    return (found[0] + (rest[0] if rest else "")).rstrip(".?!")[:80]
