"""Simulated agents: runs of the same tasks that are right in several ways, and runs with one mistake.

Each agent has tasks and the habits of models: fresh ids for each call, lists in any order, prose in other words, dates
that depend on the day, lookups that are skipped or repeated, optional arguments, numbers as text.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from goldspan.mappers import read_sessions
from goldspan.scoring.sessions import Session
from rigs.trace_requests import attribute, digits, request

SECOND = 1_000_000_000
FIRST_DAY = date(2026, 3, 2)


@dataclass
class SimulatedCall:
    name: str
    args: dict[str, Any]
    result: Any = None
    error: str | None = None
    second: int = 0
    """When it starts, from the start of the run; calls that start at once are parallel."""


@dataclass
class SimulatedRun:
    """One run of a task by an agent."""

    task: int
    session: str
    user: str
    day: date
    seconds: int = 36_000
    calls: list[SimulatedCall] = field(default_factory=list)
    mistake: str | None = None
    dialect: str = "otel"
    later: list[tuple[int, str]] = field(default_factory=list)
    """What the user said in later turns, after how many calls."""
    parallel: bool = False
    clock: int = 1

    def call(self, tool: str, result: Any = None, error: str | None = None, /, **args: Any) -> Any:
        self.calls.append(SimulatedCall(tool, args, result, error, self.clock))
        self.clock += 0 if self.parallel else 2
        return result

    def say(self, text: str) -> None:
        """Begin another turn."""
        self.later.append((len(self.calls), text))
        self.clock += 10

    @contextmanager
    def together(self, parallel: bool) -> Generator[None]:
        """Make the calls of the block at once, if `parallel`."""
        self.parallel = parallel
        yield
        self.parallel, self.clock = False, self.clock + 2

    @property
    def start(self) -> int:
        return int(datetime.combine(self.day, time(), UTC).timestamp() + self.seconds) * SECOND

    def to_session(self) -> Session:
        [session] = read_sessions(self.to_request())
        return session

    def to_request(self) -> dict[str, Any]:
        """The run as traces, one a turn, as the run's dialect writes them."""
        keys = DIALECTS[self.dialect]
        bounds = [(0, self.user), *self.later]
        spans: list[dict[str, Any]] = []
        begin = 0
        for turn, (first, said) in enumerate(bounds):
            calls = self.calls[first : bounds[turn + 1][0] if turn + 1 < len(bounds) else None]
            begin = max(begin + 1, calls[0].second - 1) if calls else begin + 1
            end = max([begin, *[one.second for one in calls]]) + 2
            name = f"{self.session}/{self.start}/{turn}/{len(self.calls)}/{self.mistake}"
            trace_id, root_id = digits(name, 32), digits(f"{name}/root", 16)
            at = self.start + begin * SECOND
            spans.append(_span(trace_id, root_id, "", "agent", at, end - begin, keys.root(self.session, said), None))
            for index, call in enumerate(calls):
                at, own = self.start + call.second * SECOND, digits(f"{name}/{index}", 16)
                spans.append(_span(trace_id, own, root_id, call.name, at, 1, keys.tool(call), call.error))
            begin = end
        return request(spans, keys.scope)


@dataclass(frozen=True)
class Dialect:
    """How an instrumentation writes an agent's turn and a tool's call."""

    scope: str
    root: Callable[[str, str], dict[str, str]]
    tool: Callable[[SimulatedCall], dict[str, str]]


DIALECTS = {
    "otel": Dialect(
        "tests",
        lambda session, said: {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "agent",
            "gen_ai.conversation.id": session,
            "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": said}]}]),
        },
        lambda call: {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.arguments": json.dumps(call.args),
            "gen_ai.tool.call.result": json.dumps(call.result),
        },
    ),
    "openinference": Dialect(
        "openinference.instrumentation.custom",
        lambda session, said: {"openinference.span.kind": "AGENT", "session.id": session, "input.value": said},
        lambda call: {
            "openinference.span.kind": "TOOL",
            "tool.name": call.name,
            "input.value": json.dumps(call.args),
            "input.mime_type": "application/json",
            "output.value": json.dumps(call.result),
            "output.mime_type": "application/json",
        },
    ),
    "openllmetry": Dialect(
        "traceloop.tracer",
        lambda session, said: {
            "traceloop.span.kind": "workflow",
            "traceloop.entity.name": "agent",
            "traceloop.association.properties.session_id": session,
            "traceloop.entity.input": json.dumps({"args": [], "kwargs": {"question": said}}),
        },
        lambda call: {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": call.name,
            "traceloop.entity.input": json.dumps({"args": [], "kwargs": call.args}),
            "traceloop.entity.output": json.dumps(call.result),
        },
    ),
}


