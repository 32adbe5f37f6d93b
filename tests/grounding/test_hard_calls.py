"""Calls as people speak, in nine languages: each right as it is, and wrong with one value replaced."""

from __future__ import annotations

import json
from copy import deepcopy
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from goldspan.scoring.grounding.conversation import Passage
from goldspan.scoring.json_values import steps_of, value_at
from goldspan.scoring.metrics.grounding import ground_arguments

MONDAY = date(2025, 4, 14)

# What the user said, the arguments of the right call, and what makes it wrong.
CALLS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # English
    (
        "Book a table for the two of us next Friday at half past seven",
        {"guests": 2, "date": "2025-04-25", "time": "19:30"},
        {"time": "21:15"},
    ),
    ("Send my sister forty quid, her account is 8812-40", {"amount": 40, "account": "8812-40"}, {"amount": 70}),
    ("I weigh 11 stone and I'm five foot nine, log that", {"weight_lb": 154, "height_in": 69}, {"weight_lb": 190}),
    ("Split the 246.90 bill between three of us and tell me a share", {"amount": 82.3}, {"amount": 61.7}),
    ("Move the standup from 9 to a quarter to ten", {"time": "09:45"}, {"time": "11:20"}),
    (
        "Remind me the day after tomorrow to call HubSpot",
        {"date": "2025-04-16", "company": "HubSpot"},
        {"company": "Zendesk"},
    ),
    (
        "We need it open Monday to Thursday",
        {"days": ["Monday", "Tuesday", "Wednesday", "Thursday"]},
        {"days": ["Monday", "Sunday"]},
    ),
    ("Show sales from January to March 2024", {"start": "2024-01-01", "end": "2024-03-31"}, {"end": "2024-05-31"}),
    ("My budget is two and a half grand for a laptop", {"max_price": 2500}, {"max_price": 4200}),
    ("Take 15% off the 80 dollar jacket", {"price": 68}, {"price": 45}),
    # German
    (
        "Buche bitte einen Tisch für vier Personen am Freitag um 20 Uhr",
        {"guests": 4, "date": "2025-04-18", "time": "20:00"},
        {"guests": 7},
    ),
    (
        "Ich brauche am 3. Mai ein Zimmer in Köln für zwei Nächte",
        {"date": "2025-05-03", "city": "Köln", "nights": 2},
        {"nights": 6},
    ),
    (
        "Überweise 1.250,50 Euro an Frau Schäfer und das bitte heute",
        {"amount": 1250.5, "recipient": "Schäfer", "currency": "EUR"},
        {"recipient": "Krüger"},
    ),
    (
        "Verschiebe den Termin auf übermorgen um halb vier, das ist mir lieber",
        {"date": "2025-04-16"},
        {"date": "2025-04-29"},
    ),
    (
        "Wie wird das Wetter in Österreich und der Schweiz am Wochenende?",
        {"country": "Austria", "date": "2025-04-19"},
        {"country": "Norway"},
    ),
    ("Storniere die Bestellung A-4471-X und erstatte mir das Geld", {"order_id": "A-4471-X"}, {"order_id": "A-4417-X"}),
    ("Ein Dutzend Eier und drei Liter Milch, bitte", {"eggs": 12, "milk_liters": 3}, {"milk_liters": 8}),
    (
        "Ich möchte vom 12. bis 18. Juni ein Auto mieten, das nicht zu groß ist",
        {"start": "2025-06-12", "end": "2025-06-18"},
        {"end": "2025-06-28"},
    ),
    (
        "Erinnere mich jeden Dienstag und Donnerstag an die Tabletten",
        {"days": ["Tuesday", "Thursday"]},
        {"days": ["Monday"]},
    ),
    (
        "Das Paket wiegt fünf Kilogramm und ist 40 Zentimeter lang",
        {"weight": "5 kg", "length": "40 cm"},
        {"weight": "9 kg"},
    ),
    # French
    (
        "Réserve une table pour six personnes demain à 20h30",
        {"guests": 6, "date": "2025-04-15", "time": "20:30"},
        {"time": "18:10"},
    ),
    (
        "Je voudrais un billet pour l'Allemagne le 14 juillet",
        {"country": "Germany", "date": "2025-07-14"},
        {"country": "Portugal"},
    ),
    (
        "Annule la commande FR-99812 et envoie la facture à lea.martin@exemple.fr",
        {"order_id": "FR-99812", "email": "lea.martin@exemple.fr"},
        {"email": "leo.martel@exemple.fr"},
    ),
    (
        "Il me faut une douzaine de roses et deux vases pour samedi",
        {"roses": 12, "vases": 2, "date": "2025-04-19"},
        {"vases": 9},
    ),
    ("Mon budget est de 1 500 euros pour la semaine prochaine", {"budget": 1500, "currency": "EUR"}, {"budget": 3900}),
    (
        "Programme une réunion mercredi dans la salle Voltaire avec Mme Dupont",
        {"date": "2025-04-16", "room": "Voltaire", "attendee": "Dupont"},
        {"room": "Diderot"},
    ),
    ("Mets un minuteur de quinze minutes pour les pâtes", {"minutes": 15}, {"minutes": 35}),
    (
        "Quel temps fera-t-il après-demain à Marseille et dans les environs ?",
        {"date": "2025-04-16", "city": "Marseille"},
        {"city": "Bordeaux"},
    ),
    (
        "Je cours dix kilomètres chaque dimanche, note-le dans mon journal",
        {"distance_km": 10, "day": "Sunday"},
        {"day": "Tuesday"},
    ),
    ("Loue-moi une voiture du 3 au 9 août", {"start": "2025-08-03", "end": "2025-08-09"}, {"start": "2025-08-21"}),
    # Spanish
    (
        "Quiero dos entradas para el viernes a las 9 de la noche",
        {"tickets": 2, "date": "2025-04-18", "time": "21:00"},
        {"tickets": 5},
    ),
    (
        "Reserva un hotel en Sevilla del 5 al 8 de mayo para mi familia",
        {"city": "Sevilla", "check_in": "2025-05-05", "check_out": "2025-05-08"},
        {"city": "Granada"},
    ),
    ("Envía 300 pesos a mi hermano Ernesto", {"amount": 300, "recipient": "Ernesto"}, {"amount": 850}),
    ("Necesito que me llamen pasado mañana por la mañana", {"date": "2025-04-16"}, {"date": "2025-05-01"}),
    (
        "Mi pedido es el MX-20014 y llegó roto el lunes",
        {"order_id": "MX-20014", "date": "2025-04-14"},
        {"order_id": "MX-20041"},
    ),
    (
        "Compra tres kilos de naranjas y una docena de huevos para la cena",
        {"oranges_kg": 3, "eggs": 12},
        {"oranges_kg": 7},
    ),
    (
        "¿Cuánto cuesta volar a Japón en septiembre con mi mujer?",
        {"country": "Japan", "month": 9},
        {"country": "Korea"},
    ),
    (
        "Pon la alarma a las siete y media los lunes y miércoles",
        {"days": ["Monday", "Wednesday"]},
        {"days": ["Friday"]},
    ),
    ("Tengo 45 años y peso ochenta kilos, apunta los datos en mi ficha", {"age": 45, "weight": 80}, {"weight": 62}),
    (
        "Traduce esto al inglés para el cliente de Brasil, por favor",
        {"language": "English", "country": "Brazil"},
        {"country": "Chile"},
    ),
    # Chinese
    ("帮我订下周五晚上7点的位子, 四个人", {"date": "2025-04-25", "time": "19:00", "guests": 4}, {"guests": 9}),
    ("我想买两张5月1日去东京的机票", {"tickets": 2, "date": "2025-05-01", "city": "Tokyo"}, {"date": "2025-06-18"}),
    ("把订单TB20250088退款, 一共是三百五十元", {"order_id": "TB20250088", "amount": 350}, {"order_id": "TB20250808"}),
    ("后天下午三点半提醒我开会", {"date": "2025-04-16", "time": "15:30"}, {"time": "09:40"}),
    ("我的预算是500万, 想在浦东买房", {"budget": 5000000, "district": "浦东"}, {"budget": 7200000}),
    ("每周一和周三跑步, 每次5公里", {"days": ["Monday", "Wednesday"], "distance": "5km"}, {"distance": "12km"}),
    ("2024年11月3号到11月9号的销售报告", {"start": "2024-11-03", "end": "2024-11-09"}, {"end": "2024-11-29"}),
    ("给李明发邮件, 地址是 liming@corp.cn", {"name": "李明", "email": "liming@corp.cn"}, {"email": "lining@corp.cn"}),
    ("我要去德国出差半个月, 帮我查签证", {"country": "Germany"}, {"country": "France", "days": 47}),
    ("把会议改到明天上午十点", {"date": "2025-04-15", "time": "10:00"}, {"time": "16:25"}),
    # Japanese
    ("来週の火曜日に4人で予約したいです", {"date": "2025-04-22", "guests": 4}, {"guests": 8}),
    (
        "4月20日の午後6時に渋谷でお願いします",
        {"date": "2025-04-20", "time": "18:00", "place": "渋谷"},
        {"time": "13:45"},
    ),
    ("注文番号 JP-7781 をキャンセルしてください", {"order_id": "JP-7781"}, {"order_id": "JP-7718"}),
    ("明後日の東京の天気を教えて", {"date": "2025-04-16", "city": "Tokyo"}, {"date": "2025-05-06"}),
    ("予算は3万円で、ホテルを二泊探して", {"budget": 30000, "nights": 2}, {"budget": 52000}),
    ("田中さんに5000円送って", {"recipient": "田中", "amount": 5000}, {"amount": 8300}),
    ("7月10日から7月14日まで車を借りたい", {"start": "2025-07-10", "end": "2025-07-14"}, {"start": "2025-07-27"}),
    ("毎日7時半に起こして", {"time": "07:30"}, {"time": "05:10"}),
    ("体重は62キロ、身長は170センチメートルです", {"weight": 62, "height": 170}, {"height": 184}),
    ("フランス行きの航空券を三枚ください", {"country": "France", "tickets": 3}, {"tickets": 6}),
]


