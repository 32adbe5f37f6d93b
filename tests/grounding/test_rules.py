"""Where a value comes from: one property for each documented rule."""

from __future__ import annotations

import json
import time
from datetime import date, timedelta
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from goldspan.scoring.grounding.conversation import Passage
from goldspan.scoring.metrics.grounding import ground_arguments
from goldspan.scoring.verdict import Finding

WEDNESDAY = date(2024, 5, 15)


def origin(value: Any, *texts: str, schema: dict[str, Any] | None = None, clock: date | None = None) -> Finding:
    """Judge one value of a parameter `x` after a user said some texts."""
    tool = None if schema is None else {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    (finding,) = ground_arguments({"x": value}, [Passage("user", text, "user") for text in texts], tool, clock=clock)
    return finding


def rule(value: Any, *texts: str, schema: dict[str, Any] | None = None, clock: date | None = None) -> str:
    """Name the kind of origin, or for what is derived and what the schema says, the rule."""
    found = origin(value, *texts, schema=schema, clock=clock)
    return found.message.partition(",")[0] if found.kind in ("derived", "schema") else found.kind


letters = st.text(st.sampled_from("bcdfghjklmnpqrstvwxz"), min_size=6, max_size=12)
"""Words that are no words of any table."""
amounts = st.integers(21, 99_999)

# Literal, words.


@given(letters, letters, st.integers(1000, 10**12))
def test_what_was_said_is_literal(one: str, other: str, number: int) -> None:
    text = f"please book {one} {other} as #{number}."
    for value in (one, f"{one} {other}", f"#{number}", number, str(number), one.upper()):
        assert rule(value, text) == "user"
    assume(f"{other}{one}" not in text)
    assert rule(f"q{other[1:]}7", text) == "none"


@given(st.integers(10**9, 10**25))
def test_of_an_integer_every_digit_counts(number: int) -> None:
    assert rule(number, f"order {number}") == "user"
    assert rule(number + 1, f"order {number}") == "none"


@given(letters, letters, letters)
def test_words_may_stand_apart_and_in_another_form(one: str, two: str, three: str) -> None:
    assume(not three.endswith("s"))  # it would have no other form
    text = f"the {three}s that {one} saw on the {two}"
    assert rule(f"{two} {three} {one}", text) == "words"


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        ("pendingOrders", "show my orders that are pending", "words"),
        ("ordering", "an order of shoes", "words"),
        ("Zürich", "we fly to ZÜRICH", "user"),
        ("東京", "明日東京に行きます", "user"),
        ("san francisco", "San\n  Francisco, please", "user"),
        ("gift_card_0000000", "use my gift card", "none"),
        ("P1003", "my patient is P1002", "none"),
    ],
)
def test_literal_and_words(value: str, text: str, expected: str) -> None:
    assert rule(value, text) == expected


# Numbers.

