"""Programs of several prompts, written as spans by several instrumentations: no turn of theirs is silently another.

A planner and its executor, a writer and its judge, speakers of a group, a summary on the way: what tells their model
calls is no user's message, and often no agent's span is around them. Each is written in several places: below an
agent's span or a plain one for each turn, below one plain span for all, and as model calls that are a trace each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from conformance.conversations import (
    START,
    WRITERS,
    Asked,
    Conversation,
    Message,
    Program,
    Said,
    Writer,
    Written,
    asked,
    expected,
    told,
    tool_message,
)
from conformance.variations import Case, Original, judged, read

PLACES = ("an agent's span a turn", "a plain span a turn", "a plain span for all", "models alone")
USERS = ("Find me a table in Paris", "And a chair for the table", "Book both of them please")
RULES = "You help customers. Follow the policy."


@dataclass
class Pipeline:
    """The turns of a program, while it runs."""

    name: str
    writer: Writer
    place: str
    turns: list[Said] = field(default_factory=list[Said])
    made: int = 0
    _written: Written | None = None
    _trace: str = ""
    _root: str = ""
    _above: Message = field(default_factory=dict[str, object])

    @property
    def written(self) -> Written:
        if self._written is None:
            alone = self.place == "models alone"
            held = Conversation(f"session-{self.name}", ())
            self._written = Written(held, self.writer, Program(self.place, models_only=alone), clock=START)
        return self._written

    def begin(self, user: str) -> None:
        """Begin a turn."""
        spans = self.written
        spans.clock += 5_000_000_000
        self.turns.append(Said(user, (), ""))
        if self.place == "models alone" or (self.place == "a plain span for all" and self._root):
            return
        self._trace = spans.trace_id()
        of_agent = self.place == "an agent's span a turn"
        attributes = self.writer.agent(spans.conversation.id, user, "ok") if of_agent else {}
        self._root, self._above = spans.span(self._trace, "", "helper", attributes)

    def ask(self, given: Sequence[Message], answer: str | Sequence[str]) -> list[Message]:
        """Call a model, and the tools that it asks for: return what it said, and what these returned."""
        spans, calls = self.written, ()
        if not isinstance(answer, str):
            calls = tuple(self.call(name) for name in answer)
            turn = self.turns[-1]
            self.turns[-1] = Said(turn.user, (*turn.batches, calls), "")
        reply: Message = {"role": "assistant", "content": answer if isinstance(answer, str) else None}
        if calls:
            reply["tool_calls"] = [call.request for call in calls]
        spans.model(list(given), reply, self._trace, self._root)
        for call in calls:
            spans.tool(call, self._trace, self._root)
        if self._above:
            self._above["endTimeUnixNano"] = str(spans.clock)
        return [reply, *map(tool_message, calls)]

    def call(self, name: str) -> Asked:
        self.made += 1
        return Asked(f"call_{self.name}_{self.made}", name, {"what": f"thing {self.made}"}, "found it", failed=False)

    def work(self, given: list[Message], tools: Sequence[str], answer: str) -> None:
        """Let a model ask for one tool after the other, and answer."""
        for tool in tools:
            given += self.ask(given, [tool])
        given += self.ask(given, answer)

    def case(self) -> Case:
        held = Conversation(self.written.conversation.id, tuple(self.turns))
        documents = self.written.documents
        source = Original(self.name, documents, expected(held, self.written.program), requested=True, played=None)
        return judged(source, f"{self.place}: {self.writer.name}", read(documents), documents, set())


def planner(run: Pipeline) -> None:
    for number, user in enumerate(USERS):
        run.begin(user)
        plan = f"1. look at the menu {number}\n2. find the place"
        run.ask([told("You plan."), asked(user)], plan)
        run.work([told("You do what a plan says."), asked(plan)], ["look", "find"], f"Done {number}")


def steps(run: Pipeline) -> None:
    for number, user in enumerate(USERS):
        run.begin(user)
        run.ask([told("You plan."), asked(user)], f"1. look at the menu {number}\n2. find the place {number}")
        for tool, step in (("look", "look at the menu"), ("find", "find the place")):
            run.work([told("You do one step."), asked(f"{step} {number}")], [tool], f"{step}: done")


def judge(run: Pipeline) -> None:
    history = [told("You write.")]
    for number, user in enumerate(USERS):
        run.begin(user)
        own = [*history, asked(user)]
        run.work(own, ["find"], f"Draft {number}")
        run.ask([told("You judge."), asked(f"Task: {user}\nDraft: Draft {number}")], "Not good: add the price.")
        run.work([*own, asked("Not good: add the price.")], ["price"], f"Better {number}")
        history += [asked(user), {"role": "assistant", "content": f"Better {number}"}]


def speakers(run: Pipeline) -> None:
    history: list[Message] = []
    for number, user in enumerate(USERS):
        run.begin(user)
        history.append(asked(user))
        for who in ("alice", "bob"):
            run.work([told(f"You are {who}."), *history], ["look"], f"{who} says {number}")
            history.append(asked(f"{who}: {who} says {number}"))


def summary(run: Pipeline) -> None:
    history = [told(RULES)]
    for user in USERS:
        run.begin(user)
        history.append(asked(user))
        history += run.ask(history, ["find"])
        history = [told(RULES), asked(f"Here is what was said before: much. The last was about {len(user)} things.")]
        run.work(history, ["look"], f"Answer to {user}")


def last_call(run: Pipeline) -> None:
    history = [told(RULES)]
    for user in USERS:
        run.begin(user)
        history.append(asked(user))
        history += run.ask(history, ["find"])
        history += run.ask(history, ["submit"])


def memory(run: Pipeline) -> None:
    history = [told(RULES)]
    for number, user in enumerate(USERS):
        run.begin(user)
        history.append(asked(user))
        run.work(history, ["find"], f"Answer {number}")
        run.ask([told("Note facts."), asked(f"user: {user}\nassistant: Answer {number}")], ["save"])


def rewritten(run: Pipeline) -> None:
    history: list[Message] = []
    for number, user in enumerate(USERS):
        run.begin(user)
        run.ask([told("Say it so that it stands alone."), *history, asked(user)], f"stands alone {number}")
        run.work([told(RULES), asked(f"stands alone {number}")], ["find", "look"], f"Answer {number}")
        history += [asked(user), {"role": "assistant", "content": f"Answer {number}"}]


def by_the_system_alone(run: Pipeline) -> None:
    for number, user in enumerate(USERS):
        run.begin(user)
        run.work([told(f"{RULES} Task: {user}")], ["find", "look"], f"Answer {number}")


PIPELINES: tuple[Callable[[Pipeline], None], ...] = (
    *(planner, steps, judge, speakers, summary, last_call, memory, rewritten, by_the_system_alone),
)


def cases() -> Iterator[Case]:
    """Run each program for every writer in every place."""
    for program, writer, place in product(PIPELINES, WRITERS, PLACES):
        run = Pipeline(program.__name__.replace("_", "-"), writer, place)
        program(run)
        yield run.case()
