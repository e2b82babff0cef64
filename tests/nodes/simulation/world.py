"""Several nodes, their database and people, in one virtual time; what befalls them follows from a seed.

The nodes are real from their doors and inboxes to the conversations, with the stores' writers and statements.
In place of a server there is `database`, in place of the network `network`, and in place of the kernel, which
stops a process, `machines`. What is promised is seen at each moment, and once all is well again:

* what was answered with 200 is handled once, and in order a chat, by whichever nodes it came;
* no node believes in a lease that is over, acts for a shard that may be another's, or stores something there;
* each conversation ends, with its own answers; each shard comes to have one owner, with nothing left to do;
* what chats count in another shard is counted once.

What isn't tried here: money; a platform that fails; broadcasts; commits that wait for one another's locks, a
server that dies or loses what it had committed, and how connections are made anew (all these with a real
server); a process that stands still between two steps of one task, but for the moment before a commit; and a
time of day that is wrong by more than some seconds.
"""

from __future__ import annotations

import json
import logging
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Final
from unittest.mock import patch
from urllib.parse import parse_qs

import attrs
import httpx
import trio
from trio.testing import MockClock

from tests.bot.rig import FORM
from tests.nodes.simulation.bot import (
    COUNTED,
    Person,
    Screen,
    Taken,
    answers,
    check_screen,
    make_bot,
    talks_fast,
)
from tests.nodes.simulation.database import CarriedHop, Database, Member, ShardRow, in_thread
from tests.nodes.simulation.findings import Findings
from tests.nodes.simulation.machines import Machine, StandingStill, this_machine
from tests.nodes.simulation.network import DoorListener, Link, Network
from triobot import Bot, Texts
from triobot.conversations import data as slots
from triobot.conversations.routes.router import table_of
from triobot.nodes import links, peers
from triobot.nodes.cluster import NodeDoor, open_member
from triobot.nodes.keeper import open_kept_work
from triobot.nodes.node import Node
from triobot.resources import open_resources
from triobot.rooms import SHARED
from triobot.seams import Alarm
from triobot.secrets import Secret
from triobot.settings import Settings
from triobot.shards import shard_of
from triobot.store import writer
from triobot.testing.simulating import seeded
from triobot.testing.virtual import MORNING, VirtualWallClock
from triobot.webhook.inbox import EventStored, Unreached, Unread
from triobot.wire.ids import ChatId

SHARDS: Final = 4
NODES: Final = 3
CHATS: Final = 12
ROUNDS: Final = 2
TROUBLES: Final = 7
TROUBLED_SECONDS: Final = 15.0
CALM_SECONDS: Final = 120.0
"""So long after the last trouble everything has come to its end, careful starts included."""
PROXY_SECONDS: Final = 7.0
"""How long the proxy waits for a node: longer than that holds an event."""
_HOLD_SECONDS: Final = 5.0
# What may be told where nodes die, freeze and are cut off.
_TOLD: Final = {"crash_loop", "store_unwritable", "clock_differs", "inbox_half_full"}


@attrs.define(eq=False)
class Running:
    """A node that runs, or is dead.

    Attributes:
        node: what takes events, once it is open.
        serving: where requests are answered; None: its listener is closed.
    """

    machine: Machine
    link: Link
    stop: trio.Event = attrs.Factory(trio.Event)
    scope: trio.CancelScope = attrs.Factory(trio.CancelScope)
    node: Node | None = None
    member: Member | None = None
    serving: trio.Nursery | None = None
    gone: bool = False