UNITS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def in_words(number: int) -> str:
    if number < len(UNITS):
        return UNITS[number]
    if number < 100:
        return TENS[number // 10 - 2] + (f"-{UNITS[number % 10]}" if number % 10 else "")
    if number < 1000:
        rest = number % 100
        return f"{UNITS[number // 100]} hundred" + (f" and {in_words(rest)}" if rest else "")
    rest = number % 1000
    return f"{in_words(number // 1000)} thousand" + (f" {in_words(rest)}" if rest else "")


@given(st.integers(20, 999_999).filter(lambda number: number % 1000 % 100 not in range(17, 20)))
def test_a_number_may_be_said_in_words(number: int) -> None:
    assume(number // 1000 % 100 not in range(17, 20))
    assert rule(number, f"i want {in_words(number)} of them") == "number word"
    assert rule(number * 1_000_003 + 17, f"i want {in_words(number)} of them") == "none"


@pytest.mark.parametrize(
    ("value", "text"),
    [(2, "a couple of beers"), (3, "the third one"), (12, "a dozen"), (0.5, "half of it"), (2_500_000, "2.5 million"),
     (1200, "$1,200"), (1200.5, "1.200,50 €"), (0.75, "3/4 cup"), (3e8, "3 x 10^8 m/s")],
)  # fmt: skip
def test_numbers_are_read_in_the_forms_people_write(value: float, text: str) -> None:
    assert not origin(value, text).failed


@given(st.integers(2, 500), st.sampled_from([("hours", 60), ("minutes", 60), ("weeks", 7), ("km", 1000), ("kg", 1000)]))
def test_a_quantity_may_be_in_another_unit(number: int, unit: tuple[str, int]) -> None:
    name, factor = unit
    assert not origin(number * factor, f"for {number} {name}").failed
    assert rule(number * factor * 1009, f"for {number} {name}") == "none"


@pytest.mark.parametrize(
    ("value", "text"),
    [(68, "it is 20 celsius"), (20, "it is 68 degrees fahrenheit"), (22.22, "72 °F"), (22, "72 °F")],
)
def test_temperatures_convert(value: float, text: str) -> None:
    assert rule(value, text) == "unit"
    assert (
        rule(value, text.replace("celsius", "cats").replace("degrees fahrenheit", "fish").replace("°F", "cm")) == "none"
    )


@given(st.integers(1, 99))
def test_a_percentage_is_a_share(number: int) -> None:
    assert not origin(number / 100, f"at {number}% interest").failed


@given(amounts)
def test_a_sign_may_change(number: int) -> None:
    assert rule(-number, f"withdraw {number} from it") == "sign"


@given(st.sampled_from(["less", "fewer", "lower", "under", "below"]), st.integers(22, 10**9))
def test_a_bound_may_be_its_last_number(word: str, number: int) -> None:
    assert rule(number - 1, f"{word} than {number}") == "bound"
    assert rule(number + 1, f"more than {number}") == "bound"
    assert rule(number - 3, f"{word} than {number}") == "none"


@given(st.integers(100, 9999), st.integers(3, 99), st.integers(2, 9))
def test_arithmetic_needs_a_reason(one: int, two: int, three: int) -> None:
    text = f"{one} and {two} and {three}"
    for value in (one + two, one * two, one - two):
        if abs(value) >= 20:
            assert not origin(value, f"the total of {text}").failed
    for value in (one * 10_007 + 0.07, one * two * 7919 + 1):
        assert rule(value, f"the total of {text}") == "none"
    for value in (one * 101 + two + 0.37, one + two * 1013 + 0.41):
        assert rule(value, f"{value - one:.2f}, {text}") == "arithmetic", "its digits are no chance"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (97.5, "add 19.5% of 500"),
        (26, "half of a deck of 52"),
        (200.29, "the difference of an additional 19.5% of 1000, and a fee of 5.29"),
        (44.45, "a tip of 18% on 246.95"),
        (1100, "the rent of 1000 goes up, an increase of 100"),
        (2016, "seven years ago, in 2023"),
    ],
)
def test_shares_and_amounts_that_people_speak_of(value: float, text: str) -> None:
    assert rule(value, text) == "arithmetic"
    assert rule(value + 17, text) == "none"


# Dates and times.

days = st.dates(date(1970, 1, 1), date(2068, 12, 31))
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def formats(day: date) -> list[str]:
    month = MONTHS[day.month - 1]
    return [
        day.isoformat(),
        f"{day:%Y/%m/%d}",
        f"{day:%Y%m%d}",
        f"{day:%m/%d/%Y}",
        f"{day:%d.%m.%Y}",
        f"{month} {day.day}, {day.year}",
        f"{month[:3]} {day.day} {day.year}",
        f"{day.day} {month} {day.year}",
        f"the {day.day}th of {month}, {day.year}",
    ]


@given(days, st.data())
def test_a_date_may_be_in_another_format(day: date, data: st.DataObject) -> None:
    said, passed = data.draw(st.sampled_from(formats(day))), data.draw(st.sampled_from(formats(day)))
    assert not origin(passed, f"on {said} please").failed
    other = day + timedelta(days=data.draw(st.integers(40, 300)))
    assume({other.day, other.month} != {day.day, day.month} and (other.month, other.day) not in ((1, 1), (12, 31)))
    assert rule(other.isoformat(), f"on {said} please") == "none"


@given(days)
def test_parts_of_a_date(day: date) -> None:
    text = f"on {MONTHS[day.month - 1]} {day.day}, {day.year}"
    for value in (day.year, day.month, day.day):
        assert not origin(value, text).failed
    assert rule(day.isoformat(), f"on {MONTHS[day.month - 1]} {day.day}") == "date without a year"