def _span(
    trace_id: str,
    span_id: str,
    parent: str,
    name: str,
    start: int,
    seconds: int,
    attributes: Mapping[str, str],
    error: str | None,
) -> dict[str, Any]:
    return {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": parent,
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + seconds * SECOND),
        "attributes": [attribute(key, value) for key, value in attributes.items()],
        **({"status": {"code": 2, "message": error}} if error else {}),
    }


Agent = Callable[[SimulatedRun, random.Random, str | None], None]
"""Makes the calls of a run, with a mistake if one is named."""


def some(chance: random.Random, share: float) -> bool:
    return chance.random() < share


def shuffled(chance: random.Random, items: Iterable[Any]) -> list[Any]:
    found = list(items)
    chance.shuffle(found)
    return found


def new_uuid(chance: random.Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


def new_id(chance: random.Random, prefix: str) -> str:
    return prefix + "".join(chance.choice("0123456789ABCDEFGHJKMNPQRSTVWXYZ") for _ in range(8))


# A support agent: refunds, tags, mails, call-backs.

PEOPLE = ("ann", "bob", "cleo", "dan", "eve", "fay", "gus", "hal", "ida", "jon")
_REASONS = (
    "damaged",
    "late",
    "wrong_item",
    "not_needed",
    "damaged",
    "late",
    "duplicate",
    "wrong_item",
    "late",
    "damaged",
)
SUPPORT_MISTAKES = (
    "wrong amount",
    "wrong order",
    "no refund",
    "second refund",
    "wrong reason",
    "tag missing",
    "no mail",
    "mail to another",
    "mail without refund",
    "wrong day",
    "other write",
    "swapped priority",
)


def support(run: SimulatedRun, chance: random.Random, mistake: str | None) -> None:
    """Refund an order, tag it, tell the customer, and plan a call on another day."""
    who, order = PEOPLE[run.task], f"ORD-{4_300 + 17 * run.task}"
    amount = round(12.5 + 9.75 * run.task, 2)
    mail = f"{who}@example.com"
    run.user = f"I am {who.title()}, {mail}. Please refund my order {order}: {_REASONS[run.task].replace('_', ' ')}"
    if some(chance, 0.9):
        run.call("find_customer", {"id": f"CUS-{run.task}", "email": mail, "name": who.title()}, email=mail)
    run.call("get_order", {"order_id": order, "total": amount, "currency": "EUR", "customer": mail}, order_id=order)
    for _ in range(chance.choice((0, 0, 1, 2))):
        run.call(
            "search_kb",
            ["Refunds take 5 days"],
            query=chance.choice(("refund policy", "how do refunds work", "policy refunds")),
        )
    paid = (
        amount + 10
        if mistake == "wrong amount"
        else int(amount)
        if amount.is_integer() and some(chance, 0.5)
        else amount
    )
    refund = new_id(chance, "RF-")
    reason = "other" if mistake == "wrong reason" else _REASONS[run.task]
    wrong = f"ORD-{4_300 + 17 * run.task + 1}" if mistake == "wrong order" else order

    def give_refund() -> None:
        run.call(
            "create_refund",
            {"refund_id": refund, "status": "done"},
            order_id=wrong,
            amount=paid,
            currency="EUR",
            reason=reason,
            request_id=new_uuid(chance),
        )

    def tag() -> None:
        tags = ["refund", _REASONS[run.task].replace("_", "-"), *(["vip"] if run.task % 3 == 0 else [])]
        if mistake == "tag missing":
            tags.pop()
        run.call("tag_order", {"ok": True}, order_id=order, tags=shuffled(chance, tags))

    if mistake != "no refund":
        if some(chance, 0.1):
            run.call(
                "create_refund",
                None,
                "timeout",
                order_id=wrong,
                amount=paid,
                currency="EUR",
                reason=reason,
                request_id=new_uuid(chance),
            )
        give_refund()
        if mistake == "second refund":
            give_refund()
    tag()
    if mistake != "no mail":
        said = refund if mistake != "mail without refund" else "your refund"
        shown = f"{float(paid):.2f}"
        body = chance.choice(
            (
                f"Hello {who.title()}, we refunded {shown} EUR for {order}. Your reference is {said}.",
                f"Dear {who.title()}, good news: EUR {shown} are on their way back to you ({said}, order {order}).",
                f"Hi {who.title()}! Order {order}: refund {said} of {shown} EUR was made. Sorry for the trouble.",
            )
        )
        subject = chance.choice((f"Refund for {order}", f"Your refund ({order})", f"{order}: refunded"))
        to = f"{PEOPLE[(run.task + 1) % 10]}@example.com" if mistake == "mail to another" else mail
        extra = {"priority": "normal"} if some(chance, 0.4) else {}
        run.call("send_email", {"sent": True}, to=to, subject=subject, body=body, **extra)
    if run.task % 2 or mistake in ("wrong day", "swapped priority"):
        days = 3 + (mistake == "wrong day")
        level = "high" if (run.task % 4 == 1) != (mistake == "swapped priority") else "low"
        run.call(
            "schedule_callback",
            {"id": new_id(chance, "CB-")},
            customer=mail,
            date=str(run.day + timedelta(days)),
            level=level,
        )
    if mistake == "other write":
        run.call("cancel_order", {"ok": True}, order_id=order)


# A travel agent: bookings of several people, legs, seats; camel case; ids of its own.

TRAVEL_MISTAKES = (
    "wrong passenger",
    "passenger missing",
    "wrong fare",
    "seat swapped",
    "no booking",
    "wrong hotel nights",
    "invoice without total",
    "other card",
    "other write",
    "double booking",
)
_CITIES = ("OSL", "LIS", "PRG", "ATH", "DUB", "VIE", "RIX", "TLL", "BUD", "HEL")


def travel(run: SimulatedRun, chance: random.Random, mistake: str | None) -> None:
    """Book flights and seats for some people, a hotel, and send the itinerary."""
    names = [("Mia", "Berg"), ("Leo", "Costa"), ("Ute", "Lang"), ("Kim", "Park")][: 1 + run.task % 3 + (run.task > 6)]
    city, fare = _CITIES[run.task], 120 + 13 * run.task
    leaving = run.day + timedelta(14 + run.task)
    lead = f"{names[-1][0].lower()}@trip.example"
    people = ", ".join(f"{first} {last}" for first, last in names)
    run.user = f"Book flights to {city} in {14 + run.task} days for {people}; the tickets go to {lead}"
    for kind in shuffled(chance, ["searchFlights", "listHotels", "getUserProfile"])[: chance.choice((2, 3, 3))]:
        run.call(
            kind,
            {"offers": [{"flight": f"GS{100 + run.task}", "fare": fare}]},
            **({"city": city} if kind != "getUserProfile" else {"userId": "u-77"}),
        )
    if mistake == "wrong passenger":
        names[0] = ("Max", names[0][1])
    if mistake == "passenger missing":
        names = names[1:] or [("Nobody", "Here")]
    passengers = [
        {"first": first, "last": last, **({"meal": "standard"} if some(chance, 0.5) else {})} for first, last in names
    ]
    booking = new_id(chance, "BK")
    price = fare * len(names) * (2 if mistake == "wrong fare" else 1)

    def book() -> None:
        run.call(
            "bookFlight",
            {"bookingId": booking, "total": price},
            flight=f"GS{100 + run.task}",
            date=str(leaving),
            passengers=shuffled(chance, passengers),
            payment={
                "method": "card-9" if mistake == "other card" else "card-4",
                "amount": price,
                "idempotencyKey": f"{chance.getrandbits(128):032x}",
            },
        )

    if mistake != "no booking":
        book()
        if mistake == "double booking":
            book()
        seats = [f"{12 + run.task}{letter}" for letter in "ABCD"[: len(names)]]
        if mistake == "seat swapped":
            seats = [*seats[:-1], "1F"]
        pairs = shuffled(chance, zip([first for first, _ in names], seats, strict=True))
        run.call(
            "assignSeats",
            {"ok": True},
            bookingId=booking,
            people=[one for one, _ in pairs],
            seats=[seat for _, seat in pairs],
        )
    if run.task % 2 == 0 or mistake == "wrong hotel nights":
        nights = 2 + run.task % 3 + (mistake == "wrong hotel nights")
        run.call(
            "reserveHotel",
            {"ok": True},
            city=city,
            checkIn=str(leaving),
            nights=nights if some(chance, 0.7) else str(nights),
            remarks=chance.choice(("Late arrival", "late arrival.", "Late Arrival")),
        )
    total = "the total" if mistake == "invoice without total" else f"{price} EUR"
    text = chance.choice(
        (
            f"Booking {booking} to {city} on {leaving}: {total}.",
            f"You fly to {city}, {leaving}. We charged {total}; see {booking}.",
            f"{booking} is confirmed ({city}, {leaving}). Paid: {total}",
        )
    )
    run.call("sendItinerary", {"ok": True}, to=lead, text=text)
    if some(chance, 0.5):
        run.call(
            "addNote",
            {"ok": True},
            text=chance.choice(("Customer was friendly", "Asked about baggage", "nothing special")),
        )
    if mistake == "other write":
        run.call("deleteProfile", {"ok": True}, userId="u-77")


# A warehouse agent: nested objects, counters, time stamps, German prose, tools named by an MCP server.

STOCK_MISTAKES = (
    "wrong sku",
    "wrong quantity",
    "no transfer",
    "wrong dock",
    "label missing",
    "wrong urgency",
    "early slot",
    "report without count",
    "other write",
    "double transfer",
)


def stock(run: SimulatedRun, chance: random.Random, mistake: str | None) -> None:
    """Move stock between warehouses, reserve a slot and report in German."""
    source, target = f"WH-{1 + run.task % 4}", f"WH-{5 + run.task % 3}"
    skus = {
        f"SKU-{run.task}{letter}": 5 * (index + 1) + run.task for index, letter in enumerate("XYZ"[: 1 + run.task % 3])
    }
    wanted = ", ".join(f"{count} of {sku}" for sku, count in skus.items())
    run.user = f"Move {wanted} from {source} to {target}, dock D{run.task % 4}"
    for sku in shuffled(chance, skus)[: chance.choice((1, 2, 3))]:
        run.call("inventory.lookup", {"sku": sku, "onHand": 500}, sku=sku)
    if some(chance, 0.5):
        run.call("warehouse.list", [{"id": source}, {"id": target}])
    if mistake == "wrong sku":
        skus = {key + "9": count for key, count in skus.items()}
    if mistake == "wrong quantity":
        skus = {key: count + 1 for key, count in skus.items()}
    lines = [{"sku": sku, "quantity": count} for sku, count in skus.items()]
    number = f"TR-{chance.randrange(10_000, 99_999)}"
    stamp = (run.start // SECOND + chance.randrange(60)) * 1000

    def transfer() -> None:
        run.call(
            "transfer.create",
            {"transfer": {"number": number}},
            **{
                "from": {"warehouse": source},
                "to": {"warehouse": target, "dock": "D9" if mistake == "wrong dock" else f"D{run.task % 4}"},
            },
            lines=shuffled(chance, lines),
            clientTime=stamp,
            urgent=(run.task % 2 == 0) != (mistake == "wrong urgency"),
        )

    if mistake != "no transfer":
        transfer()
        if mistake == "double transfer":
            transfer()
    labels = ["fragile", "cold"][: 1 + run.task % 2]
    run.call(
        "labels.print",
        {"printed": len(labels)},
        transfer=number,
        labels=shuffled(chance, labels[: -1 if mistake == "label missing" else None]),
    )
    slot = datetime.combine(run.day + timedelta(1), time(6 if mistake == "early slot" else 8 + run.task % 3))
    run.call("slot.reserve", {"ok": True}, at=slot.isoformat(), dock=f"D{run.task % 4}", reference=number)
    count = "alle" if mistake == "report without count" else str(sum(skus.values()))
    run.call(
        "report.post",
        {"ok": True},
        channel="#lager",
        text=chance.choice(
            (
                f"Umlagerung {number} von {source} nach {target}: {count} Stück.",
                f"{count} Stück gehen von {source} nach {target} ({number}).",
                f"Erledigt: {number}, {source} -> {target}, insgesamt {count} Einheiten",
            )
        ),
    )
    if mistake == "other write":
        run.call("inventory.adjust", {"ok": True}, sku=next(iter(skus)), delta=-1)


@dataclass(frozen=True)
class SimulatedAgent:
    """An agent and its ten tasks."""

    name: str
    act: Agent
    mistakes: tuple[str, ...]
    tasks: int = 10
    dialect: str = "otel"

    def run(self, task: int, number: int, *, mistake: str | None = None, chance_of: str | None = None) -> SimulatedRun:
        """One run; `chance_of` is the mistake whose chance it has, where that is another one."""
        chance = random.Random(f"{self.name}/{task}/{number}/{mistake or chance_of}/")
        day = FIRST_DAY + timedelta(chance.randrange(200))
        session = f"{self.name}-{task}-run-{number}{'-bad' if mistake else ''}"
        run = SimulatedRun(
            task,
            session,
            f"Please deal with case {task} of {self.name}",
            day,
            30_000 + chance.randrange(20_000),
            mistake=mistake,
            dialect=self.dialect,
        )
        self.act(run, chance, mistake)
        return run

    def good(self, runs: int, *, first: int = 0) -> list[SimulatedRun]:
        return [self.run(task, first + number) for task in range(self.tasks) for number in range(runs)]

    def bad(self, runs: int) -> list[SimulatedRun]:
        """Runs with each mistake in turn, on tasks in turn that the mistake changes."""
        return [self._bad(number) for number in range(runs)]

    def _bad(self, number: int) -> SimulatedRun:
        mistake = self.mistakes[number % len(self.mistakes)]
        for more in range(self.tasks):
            task = (3 * number + number // 10 + more) % self.tasks
            run = self.run(task, number, mistake=mistake)
            if run.calls != self.run(task, number, chance_of=mistake).calls:
                return run
        raise ValueError(mistake)


AGENTS = {
    one.name: one
    for one in (
        SimulatedAgent("support", support, SUPPORT_MISTAKES),
        SimulatedAgent("travel", travel, TRAVEL_MISTAKES),
        SimulatedAgent("stock", stock, STOCK_MISTAKES),
    )
}