SPOKEN = [json.loads(one) for one in Path(__file__).with_name("spoken_calls.jsonl").read_text("utf-8").splitlines()]
"""Calls after a few messages and results, with the tool's schema or without; `wrong` has what each place could not be.

Their texts are of the kind that is dictated, mistyped and corrected: `0 double 7`, `tmrw like 6ish`, `без двадцати`.
They were written in twenty-six parts, each before any rule was made for it. In the first sixteen, of 24 to 60 calls
in up to 15 languages, 35, 13, 33, 14, 3, 18, 20, 10, 15, 7, 7, 4, 13, 10, 11 and 8 were flagged at first. The last
ten, of 60 calls in six languages each, were written in three parts without sight of the rules: 19, 18, 11, 12, 12,
15, 10, 9, 16 and 16 were flagged at first, and 53 of 67, 62 of 70, 62 of 74, 71 of 74, 80 of 115, 96 of 118, 84 of
119, 91 of 120, 48 of 65 and 50 of 69 wrong values found.
What is `dated` says which day it is.
"""
THURSDAY = date(2026, 3, 5)


def flagged(text: str, arguments: dict[str, Any]) -> bool:
    findings = ground_arguments(arguments, [Passage("user", text)], clock=MONDAY)
    return any(finding.failed for finding in findings)