def test_a_part_that_was_not_said_is_none() -> None:
    assert rule(7, "on May 5, 2024") == "none"


@pytest.mark.parametrize(
    ("words", "days_later"),
    [("today", 0), ("tomorrow", 1), ("the day after tomorrow", 2), ("yesterday", -1), ("in 3 days", 3),
     ("in two weeks", 14), ("next Monday", 5), ("this Friday", 2), ("last Sunday", -3), ("next week", 7),
     ("this weekend", 3), ("next weekend", 3)],
)  # fmt: skip
def test_relative_dates_follow_the_clock(words: str, days_later: int) -> None:
    passed = (WEDNESDAY + timedelta(days=days_later)).isoformat()
    assert rule(passed, f"see you {words}", clock=WEDNESDAY) == "relative date"
    assert rule(passed, "see you", clock=WEDNESDAY) == ("assumed" if passed == WEDNESDAY.isoformat() else "none")
    assert (
        rule((WEDNESDAY + timedelta(days=days_later + 60)).isoformat(), f"see you {words}", clock=WEDNESDAY) == "none"
    )


@given(days, st.integers(-14, 14))
def test_a_weekday_is_within_two_weeks(clock: date, distance: int) -> None:
    passed = clock + timedelta(days=distance)
    assert rule(passed.isoformat(), f"on {passed:%A}", clock=clock) == "relative date"


def test_without_a_clock_a_relative_date_is_unknown() -> None:
    found = origin("2024-05-16", "see you tomorrow")
    assert (found.kind, found.failed) == ("unknown", False)
    assert rule("2024-05-16", "see you tomorrow", "today is 2024-05-15") == "relative date"


@given(st.integers(1, 11), st.integers(10, 59))
def test_times_of_day(hour: int, minute: int) -> None:
    assert not origin(f"{hour:02}:{minute}", f"at {hour}:{minute} am").failed
    assert not origin(f"{hour + 12}:{minute}:00", f"at {hour}:{minute} pm").failed
    assert rule(f"{hour:02}:{minute - 10:02}", f"at {hour}:{minute} pm") == "none"


@pytest.mark.parametrize(
    ("value", "text", "found"),
    [("12:00", "at noon", True), ("12:00", "this afternoon", False), ("17:30", "half past five", True),
     ("14:00", "2 o'clock", True), ("16:00", "from 2 pm for 2 hours", True),
     ("2024-05-16T14:00", "tomorrow at 2pm", True)],
)  # fmt: skip
def test_times_in_words(value: str, text: str, found: bool) -> None:
    assert origin(value, text, clock=WEDNESDAY).failed is not found


@given(days, st.integers(40, 400))
def test_time_between_two_dates(day: date, distance: int) -> None:
    assume(day.year + 2 < 2068)
    text = f"from {day.isoformat()} to {(day + timedelta(days=distance)).isoformat()}"
    assert not origin(distance, text).failed
    assert rule(5, "from 14:10 to 14:15") == "time between"
    assert rule(300, "from 14:10 to 14:15") == "time between"


# Choices.


def test_a_choice_counts_as_spoken_of_in_any_script_and_case() -> None:
    for value, text, others in (
        ("PayPal", "pay with PayPal please", ["PayPal", "Card"]),
        ("成人", "我们家都是成人。", ["成人", "儿童"]),
        ("72h", "for the next 72 hours", ["24h", "72h"]),
        ("Tuesday", "open from Monday to Friday", ["Monday", "Tuesday", "Sunday"]),
        ("Sunday", "open every day", ["Monday", "Sunday"]),
        ("activity", "activities for $400", ["activity", "meal"]),
    ):
        assert rule(value, text, schema={"enum": others}) == "enum", value
    assert rule("Sunday", "open from Monday to Friday", schema={"enum": ["Monday", "Sunday"]}) == "none"


def test_an_optional_choice_is_none_only_if_another_was_spoken_of() -> None:
    tool = {"type": "object", "properties": {"unit": {"enum": ["celsius", "fahrenheit"]}}}
    for said, failed in (("how warm is it?", False), ("how warm is it in fahrenheit?", True)):
        (found,) = ground_arguments({"unit": "celsius"}, [Passage("user", said)], tool)
        assert found.failed is failed
    assert found.message == "not the choice that was spoken of"


