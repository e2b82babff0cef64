"""Kills and stops a bot in every nesting of blocks: ``python -m tests.chaos.nested --seeds 10000``.

A program has blocks that an author might write, and some that no author would write. The blocks end by an
event, a deadline, a time of day, or another block's `cancel`. Blocks are in shields, in nurseries and in each
other, with events and channels between branches. Six kinds of conversations begin and end in one chat. Each
program runs once undisturbed. In the further runs, the process is killed, or stopped as by a deploy, at some
write of the store. Each branch must send the same texts in each run, except for repetitions. No run may hang
or raise an alarm, and the same events must wait in the inbox at the end.

Speed has little influence on the texts, so that two runs can be compared: people write at the beginning of
each round, timers end between two rounds, and the work of steps goes on while the bot is down. But if people
send several messages at once, the bot may answer one before the next one comes, and a stop or a kill may
change this. So a disturbed run must equal *some* undisturbed run, in which people, steps or the platform are
a little slower.

Two conversations of the chat may be about to send when the process dies. Afterwards they are revived one
after the other, so either may send first, or get an answer first. The conversation that continues last has
the newer wait. `_in_turn` lets undisturbed runs do the same, and nothing more.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import traceback
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Final, final

import attrs
import trio

from triobot import Bot, Chat
from triobot.emulator.faults import Fault
from triobot.emulator.person import Person
from triobot.engine import machine
from triobot.filters import command, message, text, when
from triobot.outbox.sender import LaneSender
from triobot.testing import drive, run
from triobot.testing.driving import DrivenWorld
from triobot.testing.simulating import seeded
from triobot.wire.operations import Operation, SendMessage

from .fuzz import Act, Deaths, Kill, _do, _said
from .talks import Body, Node, begins_with

SLOWER: Final = 60
"""Runs at other paces that are looked at before a difference counts."""
STEPS: Final = 40
"""Steps of a run that may be slow."""
ROUND: Final = 1_000
"""Seconds between two things that people do."""
TURN: Final = 0.2
"""Seconds for which a conversation waits for its turn to speak."""
LEAVES: Final = (
    *("send", "send", "ask", "ask", "receive", "receive", "choose", "sleep", "sleep", "step", "work", "work"),
    *("cancel", "set", "set and cancel", "await", "put", "get", "put and cancel", "send"),
)
BLOCKS: Final = (
    *("when", "when", "when", "when", "after", "fail", "at", "scope", "scope", "shield", "shield", "shield"),
    *("nursery", "nursery", "loop", "finally"),
)
LETTERS: Final = "abc"
PRESS: Final = "Yes"
"""The act that is none of `Deaths.came`: a press comes once, whenever that is."""


# --- programs


@final
class Maker:
    """Makes programs of a seed; each node has a number of its own."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def body(self, depth: int, size: int | None = None) -> Body:
        return [self.node(depth) for _ in range(size or self.random.choice((1, 1, 2, 2, 3)))]

    def node(self, depth: int) -> Node:
        self.count += 1
        number, r = self.count, self.random
        # Each timer ends between two rounds, at a different time.
        seconds = ROUND * r.choice((0, 0, 1, 2)) + 60 + 3 * (number % 80)
        if depth <= 0 or r.random() < 0.45:
            return (r.choice(LEAVES), number, seconds, r.choice(LETTERS))
        bodies = [self.body(depth - 1) for _ in range(r.choice((1, 1, 2)))]
        return (r.choice(BLOCKS), number, seconds, r.choice(LETTERS), self.body(depth - 1), bodies)


@final
@attrs.frozen
class Program:
    """What runs, and what people do meanwhile, a round after the other."""

    bodies: dict[str, Body]
    acts: Sequence[Sequence[Act]]


def program_of(seed: int) -> Program:
    maker = Maker(f"nested {seed}")
    r = maker.random
    sizes = {"main": 3, "next": 2, "x": 2, "y": 2, "z": 1, "own": 2}
    bodies = {name: maker.body(4 if name == "main" else 2, size) for name, size in sizes.items()}
    number = 0

    def word() -> Act:
        nonlocal number
        number += 1
        return f"{r.choice(LETTERS)}{number}"

    acts: list[Sequence[Act]] = [["join"]]
    for _ in range(r.randrange(4, 11)):
        special = r.random()
        if special < 0.75:
            acts.append([word() for _ in range(r.choice((1, 1, 1, 1, 2, 3)))])
        else:
            number += 1
            acts.append(
                [r.choice((f"/x {number}", f"/y {number}", f"/y {number}", f"/own {number}", PRESS, PRESS))]
            )
    return Program(bodies, acts)


