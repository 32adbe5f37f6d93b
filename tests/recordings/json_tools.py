"""The tools as coroutines that answer in JSON: synchronous ones would run in threads, in another order each time."""

from __future__ import annotations

import json
from typing import Any

import scenario


async def get_weather(city: str, unit: str, days: int = 1) -> str:
    """Weather forecast."""
    return json.dumps(scenario.get_weather(city, unit, days))


async def convert(value: float, from_unit: str, to_unit: str) -> str:
    """Convert a temperature."""
    return json.dumps(scenario.convert_temperature(value, from_unit, to_unit))


async def book_table(restaurant: dict[str, Any], people: int, when: str, notes: str | None = None) -> str:
    """Book a table."""
    return json.dumps(scenario.book_table(restaurant, people, when, notes))


TOOLS = (get_weather, convert, book_table)
