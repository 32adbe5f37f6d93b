"""Values in the tool's form, said in other languages."""

from __future__ import annotations

from datetime import date
from importlib.util import find_spec
from typing import Any

import pytest

from goldspan.scoring.grounding.conversation import Conversation, Passage
from goldspan.scoring.metrics.grounding import ground_arguments

MONDAY = date(2025, 4, 14)
needs_names = pytest.mark.skipif(find_spec("babel") is None, reason="babel is not installed")


def failed(value: Any, text: str) -> bool:
    """Whether a value has no origin in what a user said on a Monday."""
    (finding,) = ground_arguments({"x": value}, [Passage("user", text, "user")], clock=MONDAY)
    return finding.failed


@needs_names
@pytest.mark.parametrize(
    "text",
    [
        "Bitte einen Tisch am 15. April 2025 und ein Zimmer",
        "Je voudrais une table pour le 15 avril 2025",
        "Quiero una mesa para el 15 de abril de 2025",
        "Quero uma mesa para o dia 15 de abril de 2025",
        "Vorrei un tavolo per il 15 aprile 2025",
        "Ik wil graag een tafel voor 15 april 2025",
        "Столик на 15 апреля 2025 года",
        "طاولة يوم 15 أبريل 2025",
        "मुझे 15 अप्रैल 2025 को एक मेज चाहिए",
        "2025年4月15日に予約をお願いします",
        "请预订2025年4月15日的座位",
        "2025년 4월 15일에 예약해 주세요",
    ],
)
def test_dates(text: str) -> None:
    assert not failed("2025-04-15", text)
    assert failed("2025-05-16", text)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Bitte für übermorgen und nicht später", "2025-04-16"),
        ("Je voudrais une table pour après-demain", "2025-04-16"),
        ("Quiero una mesa para pasado mañana", "2025-04-16"),
        ("Quero uma mesa para amanhã", "2025-04-15"),
        ("Vorrei un tavolo per domani", "2025-04-15"),
        ("послезавтра вечером", "2025-04-16"),
        ("后天下午", "2025-04-16"),
        ("明後日お願いします", "2025-04-16"),
        ("내일 예약", "2025-04-15"),
    ],
)
def test_words_that_lead_to_a_day(text: str, day: str) -> None:
    assert not failed(day, text)
    assert failed("2025-04-28", text)


@needs_names
@pytest.mark.parametrize(
    "text",
    ["am Freitag und für den Abend", "para el viernes con mi hija", "в пятницу", "这个星期五", "金曜日に", "금요일에"],
)
def test_weekdays(text: str) -> None:
    assert not failed("2025-04-18", text)
    assert not failed("Friday", text)
    assert failed("2025-04-17", text)


@pytest.mark.parametrize(
    "text",
    [
        "für vier Personen und ein Kind",
        "une table pour quatre personnes dans le jardin",
        "para cuatro personas en el jardín",
        "para quatro pessoas no jardim e o cão",
        "столик на четверых или четыре",
        "أربعة أشخاص",
        "चार लोग",
        "四个人",
        "네 명",
    ],
)
def test_numbers_in_words(text: str) -> None:
    assert not failed(4, text)
    assert failed(9, text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1250, "Ich habe ein Budget von 1.250 Euro für die Reise"),
        (5_000_000, "预算500万"),
        ("15:30", "今天下午三点半"),
        ("15:00", "um 15 Uhr, für die Familie"),
        ("2023-05-27", "2023年5月27号"),
    ],
)
def test_amounts_times_and_dates_as_they_are_written_elsewhere(value: Any, text: str) -> None:
    assert not failed(value, text)


@needs_names
@pytest.mark.parametrize(
    ("value", "text"),
    [("Germany", "eine Reise nach Deutschland für die Familie"), ("Tokyo", "东京的天气"), ("10 kilometers", "10公里")],
)
def test_names_of_places_and_units(value: str, text: str) -> None:
    assert not failed(value, text)


