"""Where a value of an argument came from: the first rule that explains it.

The user says `Two seats to Berkeley on Friday, my budget is $1,200`, and the agent calls `book` on a Monday:

    seats: 2                number word     a number that was said, in another form
    budget: 1200            literal         it was said as it is, up to case, punctuation and grouping
    place: "Berkeley, CA"   region          its parts were said; what was added is a form that people know
    date: "2024-05-17"      relative date   a word that was said leads from the day of the call to it
    email: "jo@x.org"       none            no rule explains it: it comes from nowhere before the call

Rules go from the plain to the derived, so that a value has its most telling origin: what the schema offers, what was
said as it is, then numbers, dates, codes and names that what was said stands for, then pieces and spellings. Each rule
is one function, and looks values up in the session's index (`conversation.py`). What a language has (its words, units,
months) is in tables: here, in `words.py`, `quantities.py` and `dates.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from datetime import date
from functools import cached_property, lru_cache
from itertools import chain, groupby, pairwise
from math import isfinite
from typing import Any

from msgspec.structs import replace

from goldspan.scoring.grounding.assumed import SaidByPeople, assumed
from goldspan.scoring.grounding.codes import SIGNS_OF_CURRENCIES, names_city_in, names_of, names_of_city
from goldspan.scoring.grounding.conversation import Conversation
from goldspan.scoring.grounding.dates import SHORT_DAYS
from goldspan.scoring.grounding.languages import with_digits
from goldspan.scoring.grounding.leaves import Kind, Leaf, Origin, name_says, text_of_leaf
from goldspan.scoring.grounding.moments import MomentFinder, moment_of
from goldspan.scoring.grounding.number_origins import NumberFinder, said
from goldspan.scoring.grounding.quantities import (
    ABBREVIATIONS,
    LARGEST_EXACT,
    UNITS_BY_STEM,
    as_number,
    quantities_of,
)
from goldspan.scoring.grounding.words import (
    FILLERS,
    NUMBER_WORDS,
    SHORT_FORMS,
    UNSPACED,
    camel_words,
    letters_in,
    normalised,
    one_edit,
    stem,
    words_of,
    words_of_number,
)
from goldspan.scoring.json_values import is_mapping, is_sequence
from goldspan.scoring.patterns import regex

_PROSE_WORDS = 7  # a text of at least so many words is prose: only the identifiers and numbers in it are judged
_NO_PREFERENCE = frozenset((
    "any", "all", "none", "null", "n/a", "na", "nil", "dontcare", "unknown", "default", "true", "false", "yes", "no",
    "unspecified", "anywhere",
))  # fmt: skip
"""Texts that say that nothing was chosen."""
_WRITTEN = frozenset((
    "query", "q", "search", "keyword", "keywords", "question", "prompt", "message", "text", "content", "body",
    "subject", "summary", "description", "reason", "comment", "comments", "note", "notes", "command", "code", "sql",
    "expression", "script", "thought", "instructions", "symptom", "symptoms", "problem", "issue", "fault", "motive",
    "motif", "motivo", "memo", "details", "title", "topic", "purpose", "complaint", "concept", "concepto", "causale",
    "betreff", "descripcion", "descrizione", "beschreibung", "nachricht", "mensaje", "messaggio", "mensagem", "remark",
    "remarks", "caption", "headline", "task", "oggetto", "asunto", "assunto", "objet", "testo", "texto", "texte",
    "resumen", "resume", "resumo", "riassunto", "libelle", "corpo", "cuerpo", "corps", "titolo", "titulo", "titre",
    "titel", "reminder",
))  # fmt: skip
"""Words in the names of parameters whose text an agent writes itself."""
_JUDGED = frozenset((
    "reason", "cause", "category", "priority", "urgency", "severity", "impact", "resolution", "issue", "problem",
    "symptom", "topic", "intent", "sentiment", "department", "purpose", "condition",
))  # fmt: skip
"""Words in the names of choices by which an agent sums up what was told."""
_EXAMPLE = regex(r"such as|e\.g|example|for instance|like|format|i\.e|例如|比如|[\uff0c,]如")
_OFFER = regex(
    r"default|use |if |options?|one of|can be|either|choose|choice|supported|possible|must be|available|values?"
    r"|omitted|specif|allowed|enum\b|valid|选项|可选|候选|支持|可能的值"
)
_SEVERAL = regex(r"['\"`]?\s*(?:[,、]|or\b|或)\s*['\"`]?\w")
_OFFERED_BEFORE = 300  # characters before a value in which a description may say that it offers it
_DIGIT = regex(r"\d")
_AMOUNT = regex(r"(\d{1,15})([^\W\d_]+)")  # a number with its unit: `72h`
_RUNS = regex(r"\d+|[^\W\d_]+")
_EXPRESSION = regex(r"(?=.*[*+^(=])[\d\s.,+*/^()=<>%-]+")
_CRON = regex(r"(?P<minute>[0-5]?\d) (?P<hour>[01]?\d|2[0-3])(?: [\d*?/,l-]+){2} [\w*?/,#-]+")
_RANGE = regex(r"(\d[\d,.]*)\s?[-\u2013~]\s?(\d[\d,.]*)")
_IN_WORDS = {str(digit): words_of_number(digit)[0] for digit in range(10)}
_LEAST_OF_TELEPHONE = 7
_LEAST_SPELLED, _LEAST_COMPOUND = 3, 6
_MANY_WORDS = 50  # a required choice of which nobody spoke was seldom wrong after more
_LONGEST_INTEGER = 4_096  # bits of an integer that is written as text
_EXTENSIONS = frozenset((
    "txt", "md", "csv", "json", "xml", "html", "pdf", "doc", "docx", "xls", "xlsx", "py", "js", "java", "log", "png",
    "jpg", "jpeg", "zip", "yaml", "yml",
))  # fmt: skip
_LONGEST_PREFIX = 2
_LONGEST_MOMENT = 40
_MOST_PLACES, _LONGEST_SAID = 20, 2_000  # messages in which a city is looked for, and characters of each
_LONGEST_NEAR = 40  # letters of a word that may be a spelling of another
_LONGEST_NAME = 60  # characters of a name in a script without spaces; each of its pieces is looked for
_NOT_CERTAIN = (Kind.UNKNOWN, Kind.ASSUMED)
_OPEN = (Kind.NONE, Kind.ASSUMED)
_NOWHERE, _TRIVIAL = Origin(Kind.NONE), Origin(Kind.TRIVIAL)
_MAPPED = r"['\"`)]*\s*(?:for|=|:|-|refers to|means|is|stands for|represents|to)\s+"


class OriginFinder:
    """Finds the origins of the values of one call; so many passages of a conversation were before it."""

    def __init__(
        self,
        conversation: Conversation,
        passages: int | None = None,
        days: Sequence[date] = (),
        original: OriginFinder | None = None,
    ) -> None:
        """`days` are those on which the call may have been made, for `tomorrow` and the like.

        `original` finds origins in what was said, where the conversation is its translation.
        """
        self._original = original
        self._conversation = conversation
        self._passages = len(conversation) if passages is None else passages
        self._end = conversation.end(self._passages)
        self._today = tuple(days)
        self._moments = MomentFinder(conversation, self._passages, self._today)
        self._numbers = NumberFinder(conversation, self._passages, self._moments, is_translated=original is not None)
        self._known: dict[str, bool] = {}

    @cached_property
    def _in_english(self) -> OriginFinder | None:
        english = self._conversation.in_english(self._passages)
        return None if english is None else OriginFinder(english, self._passages, self._today, self)

    @cached_property
    def _said_by_people(self) -> SaidByPeople:
        return SaidByPeople(self._conversation, self._passages)

    def origin(self, leaf: Leaf) -> Origin:
        """Return where a leaf came from."""
        found = self.explained(leaf)
        if found is not _NOWHERE and found.kind not in _OPEN:
            return found
        if (in_english := self._in_english) is not None:
            before, found = found, in_english.explained(leaf)
            found = replace(found, rule="translation") if found.rule == "literal" else found
            found = before if before.kind is Kind.ASSUMED and found.kind in (Kind.NONE, *_NOT_CERTAIN) else found
        if found.kind is not Kind.NONE or found.rule == "other choice":
            return found
        return assumed(leaf, self._said_by_people, is_choice=found.rule == "choice") or found

    def explained(self, leaf: Leaf) -> Origin:
        """Return the origin that a rule gives for a leaf, in the words that were said."""
        value = leaf.value
        if not isinstance(value, str):
            if value is None or isinstance(value, bool) or is_mapping(value) or is_sequence(value):
                return _TRIVIAL
            if isinstance(value, (int, float)):
                return self._explained_number(value, leaf)
        if value == "":
            return _TRIVIAL
        text = text_of_leaf(value)
        folded = normalised(text)
        if folded in _NO_PREFERENCE:
            return _TRIVIAL
        return self._declared(leaf, text) or self._text(text, folded, leaf) or _NOWHERE

    def _explained_number(self, value: float, leaf: Leaf) -> Origin:
        if isinstance(value, int) and abs(value) > LARGEST_EXACT:
            text = str(value) if value.bit_length() <= _LONGEST_INTEGER else ""
            found = self._declared(leaf, text) or (self._text(text, normalised(text), leaf) if text else None)
            return found or _NOWHERE
        if not isfinite(value):
            return _TRIVIAL
        return self._declared(leaf, str(value)) or self._numbers.origin(float(value), leaf) or _NOWHERE

    # What the schema offers.

    def _declared(self, leaf: Leaf, text: str) -> Origin | None:
        schema = leaf.schema
        if not schema:
            return None
        for key in ("default", "const"):
            if schema.get(key) is not None and _alike(leaf.value, schema[key]):
                return Origin(Kind.SCHEMA, key)
        enum = schema.get("enum")
        description = schema.get("description")
        described = description if isinstance(description, str) else ""
        if is_sequence(enum) and any(_alike(leaf.value, one) for one in enum):
            if len(enum) == 1 or self._mentioned(text, described):
                return Origin(Kind.SCHEMA, "enum")
            number = None if isinstance(leaf.value, str) else self._numbers.origin(float(leaf.value), leaf)
            return number or self._chosen(leaf, enum)
        return self._described(text, leaf.value, described) if described else None

    def _chosen(self, leaf: Leaf, offered: Sequence[Any]) -> Origin:
        """Return the origin of one of the values that a schema offers, which nothing before the call speaks of."""
        is_one_of_several = any(step.isdecimal() for step in leaf.path.split("/"))
        if not is_one_of_several and any(one != leaf.value and self._named(text_of_leaf(one)) for one in offered):
            return Origin(Kind.NONE, "other choice")
        must_be_spoken_of = leaf.required and "default" not in leaf.schema
        if must_be_spoken_of and (name_says(leaf.path, _JUDGED) or self._people_told_much):
            return Origin(Kind.ASSUMED, "what the agent makes of the words")
        return Origin(Kind.NONE, "choice") if must_be_spoken_of else Origin(Kind.SCHEMA, "enum")

    @cached_property
    def _people_told_much(self) -> bool:
        """Whether people said so many words that a choice may follow from their sense."""
        passages = zip(self._conversation.passages[: self._passages], self._conversation.texts, strict=False)
        return sum(text.count(" ") + 1 for passage, text in passages if passage.kind == Kind.USER) >= _MANY_WORDS

    def _mentioned(self, text: str, description: str) -> bool:
        words = [word for word in camel_words(text) if word not in FILLERS]
        amounts = filter(None, map(_AMOUNT.fullmatch, words))
        if not words or any(map(self._near, words)) or any(self._word(amount[1]) for amount in amounts):
            return True
        if self._conversation.phrase_at(words_of(normalised(text)), self._end) is not None:
            return True
        return self._explained(text, description) or self._code(text) is not None or self._spelled_out(text) is not None

    def _named(self, option: str) -> bool:
        """Whether a person said an option of a choice, as it is written."""
        words = words_of(normalised(option))
        position = self._conversation.phrase_at(words, self._end) if len(option) > 2 else None
        if position is None:
            return False
        return self._conversation.passages[self._conversation.passage_at(position)].kind == Kind.USER

    def _described(self, text: str, value: object, description: str) -> Origin | None:
        if normalised(text) not in _folded(description):
            return self._default_in_words(value, description)
        if self._explained(text, description):
            return Origin(Kind.SCHEMA, "description")
        for match in re.finditer(rf"(?<!\w){re.escape(text)}(?!\w)", description, re.IGNORECASE):
            said = description[max(0, match.start() - _OFFERED_BEFORE) : match.start()].lower()
            before = re.split(r"(?<!e\.g)[.;)]\s|。", said)[-1]
            after = description[match.end() : match.end() + 30].lower()
            if (example := _EXAMPLE.search(before)) is not None:
                several = re.search(r"\w\W*(?:[,、]|\bor\b|或)\W*$", before[example.end() :]) or _SEVERAL.match(after)
                if several and _is_word_of_choice(text):
                    return Origin(Kind.ASSUMED, "an example of the description")
                continue
            if _OFFER.search(before) or re.match(
                r"['\"`]?\s*(?:if|when|as default|by default|is default|to |for )", after
            ):
                return Origin(Kind.SCHEMA, "description")
            listed = re.search(r"\(([^()]*)$", before)
            if listed and ((before + after).count(",") >= 2 or "/" in before[-1:] + after[:1]):
                return Origin(Kind.SCHEMA, "description")
            if re.match(r"['\"]\s*(?:or|,)\s*['\"]", after) or re.search(r"['\"]\s*(?:or|,)\s*['\"]$", before):
                return Origin(Kind.SCHEMA, "description")
        return self._default_in_words(value, description)

    @staticmethod
    def _default_in_words(value: object, description: str) -> Origin | None:
        if isinstance(value, (int, float)):
            for match in re.finditer(r"default", description.lower()):
                said = description.lower()[match.start() : match.start() + 90]
                if any(quantity.value == value for quantity in quantities_of(said, letters_in(words_of(said)))):
                    return Origin(Kind.SCHEMA, "description")
        return None

    def _explained(self, text: str, description: str) -> bool:
        """Whether the description maps the value to something that was said: `1 for Bangkok, 2 for Chiang Mai`."""
        if not description or normalised(text) not in _folded(description):
            return False
        for match in re.finditer(rf"(?<!\w){re.escape(text)}{_MAPPED}([^,;.()]+)", description, re.IGNORECASE):
            label = [word for word in words_of(normalised(match[1])) if word not in FILLERS and len(word) > 2][:4]
            if any(self._conversation.form_at(word, self._end) is not None for word in label):
                return True
        return False

    # Texts.

    def _text(self, text: str, plain: str, leaf: Leaf) -> Origin | None:
        conversation = self._conversation
        words = words_of(plain)
        if not words:
            return _TRIVIAL
        if (position := conversation.phrase_at(words, self._end)) is not None:
            return self._said(conversation.passage_at(position))
        if _DIGIT.search(plain) is not None:
            if (made := self._made_of_numbers(plain, words)) is not None:
                return made
            number = as_number(text)
            is_code = text.isdecimal() and len(text) > 4
            if number is not None and not is_code and (numeric := self._numbers.origin(number, leaf)) is not None:
                return numeric
            if len(plain) <= _LONGEST_MOMENT and (moment := moment_of(plain)) is not None:
                return self._moments.origin(*moment, leaf)
        if (
            not text.isascii()
            and any(char >= UNSPACED for char in text)
            and (found := self._unspaced(plain)) is not None
        ):
            return found
        if text[0] >= UNSPACED and len(runs := _RUNS.findall(plain)) > 1 and all(map(self._run, runs)):
            return Origin(Kind.DERIVED, "join")
        return self._made_of_known(text, plain, words, leaf)

    def _made_of_numbers(self, plain: str, words: Sequence[str]) -> Origin | None:
        """Return the origin of a range or an expression whose numbers were all said."""
        if plain[0].isalpha():
            return None
        number = self._conversation.number
        if (ends := _RANGE.fullmatch(plain)) is not None:
            known = (as_number(one) for one in ends.groups())
            if all(one is not None and number(one, self._passages) for one in known):
                return Origin(Kind.DERIVED, "range")
        if (times := _CRON.fullmatch(plain)) is not None:
            told = (int(times["hour"]), int(times["minute"]))
            at = next((at for time, at in self._moments.times if time == told), None)
            return None if at is None else Origin(Kind.ASSUMED, "a schedule at a time that was said", at)
        if _EXPRESSION.fullmatch(plain) and all(number(float(one), self._passages) for one in words):
            return Origin(Kind.DERIVED, "expression")
        return None

    def _made_of_known(self, text: str, plain: str, words: Sequence[str], leaf: Leaf) -> Origin | None:
        """Return the origin of a text that was never said as a whole: of its words, of what it stands for."""
        unknown = [word for at, word in enumerate(words) if not self._word(word) and not self._numbered(words, at)]
        identifier = _is_identifier(text)
        if not unknown and not identifier and not FILLERS.issuperset(words):
            return Origin(Kind.DERIVED, "words")
        if len(words) >= _PROSE_WORDS:
            return self._prose(plain, unknown)
        for rule in (self._code, self._spelled_out, self._region, self._camel_case):
            if (found := rule(text)) is not None:
                return found
        if unknown and self._template(leaf, words, unknown):
            return Origin(Kind.DERIVED, "template")
        told = self._told_as_digits(text, words)
        return told or (self._identifier(words) if identifier else self._nearly_known(plain, words, unknown, leaf))

    def _run(self, run: str) -> bool:
        """Whether a run of digits or letters was said in a text without spaces: `3` and `号楼` of `3号楼`."""
        if run.isdecimal():
            return self._conversation.number(float(run), self._passages) is not None
        return self._unspaced(run) is not None

    def _told_as_digits(self, text: str, words: Sequence[str]) -> Origin | None:
        if not any(map(str.isdigit, text)):
            return None
        return self._told_in_pieces(text, words) or self._telephone(text, words)

    def _told_in_pieces(self, text: str, words: Sequence[str]) -> Origin | None:
        """Return the origin of what was told in other pieces, as `DE89 3704` and `0 double 7`."""
        if (at := self._digit_by_digit(text)) is not None:
            return Origin(Kind.DERIVED, "join", self._conversation.passage_at(at))
        if len(runs := _RUNS.findall("".join(words))) > 1 and (at := self._code_with_number(runs)) is not None:
            return Origin(Kind.DERIVED, "join", self._conversation.passage_at(at))
        spaced = [word for word in words if word[0] < UNSPACED or not self._word(word)]
        at = self._conversation.joined_at("".join(spaced), self._end)
        return None if at is None else Origin(Kind.DERIVED, "join", self._conversation.passage_at(at))

    def _digit_by_digit(self, text: str) -> int | None:
        """Return where a short number was told as its digits: `four one two`."""
        if not text.isdecimal() or not 1 < len(text) < _LEAST_OF_TELEPHONE:
            return None
        told = [[_IN_WORDS[str(int(digit))] for digit in text], *([[*text]] if self._original is not None else ())]
        return next((at for one in told if (at := self._conversation.phrase_at(one, self._end)) is not None), None)

    def _code_with_number(self, runs: Sequence[str]) -> int | None:
        """Return where letters and numbers stand one after the other, a number in words too: `F twenty-eight`."""
        parts = (words_of_number(int(run)) if run.isdecimal() and len(run) < 3 else [run] for run in runs)
        ways = ([*chain.from_iterable(parts)], list(runs))
        places = (self._conversation.phrase_at(way, self._end) for way in ways)
        return next((at for at in places if at is not None), None)

    def _telephone(self, text: str, words: Sequence[str]) -> Origin | None:
        """Return the origin of a number of a telephone that was said without the code of its country."""
        digits = "".join(words).removeprefix("00")
        if not text.startswith(("+", "00")) or not digits.isdecimal():
            return None
        for rest in (digits[code:] for code in (1, 2, 3) if len(digits) - code >= _LEAST_OF_TELEPHONE):
            places = (self._conversation.joined_at(one, self._end) for one in (f"0{rest}", rest))
            if (at := next((place for place in places if place is not None), None)) is not None:
                return Origin(Kind.ASSUMED, "the code of a country", self._conversation.passage_at(at))
        return None

    def _nearly_known(self, plain: str, words: Sequence[str], unknown: Sequence[str], leaf: Leaf) -> Origin | None:
        """Return the origin of a text whose unknown words are spellings of known ones, or its author's own."""
        if unknown and all(word.isalpha() and self._near(word) for word in unknown):
            return Origin(Kind.DERIVED, "spelling")
        if len(unknown) == 1 and unknown[0].isalpha() and self._pieces(unknown[0]):
            return Origin(Kind.DERIVED, "join")
        if plain[0] >= UNSPACED:
            written = len(plain) > 1 and 2 * sum(self._unspaced(char) is not None for char in plain) >= len(plain)
        else:
            written = " " in plain.strip() and len(unknown) < len(words)
        return self._prose(plain, unknown) if written and name_says(leaf.path, _WRITTEN) else self._longer_name(words)

    def _longer_name(self, words: Sequence[str]) -> Origin | None:
        """Return the origin of a name of which a shorter form was said: `Lyon-Saint-Exupéry` for `Saint-Exupéry`."""
        if words[0][0] >= UNSPACED:
            return self._longer_unspaced("".join(words))
        places = {word: self._place_of(word) for word in words}
        told = [place for place in places.values() if place is not None]
        added = [word for word, place in places.items() if place is None]
        is_named = any(map(str.isalpha, places.keys() - FILLERS - set(added)))
        if len(told) < 2 or any(later - one != 1 for one, later in pairwise(told)) or not is_named:
            return None
        if len(added) > len(told) or any(map(_DIGIT.search, added)):
            return None
        return Origin(Kind.ASSUMED, "a longer name", self._conversation.passage_at(told[0]))

    def _longer_unspaced(self, name: str) -> Origin | None:
        known = self._said_pieces(name) if len(name) <= _LONGEST_NAME else ""
        found = self._unspaced(known) if len(known) > 1 and 2 * len(known) >= len(name) else None
        return None if found is None else Origin(Kind.ASSUMED, "a longer name", found.passage)

    def _place_of(self, word: str) -> int | None:
        """Return where a word of a name was said first, in any form or for short."""
        at = self._conversation.form_at(word, self._end)
        short = (self._conversation.word_at(one, self._end) for one in SHORT_FORMS.get(word, ()) if at is None)
        return next((place for place in short if place is not None), at)

    def _said_pieces(self, text: str) -> str:
        """Return the pieces of two and more characters of a text without spaces that were said, put together."""
        found, start = "", 0
        while start < len(text):
            stops = range(len(text), start + 1, -1)
            stop = next((stop for stop in stops if self._unspaced(text[start:stop]) is not None), None)
            found += text[start:stop] if stop else ""
            start = stop or start + 1
        return found

    def _camel_case(self, text: str) -> Origin | None:
        """Return the origin of words that are written as one: `pendingOrders`."""
        words = camel_words(text) if not text.islower() else ()
        joined = len(words) > 1 and len(words) > len(words_of(normalised(text))) and not _is_identifier(text)
        return Origin(Kind.DERIVED, "words") if joined and all(map(self._word, words)) else None

    def _prose(self, plain: str, unknown: Sequence[str]) -> Origin | None:
        """Text that an agent writes is its own; identifiers and numbers in it are not."""
        numbers = {word for word in unknown if _DIGIT.search(word) is not None}
        if numbers and not numbers.issubset(self._moments.numbers_in(plain)):
            return None
        return Origin(Kind.FREE_TEXT)

    def _template(self, leaf: Leaf, words: Sequence[str], unknown: Sequence[str]) -> bool:
        """Whether known words stand in a form that the schema gives: `track:SongName artist:ArtistName`."""
        if leaf.schema.keys().isdisjoint(("description", "default")):
            return False
        given = _words_given(f"{leaf.schema.get('description', '')} {leaf.schema.get('default', '')}")
        known = [word for word in words if word not in unknown and word not in given and word not in FILLERS]
        return bool(known) and all(word in given for word in unknown)

    def _word(self, word: str) -> bool:
        if (known := self._known.get(word)) is None:
            known = self._known[word] = self._is_known(word)
        return known

    def _is_known(self, word: str) -> bool:
        conversation, end = self._conversation, self._end
        if word in FILLERS or conversation.form_at(word, end) is not None:
            return True
        if conversation.in_range(SHORT_DAYS.get(word, word), self._passages):
            return True
        if self._original is not None and (self._original._word(word) or self._in_range(word)):  # noqa: SLF001 - its own
            return True
        if word in SHORT_FORMS and any(conversation.word_at(one, end) is not None for one in SHORT_FORMS[word]):
            return True
        if word[0] >= UNSPACED:
            return self._unspaced(word) is not None or self._pieces(word)
        return (word.isalpha() and self._is_unit(word)) or self._quantity(word)

    def _is_unit(self, word: str) -> bool:
        """Whether a word is a unit that was said in another form: `km` for `kilometres`, and the other way round."""
        if (name := ABBREVIATIONS.get(word)) is not None and self._conversation.form_at(name, self._end) is not None:
            return True
        shorts = UNITS_BY_STEM.get(stem(word), ()) if word not in ABBREVIATIONS else (word,)
        return bool(shorts) and not self._short_units.isdisjoint(shorts)

    def _in_range(self, word: str) -> bool:
        """Whether a word is a name of those that were named together: `miércoles` of `de lunes a viernes`."""
        if word.isdecimal() or self._original is None:
            return False
        name = self._original._conversation.translated(word, self._passages)  # noqa: SLF001 - its own
        return self._conversation.in_range(name, self._passages)

    def _numbered(self, words: Sequence[str], at: int) -> bool:
        """Whether a word and the number after it were said in short, or at length: `terminal 5` for `T5`."""
        first = max(0, at - words[at].isdecimal())
        if len(words) <= first + 1 or not words[first + 1].isdecimal():
            return False
        word, number = words[first : first + 2]
        short = self._conversation.word_at(word[0] + number, self._end) is not None
        return short or self._conversation.numbered_at(word, number, self._end) is not None

    def _quantity(self, word: str) -> bool:
        """Whether a word is a number that was said, with a unit that was said or without."""
        if word[0].isdigit() and (number := as_number(word)) is not None:
            return self._conversation.number(number, self._passages) is not None
        if (amount := _AMOUNT.fullmatch(word)) is not None:
            return self._word(amount[1]) and self._word(amount[2])
        if word.isalpha() and word not in NUMBER_WORDS:
            return False
        for quantity in quantities_of(word, letters_in((word,))):
            if quantity.form != "digits" and self._conversation.number(quantity.value, self._passages) is not None:
                return True
        return False

    @cached_property
    def _short_units(self) -> Set[str]:
        said = ("mins", "hrs", "hr", "min", "lbs")
        known = (unit for unit in said if self._conversation.word_at(unit, self._end) is not None)
        return {*known, *(quantity.unit for quantity in self._moments.quantities)}

    def _identifier(self, words: Sequence[str]) -> Origin | None:
        """Return the origin of an identifier made of known pieces, or the end of a longer one.

        Its numbers, where several stand together, must have stood together: `2024-01-19` is not made of three numbers.
        """
        if words[-1] in _EXTENSIONS and len(words) > 1 and all(map(self._is_part_of_name, words[:-1])):
            return Origin(Kind.DERIVED, "words")  # a file that is called by them
        if words[0][0] >= UNSPACED and (found := self._longer_name(words)) is not None:
            return found
        if any(not self._is_piece(word) for word in words):
            amount = len(words) == 1 and _AMOUNT.fullmatch(words[0]) is not None and self._word(words[0])
            return Origin(Kind.DERIVED, "unit") if amount else None
        if not self._stood_together(words):
            return None
        return Origin(Kind.DERIVED, "join" if len(words) > 1 or not self._slice(words[0]) else "slice")

    def _is_part_of_name(self, word: str) -> bool:
        return word.isalpha() and self._conversation.form_at(word, self._end) is not None

    def _is_piece(self, word: str) -> bool:
        """Whether a word of an identifier is known, as a whole, in pieces, or but for the `#W` before its digits."""
        if self._conversation.word_at(word, self._end) is not None or self._pieces(word) or self._slice(word):
            return True
        runs = _RUNS.findall(word)
        long = max(runs, key=len, default="")
        if len(runs) > 1 and len(long) > 3 and all(map(self._word, runs)):
            return True
        return len(runs) == 2 and len(runs[0]) <= _LONGEST_PREFIX and long.isdecimal() and self._is_told(long)

    def _is_told(self, number: str) -> bool:
        """Whether a person named an identifier by its digits alone."""
        at = self._conversation.word_at(number, self._end) if len(number) > 4 else None
        passages = self._conversation.passages
        return at is not None and passages[self._conversation.passage_at(at)].kind == Kind.USER

    def _stood_together(self, words: Sequence[str]) -> bool:
        for digits, run in groupby(words, str.isdecimal):
            numbers = list(run)
            if digits and len(numbers) > 1 and self._conversation.phrase_at(numbers, self._end) is None:
                return False
        return True

    def _pieces(self, word: str) -> bool:
        if not 4 <= len(word) <= 60:
            return False
        unspaced = word[0] >= UNSPACED
        reached = {0}
        for start in range(len(word)):
            if start in reached:
                for stop in range(start + (2 if unspaced else 3), len(word) + 1):
                    piece = word[start:stop]
                    known = self._unspaced(piece) if unspaced else self._conversation.word_at(piece, self._end)
                    if known is not None:
                        reached.add(stop)
        return len(word) in reached

    def _slice(self, word: str) -> bool:
        return len(word) >= 4 and any(True for _ in self._conversation.words_ending(word, self._end))

    def _near(self, word: str) -> bool:
        """Whether a word that was said is one edit away, or is the beginning of the other."""
        if self._word(word):
            return True
        conversation, end, count = self._conversation, self._end, len(word)
        if count >= _LEAST_SPELLED and conversation.phrase_at(list(word), end) is not None:
            return True  # `M-U-L-L-E-R`
        if count < 4 or count > _LONGEST_NEAR:
            return False
        if self._is_compound(word) or any(True for _ in conversation.words_beginning(word, end)):
            return True
        # One edit leaves the first or the second half as it was.
        alike = chain(
            conversation.words_beginning(word[: count // 2], end),
            conversation.words_ending(word[(count + 2) // 2 :], end),
        )
        return count >= 5 and any(
            len(known) >= 4 and abs(len(known) - count) <= 1 and known.isalpha() and one_edit(known, word)
            for known in alike
        )

    def _is_compound(self, word: str) -> bool:
        """Whether a word that was said begins or ends another: `bahnhof` of `hauptbahnhof`."""
        begins = (word[:stop] for stop in range(4, len(word)))
        ends = (word[start:] for start in range(2, len(word) - _LEAST_COMPOUND + 1))
        return any(self._conversation.word_at(part, self._end) is not None for part in chain(begins, ends))

    def _unspaced(self, plain: str) -> Origin | None:
        wanted = plain if self._original is None else with_digits(plain)
        at = next((at for at in range(self._passages - 1, -1, -1) if wanted in self._conversation.texts[at]), None)
        return None if at is None else self._said(at)

    def _code(self, text: str) -> Origin | None:
        for part in (text, *(text.split(",")[:1] if "," in text else ())):
            for name in names_of(part):
                if all(self._conversation.form_at(word, self._end) is not None for word in name):
                    position = self._conversation.phrase_at(name, self._end)
                    at = None if position is None else self._conversation.passage_at(position)
                    return Origin(Kind.DERIVED, "code", at)
        if (sign := SIGNS_OF_CURRENCIES.get(text)) is not None:
            at = next((at for at in range(self._passages - 1, -1, -1) if sign in self._conversation.texts[at]), None)
            return None if at is None else Origin(Kind.DERIVED, "code", at)
        return self._city(text)

    def _city(self, text: str) -> Origin | None:
        """Return the origin of a city that was named in another language, or of the code of the country it is in."""
        if len(text) == 2 and text.isalpha() and text.isupper():
            said = range(max(0, self._passages - _MOST_PLACES), self._passages)
            at = next((at for at in said if self._names_city_in(text, at)), None)
            return None if at is None else Origin(Kind.DERIVED, "country of a city", at)
        known = not _DIGIT.search(text) and any(
            all(self._conversation.form_at(word, self._end) is not None for word in words_of(name))
            if name[0] < UNSPACED
            else self._unspaced(name) is not None
            for name in names_of_city(text)
        )
        return Origin(Kind.DERIVED, "name of a city") if known else None

    def _names_city_in(self, country: str, at: int) -> bool:
        text = self._conversation.texts[at]
        is_said = self._conversation.passages[at].kind == Kind.USER and len(text) <= _LONGEST_SAID
        return is_said and names_city_in(country, text, words_of(text))

    def _spelled_out(self, text: str) -> Origin | None:
        """Return the origin of initials for a name, or of a name for initials: `LA` and `Los Angeles, CA`."""
        first = words_of(normalised(text.split(",", maxsplit=1)[0]))
        if len(first) > 1:
            initials = "".join(word if word.isdecimal() else word[0] for word in first)
            tried = [known for known in (initials, initials + "c") if known not in FILLERS]
            position = next(
                (at for known in tried if (at := self._conversation.word_at(known, self._end)) is not None), None
            )
            if position is not None:
                return Origin(Kind.DERIVED, "initials", self._conversation.passage_at(position))
        elif first and first[0].isalpha() and 2 <= len(first[0]) <= 5:
            at = self._conversation.initials_at(first[0], self._end)
            if at is not None:
                return Origin(Kind.DERIVED, "initials", self._conversation.passage_at(at))
        return None

    def _region(self, text: str) -> Origin | None:
        """Return the origin of a place that was named, with the region or country that it is in: `Berkeley, CA`."""
        parts = [part.strip() for part in text.split(",")]
        if not 2 <= len(parts) <= 3 or len(text) > 60:
            return None
        place = [word for word in words_of(normalised(parts[0])) if word not in FILLERS and word != "city"]
        if not place or not all(self._near(word) for word in place):
            return None
        if all(
            part[:1].isupper() and len(part.split()) <= 3 and not any(char.isdigit() for char in part)
            for part in parts[1:]
        ):
            return Origin(Kind.DERIVED, "region")
        return None

    def _said(self, at: int) -> Origin:
        return said(self._conversation, at)


@lru_cache(1024)
def _words_given(about: str) -> Set[str]:
    """Return the words of what a schema says: it recurs with each call."""
    return {*camel_words(about), *words_of(normalised(about))}


_folded = lru_cache(1024)(normalised)
"""The same for a description as a whole."""


def _is_word_of_choice(text: str) -> bool:
    """Whether a text is a plain word, as choices are, and no name, number or identifier."""
    return text.replace(" ", "").replace("-", "").isalpha() and text == text.lower()


def _is_identifier(text: str) -> bool:
    return not text.isalpha() and " " not in text.strip() and any(char.isdigit() or char in "@_" for char in text)


def _alike(value: object, other: object) -> bool:
    if isinstance(value, (int, float)) and isinstance(other, (int, float)):
        return value == other
    if isinstance(value, str) and isinstance(other, str):
        return value == other or normalised(value) == normalised(other)
    return normalised(text_of_leaf(value)) == normalised(text_of_leaf(other))