@pytest.mark.skipif(find_spec("babel") is None, reason="babel is not installed")
def test_few_right_calls_are_flagged_and_most_wrong_values_found() -> None:
    alarms = [text for text, right, _ in CALLS if flagged(text, right)]
    missed = [text for text, _, wrong in CALLS if not flagged(text, wrong)]
    assert len(alarms) <= 0.15 * len(CALLS), alarms
    assert len(missed) <= 0.20 * len(CALLS), missed


def failing_places(call: dict[str, Any], arguments: dict[str, Any]) -> set[str]:
    said = [Passage("tool_result" if role == "tool" else role, text) for role, text in call["said"]]
    clock = None if call.get("dated") else THURSDAY
    findings = ground_arguments(arguments, said, call.get("parameters"), clock=clock)
    return {finding.path for finding in findings if finding.failed}


def with_value(arguments: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    changed = deepcopy(arguments)
    *steps, last = steps_of(path)
    holder = value_at(changed, steps)
    holder[int(last) if isinstance(holder, list) else last] = value
    return changed


@pytest.mark.skipif(find_spec("babel") is None, reason="babel is not installed")
def test_few_spoken_calls_are_flagged_and_most_wrong_values_found() -> None:
    alarms = [call["said"] for call in SPOKEN if failing_places(call, call["arguments"])]
    wrong = [(call, path, value) for call in SPOKEN for path, value in call["wrong"].items()]
    missed = [
        (call["said"], path, value)
        for call, path, value in wrong
        if path not in failing_places(call, with_value(call["arguments"], path, value))
    ]
    assert (len(SPOKEN), len(wrong)) == (1238, 1697)
    assert len(alarms) <= 0.15 * len(SPOKEN), alarms
    assert len(missed) <= 0.20 * len(wrong), missed
