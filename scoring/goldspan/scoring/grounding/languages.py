"""Texts of other languages, read in English where numbers, days, times, units, places and currencies are named.

    "am 15. April, für vier Personen"  ->  "am 15. april , für 4 personen"
    "下周五下午3点, 500万日元"              ->  "next week friday 3:00 pm , 5000000 japanese yen"

Names are those of CLDR in `babel`, where it is installed: the extra `grounding`. What CLDR lacks is here: number words,
and words that lead from one day to another. A text is read in the languages that its script or its small words show, so
the tables of others are never loaded.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

_SMALL_WORDS = {
    "de": "der die das und ich für den ein eine nicht ist mit bitte von im zum zur wir mein auf noch uns",
    "fr": "le la les et je pour des une du nous est dans mon avec sur au il faut vous moi que deux",
    "es": "el la los y para una del quiero con en mi por las que necesito un al me favor",
    "pt": "o os para uma do quero com em meu por as que preciso um no na da eu dos nos",
    "it": "il lo gli per una del vorrei con di mio che un al la le ho da mi alle dei prenotare",
    "nl": "de het een en ik voor van met mijn niet op wij graag naar om te we is er onze",
    "pl": "na do się proszę dla i w od mam chcę jest z po", "tr": "bir ve için bu ile lütfen bana ben gün de",
    "sv": "och jag för att en ett till med på det är vi min", "id": "saya untuk dan di ke yang ini dengan dari tolong",
    "vi": "tôi cho và ngày đến của một vào muốn đặt",
}  # fmt: skip
"""Words by which a text in Latin letters is known to be in a language: two of them are enough."""
_SCRIPTS = tuple(
    (re.compile(f"[{letters}]"), tuple(languages.split()))
    for letters, languages in (
        ("\u3040-\u30ff", "ja"), ("\u4e00-\u9fff", "zh ja"), ("\uac00-\ud7a3", "ko"), ("\u0400-\u04ff", "ru"),
        ("\u0600-\u06ff", "ar"), ("\u0900-\u097f", "hi"), ("\u0e00-\u0e7f", "th"),
    )
)  # fmt: skip
_COUNTED = (*range(13), 15, *range(20, 100, 10), 100, 1000, 0.5)
_NUMBERS = {
    "de": (
        "null ein/eins/eine/einen/einem/einer zwei/zwo drei vier fünf sechs sieben acht neun zehn elf zwölf "
        "fünfzehn zwanzig dreißig/dreissig vierzig fünfzig sechzig siebzig achtzig neunzig hundert/einhundert "
        "tausend halb"
    ),
    "fr": (
        "zéro un/une deux trois quatre cinq six sept huit neuf dix onze douze quinze vingt trente quarante "
        "cinquante soixante soixante-dix quatre-vingts/quatre-vingt quatre-vingt-dix cent mille demi"
    ),
    "es": (
        "cero uno/una/un dos tres cuatro cinco seis siete ocho nueve diez once doce quince veinte treinta "
        "cuarenta cincuenta sesenta setenta ochenta noventa cien/ciento mil medio"
    ),
    "pt": (
        "zero um/uma dois/duas três quatro cinco seis sete oito nove dez onze doze quinze vinte trinta "
        "quarenta cinquenta sessenta setenta oitenta noventa cem/cento mil meio"
    ),
    "it": (
        "zero uno/una/un due tre quattro cinque sei sette otto nove dieci undici dodici quindici venti trenta "
        "quaranta cinquanta sessanta settanta ottanta novanta cento mille mezzo"
    ),
    "nl": (
        "nul een/één twee drie vier vijf zes zeven acht negen tien elf twaalf vijftien twintig dertig veertig "
        "vijftig zestig zeventig tachtig negentig honderd duizend half"
    ),
    "ru": (
        "ноль один/одна/одну/одного два/две/двух/двоих три/трёх/трех/троих четыре/четырёх/четырех пять/пяти "
        "шесть/шести семь/семи восемь/восьми девять/девяти десять/десяти одиннадцать двенадцать пятнадцать "
        "двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто сто/ста "
        "тысяча/тысячи/тысяч пол"
    ),
    "ar": (
        "صفر واحد/واحدة اثنان/اثنين/شخصين ثلاثة/ثلاث أربعة/أربع خمسة/خمس ستة/ست سبعة/سبع ثمانية/ثمان تسعة/تسع "
        "عشرة/عشر أحد_عشر اثنا_عشر خمسة_عشر عشرون/عشرين ثلاثون/ثلاثين أربعون/أربعين خمسون/خمسين ستون/ستين "
        "سبعون/سبعين ثمانون/ثمانين تسعون/تسعين مئة/مائة ألف نصف"
    ),
    "hi": (
        "शून्य एक दो तीन चार पांच/पाँच छह/छः सात आठ नौ दस ग्यारह बारह पंद्रह बीस तीस चालीस पचास साठ सत्तर "
        "अस्सी नब्बे सौ हज़ार/हजार आधा"
    ),
    "ko": (
        "영 하나/한_명/한_개/한_장 둘/두_명/두_개/두_장/두_사람 셋/세_명/세_개/세_장 넷/네_명/네_개/네_장 다섯 여섯 "
        "일곱 여덟 아홉 열_명/열_개 열한 열두 열다섯 스물/스무 서른 마흔 쉰 예순 일흔 여든 아흔 백_명 천_명 절반"
    ),
}
_PHRASES = {
    "today": "heute aujourd'hui hoy hoje oggi vandaag сегодня اليوم आज 今天 今日 오늘",
    "tomorrow": "morgen demain mañana amanhã domani завтра غدا/غدًا कल 明天 明日 あした 내일",
    "day after tomorrow": (
        "übermorgen après-demain pasado_mañana depois_de_amanhã dopodomani overmorgen послезавтра بعد_غد "
        "परसों 后天 後天 明後日 あさって 모레"
    ),
    "yesterday": "gestern hier ayer ontem ieri gisteren вчера أمس 昨天 昨日 어제",
    "day before yesterday": ("vorgestern avant-hier anteayer anteontem l'altro_ieri eergisteren позавчера 前天 一昨日"),
    "next week": (
        "nächste_woche nächster_woche kommende_woche semaine_prochaine próxima_semana semana_que_viene "
        "semana_que_vem settimana_prossima prossima_settimana volgende_week следующей_неделе следующую_неделю "
        "الأسبوع_القادم الأسبوع_المقبل अगले_हफ्ते अगले_सप्ताह 下周 下週 下星期 来週 다음_주 다음주"
    ),
    "this week": (
        "diese_woche cette_semaine esta_semana questa_settimana deze_week этой_неделе هذا_الأسبوع इस_हफ्ते 本周 "
        "这周 今週 이번_주"
    ),
    "last week": (
        "letzte_woche semaine_dernière semana_pasada semana_passada settimana_scorsa vorige_week "
        "прошлой_неделе الأسبوع_الماضي पिछले_हफ्ते 上周 上星期 先週 지난주 지난_주"
    ),
    "next month": (
        "nächsten_monat mois_prochain próximo_mes mes_que_viene próximo_mês mese_prossimo prossimo_mese "
        "volgende_maand следующем_месяце الشهر_القادم अगले_महीने 下个月 下個月 下月 来月 다음_달"
    ),
    "this month": (
        "diesen_monat ce_mois este_mes este_mês questo_mese deze_maand этом_месяце هذا_الشهر 本月 这个月 今月 이번_달"
    ),
    "last month": (
        "letzten_monat mois_dernier mes_pasado mês_passado mese_scorso vorige_maand прошлом_месяце "
        "الشهر_الماضي पिछले_महीने 上个月 上月 先月 지난달"
    ),
    "next year": (
        "nächstes_jahr année_prochaine próximo_año próximo_ano prossimo_anno volgend_jaar следующем_году "
        "العام_القادم अगले_साल 明年 来年 내년"
    ),
    "last year": (
        "letztes_jahr année_dernière año_pasado ano_passado anno_scorso vorig_jaar прошлом_году पिछले_साल 去年 昨年 작년"
    ),
    "this weekend": (
        "wochenende week-end fin_de_semana fim_de_semana fine_settimana выходные выходных عطلة_نهاية_الأسبوع "
        "周末 週末 주말"
    ),
    "every day": (
        "täglich jeden_tag tous_les_jours chaque_jour todos_los_días cada_día todos_os_dias ogni_giorno "
        "elke_dag каждый_день كل_يوم 每天 毎日 매일"
    ),
    "weekdays": (
        "werktags wochentags jours_de_semaine días_laborables dias_úteis giorni_feriali doordeweeks будни "
        "будням 工作日 平日 평일"
    ),
    "weekly": "wöchentlich hebdomadaire semanal settimanale wekelijks еженедельно 每周 毎週 매주",
    "monthly": "monatlich mensuel mensual mensal mensile maandelijks ежемесячно 每月 毎月 매월",
    "noon": "mittag midi mediodía meio-dia mezzogiorno полдень 中午 正午 정오",
    "midnight": "mitternacht minuit medianoche meia-noite mezzanotte middernacht полночь 午夜 자정",
    "o'clock": "uhr heures uur часов часа बजे",
    "in the morning": ("morgens vormittags du_matin de_la_mañana da_manhã del_mattino 's_ochtends утра सुबह صباحا"),
    "in the evening": (
        "abends nachmittags du_soir de_l'après-midi de_la_tarde de_la_noche da_tarde da_noite del_pomeriggio "
        "di_sera 's_middags 's_avonds вечера дня शाम مساء مساءً"
    ),
    "at": "um a_las alle às om_de à",
    "to": "bis hasta até fino_a tot до إلى 至 到 から 부터 से",
    "thousand": "tausend mille mil duizend тыс тысяч ألف हज़ार",
    "million": "millionen millions millones milhões milioni miljoen млн миллион миллиона مليون",
    "dozen": "dutzend douzaine docena dúzia dozzina dozijn дюжина",
    "half": "anderthalb",
    "couple": "paar couple par paio пара 两三",
    "euro": "euros евро",
    "us dollar": "dollars dólares dollari долларов доллара 美元 美金 米ドル ドル 달러",
    "chinese yuan": "人民币 元",
    "japanese yen": "日元 円 엔",
    "british pound": "英镑 pfund",
    "of": "de del di do d'",
    "latitude": "纬度 緯度 위도",
    "longitude": "经度 経度 경도",
    "english": "英文",
    "chinese": "中文",
}
"""What people say of days and amounts, in the languages above; `_` is a space."""

_TOKEN = re.compile(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]|[^\W_\u0e00-\U0010ffff]+(?:['\u2019-](?=\w))?|.", re.DOTALL
)
_HAN_DIGITS = "零〇一二两兩三四五六七八九十百千"
_HAN_NUMBER = re.compile(f"[{_HAN_DIGITS}]+")
_YEAR_MONTH_DAY = re.compile(
    r"(\d{4})\s*[年년]\s*(\d{1,2})\s*[月월](?:\s*(\d{1,2})\s*[日号號일])?|(?<!\d)(\d{1,2})\s*[月월]\s*(?:(\d{1,2})\s*[日号號일]?)?"
)
_EARLY, _LATE = "上午|早上|早晨|凌晨|清晨|午前|오전|아침", "下午|晚上|傍晚|中午|今晚|午後|夜|오후|저녁|밤"
_CLOCK = re.compile(
    rf"({_EARLY})?({_LATE})?\s*(\d{{1,2}})\s*(?:[点點時时시](?:(半|반)|\s*(\d{{1,2}})\s*[分분]?)?|:(\d{{2}}))"
)
_LARGE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([千천])|([万萬만])|([亿億억]))")
_POINTED = re.compile(r"(?<![\d.,])\d{1,3}(?:[. ]\d{3})+(?![.,]?\d)")
_ORDINAL = re.compile(r"(?<=\d)\.(?=\s?[^\W\d])")
_RUSSIAN_ENDING = re.compile(r"(?<=[\u0400-\u04ff]{4})[аяуюеёиыоьй]{1,2}$")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october"),
    *("november", "december"),
)


def in_english(text: str, words: Set[str]) -> str | None:
    """Return a normalised text, which has these words, in English where its languages are known; None: none is."""
    spoken = _languages_of(text, words)
    if not spoken:
        return None
    if not text.isascii():
        text = _CLOCK.sub(_as_time, _YEAR_MONTH_DAY.sub(_as_date, _HAN_NUMBER.sub(_as_number, _weekdays_first(text))))
        text = _LARGE.sub(_in_full, text)
    text = _POINTED.sub(lambda match: re.sub("[. ]", "", match[0]), _ORDINAL.sub("", text))
    return "".join(_translated(_TOKEN.findall(text), [_table(language) for language in spoken]))


def _languages_of(text: str, words: Set[str]) -> list[str]:
    found = [language for language, small in _small_words().items() if len(small & words) > 1]
    if not text.isascii():
        found += [
            one for letters, languages in _SCRIPTS if letters.search(text) for one in languages if one not in found
        ]
    return list(dict.fromkeys(found))


@cache
def _small_words() -> Mapping[str, frozenset[str]]:
    return {language: frozenset(words.split()) for language, words in _SMALL_WORDS.items()}


_Table = Mapping[str, list[tuple[list[str], str]]]


def _translated(tokens: list[str], tables: list[_Table]) -> Iterator[str]:
    """Yield tokens, and in the place of those that are a name its English one."""
    at, forms = 0, _forms(tokens)
    while at < len(tokens):
        found = (
            (len(name), english)
            for table in tables
            for name, english in table.get(forms[at], ())
            if forms[at : at + len(name)] == name
        )
        size, english = max(found, default=(0, ""))
        yield f" {english} " if size else tokens[at]
        at += size or 1


def _forms(tokens: list[str]) -> list[str]:
    """Return tokens without what Russian puts to a name: `пятница` and `пятницу` are one."""
    return [_RUSSIAN_ENDING.sub("", token) if token[0] > "\u03ff" else token for token in tokens]


@cache
def _table(language: str) -> _Table:
    """Return the names of a language in English, by their first token."""
    table: dict[str, list[tuple[list[str], str]]] = defaultdict(list)
    named: dict[str, str] = {}
    for number, words in zip(_COUNTED, _NUMBERS.get(language, "").split(), strict=False):
        named.update(dict.fromkeys(words.replace("_", " ").split("/"), f"{number}"))
    for english, phrases in _PHRASES.items():
        for phrase in phrases.replace("/", " ").split():
            named.setdefault(phrase.replace("_", " "), english)
    for name, english in _names(language):
        plain = unicodedata.normalize("NFKC", name).casefold().strip(" .")
        if len(plain) > 2 or (plain and plain[0] > "\u2fff"):
            named.setdefault(plain, english.casefold())
    for name, english in named.items():
        if tokens := _forms(_TOKEN.findall(name)):
            table[tokens[0]].append((tokens, english))
    return table


_UNITS = ("duration-", "length-", "mass-", "volume-", "temperature-", "area-", "speed-", "digital-")


def _names(language: str) -> Iterator[tuple[str, str]]:
    """Yield the names of months, weekdays, units, places, languages and currencies in CLDR, with the English ones."""
    if find_spec("babel") is None:
        return
    locales: Any = import_module("babel")  # optional, and slow to load
    here, english = locales.Locale(language), locales.Locale("en")
    for width in ("wide", "abbreviated"):
        for form in ("format", "stand-alone"):
            yield from ((name, _MONTHS[number - 1]) for number, name in here.months[form][width].items())
            yield from (
                (name, english.days["format"]["wide"][number]) for number, name in here.days[form][width].items()
            )
    for ours, theirs in (
        (here.territories, english.territories),
        (here.languages, english.languages),
        (here.currencies, english.currencies),
    ):
        yield from ((name, theirs[code]) for code, name in ours.items() if code in theirs and not code.isdecimal())
    zones: Mapping[str, Mapping[str, str]] = here.time_zones
    for zone, inside in zones.items():
        if "city" in inside:
            yield inside["city"], zone.rpartition("/")[2].replace("_", " ")
    yield from _names_of_units(here, english)


def _names_of_units(here: Any, english: Any) -> Iterator[tuple[str, str]]:
    """Yield the names of units in the locale `here`, as of one, two and five of them, with the English ones."""
    units: Any = import_module("babel.units")
    measured: list[str] = [unit for unit in english.unit_display_names if unit.startswith(_UNITS)]
    for unit in measured:
        for length, count in ((length, count) for length in ("long", "short") for count in (1, 2, 5)):
            name = re.sub(r"\d", "", units.format_unit(count, unit, length, locale=here))
            if unit not in name:  # as where CLDR has no name
                yield name, unit.partition("-")[2].replace("-", " ")


# Numbers, dates and times in the digits and signs of Chinese, Japanese and Korean.


def _weekdays_first(text: str) -> str:
    """Write `星期三` and `周三` in English before their last sign is read as a number."""
    return re.sub(
        "(?:星期|周|週|礼拜|曜日)([一二三四五六日天])",
        lambda match: f" {_WEEKDAYS['一二三四五六日天'.index(match[1])]} ",
        text,
    )


_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "sunday")


def _as_number(match: re.Match[str]) -> str:
    total, current = 0, 0
    for sign in match[0]:
        value = 2 if sign in "两兩" else int(unicodedata.numeric(sign))
        if value >= 10:
            total, current = total + (current or 1) * value, 0
        else:
            current = current * 10 + value if match[0].isnumeric() and not re.search("[十百千]", match[0]) else value
    return f"{total + current}"


def _as_date(match: re.Match[str]) -> str:
    year, month, day = match[1], int(match[2] or match[4]), match[3] or match[5]
    if not 1 <= month <= 12:
        return match[0]
    return f" {_MONTHS[month - 1]} {day or ''} {year or ''} "


def _as_time(match: re.Match[str]) -> str:
    hour = int(match[3])
    minute = 30 if match[4] else int(match[5] or match[6] or 0)
    half = " pm" if match[2] and hour <= 12 else " am" if match[1] and hour <= 12 else ""
    return f" {hour}:{minute:02}{half} "


def _in_full(match: re.Match[str]) -> str:
    factor = 1000 if match[2] else 10**4 if match[3] else 10**8
    return f"{float(match[1]) * factor:.15g}"