@pytest.mark.parametrize(
    "description",
    [
        'The door. [Enum]: ["driver", "passenger", "rear_left"]',
        "The door (driver/passenger).",
        "The side, 'passenger' or 'driver'.",
        "车门 候选集: {'driver', 'passenger'}",
    ],
)
def test_a_description_may_list_what_it_offers(description: str) -> None:
    assert rule("passenger", "lock it", schema={"description": description}) == "description"
    assert rule("trunk", "lock it", schema={"description": description}) == "none"


# What an agent may assume.


def test_what_was_said_cannot_tell_is_assumed() -> None:
    assert origin("AMZN", "the price of Amazon, please").kind == "assumed"
    assert origin("AMZN", "the price of Apple, please").kind == "none"
    assert origin("shoes", "Я хочу купить обувь").kind == "assumed"
    for arguments, said, kind in (
        ({"number_of_tickets": 1}, "book tickets for Dune", "assumed"),
        ({"number_of_tickets": 4}, "tickets for Dune", "none"),
        ({"latitude": 48.8566}, "the weather in Paris", "assumed"),
        ({"latitude": 48.8566}, "the weather at latitude 12.5", "none"),
    ):
        (found,) = ground_arguments(arguments, [Passage("user", said)])
        assert found.kind == kind, arguments
        assert found.failed is (kind == "none")


# Results as values.


@given(letters, st.integers(1000, 9999))
def test_results_are_read_as_values_in_any_wrapping(one: str, number: int) -> None:
    text = f"{one}\nINV-{number}\tü{one}"
    inner = json.dumps({"note": text})
    for wrapped in (inner, json.dumps({"output": text}), json.dumps({"content": [{"text": inner}]}), json.dumps(inner)):
        for value in (f"INV-{number}", f"ü{one}"):
            (found,) = ground_arguments({"x": value}, [Passage("tool_result", wrapped)])
            assert found.kind == "tool_result", wrapped


# Codes, places, pieces.


@pytest.mark.skipif(find_spec("pycountry") is None, reason="pycountry is not installed")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("DE", "we ship to Germany"),
        ("JPN", "a trip to Japan"),
        ("EUR", "in euros"),
        ("French", "code fr"),
        ("CA", "in California"),
    ],
)
def test_codes_of_countries_currencies_and_languages(value: str, text: str) -> None:
    assert rule(value, text) == "code"
    assert rule(value, "we ship to Atlantis") == "none"


@pytest.mark.skipif(find_spec("airportsdata") is None, reason="airportsdata is not installed")
@pytest.mark.parametrize(("value", "text"), [("SEA", "from Seattle"), ("BOS", "to Boston"), ("DEN", "via Denver")])
def test_codes_of_airports(value: str, text: str) -> None:
    assert rule(value, text) == "code"
    assert rule(value, "from Nowhere") == "none"


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        ("Lyon", "due cartoni da Bari a Lione", "name of a city"),
        ("Köln", "a parcel to cologne", "name of a city"),
        ("Antwerpen", "un hôtel à Anvers", "name of a city"),
        ("慕尼黑", "a flight to Munich", "name of a city"),
        ("CH", "trois colis vers Genève", "country of a city"),
    ],
)
def test_cities_by_other_names(value: str, text: str, expected: str) -> None:
    assert rule(value, text) == expected
    assert rule(value, "a parcel to Oslo") == "none"


def test_a_sign_beside_an_amount_is_its_currency() -> None:
    assert rule("GBP", "the change fee is £35") == "code"
    assert rule("GBP", "the change fee is $35") == "none"