@attrs.define(eq=False)
class World:
    """All of it.

    Attributes:
        nodes: those that have been started, by the name of their machine.
        troubles: what may befall them.
    """

    seed: int
    troubles: Sequence[Trouble]
    nursery: trio.Nursery
    findings: Findings = attrs.Factory(Findings)
    nodes: dict[str, Running] = attrs.Factory(dict[str, Running])
    screens: dict[int, Screen] = attrs.Factory(dict[int, Screen])
    over: bool = False
    chance: random.Random = attrs.field(init=False)
    database: Database = attrs.field(init=False)
    network: Network = attrs.field(init=False)
    bot: Bot = attrs.field(init=False)
    _made: int = 0

    def __attrs_post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        shards = [ShardRow() for _ in range(SHARDS)]
        self.database = Database(self.nursery, self.chance, self.findings, shards)
        self.network = Network(self.nursery, self.chance)
        self.bot = make_bot(self.check_acts)

    # --- nodes

    def start_node(self) -> Running:
        """Start a process on another machine."""
        self._made += 1
        skew = self.chance.randint(-1500, 1500)
        machine = Machine(
            f"m{self._made}", VirtualWallClock(MORNING + int(trio.current_time() * 1000) + skew)
        )
        running = self.nodes[machine.name] = Running(machine, Link(self.chance))
        machine.start(self.nursery, self._run, running)
        return running

    async def _run(self, running: Running) -> None:
        with running.scope:
            try:
                async with trio.open_nursery() as nursery:
                    await self._live(running, nursery)
                    nursery.cancel_scope.cancel()
            except Exception as error:
                if not self.over:
                    # As a process that ends by an error: its supervisor starts another one.
                    self.findings.count(f"process ended: {type(error).__name__}")
                    logging.getLogger("simulation").info("a node ended", exc_info=error)
                    self.start_node()
        running.gone = True
        running.serving = None

    async def _live(self, running: Running, nursery: trio.Nursery) -> None:
        machine = running.machine
        settings = Settings(
            token=Secret("t"),
            base_url="http://127.0.0.1:9",
            store=f"memory:?shards={SHARDS}",
            allow_insecure=True,
            webhook_secret=Secret("a-secret-of-the-simulation-1"),
        )
        member = running.member = Member(self.database, machine, running.link, nursery)
        listener = self.network.doors[machine.name] = DoorListener(machine)
        door = NodeDoor(f"{machine.name}:1", [listener], self.network.connect)
        transport = httpx.MockTransport(self._take)
        async with (
            open_member(settings, machine.wall, member, door, self._alarm) as node,
            trio.open_nursery() as serving,
            open_resources((), ()) as resources,
        ):
            running.node, running.serving = node, serving
            try:
                async with open_kept_work(
                    node,
                    table_of(self.bot),
                    Texts.english(),
                    transport=transport,
                    media_transport=transport,
                    resources=resources,
                ):
                    await running.stop.wait()
            finally:
                running.serving = None
            self.findings.count("stopped cleanly")

    async def _alarm(self, alarm: Alarm) -> None:
        await trio.lowlevel.checkpoint()
        if alarm.kind not in _TOLD and not self.over:
            self.findings.fail(f"alarm {alarm.kind}: {alarm.text}")

    # --- the platform

    async def _take(self, request: httpx.Request) -> httpx.Response:
        fields = parse_qs(request.content.decode())
        if self.over:
            await trio.sleep_forever()
        if request.url.path.endswith("/sendMessage"):
            chat = int(fields["chat_id"][0])
            self.check_acts(chat)
            self.screens[chat].show(fields["data"][0])
        await trio.sleep(self.chance.uniform(0.005, 0.06))
        return httpx.Response(200, content=json.dumps({"id": self.chance.randrange(10**9)}))

    def check_acts(self, chat: int) -> None:
        """See that whoever acts for a chat has its shard, unless it stood still since it was certain."""
        if self.over:
            return
        machine, shard = this_machine(), shard_of(ChatId(chat), SHARDS)
        member = self.nodes[machine.name].member
        assert member is not None
        if self.database.owns(member.id, shard):
            return
        told = member.told.get(trio.lowlevel.current_task(), machine.stood)
        if told == machine.stood:
            self.findings.fail(f"{machine.name} acts for chat {chat}, and another one may have shard {shard}")
        else:
            self.findings.count("acted late after it stood still")

    # --- the proxy

    def any_node(self) -> str:
        """Return a node that takes events."""
        up = [name for name, running in self.nodes.items() if running.serving is not None]
        return self.chance.choice(up) if up else ""

    async def post(self, body: bytes, *, node: str | None = None) -> Taken | None:
        """Bring a text to a node, or to the next one if that doesn't take it; return which has, and when."""
        for first, name in ((True, node or self.any_node()), (False, self.any_node())):
            running = self.nodes.get(name)
            if running is None or running.serving is None or running.machine.dead:
                await trio.sleep(0.01)
                continue
            answer = _Answer()
            running.machine.start(running.serving, self._answer, running, body, answer)
            with trio.move_on_after(PROXY_SECONDS):
                await answer.came.wait()
            answer.given_up = True
            if answer.taken:
                return Taken(name, answer.came_at, first)
        return None

    async def _answer(self, running: Running, body: bytes, answer: _Answer) -> None:
        """Answer a request, as the webhook's endpoint does."""
        assert running.node is not None
        began = answer.came_at = trio.current_time()
        machine, stood = running.machine, running.machine.stood
        try:
            outcome = await running.node.inbox.accept(FORM, body)
        except trio.ClosedResourceError:
            return
        took = trio.current_time() - began
        if isinstance(outcome, EventStored | Unread):
            if not answer.given_up:
                answer.taken = True
                if isinstance(outcome, EventStored):
                    running.node.inbox.answered(outcome)
        elif (
            isinstance(outcome, Unreached)
            and took > _HOLD_SECONDS + 0.5
            and stood == machine.stood
            # While its database is away nobody knows what came of an event that is being stored.
            and running.link.well_since < began
            and not self.over
        ):
            self.findings.fail(f"{machine.name} held an event for {took:.1f} s, and refused it then")
        if took > 0.25 and stood == machine.stood:
            self.findings.count("event held")
        answer.came.set()


