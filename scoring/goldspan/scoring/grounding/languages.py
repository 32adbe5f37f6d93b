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
from itertools import chain
from typing import Any

from goldspan.scoring.grounding.words import NUMBER_WORDS
from goldspan.scoring.patterns import regex

_SMALL_WORDS = {
    "de": (
        "der die das und ich für den ein eine nicht ist mit bitte von im zum zur wir mein auf noch uns aus "
        "meine mir mich sich nach bei oder kann ihr dem zu wie gegen habe"
    ),
    "fr": (
        "le la les et je pour des une du nous est dans mon avec sur au il faut vous moi que deux ce ne pas "
        "qui mes ma ai votre notre aux cette"
    ),
    "es": (
        "el la los y para una del quiero con en mi por las que necesito un al me favor mis lo está tengo "
        "puedo qué cómo este esta más"
    ),
    "pt": (
        "o os para uma do quero com em meu por as que preciso um no na da eu dos nos às pra pras pro meus "
        "minha isso está tenho posso qual mais foi"
    ),
    "it": (
        "il lo gli per una del vorrei con di mio che un al la le ho da mi alle dei prenotare sono della delle "
        "nel alla questo questa si mia ci"
    ),
    "nl": "de het een en ik voor van met mijn niet op wij graag naar om te we is er onze dat zijn heb kan deze dit bij",
    "pl": "na do się proszę dla i w od mam chcę jest z po",
    "tr": "bir ve için bu ile lütfen bana ben gün de",
    "sv": "och jag för att en ett till med på det är vi min",
    "id": "saya untuk dan di ke yang ini dengan dari tolong",
    "vi": "tôi cho và ngày đến của một vào muốn đặt",
}  # fmt: skip
"""Words by which a text in Latin letters is known to be in a language: two of them, or of its numbers, are enough."""
_MARKS = {"de": "äöüß", "fr": "çèêëîùœ", "es": "ñ¿¡", "pt": "ãõçâê", "it": "èòìù", "pl": "ąęłśż", "tr": "ğşı"}
"""Letters that say as much of a language as a word of it."""
_ENGLISH = frozenset((
    "the", "a", "an", "of", "and", "to", "for", "from", "with", "is", "are", "my", "i", "you", "please", "it", "this",
    "that", "on", "in", "at", "me", "do", "as", "no", "we", "our", "by", "be", "can",
))  # fmt: skip
_SCRIPTS = tuple(
    (regex(f"[{letters}]"), tuple(languages.split()))
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
_MORE_NUMBERS = {
    "de": (
        "1.5=anderthalb,0.5=einhalb,50=fuffzig,15=fuffzehn,2=zu_zweit,3=zu_dritt,4=zu_viert,5=zu_fünft,6=zu_sechst,"
        "2=beide/beiden,6=sech,7=sieb,1=ne/nen"
    ),
    "fr": (
        "13=treize,14=quatorze,16=seize,10=dizaine,12=douzaine,15=quinzaine,20=vingtaine,30=trentaine,40=quarantaine,"
        "50=cinquantaine,100=centaine/cents,80=quatre-vingts"
    ),
    "es": (
        "13=trece,14=catorce,20=veinti,10=dieci,10=decena,20=veintena,200=doscientos/doscientas,300=trescientos/"
        "trescientas,400=cuatrocientos,500=quinientos/quinientas,600=seiscientos,700=setecientos,800=ochocientos,"
        "900=novecientos,6=séis"
    ),
    "pt": (
        "13=treze,14=catorze/quatorze,16=dezesseis/dezasseis,17=dezessete/dezassete,18=dezoito,19=dezenove/dezanove,"
        "10=dezena,200=duzentos/duzentas,300=trezentos/trezentas,400=quatrocentos,500=quinhentos/quinhentas,"
        "600=seiscentos,700=setecentos,800=oitocentos,900=novecentos,2=ambos"
    ),
    "it": (
        "13=tredici,14=quattordici,16=sedici,17=diciassette,18=diciotto,19=diciannove,1000=mila,20=vent,30=trent,"
        "40=quarant,50=cinquant,60=sessant,70=settant,80=ottant,90=novant,10=decina,20=ventina,30=trentina,"
        "40=quarantina,50=cinquantina,60=sessantina,70=settantina,80=ottantina,90=novantina,100=centinaio,3=tré"
    ),
    "nl": "13=dertien,14=veertien,1.5=anderhalf/anderhalve,18=achttien,2=beide/met_z'n_tweeën,4=met_z'n_vieren",
    "ru": (
        "13=тринадцать,14=четырнадцать,16=шестнадцать,17=семнадцать,18=восемнадцать,19=девятнадцать,1.5=полтора/полторы,"
        "200=двести,300=триста,400=четыреста,500=пятьсот,600=шестьсот,700=семьсот,800=восемьсот,900=девятьсот,"
        "2=двумя/двум,3=тремя/трём/трем,4=четырьмя,5=пятью,6=шестью,7=семью,8=восемью,9=девятью,10=десятью,"
        "2=двое/вдвоём/вдвоем,3=трое/втроём/втроем,4=четверо/четверых/вчетвером,5=пятеро/пятерых,6=шестеро/шестерых,"
        "7=семеро/семерых,10=десяток,1st=первого/первое,2nd=второго/второе,3rd=третьего/третье,4th=четвёртого/четвертого,"
        "5th=пятого,6th=шестого,7th=седьмого,8th=восьмого,9th=девятого,10th=десятого,11th=одиннадцатого,"
        "12th=двенадцатого,13th=тринадцатого,14th=четырнадцатого,15th=пятнадцатого,16th=шестнадцатого,"
        "17th=семнадцатого,18th=восемнадцатого,19th=девятнадцатого,20th=двадцатого,30th=тридцатого"
    ),
}
"""What the lists above lack: other words for a number, the pieces of numbers in one word, and days of a month."""
_COMPOUNDS = {"de": "und", "nl": "en|ën", "it": "e", "es": "y"}
"""Languages that write a number in one word, with what may stand between its pieces."""
_ORDINALS = {
    "de": {"ersten": 1, "erste": 1, "dritten": 3, "dritte": 3, "siebten": 7, "siebte": 7, "achten": 8, "achte": 8},
    "nl": {"eerste": 1, "derde": 3},
    "fr": {"premier": 1}, "it": {"primo": 1}, "es": {"primero": 1}, "pt": {"primeiro": 1},
}  # fmt: skip
_ORDINAL_ENDING = regex(r"(?<=\w\w)(?:sten|ste|ten|te|de)$")
_PHRASES = {
    "today": "heute aujourd'hui hoy hoje oggi vandaag сегодня اليوم आज 今天 今日 오늘",
    "tonight": (
        "heute_abend heut_abend ce_soir esta_noche hoje_à_noite hoje_de_noite stasera stanotte vanavond "
        "сегодня_вечером 今晚 今夜 오늘_밤 오늘_저녁"
    ),
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
    "at": "um a_las alle às om_de à verso_le per_le vers para_las pelas gegen к",
    "to": "bis hasta até fino_a tot до إلى 至 到 から 부터 से",
    "million": "millionen millions millones milhões milioni miljoen млн миллион миллиона مليون",
    "dozen": "dutzend douzaine docena dúzia dozzina dozijn дюжина",
    "half a dozen": "meia_dúzia media_docena mezza_dozzina demi-douzaine halbes_dutzend полдюжины 半打",
    "half an hour": "halbe_stunde demi-heure media_hora meia_hora mezz'ora mezza_ora полчаса 半小时 半時間 半个小时",
    "half a kilogram": "полкило halbes_kilo medio_kilo meio_quilo mezzo_chilo demi-kilo",
    "half a jin": "半斤",
    "three quarters of an hour": (
        "dreiviertelstunde drei_viertel_stunden trois_quarts_d'heure tres_cuartos_de_hora três_quartos_de_hora "
        "tre_quarti_d'ora 三刻钟"
    ),
    "a quarter of an hour": "kwartier viertelstunde quart_d'heure cuarto_de_hora quarto_de_hora quarto_d'ora 一刻钟",
    "and a half": "e_mezzo e_mezza y_medio y_media e_meio e_meia et_demi et_demie en_een_half с_половиной",
    "and a quarter": "e_un_quarto et_quart y_cuarto et_un_quart e_um_quarto",
    "less a quarter": "meno_un_quarto menos_cuarto moins_le_quart moins_quart menos_um_quarto",
    "from": "von ab desde dalle vanaf",
    "between": "zwischen entre tra fra tussen между",
    "kilogram": "kilo kilos chilo chili quilo quilos кило 公斤 千克",
    "jin": "斤",
    "couple": "paar couple par paio пара 两三",
    "split": (
        "teile aufteilen geteilt partage partager divide dividir divida dividi dividere rachar verdeel раздели "
        "поделить 平分 分摊 割り勘"
    ),
    "plus": "zuzüglich más mais più ещё еще 加上",
    "minus": "abzüglich moins menos meno минус",
    "tip": "trinkgeld pourboire propina gorjeta mancia fooi чаевые 小费 チップ",
    "discount": "rabatt remise réduction descuento desconto sconto korting скидка 折扣 割引",
    "raise": (
        "erhöhe erhöhen höher wärmer augmente augmenter monte sube subir aumenta aumente aumentar alza alzare verhoog "
        "подними повысь 调高 升高 上げて"
    ),
    "reduce": (
        "senke senken niedriger kälter baisse baisser baja bajar reduce baixa baixar diminui abaixe abbassa verlaag "
        "снизь понизь 调低 降低 下げて"
    ),
    "percent": "prozent pourcent por_ciento por_cento per_cento procent процент процентов процента",
    "later": "später danach après después más_tarde depois dopo later спустя позже 之后",
    "euro": "euros евро",
    "russian ruble": "рублей рубля рублях рубли руб",
    "us dollar": "dollars dólares dollari долларов доллара 美元 美金 米ドル ドル 달러",
    "chinese yuan": "人民币 元",
    "japanese yen": "日元 円 엔",
    "british pound": "英镑",
    "pfund british pound": "pfund",
    "monday": "segunda",
    "tuesday": "terça",
    "wednesday": "quarta",
    "thursday": "quinta",
    "friday": "sexta",
    "of": "de del di do d'",
    "latitude": "纬度 緯度 위도",
    "longitude": "经度 経度 경도",
    "english": "英文",
    "chinese": "中文",
}
"""What people say of days and amounts, in the languages above; `_` is a space."""

_TOKEN = regex(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]|[^\W_\u0e00-\U0010ffff]+(?:['\u2019-](?=\w))?|.", re.DOTALL
)
_HAN_DIGITS = "零〇一二两兩三四五六七八九十百千"
_HAN_NUMBER = regex(f"(?:[{_HAN_DIGITS[:-1]}]|千(?![克米瓦卡]))+")
_YEAR_MONTH_DAY = regex(
    r"(\d{4})\s*[年년]\s*(\d{1,2})\s*[月월](?:\s*(\d{1,2})\s*[日号號일])?|(?<!\d)(\d{1,2})\s*[月월]\s*(?:(\d{1,2})\s*[日号號일]?)?"
)
_EARLY, _LATE = "上午|早上|早晨|凌晨|清晨|午前|오전|아침", "下午|晚上|傍晚|中午|今晚|午後|夜|오후|저녁|밤"
_CLOCK = regex(
    rf"({_EARLY})?({_LATE})?\s*(\d{{1,2}})\s*(?:[点點時时시](?:(半|반)|\s*(\d{{1,2}})\s*(?:(刻)|[分분])?)?|:(\d{{2}}))"
)
_LARGE = regex(r"(\d+(?:\.\d+)?)\s*(?:([千천])(?![克米瓦卡])|([万萬만])|([亿億억]))")
_DISCOUNT = regex(r"打\s*([1-9])\s*折")
_PERCENT = regex(r"100分之(\d+(?:\.\d+)?)")
_POINTED = regex(r"(?<![\d.,])\d{1,3}(?:[. ]\d{3})+(?![.,]?\d)")
_ORDINAL = regex(r"(?<=\d)\.(?=\s?[^\W\d])")
_RUSSIAN_ENDING = regex(r"(?<=[\u0400-\u04ff]{4})[аяуюеёиыоьй]{1,2}$")
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
        text = _DISCOUNT.sub(lambda match: f" {100 - 10 * int(match[1])} percent discount ", text)
        text = _LARGE.sub(_in_full, _PERCENT.sub(r" \1 percent ", text))
    text = _DAYS_FROM_TO.sub(r" from the \1th to the \2th ", _DAY_ALONE.sub(r" \1th ", text))
    text = _POINTED.sub(lambda match: re.sub("[. ]", "", match[0]), _ORDINAL.sub("", text))
    translated = _RUN.sub(_as_one_number, "".join(_translated(_TOKEN.findall(text), spoken)))
    translated = _BETWEEN.sub(r"between \1 and \2", translated)
    translated = _TENS_AND_ORDINAL.sub(lambda match: f"{match[1][0]}{match[2]}", translated)
    translated = _HALF_HOUR.sub(r"\g<0> or \1:30", _BEFORE_EIGHT.sub(r"без 20 \1", translated))
    return _CLOCK_IN_WORDS.sub(_as_clock, translated)


def _languages_of(text: str, words: Set[str]) -> list[str]:
    if text.isascii() and len(words & _words_of_any_language()) < 2:
        return []
    found = [language for language, signs in _signs(text, words).items() if signs > 1]
    if not text.isascii():
        found += [
            one for letters, languages in _SCRIPTS if letters.search(text) for one in languages if one not in found
        ]
    return list(dict.fromkeys(found))


@cache
def _small_words() -> Mapping[str, frozenset[str]]:
    numbers = {language: re.split(r"[\s/]", words) for language, words in _NUMBERS.items()}
    return {
        language: frozenset(
            (*words.split(), *(one for one in numbers.get(language, ()) if len(one) > 4 or not one.isascii()))
        )
        - NUMBER_WORDS
        for language, words in _SMALL_WORDS.items()
    }


@cache
def _words_of_any_language() -> frozenset[str]:
    return frozenset[str]().union(*_small_words().values())


def _signs(text: str, words: Set[str]) -> Mapping[str, int]:
    """Return by language how many of its words and letters a text has."""
    marks = frozenset[str]() if text.isascii() else frozenset(text)
    return {
        language: len(small & words) + (not marks.isdisjoint(_MARKS.get(language, "")))
        for language, small in _small_words().items()
    }


def is_foreign(text: str, words: Set[str]) -> bool:
    """Whether a normalised text, which has these words, is in a language other than English."""
    spoken = max(_signs(text, words).values())
    return spoken > 1 and spoken > len(words & _ENGLISH)


_Table = Mapping[str, list[tuple[list[str], str]]]


def _translated(tokens: list[str], languages: list[str]) -> Iterator[str]:
    """Yield tokens, and in the place of those that are a name its English one."""
    at, forms = 0, _forms(tokens)
    tables = [_table(language) for language in languages]
    while at < len(tokens):
        found = (
            (len(name), english)
            for table in tables
            for name, english in table.get(forms[at], ())
            if forms[at : at + len(name)] == name
        )
        size, english = max(found, default=(0, ""))
        if not size and len(tokens[at]) > 5 and tokens[at].isalpha():
            english = next(filter(None, (_compound(language, tokens[at]) for language in languages)), "")
        yield f" {english} " if english else tokens[at]
        at += size or 1


def _forms(tokens: list[str]) -> list[str]:
    """Return tokens without a hyphen and what Russian puts to a name: `пятница` and `пятницу` are one."""
    return [_RUSSIAN_ENDING.sub("", token) if token[0] > "\u03ff" else token.rstrip("-") or token for token in tokens]


@cache
def _table(language: str) -> _Table:
    """Return the names of a language in English, by their first token."""
    table: dict[str, list[tuple[list[str], str]]] = defaultdict(list)
    named: dict[str, str] = {}
    phrases = ((phrase, english) for english, some in _PHRASES.items() for phrase in re.split("[ /]", some))
    for name, english in chain(_numbers(language), phrases, _names(language)):
        named.setdefault(name.replace("_", " "), english)
    for name, english in named.items():
        if tokens := _forms(_TOKEN.findall(name)):
            table[tokens[0]].append((tokens, english))
    return table


# Numbers in several words or pieces.

_WORD = "\x01"
"""Before a number that was a word."""
_AND = "(?:e|y|et|und|en|и|و)"
_RUN = regex(rf"(?:(?<![\w.,])\d+(?:[.,]\d+)? +(?={_WORD}1000))?{_WORD}[\d.]+(?:[ -]+(?:{_AND} +)?{_WORD}[\d.]+)*")
_PART = regex(rf"([ -]*)(?:{_AND} +)?{_WORD}?([\d.,]+)")
_TENS_AND_ORDINAL = regex(r"(?<!\d)([23]0) +(\d(?:st|nd|rd|th))\b")


@cache
def _compound(language: str, word: str) -> str:
    """Return the number that is written as one word of pieces, as `dreihundertfünfzig`, or `""`."""
    if language not in _COMPOUNDS:
        return ""
    pieces, pattern = _pieces(language)
    ending = _ORDINAL_ENDING.search(word)
    for text, suffix in ((word, ""), (word[: ending.start()], "th")) if ending else ((word, ""),):
        values = [pieces[one] for one in pattern.findall(text)] if re.fullmatch(f"(?:{pattern.pattern})+", text) else []
        if len(values) > 1 or (values and suffix):
            total, current = 0.0, 0.0
            for value in filter(None, values):
                total, current = _with_part(total, current, value)
            return f"{total + current:.15g}{suffix}" if suffix else f"{_WORD}{total + current:.15g}"
    return ""


@cache
def _pieces(language: str) -> tuple[Mapping[str, float], re.Pattern[str]]:
    """Return the pieces of numbers of a language, and a pattern that takes the longest first."""
    named = {token[0]: english for found in _table(language).values() for token, english in found if len(token) == 1}
    numbers = {word: float(english[1:]) for word, english in named.items() if english.startswith(_WORD)}
    numbers |= dict.fromkeys(_COMPOUNDS[language].split("|"), 0.0)
    return numbers, re.compile("|".join(sorted(map(re.escape, numbers), key=len, reverse=True)))


def _as_one_number(match: re.Match[str]) -> str:
    """Write the numbers in a run of number words: `2 1000 500` is 2500, `2 3` are two."""
    found: list[float] = []
    total = current = last = 0.0
    for joined, written in _PART.findall(match[0]):
        value = float(written.replace(",", "."))
        if value == 0.5 and last:
            return f" {total + current + 0.5:.15g} or {current:.15g}:30 "
        if last == 0.5 and 1 <= value <= 12:
            return f" {(value + 10) % 12 + 1:.15g}:30 "
        if last and not _goes_on(value, total, current, hyphened="-" in joined, last=last):
            # Of `1000 and 2 1000` the second number has begun before its 1000.
            kept = current if value >= 1000 and total else 0.0
            found.append(total + current - kept)
            total, current = 0.0, kept
        total, current = _with_part(total, current, value)
        last = value or 0.1
    return f" {' '.join(f'{one:.15g}' for one in (*found, total + current))} "


def _with_part(total: float, current: float, value: float) -> tuple[float, float]:
    """Return the finished thousands of a number and its other part, with the next word of it."""
    if value >= 1000:
        return total + (current or 1) * value, 0
    return total, (current or 1) * value if value == 100 else current + value


def _goes_on(value: float, total: float, current: float, *, hyphened: bool, last: float) -> bool:
    """Whether a number word goes on with the number before it."""
    if not value or last < 0.5:
        return False  # digits that are told one by one: `0 1 7 6`
    if value >= 1000:
        return total == 0
    if value == 100:
        return current == 0 or 1 < current < 10
    if current == 0 or (current % 100 == 0 and value < 100):
        return True
    tens = current % 100
    return (
        (value < 10 and tens >= 20 and tens % 10 == 0)
        or (10 <= value < 20 and tens in (60, 80))
        or (hyphened and value < last)
    )


# Times that are told from the hour before or after.

_DAYS_FROM_TO = regex(
    r"\b(?:dal|del|do dia|du|vom|с)\s+(\d{1,2})\.?\s+(?:al|ao dia|ao|au|bis(?: zum)?|по)\s+(\d{1,2})\b(?![:.,]\d)"
)
_DAY_ALONE = regex(r"(?<![\d月월])(?<!月\s)(\d{1,2})\s*[号號일日](?!\w?元)")
_HOUR = r"(?:le |las |as |a la )?(?P<{0}>\d{{1,2}})(?: +o'clock)?"
_BETWEEN = regex(rf"between +(\d{{1,4}}) +{_AND} +(\d{{1,4}})\b")
_HALF_HOUR = regex(r"\b(\d{1,2})(?: +o'clock)? +and a half\b")
_BEFORE_EIGHT = regex(r"без +2([1-9])\b(?! +\d)")
_CLOCK_IN_WORDS = regex(
    "|".join(
        (
            rf"\b(?:(?:viertel|kwart|(?:um )?quarto)|(?P<to>\d{{1,2}})(?: minuten)?)"
            rf" +(?P<way>nach|over|vor|voor|para|pras?|pro) +{_HOUR.format('one')}\b",
            r"\bбез +(?:(?P<less>\d+)|четверти) +(?P<before>\d{1,2})\b",
            rf"\b{_HOUR.format('hour')} +(?:(?P<minus>minus)|e|y|et) +"
            r"(?P<minutes>\d{1,2})\b",
            rf"\b{_HOUR.format('quartered')} +(?P<part>and|less) a quarter\b",
            rf"\bdreiviertel +{_HOUR.format('next')}\b",
            r"\bполовин\w* +(?P<ordinal>\d{1,2})(?:st|nd|rd|th)\b",
        )
    )
)


def _as_clock(match: re.Match[str]) -> str:
    """Write `viertel nach 6` and `без 20 8` as times."""
    found = match.groupdict()
    if found["one"]:
        hour = int(found["one"])
        minutes = int(found["to"] or 15) * (1 if found["way"] in ("nach", "over") else -1)
    elif found["before"]:
        hour, minutes = int(found["before"]), -int(found["less"] or 15)
    elif found["hour"]:
        hour = int(found["hour"])
        minutes = -int(found["minutes"]) if found["minus"] else int(found["minutes"])
    elif found["quartered"]:
        hour, minutes = int(found["quartered"]), 15 if found["part"] == "and" else -15
    else:
        hour, minutes = int(found["next"] or found["ordinal"]), -15 if found["next"] else -30
    at = hour * 60 + minutes
    return f" {at // 60 % 24}:{at % 60:02} " if hour <= 24 and abs(minutes) < 60 else match[0]


def _numbers(language: str) -> Iterator[tuple[str, str]]:
    """Yield the number words of a language, with the number behind a mark."""
    listed = zip(map(str, _COUNTED), _NUMBERS.get(language, "").split(), strict=False)
    more = (
        (number, words)
        for one in _MORE_NUMBERS.get(language, "").split(",")
        if one
        for number, words in [one.split("=")]
    )
    for number, words in chain(listed, more):
        yield from ((word, f"{_WORD if number[-1].isdigit() else ''}{number}") for word in words.split("/"))
    yield from ((word, f"{number}th") for word, number in _ORDINALS.get(language, {}).items())


_UNITS = ("duration-", "length-", "mass-", "volume-", "temperature-", "area-", "speed-", "digital-")


def _names(language: str) -> Iterator[tuple[str, str]]:
    """Yield names, normalised, with the English ones; those of up to two letters are other words, too."""
    for name, english in _names_of_locale(language):
        plain = unicodedata.normalize("NFKC", name).casefold().strip(" .")
        if len(plain) > 2 or (plain and plain[0] > "\u2fff"):
            yield plain, english.casefold()


def _names_of_locale(language: str) -> Iterator[tuple[str, str]]:
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
    minute = 30 if match[4] else int(match[5] or match[7] or 0) * (15 if match[6] else 1)
    half = " pm" if match[2] and hour <= 12 else " am" if match[1] and hour <= 12 else ""
    return f" {hour}:{minute:02}{half} "


def _in_full(match: re.Match[str]) -> str:
    factor = 1000 if match[2] else 10**4 if match[3] else 10**8
    return f"{float(match[1]) * factor:.15g}"