@pytest.mark.parametrize(
    ("value", "text", "wrong"),
    [
        ("Aéroport Lyon-Saint-Exupéry", "un taxi jusqu'à l'aéroport st exupery", "Aéroport Marseille-Provence"),
        ("浦东国际机场T2航站楼", "去浦东机场T2", "首都国际机场T2航站楼"),
        ("新大阪", "東京から大阪まで", "新横浜"),
    ],
)
def test_a_longer_name_is_assumed(value: str, text: str, wrong: str) -> None:
    assert rule(value, text) == "assumed"
    assert rule(wrong, text) == "none"


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Zug nach Wien am Karfreitag", date(2024, 3, 29)),
        ("a table on Easter Monday", date(2024, 4, 1)),
        ("un gîte pour la Pentecôte", date(2024, 5, 19)),
        ("una mesa para Nochebuena", date(2024, 12, 24)),
        ("drinks on new year's eve", date(2024, 12, 31)),
    ],
)
def test_feasts_are_days(text: str, day: date) -> None:
    assert rule(day.isoformat(), text, clock=WEDNESDAY) in ("relative date", "date without a year")
    assert rule((day + timedelta(days=3)).isoformat(), text, clock=WEDNESDAY) == "none"


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        ("2024-05-16T15:00:00+08:00", "tomorrow at 3 pm", "relative date"),
        ("2024-05-16T15:00:00.000-05:00", "tomorrow at 3 pm", "relative date"),
        ("2024-05-16T16:00:00+08:00", "tomorrow at 3 pm", "none"),
        ("2024-05-27", "friday the 24th and the monday after", "relative date"),
        ("2024-05-15T12:00", "silence it until noon", "the day of the call"),
        ("2024-05-15T12:00", "silence it on friday until noon", "none"),
        ("45 5 * * 1-5", "every weekday at quarter to six in the morning", "assumed"),
        ("30 4 * * 1-5", "every weekday at quarter to six in the morning", "none"),
        (120, "两个小时后关掉", "unit"),
        (75, "pendant une heure et quart", "unit"),
        (1660, "5k in 27 min 40", "number word"),
        ("Tuesday", "iscrivimi a pilates il martedi alle sette", "user"),
        ("GH412LZ", "targa gi acca quattro uno due elle zeta, è una panda", "join"),
        ("B-KL 4471", "mein Kennzeichen ist B wie Berta, dann K L, vier vier sieben eins", "join"),
    ],
)
def test_what_people_say_in_their_way(value: Any, text: str, expected: str) -> None:
    assert rule(value, text, clock=WEDNESDAY) == expected


@pytest.mark.parametrize(
    ("name", "value", "text", "kind"),
    [
        ("amount_pence", 2500, "put twenty five quid on my oyster", "derived"),
        ("amount", 2500, "put twenty five quid on my oyster", "none"),
        ("total", 105, "60 for Carmen, 45 for Gonzalo", "derived"),
        ("amount", 105, "60 for Carmen, 45 for Gonzalo", "none"),
        ("each", 13.8, "split 41.40 evenly between me, tom and jess", "assumed"),
        ("each", 13.9, "split 41.40 evenly between me, tom and jess", "none"),
        ("working_days", 5, "from 6 to 10 July", "derived"),
        ("target_minutes", 110, "I aim for 1:50", "derived"),
        ("symptom", "腰痛", "腰が痛いので", "free_text"),
        ("clinic", "腰痛", "腰が痛いので", "none"),
    ],
)
def test_the_name_of_an_argument_tells_what_its_value_is(name: str, value: Any, text: str, kind: str) -> None:
    (finding,) = ground_arguments({name: value}, [Passage("user", text, "user")], clock=WEDNESDAY)
    assert finding.kind == kind


def test_dates_and_times_inside_prose_are_judged_as_such() -> None:
    text = "sag dem Team, das Standup ist ab Freitag um viertel nach neun statt zehn"
    told = "Hallo zusammen, ab Freitag, 17. Mai, ist das Standup um {} statt 10:00 Uhr."
    assert rule(told.format("9:15"), text, clock=WEDNESDAY) == "free_text"
    assert rule(told.format("11:20"), text, clock=WEDNESDAY) == "none"


def test_a_choice_may_sum_up_what_was_told() -> None:
    reasons = {"type": "string", "enum": ["defective", "wrong_item", "changed_mind"]}
    for name, said in (("reason", "it died on me"), ("choice", "it died on me" + " after a while" * 20)):
        tool = {"type": "object", "properties": {name: reasons}, "required": [name]}
        (finding,) = ground_arguments({name: "defective"}, [Passage("user", said, "user")], tool)
        assert finding.kind == "assumed"
    tool = {"type": "object", "properties": {"choice": reasons}, "required": ["choice"]}
    (finding,) = ground_arguments({"choice": "defective"}, [Passage("user", "it died on me", "user")], tool)
    assert finding.failed