@attrs.define(eq=False)
class _Answer:
    came: trio.Event = attrs.Factory(trio.Event)
    taken: bool = False
    given_up: bool = False
    came_at: float = 0.0


# --- what befalls them


async def befall(world: World, chance: random.Random) -> None:
    """Let so many troubles come, each for a while, some at the same time; then let all be well."""
    async with trio.open_nursery() as nursery:
        for _ in range(TROUBLES):
            await trio.sleep(chance.expovariate(TROUBLES / TROUBLED_SECONDS))
            trouble = chance.choice(world.troubles)
            nursery.start_soon(trouble, world, random.Random(chance.random()))
    for link in [*world.network.links.values(), *(one.link for one in world.nodes.values())]:
        link.mend()


def _living(world: World) -> list[Running]:
    return [
        one
        for one in world.nodes.values()
        if not one.gone and not one.machine.dead and not one.stop.is_set() and one.serving is not None
    ]


def _some(world: World, chance: random.Random) -> Running | None:
    living = _living(world)
    return chance.choice(living) if living else None


async def stands_still(world: World, chance: random.Random) -> None:
    """A machine stands still, mostly for longer than its lease."""
    running = _some(world, chance)
    if running is None or running.machine.still:
        return
    world.findings.count("trouble: stands still")
    running.machine.stand_still()
    await trio.sleep(chance.choice((0.3, 2.5, 3.1, 4.0, 6.0, 9.0)) * chance.uniform(0.9, 1.1))
    if not running.machine.dead:
        running.machine.go_on()


async def stands_still_in_a_commit(world: World, chance: random.Random) -> None:
    """A machine stands still between its look at the lease and what it sends the database by it."""
    running = _some(world, chance)
    if running is None or running.machine.still:
        return
    machine, fell = running.machine, trio.Event()
    machine.trap = fell
    with trio.move_on_after(5):
        await fell.wait()
    machine.trap = None
    if fell.is_set():
        world.findings.count("trouble: stands still in a commit")
        await trio.sleep(chance.uniform(2.5, 6.0))
        if not machine.dead:
            machine.go_on()


async def is_killed(world: World, chance: random.Random) -> None:
    """A process is killed, and another one is started after a while."""
    running = _some(world, chance)
    if running is None or running.machine.still:
        return
    world.findings.count("trouble: killed")
    running.machine.dead = True
    running.machine.stand_still()
    running.serving = None
    world.network.died(running.machine)
    await trio.sleep(chance.uniform(0, 5))
    world.start_node()