@needs_names
@pytest.mark.parametrize(
    ("value", "wrong", "text"),
    [
        (380, 515, "borcu öde, tutar üç yüz seksen lira"),
        ("19:30", "21:40", "bu akşam yedi buçukta bir yer olsun"),
        ("08:30", "13:10", "proszę umówić mnie jutro o wpół do dziewiątej rano"),
        (2500, 3900, "yaar mere bhai ko dhai hazaar rupaye bhej do"),
        ("tuesday", "sunday", "den Wecker bitte mo bis do, aber nicht so laut"),
        ("2025-04-12", "2025-04-09", "ieri l'altro ho corso con mio figlio"),
        (3500, 5800, "um apê até uns 3 mil e 500 por mês"),
        (90, 35, "会議室を1時間半押さえてください、参加は8人です"),
        ("12:30", "17:50", "décale mon rendez-vous de lundi à mardi midi et demi, s'il te plaît"),
        (15000, 42000, "만오천원짜리 쿠폰 써서 치킨 시켜줘"),
        (500, 770, "ابعت لأمي خمسمية جنيه"),
        ("2025-04-19", "2025-04-29", "Termin bitte für Sa. um 8 und nicht später"),
        ("2025-04-16", "2025-04-29", "لو سمحت موعد بعد بكرة"),
        ("2025-04-15", "2025-04-29", "kal shaam ke liye table book kar dena"),
        ("16:45", "13:20", "下午差一刻五点提醒我接娃"),
        ("14:30", "18:05", "सोमवार को दोपहर ढाई बजे मिलने का टाइम ले लो"),
        (3, 8, "월요일부터 사흘 동안 휴가 좀 올려줘"),
        ("2025-04-17", "2025-04-27", "pazartesi sabah bir randevum var, onu perşembeye al"),
        ("2025-04-15", "2025-04-27", "pls cancel tmrws pilates"),
        (299, 388, "रिचार्ज करना है, दो सौ निन्यानवे वाला प्लान"),
        (270, 345, "운동화 이백칠십으로 바꿔줘"),
        (115, 170, "iade istiyorum, yüz on beş lira"),
        (90, 45, "把空调定时改成再过一个半钟头关"),
        (0.5, 7, "мне бы пол-литра сметаны"),
        (250, 480, "ein halbes Pfund Butter und nicht mehr, bitte"),
    ],
)
def test_colloquial_amounts_times_and_days(value: Any, wrong: Any, text: str) -> None:
    assert not failed(value, text)
    assert failed(wrong, text)


def test_words_of_one_language_in_another_are_not_read() -> None:
    english = Conversation([Passage("user", "the report is due once the cat sat on it, at ten cents per page")])
    assert english.in_english(1) is None
    assert Conversation([Passage("user", "i want to do what i planned to")]).in_english(1) is None
    assert failed(11, "the report is due once the cat sat")


def test_a_conversation_goes_back_in_all_languages() -> None:
    conversation = Conversation([Passage("user", "hello"), Passage("user", "für vier Personen und ein Kind")])
    translated = conversation.in_english(2)
    assert translated is not None
    assert translated.number(4, 2) is not None
    conversation.go_back(1)
    assert translated.number(4, len(translated)) is None
    conversation.add(Passage("user", "für neun Personen und ein Kind"))
    assert conversation.in_english(2) is translated
    assert translated.number(9, 2) is not None


@needs_names
@pytest.mark.parametrize(
    ("text", "value", "other"),
    [
        ("Two nights from tomorrow, please", "2025-04-17", "2025-04-23"),
        ("Not this Thursday, the day after", "2025-04-18", "2025-04-23"),
        ("Resérvame para pasado mañana dos noches, por favor", "2025-04-18", "2025-04-23"),
        ("帮我把下周三的会挪到后一天", "2025-04-24", "2025-04-26"),
        ("the bill of last month", "2025-03", "2025-06"),
        ("查一下上个月的电费", "2025-03", "2024-11"),
        ("I must be there at ten to six", "05:50", "06:20"),
        ("Ponme la alarma de lunes a viernes, por favor", "wed", "sun"),
        ("c'est le zéro six, quarante-deux, dix-sept, quatre-vingts, trente-trois", "0642178033", "0642178043"),
        ("Переведи две с половиной тысячи и ещё триста", 2800, 3100),  # noqa: RUF001
        ("refund order 20261001-4482", "20261001-4482", "20261001-4428"),
        ("pay three quarters of the 1240 that I owe", 930, 870),
        ("Vorrei tre etti di prosciutto per stasera", 300, 450),
        ("Ich hätt gern drei Brezeln und doppelt so viele Semmeln", 6, 8),
        ("来一斤半草莓", 750, 900),
        ("회의실 잡아줘, 한 시간 반 쓸 거야", 90, 75),
        ("every Tuesday and Thursday, please", "tue", "sat"),
    ],
)
def test_what_follows_from_what_people_say(text: str, value: Any, other: Any) -> None:
    assert not failed(value, text)
    assert failed(other, text)