@given(letters)
def test_a_place_may_get_its_region(place: str) -> None:
    assert rule(f"{place.title()}, Qwxland", f"weather in {place}") == "region"
    assert rule(f"{place.title()}, Qwxland", "weather in another town") == "none"


@given(letters, letters)
def test_initials_and_names(one: str, other: str) -> None:
    assert rule(f"{one} {other}".title(), f"in {one[0]}{other[0]}") == "initials"
    assert rule(f"{one[0]}{other[0]}".upper(), f"the {one} {other} office") == "initials"


@given(letters, letters, st.integers(1000, 9999))
def test_joins_and_slices(one: str, other: str, number: int) -> None:
    assume(one != other)
    text = f"{one} {other} with card 555512{number}"
    assert rule(f"{one}.{other}@{other}.{one}", text) == "join"
    assert rule(f"{one}_{other}", text) in ("join", "user")
    assert rule(f"{one}{other}", text) in ("join", "spelling")
    assert rule(str(number), text) == "slice"
    assert rule(f"{one}_{number + 10_000}", text) == "none"


@given(st.lists(st.integers(1000, 9999), min_size=3, max_size=3, unique=True))
def test_an_identifier_is_not_made_of_numbers_that_stood_apart(numbers: list[int]) -> None:
    one, two, three = numbers
    assert rule(f"{one}-{two}-{three}", f"{three} then {one} then {two}") == "none"
    assert rule(f"{one}-{two}-{three}", f"{one} {two} {three}") == "user"


@given(letters, letters)
def test_a_template_of_the_schema(one: str, other: str) -> None:
    schema = {"type": "string", "description": "Search in the form track:NAME artist:NAME"}
    assert rule(f"track:{one} artist:{other}", f"play {one} by {other}", schema=schema) == "template"
    assert rule(f"genre:{one} artist:{other}", f"play {one} by {other}", schema=schema) == "none"


@given(letters, st.data())
def test_spelling(word: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(word) - 1))
    edited = data.draw(
        st.sampled_from([word[:at] + word[at + 1 :], word[:at] + "y" + word[at + 1 :], word[:at] + "y" + word[at:]])
    )
    assert not origin(edited, f"play {word} now").failed
    assert rule(f"yy{word[2:]}y", f"play {word} now") == "none"


# Free text, trivial.


def test_free_text_is_judged_by_the_identifiers_and_numbers_in_it() -> None:
    text = "the customer would like to have the blue one exchanged soon"
    assert rule(text, "swap it, order #W17") == "free_text"
    assert rule(f"{text}, order W17", "swap it, order #W17") == "free_text"
    assert rule(f"{text}, order W18", "swap it, order #W17") == "none"


@pytest.mark.parametrize("value", [None, True, False, "", [], {}, " ", "...", "any", "N/A", float("nan"), float("inf")])
def test_trivial_values_need_no_origin(value: Any) -> None:
    assert rule(value) == "trivial"


# The schema.


@given(letters, st.integers(1000, 9999))
def test_defaults_and_constants_come_from_the_schema(word: str, number: int) -> None:
    for value in (word, number):
        assert rule(value, schema={"default": value}) == "default"
        assert rule(value, schema={"const": value}) == "const"
        assert rule(value, schema={"default": "other"}) == "none"


def test_an_optional_choice_may_be_made_and_a_required_one_must_be_spoken_of() -> None:
    schema = {"type": "object", "properties": {"size": {"enum": ["small", "large"]}}}
    passages = [Passage("user", "a pizza please")]
    (free,) = ground_arguments({"size": "large"}, passages, schema)
    (bound,) = ground_arguments({"size": "large"}, passages, {**schema, "required": ["size"]})
    (said,) = ground_arguments({"size": "large"}, [Passage("user", "a large pizza")], {**schema, "required": ["size"]})
    assert (free.kind, bound.kind, said.kind) == ("schema", "none", "schema")
    assert "required choice" in bound.message


CHOICE = {"enum": ["alpha", "beta"], "description": "Which one."}