async def is_stopped(world: World, chance: random.Random) -> None:
    """A node is stopped, and another one is started."""
    running = _some(world, chance)
    if running is None:
        return
    world.findings.count("trouble: stopped")
    running.stop.set()
    await trio.sleep(chance.uniform(0, 3))
    world.start_node()


async def is_drained(world: World, chance: random.Random) -> None:
    """A node gives up its shards, and later may have some again."""
    running = _some(world, chance)
    if running is None or running.member is None:
        return
    world.findings.count("trouble: drained")
    for drained in (True, False):
        if (row := world.database.nodes.get(running.member.id)) is not None:
            row.drained = drained
            world.database.ring()
        await trio.sleep(chance.uniform(1, 6))


async def is_cut_from_the_database(world: World, chance: random.Random) -> None:
    """What a node asks the database doesn't arrive, or its answer doesn't."""
    running = _some(world, chance)
    if running is None:
        return
    world.findings.count("trouble: cut from the database")
    running.link.cut()
    if chance.random() < 0.3:
        # Its time service goes on alone.
        running.machine.set_clock(-4000)
    await trio.sleep(chance.choice((0.2, 2.9, 4.0, 4.5, 7.0)) * chance.uniform(0.9, 1.1))
    running.link.mend()
    running.machine.right_clock()


async def is_slow(world: World, chance: random.Random) -> None:
    """What a node asks the database takes up to seconds, and then nothing arrives for a while."""
    running = _some(world, chance)
    if running is None:
        return
    world.findings.count("trouble: slow")
    running.link.well_since = math.inf
    running.link.slow, running.link.loses = chance.choice((0.1, 0.6, 1.4, 2.5)), chance.choice((0, 0.02, 0.1))
    await trio.sleep(chance.uniform(1, 6))
    running.link.cut()
    await trio.sleep(chance.choice((0.0, 3.0, 5.0)))
    running.link.mend()


async def nodes_are_cut(world: World, chance: random.Random) -> None:
    """Two nodes can't reach one another, or everything between them is late."""
    one, other = _some(world, chance), _some(world, chance)
    if one is None or other is None or one is other:
        return
    world.findings.count("trouble: nodes cut")
    link = world.network.link(one.machine.name, other.machine.name)
    if chance.random() < 0.5:
        link.cut()
    link.slow = chance.choice((0.1, 1.0, 4.0))
    await trio.sleep(chance.choice((0.5, 2.0, 3.5, 7.0)) * chance.uniform(0.9, 1.1))
    link.mend()


async def clock_is_set(world: World, chance: random.Random) -> None:
    """A machine's time of day is set, and is right again after a while."""
    running = _some(world, chance)
    if running is None:
        return
    world.findings.count("trouble: clock set")
    running.machine.set_clock(chance.choice((-4000, -1500, -300, 300, 1500, 4000)))
    await trio.sleep(chance.uniform(0.5, 6))
    running.machine.right_clock()


Trouble = Callable[[World, random.Random], Awaitable[None]]
ALL: Final[Sequence[Trouble]] = (
    *(stands_still, stands_still_in_a_commit, is_killed, is_stopped, is_drained),
    *(is_cut_from_the_database, is_slow, is_slow, nodes_are_cut, clock_is_set),
)


# --- a run


@attrs.frozen
class Simulated:
    """What came of a run.

    Attributes:
        broken: the promises that were broken; none, where all is well.
        counts: how often something happened.
        seconds: of virtual time.
    """

    seed: int
    broken: Sequence[str]
    counts: dict[str, int]
    seconds: float


Plant = Callable[[World], AbstractContextManager[None]]


def no_fault(world: World) -> AbstractContextManager[None]:
    """Plant none."""
    return nullcontext()