# --- conversations


@final
@attrs.define
class Jobs:
    """What goes on outside, whether or not the bot lives: when it ends, by its name.

    Attributes:
        pauses: seconds that each of the next steps takes; the steps after these take none.
    """

    pauses: list[float]
    ends: dict[str, float] = attrs.field(factory=lambda: dict[str, float]())

    async def step(self) -> None:
        await trio.sleep(self.pauses.pop(0) if self.pauses else 0)

    async def job(self, name: str, seconds: float) -> None:
        until = self.ends.setdefault(name, trio.current_time() + seconds)
        if until > trio.current_time():
            await trio.sleep_until(until)
        else:
            await trio.lowlevel.checkpoint()


@final
class Talk:
    """One run of a program: what its branches share."""

    def __init__(self, chat: Chat[Any], tag: str, jobs: Jobs) -> None:
        self.chat = chat
        self.tag = tag
        self.jobs = jobs
        self.scopes: list[Any] = []
        self.events = [chat.open_event() for _ in range(2)]
        self.channels = [chat.open_channel(str, capacity) for capacity in range(2)]


@final
class Branch:
    """One task: what it says has its own numbers."""

    def __init__(self, talk: Talk, path: str = "") -> None:
        self.talk = talk
        self.chat = talk.chat
        self.path = path
        self.said = 0
        self.children = 0

    def words(self, what: object) -> str:
        self.said += 1
        return f"{self.talk.tag}{self.path}#{self.said}: {what}"

    async def say(self, what: object) -> None:
        await self.chat.send(self.words(what))

    def child(self) -> Branch:
        self.children += 1
        return Branch(self.talk, f"{self.path}/{self.children}")

    async def run(self, body: Body) -> None:
        for node in body:
            await self.one(node)

    async def one(self, node: Node) -> None:
        chat, talk = self.chat, self.talk
        kind, number, seconds, letter = node[:4]
        match kind:
            case "send":
                await self.say(f"text {number}")
            case "ask":
                await self.say(f"heard {await chat.ask(self.words(f'ask {number}'))}")
            case "receive":
                heard = await chat.receive(message(str) & when(begins_with(letter)))
                await self.say(f"received {heard.content}")
            case "choose":
                question = self.words(f"choose {number}")
                await self.say(f"chose {await chat.choose(question, {1: 'Yes', 2: 'No'})}")
            case "sleep":
                await chat.sleep(seconds)
            case "step":
                await chat.step(talk.jobs.step)
            case "work":
                self.said += 1
                await chat.step(talk.jobs.job, f"{talk.tag}{self.path}#{self.said}", seconds)
            case "cancel" | "set" | "set and cancel":
                if kind != "cancel":
                    talk.events[number % 2].set()
                if kind != "set" and talk.scopes:
                    talk.scopes[number % len(talk.scopes)].cancel()
            case "await":
                await talk.events[number % 2].wait()
                await self.say(f"told {number}")
            case "put" | "put and cancel":
                await talk.channels[number % 2].send(f"value {number}")
                if kind != "put" and talk.scopes:
                    talk.scopes[number % len(talk.scopes)].cancel()
            case "get":
                await self.say(f"got {await talk.channels[number % 2].receive()}")
            case _:
                await self.block(node)

    async def block(self, node: Node) -> None:
        chat, talk = self.chat, self.talk
        kind, number, seconds, letter, body, bodies = node
        match kind:
            case "when":
                taken = text() if number % 3 == 0 else message(str) & when(begins_with(letter))
                with chat.move_on_when(taken) as block:
                    await self.run(body)
                by = None if block.event is None else block.event.content
                await self.say(f"block {number} {block.cancelled_caught} {by}")
            case "after" | "at":
                there = chat.now() + timedelta(seconds=seconds)
                with chat.move_on_after(seconds) if kind == "after" else chat.move_on_at(there) as limit:
                    await self.run(body)
                await self.say(f"limit {number} {limit.cancelled_caught}")
            case "fail":
                try:
                    with chat.fail_after(seconds):
                        await self.run(body)
                except trio.TooSlowError:
                    await self.say(f"too slow {number}")
            case "scope":
                with chat.cancel_scope() as scope:
                    talk.scopes.append(scope)
                    try:
                        await self.run(body)
                    finally:
                        talk.scopes.remove(scope)
                await self.say(f"scope {number} {scope.cancelled_caught}")
            case "shield":
                with chat.shield(), chat.move_on_after(seconds):
                    await self.run(body)
            case "nursery":
                async with chat.open_nursery() as nursery:
                    for each in bodies:
                        nursery.start_soon(self.child().run, each)
                    await self.run(body)
                    if number % 4 == 0:
                        nursery.cancel()
                await self.say(f"joined {number}")
            case "loop":
                for _ in range(2):
                    await self.run(body)
            case "finally":
                try:
                    await self.run(body)
                finally:
                    with chat.shield(), chat.move_on_after(100):
                        await self.say(f"bye {number}")
            case _:
                raise AssertionError(node)


