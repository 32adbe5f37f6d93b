"""What every recorded agent does: three tools, two user messages, and the steps of a scripted model.

Turn 1 asks for two tools at once and then for one more. Turn 2 books a table, is told that there is none, and asks
again for another time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

SESSION = "sess-weather-1"
AGENT = "weather_agent"
INSTRUCTIONS = "Be brief."
MODEL = "fake-model"


@dataclass(frozen=True)
class Call:
    """What the model asks for."""

    id: str
    name: str
    arguments: dict[str, Any]

    @property
    def json(self) -> str:
        """The arguments as a provider sends them."""
        return json.dumps(self.arguments, ensure_ascii=False)


Step = tuple[Call, ...] | str
"""One answer of the model: calls to make at once, or the text that ends the turn."""


@dataclass(frozen=True)
class Turn:
    user: str
    steps: tuple[Step, ...]


def weather(call_id: str, city: str, days: object) -> Call:
    return Call(call_id, "get_weather", {"city": city, "unit": "celsius", "days": days})


def convert(call_id: str, value: float) -> Call:
    return Call(call_id, "convert", {"value": value, "from_unit": "C", "to_unit": "F"})


def booking(call_id: str, hour: str) -> Call:
    restaurant = {"name": "Chez Léa", "id": 42}
    when = f"2026-12-01T{hour}"
    return Call(call_id, "book_table", {"restaurant": restaurant, "people": 2, "when": when, "notes": None})


ASK_WEATHER = "What's the weather in Paris in celsius, and convert 21.5 C to F?"
ASK_TABLE = "Book the table for two"
WEATHER = Turn(
    ASK_WEATHER,
    (
        (weather("call_1", "Paris", 3), convert("call_2", 21.5)),
        (weather("call_3", "Lyon", 1),),
        "21.5 C in Paris (70.7 F).",
    ),
)
TABLE = Turn(ASK_TABLE, ((booking("call_4", "19:30"),), (booking("call_5", "20:00"),), "Booked for two at 20:00."))
STANDARD = (WEATHER, TABLE)

OTHER_SESSION = "sess-weather-2"
OTHER = (
    Turn("What's the weather in Rome in celsius?", ((weather("call_6", "Rome", 2),), "Rome is sunny.")),
    Turn("Convert 30 C to F", ((convert("call_7", 30.0),), "That is 86 F.")),
)
CONVERSATIONS = {SESSION: STANDARD, OTHER_SESSION: OTHER}
"""Two conversations by their sessions, for programs that hold several."""

REJECTED = (
    Turn(
        ASK_WEATHER,
        (
            (weather("call_1", "Paris", "three"), convert("call_2", 21.5)),
            (weather("call_2b", "Paris", 3),),
            (weather("call_3", "Lyon", 1),),
            "21.5 C in Paris (70.7 F).",
        ),
    ),
    TABLE,
)
"""As the standard one, but the first request has a number as a word: the framework refuses it, the model asks again."""

INCOMPLETE_CALL = Call("call_1", "get_weather", {"city": "Paris", "days": 3})
INCOMPLETE = (replace(REJECTED[0], steps=((INCOMPLETE_CALL, convert("call_2", 21.5)), *REJECTED[0].steps[1:])), TABLE)
"""As above, for frameworks that look only whether all arguments are there: the unit is missing."""

BOOKING_AGENT = "booking_agent"
DELEGATED = (
    WEATHER,
    Turn(
        ASK_TABLE, ((Call("call_8", BOOKING_AGENT, {"request": "A table for two at 19:30"}),), "Your table is booked.")
    ),
)
"""The second turn's tools belong to another agent, which the first one calls like a tool (its steps: `TABLE`)."""

HANDED_OVER = (
    WEATHER,
    Turn(
        ASK_TABLE,
        ((Call("call_8", "transfer_to_agent", {"agent_name": BOOKING_AGENT}),), *TABLE.steps),
    ),
)
"""The second turn is handed over to another agent."""
HANDED_OVER_BY_TOOL = (WEATHER, Turn(ASK_TABLE, ((Call("call_8", f"transfer_to_{BOOKING_AGENT}", {}),), *TABLE.steps)))
"""The same where each agent to hand over to is a tool."""


def steps(turns: Iterable[Turn]) -> Iterator[Step]:
    """What the model answers, one after the other."""
    return (step for turn in turns for step in turn.steps)


class NoTable(ValueError):
    """The first booking fails."""


def get_weather(city: str, unit: str, days: int = 1) -> dict[str, Any]:
    """Weather forecast.

    Args:
        city: the city's name
        unit: celsius or fahrenheit
        days: how many days ahead
    """
    return {"city": city, "unit": unit, "days": days, "temp": 21.5}


def convert_temperature(value: float, from_unit: str, to_unit: str) -> dict[str, Any]:
    """Convert a temperature.

    Args:
        value: the temperature
        from_unit: C or F
        to_unit: C or F
    """
    converted = value * 9 / 5 + 32 if (from_unit, to_unit) == ("C", "F") else (value - 32) * 5 / 9
    return {"value": round(converted, 2), "unit": to_unit}


convert_temperature.__name__ = convert_temperature.__qualname__ = "convert"


def book_table(restaurant: dict[str, Any], people: int, when: str, notes: str | None = None) -> dict[str, Any]:
    """Book a table.

    Args:
        restaurant: its name and id
        people: for how many
        when: date and time
        notes: wishes
    """
    if when.endswith("19:30"):
        raise NoTable("slot 19:30 is full, try 20:00")
    return {"confirmed": True, "id": "bk-7", "people": people, "when": when}


TOOLS = (get_weather, convert_temperature, book_table)


def parameters(name: str) -> dict[str, Any]:
    """Return a tool's parameters as JSON Schema, for frameworks that do not read them off a function."""
    text, number, whole = {"type": "string"}, {"type": "number"}, {"type": "integer"}
    restaurant = {"type": "object", "properties": {"name": text, "id": whole}, "required": ["name", "id"]}
    properties: dict[str, dict[str, Any]] = {
        "get_weather": {"city": text, "unit": text, "days": whole},
        "convert": {"value": number, "from_unit": text, "to_unit": text},
        "book_table": {"restaurant": restaurant, "people": whole, "when": text, "notes": {"type": ["string", "null"]}},
    }
    return {"type": "object", "properties": properties[name], "required": list(properties[name])}


def run_tool(name: str, arguments: dict[str, Any]) -> Any:
    """Execute a tool by its name."""
    return {tool.__name__: tool for tool in TOOLS}[name](**arguments)