def simulate(seed: int, fault: Plant = no_fault, troubles: Sequence[Trouble] = ALL) -> Simulated:
    """Run one seed.

    Args:
        fault: is planted while it runs.
        troubles: what may befall the nodes.
    """
    with ExitStack() as stack:
        stack.enter_context(seeded(seed))
        stack.enter_context(patch.object(writer, "Hop", CarriedHop))
        for module in (links, peers):
            stack.enter_context(patch.object(module, "steady_time", lambda: this_machine().steady()))
        stack.enter_context(patch.object(trio.to_thread, "run_sync", in_thread))
        stack.enter_context(patch.object(slots, "_declared", {COUNTED.name}))
        return trio.run(
            _simulate,
            seed,
            fault,
            troubles,
            clock=MockClock(autojump_threshold=0),
            instruments=[StandingStill()],
        )


async def _simulate(seed: int, fault: Plant, troubles: Sequence[Trouble]) -> Simulated:
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        world = World(seed, troubles, nursery)
        with fault(world), trio.CancelScope() as scope:
            async with trio.open_nursery() as living:
                living.start_soon(_until_broken, world, scope)
                await _live(world, random.Random(seed + 1))
                living.cancel_scope.cancel()
        seconds = trio.current_time() - began
        await _bury(world)
        nursery.cancel_scope.cancel()
    findings = world.findings
    return Simulated(seed, findings.broken, dict(findings.counts), seconds)


async def _until_broken(world: World, scope: trio.CancelScope) -> None:
    await world.findings.some.wait()
    scope.cancel()


async def _live(world: World, chance: random.Random) -> None:
    for _ in range(NODES):
        world.start_node()
    while len(world.database.working()) < SHARDS:
        await trio.sleep(0.1)
    people: list[tuple[Person, Callable[[Person], Awaitable[None]]]] = []
    for number in range(CHATS):
        chat = 1000 + number
        screen = world.screens[chat] = Screen()
        person = Person(chat, world, screen, random.Random(chance.random()), ROUNDS)
        people.append((person, answers if number % 2 else talks_fast))
    with trio.move_on_after(TROUBLED_SECONDS * 2 + CALM_SECONDS) as scope:
        async with trio.open_nursery() as nursery:
            for person, life in people:
                nursery.start_soon(_checked, world, life, person)
            nursery.start_soon(befall, world, chance)
    if scope.cancelled_caught:
        late = [
            f"chat {person.chat} waits for {person.waits_for}"
            for person, _ in people
            if person.waits_for != "nothing"
        ]
        world.findings.fail(f"these didn't end: {late}; shards {world.database.working()}")
        return
    await _check_calm(world)
    for person, life in people:
        await _checked(world, _seen, person, life)


async def _seen(person: Person, life: Callable[[Person], Awaitable[None]]) -> None:
    await trio.lowlevel.checkpoint()
    check_screen(person, life)


async def _checked(world: World, check: Callable[..., Awaitable[None]], *args: object) -> None:
    try:
        await check(*args)
    except AssertionError as error:
        world.findings.fail(str(error).splitlines()[0])


async def _check_calm(world: World) -> None:
    """See that each shard comes to have one owner, with nothing left in it to do."""
    with trio.move_on_after(60) as scope:
        while len(world.database.working()) < SHARDS:
            await trio.sleep(0.1)
        await trio.sleep(5)
    if scope.cancelled_caught:
        world.findings.fail(f"only these shards have an owner: {world.database.working()}")
    rounds = sum(ROUNDS for number in range(CHATS) if number % 2)
    home = world.database.shards[shard_of(SHARED, SHARDS)].rows.sql
    stored = dict(home.execute("SELECT key, value FROM data WHERE chat_id = ?", (SHARED,)).fetchall())
    if stored.get(COUNTED.name) != f"[1,{rounds}]":
        world.findings.fail(f"{rounds} were to be counted once each, and what is counted is {stored}")
    for number, shard in enumerate(world.database.shards):
        for table in ("inbox", "conversations"):
            ((left,),) = shard.rows.sql.execute(f"SELECT count(*) FROM {table}").fetchall()
            if left:
                world.findings.fail(f"{left} rows are left in the {table} of shard {number}")


async def _bury(world: World) -> None:
    """Let all nodes end, which may take what is left for nothing."""
    world.over = world.database.over = True
    for running in world.nodes.values():
        running.machine.dead = False
        running.machine.go_on()
        running.scope.cancel()
    await trio.lowlevel.checkpoint()