def make_bot(program: Program, steps: Sequence[float] = ()) -> Bot:
    """A bot whose routes are one program's; its first steps take these seconds."""
    bot, jobs, bodies = Bot(), Jobs([*steps]), program.bodies

    async def talk(chat: Chat[Any], name: str) -> None:
        # The texts of a run begin with the words that started the run, and so differ from other runs' texts.
        event: Any = chat.event
        branch = Branch(Talk(chat, f"{name} {getattr(event, 'rest', getattr(event, 'content', ''))} ", jobs))
        await branch.say(f"after {chat.interrupted}")
        await branch.run(bodies[name])
        await branch.say("the end")

    @bot.aside
    async def started(chat: Chat[Any]) -> None:
        await talk(chat, "z")

    @bot.conversation(command("own"), per="sender")
    async def own(chat: Chat[Any]) -> None:
        await talk(chat, "own")

    @bot.conversation
    async def main(chat: Chat[Any]) -> None:
        await chat.start(started, key="z")
        await talk(chat, "main")
        await chat.continue_as(then)

    @bot.interrupt(command("x"))
    async def interrupt(chat: Chat[Any]) -> None:
        await talk(chat, "x")

    @bot.interrupt(command("clear"))
    async def clear(chat: Chat[Any]) -> None:
        await chat.send(f"cleared {chat.interrupted}")

    @bot.aside(command("y"))
    async def beside(chat: Chat[Any]) -> None:
        await talk(chat, "y")

    @bot.conversation(command("never"))
    async def then(chat: Chat[Any]) -> None:
        await talk(chat, "next")

    return bot


# --- runs


@final
@attrs.frozen
class Seen:
    """What came of a run."""

    said: Sequence[str]
    waiting: Sequence[str]
    kills: int
    writes: int
    problems: Sequence[str]
    came: Sequence[float] = ()
    given_out: Sequence[float] = ()


@final
@attrs.frozen
class Pace:
    """How slow people, steps and the platform are.

    Attributes:
        came: when what people do came in another run.
        pauses: seconds before each thing that people do; without them no two come in one millisecond.
        latency: seconds that the platform takes to answer.
        refused: it fails once, after so many requests.
        said: what was said in another run; conversations say it in that order, if they can.
        steps: seconds that each step takes.
    """

    came: Sequence[float] = ()
    pauses: Sequence[float] = ()
    latency: float = 0.005
    refused: int | None = None
    said: Sequence[str] = ()
    steps: Sequence[float] = ()


