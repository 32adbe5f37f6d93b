"""More simulated agents, with other habits: turns, retries, hand-overs, writes in parts or in parallel, other dialects.

They were written without regard to how goldens are inferred. A good run is one that a person would call right.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from goldspan.collector_processor.golden_tools.recording import record
from goldspan.scoring import load_goldens
from goldspan.scoring.goldens import GoldenIndex
from rigs.simulated_agents import AGENTS, SimulatedAgent, SimulatedRun, new_uuid, shuffled, some

_BASE32 = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid(chance: random.Random) -> str:
    return "01J" + "".join(chance.choice(_BASE32) for _ in range(23))


def hexadecimal(chance: random.Random, length: int = 12) -> str:
    return f"{chance.getrandbits(4 * length):0{length}x}"


def next_weekday(day: date, weekday: int) -> date:
    return day + timedelta((weekday - day.weekday() - 1) % 7 + 1)


# A clinic's front desk: appointments, messages in two languages, hand-over to people.

PATIENTS = ("Alma", "Bruno", "Chiara", "Dieter", "Elif", "Frida", "Goran", "Hana", "Igor", "Jana")
_DEPARTMENTS = ("cardiology", "dermatology", "radiology", "orthopedics")

CLINIC_MISTAKES = (
    "wrong department",
    "wrong patient",
    "wrong day",
    "wrong length",
    "no message",
    "message without time",
    "message to another",
    "reminder missing",
    "double booking",
    "cancels instead",
    "handed over",
    "not handed over",
    "allergy lost",
)


def clinic(run: SimulatedRun, chance: random.Random, mistake: str | None) -> None:
    """Book an appointment with reminders and tell the patient; two tasks belong to a human."""
    name = PATIENTS[run.task]
    patient = f"P-{20_410 + 7 * run.task}"
    phone = f"+49 170 55{run.task}00{run.task}"
    department = _DEPARTMENTS[run.task % 4]
    weekday = run.task % 5
    day = next_weekday(run.day, weekday)
    words = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")[weekday]
    hour = 8 + run.task % 6
    run.user = f"This is {name}, patient {patient}. I need {department} next {words} at {hour}."
    emergency = run.task in (4, 9)
    if emergency:
        run.user = f"This is {name}, patient {patient}. I have strong pain in my chest, what should I do?"
    if some(chance, 0.85):
        run.call(
            "lookup_patient", {"id": patient, "name": name, "phone": phone, "allergies": ["latex"]}, patient_id=patient
        )
    if emergency and mistake != "not handed over":
        run.call(
            "transfer_to_human_agents",
            "Transfer successful",
            summary=chance.choice(
                (
                    f"Patient {patient} ({name}) reports chest pain.",
                    f"{name}, {patient}: acute chest pain, needs a nurse now",
                    f"Chest pain. Caller is {name}. File {patient}. Please take over immediately.",
                )
            ),
        )
        return
    if mistake == "handed over":
        run.call("transfer_to_human_agents", "Transfer successful", summary=f"{name} wants an appointment")
        return
    for _ in range(chance.choice((1, 1, 2))):
        run.call(
            "list_slots",
            {"slots": [{"slot_id": f"S{run.task}{hour}", "start": f"{day}T{hour:02}:00"}]},
            department=department,
            from_date=str(day if some(chance, 0.6) else run.day),
        )
    if mistake == "wrong patient":
        patient = f"P-{20_410 + 7 * run.task + 7}"
    if mistake == "wrong department":
        department = _DEPARTMENTS[(run.task + 1) % 4]
    if mistake == "wrong day":
        day += timedelta(1)
    minutes = 30 if run.task % 2 else 45
    if mistake == "wrong length":
        minutes += 15
    note = {"allergies": [] if mistake == "allergy lost" else ["latex"], "language": "de" if run.task % 3 else "en"}
    if some(chance, 0.5):
        note["source"] = "phone"
    confirmation = f"C{chance.randrange(100_000, 999_999)}"

    def book(error: str | None = None) -> None:
        run.call(
            "book_appointment",
            None if error else {"confirmation": confirmation, "room": f"R{chance.randrange(1, 9)}"},
            error,
            patient_id=patient,
            department=department,
            slot={
                "date": str(day),
                "time": f"{hour:02}:00" if some(chance, 0.8) else f"{hour:02}:00:00",
                "minutes": minutes,
            },
            note=note,
            correlation_id=hexadecimal(chance),
        )

    if mistake == "cancels instead":
        run.call("cancel_appointment", {"ok": True}, patient_id=patient)
        return
    if some(chance, 0.2):
        book("the slot is locked, try again")
    book()
    if mistake == "double booking":
        book()
    offsets = [24, 2] if run.task % 2 == 0 else [24]
    if mistake == "reminder missing":
        offsets = offsets[1:]
    if some(chance, 0.3) and len(offsets) > 1:
        for hours in shuffled(chance, offsets):
            run.call("add_reminders", {"ok": True}, confirmation=confirmation, hours_before=[hours])
    elif offsets:
        run.call("add_reminders", {"ok": True}, confirmation=confirmation, hours_before=shuffled(chance, offsets))
    if mistake == "no message":
        return
    at = "soon" if mistake == "message without time" else f"{hour}:00"
    date_text = chance.choice((str(day), f"{day:%d.%m.%Y}", f"{day.day} {day:%B %Y}"))
    if note["language"] == "de":
        text = chance.choice(
            (
                f"Hallo {name}, Ihr Termin ({department}) ist am {day:%d.%m.%Y} um {at}. Bestätigung {confirmation}.",
                f"Guten Tag {name}! Wir sehen Sie am {day:%d.%m.%Y}, {at} Uhr. Ihre Nummer: {confirmation}",
                f"{name}, Termin bestätigt: {day:%d.%m.%Y} {at} ({confirmation})",
            )
        )
    else:
        text = chance.choice(
            (
                f"Hello {name}, your {department} appointment is on {date_text} at {at}. Confirmation {confirmation}.",
                f"Hi {name}! See you on {date_text}, {at}. Your number is {confirmation}.",
                f"{name}: booked for {date_text} at {at} ({confirmation}). Please bring your card.",
            )
        )
    to = (
        "+49 170 9999999" if mistake == "message to another" else phone if some(chance, 0.7) else phone.replace(" ", "")
    )
    run.call("send_sms", {"queued": True}, to=to, text=text)


# A billing desk: money as text and as numbers, defaults that are passed or not, notes that are nobody's business.

BILLING_MISTAKES = (
    "wrong amount",
    "wrong account",
    "wrong currency",
    "wrong plan",
    "starts today",
    "no credit",
    "credit twice",
    "mail without amount",
    "wrong template",
    "ticket unimportant",
    "closes account",
    "label missing",
)
_PLANS = ("basic", "team", "business")


def billing(run: SimulatedRun, chance: random.Random, mistake: str | None) -> None:
    """Credit an invoice, change the plan from the first of next month, open a ticket, notify."""
    account = f"ac_{9_000 + 31 * run.task}"
    cents = 1_250 + 725 * run.task
    currency = ("USD", "EUR", "GBP")[run.task % 3]
    plan = _PLANS[run.task % 3]
    invoice = f"INV-2026-{100 + run.task:04}"
    run.user = (
        f"Account {account}: invoice {invoice} is {cents / 100:.2f} {currency} too high. "
        f"Credit it and move us to {plan} next month."
    )
    reads: list[Callable[[], Any]] = [
        lambda: run.call(
            "get_account",
            {"account": account, "owner": f"owner{run.task}@corp.example", "plan": "old"},
            account=account,
        ),
        lambda: run.call(
            "get_invoice", {"invoice": invoice, "overcharge": cents / 100, "currency": currency}, invoice=invoice
        ),
        lambda: run.call(
            "search_policies",
            ["Credits up to 100 need no approval"],
            q=chance.choice(("credit", "credits policy", "refund approval")),
        ),
    ]
    for read in shuffled(chance, reads)[: chance.choice((2, 3))]:
        read()
    if mistake == "wrong amount":
        cents += 100
    if mistake == "wrong account":
        account = f"ac_{9_000 + 31 * run.task + 31}"
    if mistake == "wrong currency":
        currency = "CHF"
    credit = "cr_" + hexadecimal(chance, 16)

    def shown() -> Any:
        return chance.choice((f"{cents / 100:.2f}", f"{currency} {cents / 100:.2f}", f"{cents / 100:.2f} {currency}"))

    def give() -> None:
        run.call(
            "issue_credit",
            {"id": credit, "state": "posted"},
            account=account,
            invoice=invoice,
            amount=shown(),
            currency=currency if some(chance, 0.8) else currency.lower(),
            memo=chance.choice(
                (f"Overcharge on {invoice}", f"{invoice}: billing error", f"Correction of invoice {invoice}")
            ),
            idempotency_key=ulid(chance),
        )

    def move() -> None:
        first = (run.day.replace(day=1) + timedelta(32)).replace(day=1)
        wanted = _PLANS[(run.task + 1) % 3] if mistake == "wrong plan" else plan
        more: dict[str, Any] = {"prorate": False} if some(chance, 0.4) else {}
        run.call(
            "update_plan",
            {"ok": True},
            account=account,
            plan=wanted,
            effective=str(run.day if mistake == "starts today" else first),
            seats=3 + run.task if some(chance, 0.7) else str(3 + run.task),
            **more,
        )

    steps = [] if mistake == "no credit" else [give]
    if mistake == "credit twice":
        steps.append(give)
    steps.insert(0 if some(chance, 0.4) else len(steps), move)
    with run.together(some(chance, 0.3)):
        for step in steps:
            step()
    if run.task % 2 == 0 or mistake == "ticket unimportant":
        labels = ["billing", "credit", currency.lower()]
        if mistake == "label missing":
            labels = labels[:1]
        run.call(
            "create_ticket",
            {"key": f"BIL-{chance.randrange(1000, 9999)}"},
            title=chance.choice((f"Credit for {invoice}", f"{invoice} overcharged", f"Billing correction ({invoice})")),
            priority="low" if mistake == "ticket unimportant" else "high",
            labels=shuffled(chance, labels),
            description=chance.choice(
                (
                    f"Customer {account} was charged too much on {invoice}.",
                    f"We credited {account}. See {invoice} for details.",
                    f"{account}: invoice {invoice} corrected; plan changes to {plan}.",
                )
            ),
            source=chance.choice(("chat", "chat", "assistant")),
        )
    value = "as agreed" if mistake == "mail without amount" else f"{cents / 100:.2f} {currency}"
    variables = {"amount": value, "invoice": invoice, "credit": credit}
    run.call(
        "notify",
        {"ok": True},
        template="welcome" if mistake == "wrong template" else "credit_issued",
        recipient={
            "email": f"owner{run.task}@corp.example",
            **({"name": f"Owner {run.task}"} if some(chance, 0.5) else {}),
        },
        variables=variables,
    )
    if some(chance, 0.6):
        run.call(
            "log_interaction", {"ok": True}, account=account, sentiment=chance.choice(("calm", "angry", "neutral"))
        )
    if mistake == "closes account":
        run.call("close_account", {"ok": True}, account=account)


# An IT desk: people and groups as nested objects, passwords, incidents, access for each resource, chat in prose.

DESK_MISTAKES = (
    "wrong group",
    "group missing",
    "wrong manager",
    "admin access",
    "access missing",
    "wrong severity",
    "wrong host",
    "post in another channel",
    "post without ticket",
    "user twice",
    "deletes user",
    "wrong login",
)


def desk(run: SimulatedRun, chance: random.Random, mistake: str | None) -> None:
    """Onboard a colleague (even tasks) or open an incident (odd tasks), and say so in a channel."""
    if run.task % 2 == 0:
        _onboard(run, chance, mistake)
    else:
        _incident(run, chance, mistake)
    if mistake == "deletes user":
        run.call("directory_delete_user", {"ok": True}, login="root")


def _onboard(run: SimulatedRun, chance: random.Random, mistake: str | None) -> None:
    first, last = (("Nora", "Wolf"), ("Omar", "Said"), ("Pia", "Rossi"), ("Quin", "Hart"), ("Rosa", "Diaz"))[
        run.task // 2
    ]
    login = f"{first[0]}{last}".lower()
    groups = ["staff", "vpn", ("design", "sales", "ops")[run.task % 3]]
    resources = ["wiki", "git", "crm"][: 1 + run.task % 3]
    manager = f"m{run.task}@it.example"
    run.user = f"{first} {last} starts Monday in {groups[2]}, manager {manager}; needs {', '.join(resources)}"
    if some(chance, 0.7):
        run.call("directory_search", [], query=chance.choice((f"{first} {last}", login, last)))
    if some(chance, 0.5):
        run.call("directory_list_groups", groups)
    if mistake == "wrong group":
        groups = [*groups[:2], "finance"]
    if mistake == "group missing":
        groups = groups[:-1]
    if mistake == "wrong login":
        login = f"{last}{first[0]}".lower()
    profile = {
        "givenName": first,
        "familyName": last,
        "manager": f"m{run.task + 1}@it.example" if mistake == "wrong manager" else manager,
    }
    if some(chance, 0.5):
        profile["displayName"] = f"{first} {last}"
    user_id = f"u-{chance.randrange(10**6):06}"

    def create() -> None:
        run.call(
            "directory_create_user",
            {"user": {"id": user_id, "login": login}},
            login=login,
            profile=profile,
            groups=shuffled(chance, groups),
            initial_password="".join(chance.choice("abcdefghjkmnpqrstuvwxyzABCDEFGH23456789!") for _ in range(14)),
            start=str(next_weekday(run.day, 0)),
        )

    create()
    if mistake == "user twice":
        create()
    if mistake == "access missing":
        resources = resources[:-1] or ["none"]
    level = "admin" if mistake == "admin access" else "member"
    if some(chance, 0.5):
        with run.together(some(chance, 0.7)):
            for resource in shuffled(chance, resources):
                run.call("access_grant", {"ok": True}, user_id=user_id, resource=resource, level=level)
    else:
        for resource in shuffled(chance, resources):
            if some(chance, 0.1):
                run.call(
                    "access_grant",
                    None,
                    "409 conflict: user is being indexed",
                    user_id=user_id,
                    resource=resource,
                    level=level,
                )
            run.call("access_grant", {"ok": True}, user_id=user_id, resource=resource, level=level)
    _post(run, chance, mistake, "#onboarding", f"{first} {last}", login)


def _incident(run: SimulatedRun, chance: random.Random, mistake: str | None) -> None:
    hosts = [f"web-{run.task}a", f"web-{run.task}b", f"db-{run.task}"][: 1 + run.task % 3]
    severity = ("sev1", "sev2", "sev3")[run.task % 3]
    run.user = f"{', '.join(hosts)} do not answer since 5 minutes. That is {severity}."
    for host in shuffled(chance, hosts)[: chance.choice((0, 1, 1, 3))]:
        run.call("monitoring_get_status", {"host": host, "up": False}, host=host)
    if mistake == "wrong severity":
        severity = "sev4"
    if mistake == "wrong host":
        hosts = ["mail-1"]
    ticket = f"INC{chance.randrange(10_000, 99_999)}"
    begun = datetime.combine(run.day, time(), UTC) + timedelta(seconds=run.seconds - 300 + chance.randrange(-30, 30))

    def opened() -> None:
        run.call(
            "incident_open",
            {"ticket": ticket},
            severity=severity,
            affected=shuffled(chance, [{"host": host, "role": host.split("-")[0]} for host in hosts]),
            detected_at=begun.isoformat().replace("+00:00", "Z"),
            summary=chance.choice(
                (
                    f"{hosts[0]} is down",
                    f"No answer from {hosts[0]} for five minutes",
                    f"Outage: {hosts[0]} unreachable",
                )
            ),
            client={"request": new_uuid(chance), "version": "2.1"},
        )

    opened()
    if mistake == "user twice":
        opened()
    run.call("pager_notify", {"ok": True}, ticket=ticket, rota="web" if mistake != "wrong manager" else "nobody")
    _post(run, chance, mistake, "#incidents", hosts[0], ticket)


def _post(
    run: SimulatedRun, chance: random.Random, mistake: str | None, channel: str, what: str, reference: str
) -> None:
    said = "done" if mistake == "post without ticket" else reference
    run.call(
        "chat_post",
        {"ts": f"{chance.random():.6f}"},
        channel="#random" if mistake == "post in another channel" else channel,
        text=chance.choice(
            (
                f":white_check_mark: *{what}* is taken care of ({said})",
                f"Update on {what}: reference {said}. I will keep you posted.",
                f"Handled {what}. See `{said}` for details.",
            )
        ),
    )


# A shop's assistant in several turns: the user's words differ, people confirm, items are exchanged together.

SHOP_MISTAKES = (
    "wrong item",
    "wrong new item",
    "wrong payment",
    "other order",
    "does not act",
    "address not changed",
    "wrong street",
    "returns instead",
    "cancels too",
    "hands over",
    "wrong reason",
    "acts twice",
)


def shop(run: SimulatedRun, chance: random.Random, mistake: str | None) -> None:
    """Find the user in one of two ways, look at the order, then exchange, return or cancel after a yes."""
    zip_code, order = f"{10_000 + 111 * run.task}", f"#W{7_000_000 + 1_234 * run.task}"
    user, mail = f"user_{run.task}_{4_000 + run.task}", f"u{run.task}@mail.example"
    items, new_items = (
        [f"{1_000_000_000 + 17 * run.task + k}" for k in range(2)],
        [f"{2_000_000_000 + 13 * run.task + k}" for k in range(2)],
    )
    payment = f"credit_card_{700 + run.task}" if run.task % 2 else f"paypal_{300 + run.task}"
    verb = ("exchange", "return", "cancel")[run.task % 3]
    run.user = chance.choice(
        (
            f"Hi! I want to {verb} something from {order}. My mail is {mail}, zip {zip_code}.",
            f"Hello, about order {order} ({mail}, {zip_code}): please {verb} it",
            f"{mail} here, zip {zip_code}. Can you {verb} {order}?",
        )
    )
    if some(chance, 0.6):
        run.call("find_user_id_by_email", user, email=mail)
    else:
        if some(chance, 0.3):
            run.call("find_user_id_by_name_zip", None, "user not found", first_name="U", last_name="Ser", zip=zip_code)
        run.call("find_user_id_by_name_zip", user, first_name="Una", last_name="Serra", zip=zip_code)
    if some(chance, 0.8):
        run.call("get_user_details", {"user_id": user, "payment_methods": [payment, "gift_card_1"]}, user_id=user)
    if some(chance, 0.3):
        run.call(
            "think",
            "",
            thought=chance.choice(("The user is authenticated.", "I need the order next.", "Check the policy first")),
        )
    run.call("get_order_details", {"order_id": order, "items": items, "payment": payment}, order_id=order)
    if some(chance, 0.5):
        run.call("calculate", "42.50", expression=chance.choice(("20.00 + 22.50", "20 + 22.5", "42.5 * 1")))
    run.say(chance.choice(("Yes, please.", "yes", "Yes, go ahead!", "That is right, do it.")))
    if mistake == "wrong item":
        items = [*items[:1], "1999999999"]
    if mistake == "wrong new item":
        new_items = [*new_items[:1], "2999999999"]
    if mistake == "wrong payment":
        payment = "gift_card_1"
    if mistake == "other order":
        order = f"#W{7_000_000 + 1_234 * run.task + 1}"
    if mistake == "hands over":
        run.call("transfer_to_human_agents", "Transfer successful", summary="The user has a question about an order")
        return
    pairs = shuffled(chance, range(2))
    kind = (
        "return"
        if mistake == "returns instead" and verb != "return"
        else "exchange"
        if mistake == "returns instead"
        else verb
    )

    def act() -> None:
        if kind == "exchange":
            run.call(
                "exchange_delivered_order_items",
                {"status": "exchange requested"},
                order_id=order,
                item_ids=[items[k] for k in pairs],
                new_item_ids=[new_items[k] for k in pairs],
                payment_method_id=payment,
            )
        elif kind == "return":
            run.call(
                "return_delivered_order_items",
                {"status": "return requested"},
                order_id=order,
                item_ids=[items[k] for k in pairs],
                payment_method_id=payment,
            )
        else:
            run.call(
                "cancel_pending_order",
                {"status": "cancelled"},
                order_id=order,
                reason="ordered by mistake"
                if (run.task % 2 == 0) != (mistake == "wrong reason")
                else "no longer needed",
            )

    if mistake != "does not act":
        act()
        if mistake == "acts twice":
            act()
    if mistake == "cancels too":
        run.call("cancel_pending_order", {"status": "cancelled"}, order_id="#W1", reason="no longer needed")
    if run.task >= 6 and mistake != "address not changed":
        run.say(
            chance.choice(
                (
                    "And my address changed to 5 Elm Street, Unit 3",
                    "I also moved: Elm Street 5, unit 3. Please update it",
                )
            )
        )
        street = (
            "7 Oak Road"
            if mistake == "wrong street"
            else chance.choice(("5 Elm Street", "5 Elm Street", "5 elm street"))
        )
        run.call(
            "modify_user_address",
            {"ok": True},
            user_id=user,
            address1=street,
            address2="Unit 3" if some(chance, 0.8) else "unit 3",
            zip=zip_code,
            **({"country": "USA"} if some(chance, 0.6) else {}),
        )
    run.say(chance.choice(("Thanks!", "Great, bye", "That is all.")))


# A sales agent in camel case: Unix times, zones, nulls, upper and lower case, a counter, phone numbers, links.

SALES_MISTAKES = (
    "wrong lead",
    "wrong stage",
    "wrong value",
    "wrong meeting time",
    "attendee missing",
    "no follow-up",
    "follow-up late",
    "wrong owner",
    "quote without discount",
    "other product",
    "meeting twice",
    "marks lost",
)


def sales(run: SimulatedRun, chance: random.Random, mistake: str | None) -> None:
    """Move a deal, plan a meeting with people and a follow-up, and send a quote."""
    lead, value = f"L{500 + run.task}", 10_000 + 333.1 * run.task
    owner = ("kai", "lou", "max")[run.task % 3]
    product = f"PRD-{run.task % 4}"
    discount = (5, 10, 15)[run.task % 3]
    days = 2 + run.task % 4
    people = [f"{owner}@sell.example", f"buyer{run.task}@co.example", "legal@sell.example"][: 2 + run.task % 2]
    run.user = (
        f"Deal {lead}: they want {product} with {discount} % off, worth {value:.2f}. "
        f"Meet {', '.join(people)} in {days} days at 10:00, follow up a week later."
    )
    if some(chance, 0.8):
        run.call("getDeal", {"id": lead, "value": value, "owner": owner, "rev": 3}, id=lead)
    if some(chance, 0.4):
        run.call("listProducts", [{"sku": product, "price": 100}], **({"limit": 20} if some(chance, 0.5) else {}))
    if mistake == "wrong lead":
        lead = f"L{501 + run.task}"
    stage = "PROPOSAL" if mistake != "wrong stage" else "WON"
    run.call(
        "updateDeal",
        {"ok": True, "rev": 4},
        id=lead,
        stage=stage if some(chance, 0.7) else stage.lower(),
        value=(value + 500 if mistake == "wrong value" else value)
        + (chance.choice((0, 0, 0.004)) if some(chance, 0.5) else 0),
        owner="zoe" if mistake == "wrong owner" else owner,
        closeReason=None,
        sequence=1_000 + run.task * 50 + chance.randrange(50),
        **({"currency": "EUR"} if some(chance, 0.5) else {}),
    )
    if mistake == "attendee missing":
        people = people[:-1]
    at = datetime.combine(run.day + timedelta(days), time(11 if mistake == "wrong meeting time" else 10), UTC)
    meeting = f"evt_{hexadecimal(chance, 10)}"

    def meet() -> None:
        run.call(
            "scheduleMeeting",
            {"eventId": meeting, "link": f"https://meet.example/{meeting}"},
            title=chance.choice(
                (f"{product} with {lead}", f"Deal {lead}: {product}", f"Meeting about {lead} ({product})")
            ),
            start=at.isoformat()
            if some(chance, 0.5)
            else (at + timedelta(hours=1)).replace(tzinfo=None).isoformat() + "+01:00",
            attendees=[
                {"email": one, **({"optional": False} if some(chance, 0.3) else {})} for one in shuffled(chance, people)
            ],
            requestId=f"req-{(run.start // 10**6) + chance.randrange(5_000)}",
        )

    def follow() -> None:
        due = at + timedelta(14 if mistake == "follow-up late" else 7)
        run.call(
            "createTask", {"id": new_uuid(chance)}, deal=lead, dueDate=str(due.date()), kind="follow_up", assignee=owner
        )

    steps = [meet] if mistake == "no follow-up" else shuffled(chance, [meet, follow])
    if mistake == "meeting twice":
        steps.append(meet)
    with run.together(some(chance, 0.5)):
        for step in steps:
            step()
    shown = "" if mistake == "quote without discount" else f" with {discount}% off"
    sku = "PRD-9" if mistake == "other product" else product
    run.call(
        "sendQuote",
        {"quoteId": f"Q-{chance.randrange(10**5)}"},
        deal=lead,
        lines=[{"sku": sku, "quantity": 1, "discountPercent": discount if shown else 0}],
        message=chance.choice(
            (
                f"Please find our quote for {sku}{shown}. Join us: https://meet.example/{meeting}",
                f"Dear team, here is {sku}{shown}; the meeting link is https://meet.example/{meeting}",
                f"As discussed: {sku}{shown}. Link: https://meet.example/{meeting}",
            )
        ),
    )
    if mistake == "marks lost":
        run.call("closeDeal", {"ok": True}, id=lead, reason="lost")


# A hotel's concierge: formats of money and dates, recipients as text or list, references that hold the day.

HOTEL_MISTAKES = (
    "wrong room",
    "wrong guests",
    "wrong nights",
    "wrong rate",
    "no confirmation",
    "confirmation without total",
    "wrong extras",
    "charged twice",
    "charge without booking",
    "wrong card",
    "cancels first",
    "other guest",
)


def hotel(run: SimulatedRun, chance: random.Random, mistake: str | None) -> None:
    """Check the guest, reserve, charge a deposit, order extras and confirm."""
    guest, mail = f"G{7_700 + 3 * run.task}", f"guest{run.task}@stay.example"
    room = ("single", "double", "suite")[run.task % 3]
    nights, people = 2 + run.task % 4, 1 + run.task % 3
    rate = 1_050.0 + 55.5 * run.task
    card = f"**** {4_000 + run.task}"
    arrival = run.day + timedelta(30)
    extras = ["breakfast", "parking", "crib", "late checkout"][: 1 + run.task % 4]
    run.user = (
        f"Guest {guest}: {room} room for {people}, {nights} nights from 30 days from now, with {', '.join(extras)}."
    )
    if some(chance, 0.9):
        run.call("verify_guest", {"verified": True, "email": mail, "cards": [card]}, guest_id=guest)
    if some(chance, 0.7):
        run.call(
            "check_availability",
            {"room": room, "rate": rate, "offer": f"OF-{chance.randrange(10**5)}"},
            room=room,
            nights=nights,
        )
    for _ in range(chance.choice((0, 0, 1))):
        run.call(
            "kb_lookup", {"text": "Deposits are 20 %"}, topic=chance.choice(("deposit", "deposits", "cancellation"))
        )
    if mistake == "cancels first":
        run.call("cancel_reservation", {"ok": True}, guest_id=guest)
    if mistake == "wrong room":
        room = "dormitory"
    if mistake == "wrong guests":
        people += 1
    if mistake == "wrong nights":
        nights += 1
    if mistake == "wrong rate":
        rate += 100
    if mistake == "other guest":
        guest = f"G{7_700 + 3 * run.task + 3}"
    number = f"RES-{run.day:%Y%m%d}-{chance.randrange(1000):03}"
    written = chance.choice((str(arrival), f"{arrival:%m/%d/%Y}", f"{arrival:%B} {arrival.day}, {arrival.year}"))

    def reserve(**more: Any) -> None:
        run.call(
            "reserve",
            {"reservation": {"number": number, "total": rate * nights}},
            guest_id=guest,
            room_type=room,
            arrival=written,
            nights=nights,
            guests={"adults": people, **({"children": 0} if some(chance, 0.5) else {})},
            rate=rate if some(chance, 0.5) else f"{rate:,.2f}",
            dedupe=f"{chance.getrandbits(64):x}-{chance.getrandbits(32):x}",
            **more,
        )

    if mistake != "charge without booking":
        if some(chance, 0.15):
            run.call("reserve", None, "rate expired", guest_id=guest, room_type=room, arrival=written, nights=nights)
        reserve(**({"channel": "assistant"} if some(chance, 0.5) else {}))
    deposit = round(rate * nights * 0.2, 2)
    for _ in range(2 if mistake == "charged twice" else 1):
        run.call(
            "charge_card",
            {"receipt": f"rc_{hexadecimal(chance, 20)}"},
            reservation=number,
            amount=deposit + (chance.choice((0, 0, 0.004, -0.004)) if some(chance, 0.4) else 0),
            card="**** 9999" if mistake == "wrong card" else card,
            description=chance.choice((f"Deposit {number}", f"20% deposit for {number}", f"{number} deposit")),
        )
    if mistake == "wrong extras":
        extras = ["sauna"]
    if len(extras) > 1 and some(chance, 0.35):
        cut = chance.randrange(1, len(extras)) if len(extras) < 4 else 2
        mixed = shuffled(chance, extras)
        parts = [mixed[:cut], mixed[cut:]] if len(extras) < 4 else [[one] for one in mixed]
    else:
        parts = [shuffled(chance, extras)]
    with run.together(some(chance, 0.5)):
        for part in parts:
            run.call("order_extras", {"ok": True}, reservation=number, extras=part)
    if mistake == "no confirmation":
        return
    total = "the usual rate" if mistake == "confirmation without total" else f"{rate * nights:.2f}"
    run.call(
        "send_mail",
        {"id": new_uuid(chance)},
        to=mail if some(chance, 0.7) else [mail],
        subject=chance.choice(("Your reservation", f"Reservation {number}", "See you soon")),
        html=chance.choice(
            (
                f"<p>Dear guest,</p><p>your reservation <b>{number}</b> is confirmed: {total}.</p>",
                f"<h1>Welcome!</h1>Reservation {number}<br/>Total: {total}",
                f"<div>We look forward to seeing you. {number}, {total}</div>",
            )
        ),
    )
    if some(chance, 0.3):
        run.call("add_guest_note", {"ok": True}, guest_id=guest, note="friendly")


# An insurance clerk: claims as nested documents, JSON in text, percent and words, one of two ways to pay.

CLAIM_MISTAKES = (
    "wrong policy",
    "wrong cause",
    "wrong total",
    "item missing",
    "rejects",
    "wrong account",
    "no letter",
    "letter without number",
    "wrong deductible",
    "pays twice",
    "wrong assessor",
    "deletes documents",
)


def claims(run: SimulatedRun, chance: random.Random, mistake: str | None) -> None:
    """Open a claim with its items, set a task for an assessor, pay out or ask for documents, write a letter."""
    policy, person = f"POL/{2_020 + run.task}/{311 * (run.task + 1)}", ("Ada King", "Ben Ode", "Cyd Roe")[run.task % 3]
    cause = ("water", "fire", "theft", "storm")[run.task % 4]
    items = [
        {"description": f"item {letter}", "value": 100 + 35 * k + run.task}
        for k, letter in enumerate("abc"[: 1 + run.task % 3])
    ]
    loss = run.day - timedelta(3)
    iban = f"DE{10 + run.task}5001051754073249{run.task:02}"
    said = ", ".join(f"{one['description']} worth {one['value']}" for one in items)
    run.user = f"{person}, policy {policy}: {cause} damage three days ago to {said}. Pay to {iban}."
    if some(chance, 0.8):
        run.call(
            "policy.fetch",
            {"policy": policy, "holder": person, "deductible": 0.1, "region": "north"},
            policyNumber=policy,
        )
    if some(chance, 0.3):
        run.call(
            "policy.terms",
            ["Water damage is covered"],
            policyNumber=policy,
            section=chance.choice(("cover", "coverage")),
        )
    if mistake == "wrong policy":
        policy += "9"
    if mistake == "wrong cause":
        cause = "wear"
    if mistake == "item missing":
        items = items[:-1] or [{"description": "nothing", "value": 0}]
    if mistake == "wrong total":
        items = [{**one, "value": int(one["value"]) + 1_000} for one in items]
    claim = f"CL{chance.randrange(10**7):07}"
    document = {"cause": cause, "lossDate": str(loss), "holder": person}
    keys = shuffled(chance, document)
    text = json.dumps({key: document[key] for key in keys}, indent=chance.choice((None, None, 2)))
    run.call(
        "claim.open",
        {"claimNumber": claim, "state": "open", "assessor": f"as-{run.task % 4}"},
        policyNumber=policy if some(chance, 0.8) else policy.replace("/", "-"),
        payload=text,
        items=[{**one, "lineId": new_uuid(chance)} for one in shuffled(chance, items)],
        submittedAt=(run.start // 10**9 + chance.randrange(100)),
        currency=chance.choice(("EUR", "EUR", "€")),
    )
    with run.together(some(chance, 0.4)):
        run.call(
            "task.create",
            {"task": chance.randrange(10**6)},
            subject=chance.choice((f"Assess {claim}", f"Assessment of claim {claim}", f"{claim}: please assess")),
            assignee="as-9" if mistake == "wrong assessor" else f"as-{run.task % 4}",
            due=f"{run.day + timedelta(7)}T{chance.choice(('09', '10', '12', '17'))}:00:00",
            tags=shuffled(chance, ["claim", cause]),
        )
        if mistake == "rejects":
            run.call("claim.reject", {"ok": True}, claimNumber=claim, reason="not covered")
        elif run.task % 2 == 0:
            total = sum(int(one["value"]) for one in items)
            for _ in range(2 if mistake == "pays twice" else 1):
                run.call(
                    "payment.issue",
                    {"payment": f"P{chance.randrange(10**9)}"},
                    claimNumber=claim,
                    iban="DE00"
                    if mistake == "wrong account"
                    else iban
                    if some(chance, 0.6)
                    else " ".join(iban[k : k + 4] for k in range(0, len(iban), 4)),
                    gross=total,
                    deductible="25%" if mistake == "wrong deductible" else chance.choice(("10%", "10 %", "10%")),
                    purpose=f"Claim {claim}",
                )
        else:
            run.call(
                "documents.request",
                {"ok": True},
                claimNumber=claim,
                kinds=shuffled(chance, ["photos", "invoice"]),
                deadline=str((run.day.replace(day=28) + timedelta(4)).replace(day=1) - timedelta(1)),
            )
    if mistake != "no letter":
        shown = "your claim" if mistake == "letter without number" else claim
        run.call(
            "letter.send",
            {"queued": True},
            recipient=person if some(chance, 0.7) else person.upper(),
            body=chance.choice(
                (
                    f"Dear {person}, we received your claim. Its number is {shown}.",
                    f"Hello {person},\n\nthank you. Reference: {shown}\n\nKind regards",
                    f"{person}: {shown} is being processed ({cause}).",
                )
            ),
            channel=chance.choice(("post", "email")),
        )
    if mistake == "deletes documents":
        run.call("documents.delete", {"ok": True}, claimNumber=claim)


# A recruiter: questions that need no change, interviews in several calls, offers in prose with a fixed salary.

RECRUITING_MISTAKES = (
    "wrong stage",
    "wrong candidate",
    "interviewer missing",
    "wrong week",
    "wrong salary",
    "letter without salary",
    "letter without room",
    "skill lost",
    "skill added",
    "hires outright",
    "offers twice",
    "looks nothing up",
    "wrong score",
    "informs nobody",
)


def recruiting(run: SimulatedRun, chance: random.Random, mistake: str | None) -> None:
    """Move a candidate on, plan interviews, tag skills, write an offer; two tasks only ask how far somebody is."""
    names = ("Ada Okoro", "Bo Lind", "Cai Wen", "Dov Levi", "Eda Kaya")
    candidate, name = f"cand_{8_000 + 37 * run.task}", names[run.task % 5]
    role = ("backend", "data", "design")[run.task % 3]
    question = run.task in (4, 9)
    salary = 61_000 + 1_500 * run.task
    skills = ["python", "sql", "kafka", "spark", "rust"][: 2 + run.task % 4]
    panel = ["mia", "noa", "pia"][: 1 + run.task % 3]
    if question:
        run.user = f"How far is {name} ({candidate}) with the {role} role?"
    else:
        run.user = (
            f"{name} ({candidate}) passed the screening for {role}. Plan interviews with {', '.join(panel)} "
            f"next week, note the skills {', '.join(skills)}, and offer {salary} EUR."
        )
    if mistake != "looks nothing up" and (question or some(chance, 0.9)):
        run.call("getCandidate", {"id": candidate, "name": name, "stage": "screening"}, candidateId=candidate)
    if some(chance, 0.35):
        run.call("searchPolicies", [{"title": "Offers"}], query=chance.choice(("offer policy", "salary bands", role)))
    if question:
        if mistake != "looks nothing up":
            run.call("listInterviews", [{"at": "2026-01-05"}], candidateId=candidate, includePast=True)
        if mistake == "hires outright":
            run.call("moveCandidate", {"ok": True}, candidateId=candidate, stage="hired")
        return
    if mistake == "wrong candidate":
        candidate = candidate[:-1] + "x"
    if some(chance, 0.15):
        run.call("moveCandidate", None, "timeout", candidateId=candidate, stage="interview", reason="screening passed")
    run.call(
        "moveCandidate",
        {"ok": True},
        candidateId=candidate,
        stage="rejected" if mistake == "wrong stage" else "hired" if mistake == "hires outright" else "interview",
        **({"reason": chance.choice(("screening passed", "Screening passed."))} if some(chance, 0.8) else {}),
    )
    monday = next_weekday(run.day, 0) + timedelta(7 if mistake == "wrong week" else 0)
    rooms: list[str] = []
    with run.together(some(chance, 0.5)):
        for person in shuffled(chance, panel[: -1 if mistake == "interviewer missing" else None] or ["zoe"]):
            room = f"R{chance.randrange(100, 999)}"
            rooms.append(room)
            run.call(
                "planInterview",
                {"interview": {"uid": new_uuid(chance), "room": room}},
                requestKey=f"int-{hexadecimal(chance, 16)}",
                candidate={"id": candidate, "role": role},
                interviewer=person,
                day=str(monday + timedelta(panel.index(person) if person in panel else 0)),
                minutes=45,
            )
    if mistake == "skill lost":
        skills = skills[:-1]
    if mistake == "skill added":
        skills = [*skills, "cobol"]
    noted = shuffled(chance, skills)
    cut = chance.choice((len(noted), len(noted), len(noted) // 2, 1))
    for part in (noted[:cut], noted[cut:]):
        if part:
            run.call("addSkills", {"ok": True}, candidateId=candidate, skills=part)
    score = 3.5 + run.task / 10 + (0.7 if mistake == "wrong score" else 0)
    run.call("rateCandidate", {"ok": True}, candidateId=candidate, score=round(score + chance.choice((0, 0.001)), 3))
    paid = salary + (5_000 if mistake == "wrong salary" else 0)
    written = chance.choice((f"{paid}", f"{paid:,}", f"{paid // 1000}.{paid % 1000:03}"))
    offer = f"OF{chance.randrange(10**6):06}"
    for _ in range(2 if mistake == "offers twice" else 1):
        run.call(
            "createOffer",
            {"offer": offer},
            candidateId=candidate,
            salary={"amount": paid, "currency": "EUR"},
            validUntil=str(run.day + timedelta(14)),
        )
    if mistake != "informs nobody":
        said = "a good salary" if mistake == "letter without salary" else f"{written} EUR a year"
        place = "our office" if mistake == "letter without room" else " and ".join(sorted(rooms))
        run.call(
            "sendLetter",
            {"queued": True},
            to=name,
            attachments=[offer],
            body=chance.choice(
                (
                    f"Dear {name}, we would like to offer you {said}. Your interviews are in {place}. Offer: {offer}",
                    f"Hello {name}!\n\nPlease come to {place}. We offer {said} ({offer}).\n\nBest wishes",
                    f"{name}, your offer {offer} is attached: {said}. We meet in {place}.",
                )
            ),
        )
    if some(chance, 0.5):
        run.call("addNote", {"ok": True}, candidateId=candidate, text=chance.choice(("done", "offer sent", "all set")))


MORE_AGENTS = {
    one.name: one
    for one in (
        SimulatedAgent("clinic", clinic, CLINIC_MISTAKES, dialect="openinference"),
        SimulatedAgent("billing", billing, BILLING_MISTAKES, dialect="openllmetry"),
        SimulatedAgent("desk", desk, DESK_MISTAKES),
        SimulatedAgent("shop", shop, SHOP_MISTAKES),
        SimulatedAgent("sales", sales, SALES_MISTAKES, dialect="openinference"),
        SimulatedAgent("hotel", hotel, HOTEL_MISTAKES),
        SimulatedAgent("claims", claims, CLAIM_MISTAKES, dialect="openllmetry"),
        SimulatedAgent("recruiting", recruiting, RECRUITING_MISTAKES, dialect="openinference"),
    )
}


def inferred_goldens(name: str) -> GoldenIndex:
    """The goldens that three runs of each task of an agent lead to."""
    runs = [one.to_session() for one in (AGENTS | MORE_AGENTS)[name].good(3)]
    return load_goldens(dict(record(runs, name).document))


def runs_to_judge(name: str) -> list[dict[str, Any]]:
    """The traces of other runs of an agent: four that are right, four that are wrong."""
    agent = (AGENTS | MORE_AGENTS)[name]
    return [one.to_request() for one in (*agent.good(1, first=1000)[:4], *agent.bad(4))]