@pytest.mark.parametrize(
    "schema",
    [
        CHOICE,
        {"anyOf": [CHOICE, {"type": "null"}]},
        {"$ref": "#/$defs/Choice"},
        {"allOf": [{"$ref": "#/$defs/Choice"}], "description": "mine"},
        {"anyOf": [{"const": "alpha"}, {"const": "beta"}]},
    ],
)
def test_choices_are_found_behind_references_and_alternatives(schema: dict[str, Any]) -> None:
    tool = {"properties": {"x": schema}, "$defs": {"Choice": CHOICE}}
    (known,) = ground_arguments({"x": "alpha"}, [], tool)
    (unknown,) = ground_arguments({"x": "gamma"}, [], tool)
    (inner,) = ground_arguments(
        {"x": ["alpha"]}, [], {"properties": {"x": {"items": schema}}, "$defs": {"Choice": CHOICE}}
    )
    assert (known.kind, unknown.kind, inner.kind) == ("schema", "none", "schema")


def test_a_schema_that_refers_to_itself_ends() -> None:
    node: dict[str, Any] = {
        "anyOf": [{"$ref": "#/$defs/Node"}, {"$ref": "#"}, {"$ref": "#/$defs"}, {"$ref": "#/nowhere"}]
    }
    tool = {"properties": {"x": node}, "$defs": {"Node": node}}
    assert ground_arguments({"x": {"x": {"x": "zzz"}}}, [], tool)[0].kind == "none"


@given(letters, letters)
def test_a_description_may_map_values_and_offer_them(one: str, other: str) -> None:
    assume(one != other)
    mapping = {"description": f"The room: 7001 for {one}, 7002 for {other}."}
    assert rule("7001", f"the {one} room", schema=mapping) == "description"
    assert rule("7003", f"the {one} room", schema=mapping) == "none"
    assert rule(other, schema={"description": f"How to sort: one of '{one}' or '{other}'."}) == "description"
    assert rule(other, schema={"description": f"The city, for example {other}."}) == "none"


@given(st.integers(21, 9999))
def test_a_description_may_name_the_default(number: int) -> None:
    assert rule(number, schema={"description": f"How many. The default is {number}."}) == "description"
    assert rule(number + 1, schema={"description": f"How many. The default is {number}."}) == "none"


def test_the_first_page_needs_no_origin() -> None:
    (finding,) = ground_arguments({"page": 0}, [Passage("user", "list them")])
    assert finding.kind == "trivial"


def test_each_value_has_its_place_and_what_came_from_nowhere_its_nearest() -> None:
    found = ground_arguments(
        {"orders": [{"id": "#W2890441"}, {"id": "#W2890442"}], "a/b": "hello"},
        [Passage("user", "hello"), Passage("tool_result", json.dumps({"id": "#W2890441"}), "result of find (call 1)")],
    )
    assert [(one.path, one.kind, one.failed) for one in found] == [
        ("/orders/0/id", "tool_result", False),
        ("/orders/1/id", "none", True),
        ("/a~1b", "user", False),
    ]
    assert found[1].detailed.endswith("nearest is #W2890441 in result of find (call 1)")
    assert "W289" not in found[1].message


@pytest.mark.parametrize(
    ("value", "said"),
    [("rear_left", "let me lock it"), ("test_results.json", "the result, please"), ("2015-01-01", "it was in 2010")],
)
def test_a_piece_of_a_value_is_not_its_nearest(value: str, said: str) -> None:
    assert "nearest" not in origin(value, said).detailed


@pytest.mark.parametrize("clock", [None, date(2026, 2, 25)])
@pytest.mark.parametrize("said", ["from the 31st on", "by March, next friday or on 9999-12-31", "9" * 400 + " of 5"])
@pytest.mark.parametrize(
    "value", ["9999-12-31", "0001-01-01", "\uff10\uff11", "\u00b2\uff15", "9" * 400, "1" + "0" * 500 + "-7"]
)
def test_no_value_ends_the_reading(value: str, said: str, clock: date | None) -> None:
    assert origin(value, said, clock=clock).kind


def test_a_long_text_without_spaces_is_read_at_once() -> None:
    """As long as a letter in Chinese: each piece of it was once looked for."""
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 4000)))
    begun = time.process_time()
    origin(text, text[::-1])
    assert time.process_time() - begun < 5