async def live(program: Program, kills: Sequence[Kill], pace: Pace = Pace()) -> Seen:
    """One run."""
    start, late, pauses = trio.current_time(), list(pace.came), list(pace.pauses)
    bot, deaths, problems = make_bot(program, pace.steps), Deaths(kills), list[str]()
    with deaths.watching(), _hurried(), _in_turn(pace.said):
        async with drive(bot, attempts=100, replay_check=False) as world, trio.open_nursery() as nursery:
            if pace.refused is not None:
                world.faults.add(Fault(latency=pace.latency, times=pace.refused))
                world.faults.add(Fault(status=503, times=1))
            world.faults.add(Fault(latency=pace.latency, times=None))
            person = world.user("Sara")
            nursery.start_soon(deaths.bring_back, world)
            inside = False
            for number, acts in enumerate(program.acts):
                await trio.sleep_until(ROUND * (number + 1))
                for act in acts:
                    if late and act != PRESS:
                        await trio.sleep_until(max(trio.current_time(), start + late.pop(0)))
                    await trio.sleep(pauses.pop(0) if pauses else 0.002)
                    inside = await _do(bot, world, person, act, inside=inside, number=number)
            await world.waits(hours=24)
            problems += _unrested(bot)
            await _look(world, person)
            problems += [f"{alarm.kind}: {alarm.text}" for alarm in world.alarms]
            world.alarms.clear()
            waiting = await _waiting(bot)
            said = _said(world)
            nursery.cancel_scope.cancel()
    came, given_out = ([at - start for at in each] for each in (deaths.came, deaths.given_out))
    return Seen(said, waiting, deaths.kills, deaths.writes, problems, came, given_out)


@contextmanager
def _hurried() -> Generator[None]:
    """An old deadline waits a second for what is done again: timers are a few seconds apart here."""
    usual = machine.AGAIN
    vars(machine)["AGAIN"] = 1_000
    try:
        yield
    finally:
        vars(machine)["AGAIN"] = usual


@contextmanager
def _in_turn(said: Sequence[str]) -> Generator[None]:
    """A conversation that would speak before others did in that run waits for them, for `TURN` at most.

    Only sends wait, and only for other conversations: what its own branches say has the order of its code.
    What wasn't said in that run waits, too: an event that cuts it short comes before it has left.
    """
    last, usual = {line: place for place, line in enumerate(said)}, LaneSender.perform
    over = set[str]()

    def has_turn(line: str) -> bool:
        others = (other for other, place in last.items() if place < last[line] and other not in over)
        return all(_conversation(other) == _conversation(line) for other in others)

    async def perform(sender: LaneSender, operation: Operation[Any], **more: Any) -> object:
        line = operation.content if isinstance(operation, SendMessage) else None
        if not isinstance(line, str) or "#" not in line:
            return await usual(sender, operation, **more)
        with trio.move_on_after(TURN):
            while line not in last or not has_turn(line):
                await trio.sleep(0.001)
        try:
            return await usual(sender, operation, **more)
        finally:
            over.add(line)

    if said:
        setattr(LaneSender, "perform", perform)  # noqa: B010
    try:
        yield
    finally:
        setattr(LaneSender, "perform", usual)  # noqa: B010


async def _look(world: DrivenWorld, person: Person) -> None:
    """An interrupt ends what goes on, and is the live conversation then."""
    await person.says("/clear")
    await world.waits(hours=6)


def _unrested(bot: Bot) -> Sequence[str]:
    assert bot._work is not None
    lives = list(bot._work.dispatcher.chats.actors.values())
    there = [one for actor in lives for one in actor.running.all()]
    return [f"{one.facts.route.name} hangs" for one in there if not one.is_waiting]


async def _waiting(bot: Bot) -> Sequence[str]:
    """What nobody has taken."""
    assert bot._work is not None
    rows = await bot._work.dispatcher.services.store.backlog(after=0, limit=100)
    return [str(row.body) for row in rows]


def _conversation(line: str) -> str:
    return line.partition("#")[0].partition("/")[0]


def _branches(said: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in said:
        found.setdefault(line.partition("#")[0], []).append(line)
    return found


def compare(calm: Seen, shaken: Seen) -> str | None:
    """The same, but for repeats, in each branch's order: at most one of each lane a kill."""
    mine, others = _branches(calm.said), _branches(shaken.said)
    for branch in sorted({*mine, *others}):
        wanted, said = mine.get(branch, []), others.get(branch, [])
        if missing := Counter(wanted) - Counter(said):
            return f"not said: {list(missing)}; new: {list(Counter(said) - Counter(wanted))}"
        if new := [line for line in said if line not in wanted]:
            return f"new: {new}"
        left = iter(said)
        if not all(any(line == other for other in left) for line in wanted):
            return f"in another order: {said}"
    if (more := len(shaken.said) - len(calm.said)) > 2 * shaken.kills:
        return f"{more} repeats in {shaken.kills} kills"
    if calm.waiting != shaken.waiting:
        return f"{shaken.waiting} wait at the end, not {calm.waiting}"
    return None


def kills_of(seed: int, number: int, writes: int) -> Sequence[Kill]:
    """When the process dies or stops in one of a program's runs."""
    r = random.Random(f"kills {seed} {number}")
    times = r.choice((1, 1, 1, 2, 3))
    return [
        Kill(
            r.randrange(max(1, writes) if first == 0 else 12),
            durable=r.random() < 0.5,
            stops=r.random() < 0.3,
        )
        for first in range(times)
    ]


def _paces(seed: int, program: Program, shaken: Seen) -> Iterator[Pace]:
    """How a run may have gone that nothing disturbed, but that was a little slower."""
    yield Pace(said=shaken.said)
    acts = sum(map(len, program.acts))
    presses = sum(act == PRESS for together in program.acts for act in together)
    if len(shaken.came) == acts - presses + 1:
        # Of events at the same time, some may have been refused and posted again, or have waited for a start.
        for came in (shaken.came, shaken.given_out):
            yield from (Pace(came), Pace(came, said=shaken.said))
    r = random.Random(f"paces {seed}")
    for number in range(SLOWER):
        share = r.random()
        pauses = [r.choice((0.004, 0.007, 0.01, 0.03)) if r.random() < share else 0.002 for _ in range(acts)]
        yield Pace(pauses=pauses, latency=(0.005, 0.001, 0.02)[number % 3])
    # A branch may or may not have sent a text before another branch's step ends and cancels it.
    for number in range(SLOWER):
        steps = [r.choice((0, 0.002, 0.03)) if number else 0.03 for _ in range(STEPS)]
        yield from (Pace(steps=steps), Pace(said=shaken.said, steps=steps))
    # A send that an event cancels has reached the platform, or has not.
    yield from (Pace(refused=number) for number in range(1, len(shaken.said) + SLOWER))


def check(seed: int, *, runs: Iterable[int] = range(4), explain: bool = False) -> str | None:
    """What is wrong with this program, if anything."""
    program = program_of(seed)

    def lived(kills: Sequence[Kill], pace: Pace) -> Seen:
        with seeded(f"nested {seed}"):
            return run(partial(live, program, kills, pace))

    calm = lived((), Pace())
    if calm.problems:
        return f"undisturbed: {calm.problems}"
    for number in runs:
        kills = kills_of(seed, number, calm.writes)
        shaken = lived(kills, Pace())
        wrong = str(shaken.problems) if shaken.problems else compare(calm, shaken)
        if wrong is not None and not shaken.problems:
            slower = (lived((), pace) for pace in _paces(seed, program, shaken))
            if any(not other.problems and compare(other, shaken) is None for other in slower):
                wrong = None
        if wrong is not None:
            if explain:
                _explain(program, kills, calm, shaken)
            return f"run {number}: {wrong}"
    return None


def _explain(program: Program, kills: Sequence[Kill], calm: Seen, shaken: Seen) -> None:
    import difflib

    for name, body in program.bodies.items():
        print(name)
        _show(body, 1)
    print(*program.acts, *kills, sep="\n")
    print(*difflib.unified_diff(calm.said, shaken.said, "calm", "shaken", lineterm="", n=100), sep="\n")


def _show(body: Body, depth: int) -> None:
    for node in body:
        print("  " * depth, *node[:4])
        if len(node) > 4:
            _show(node[4], depth + 1)
            if node[0] == "nursery":
                for each in node[5]:
                    print("  " * depth, "child")
                    _show(each, depth + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--runs", type=int, default=4, help="disturbed ones of each program")
    parser.add_argument("--explain", action="store_true", help="show the program and both runs")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    failures = 0
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        try:
            wrong = check(seed, runs=range(arguments.runs), explain=arguments.explain)
        except Exception:
            wrong = traceback.format_exc()
        if wrong is not None:
            failures += 1
            print(f"seed {seed}: {wrong}", flush=True)
    print(f"{arguments.seeds} programs, {failures} failures")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
