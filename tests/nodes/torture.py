"""Processes of one bot on one PostgreSQL that suffer, and what must hold: ``python -m tests.nodes.torture``.

    python -m tests.nodes.torture [ROUNDS] [FAULT...] [--rest SECONDS]

Each round does each fault once, or those that are named; 4 rounds of all with ``--rest 0.25`` are 100 faults
and 100,000 events. There are three processes, each before a cable of its own to the database, which can be
cut, in one direction too; a platform; and 40 chats that send events without a proxy between: to any process,
to the next one if that refuses or says nothing for six seconds, and a fifth of all presses twice. At the end
each event was answered once and in its order, no event was put into the inbox twice, and whoever paid has the
goods once. The table tells how long a chat waited at most: from its request on, and behind the 200.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import socket
import statistics
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final, final

import attrs
import psycopg
import trio

from tests.loopback import Platform, Users, free_port, open_platform, pay_event, press_event, text_event
from tests.postgres import Server, run_pair, run_server, why_not
from tests.processes.process import SECRET, BotProcess, start_node
from triobot.store.postgres.admitting import ADMITTED_WITHIN

NODES: Final = 3
CHATS: Final = 40
PATIENCE: Final = 90.0
"""Seconds after which an event counts as stuck."""
_MODULE: Final = Path(__file__).with_name("counting.py")
_PROXY_SECONDS: Final = 6.0
_SHORT: Final = 300
"""Bytes that a process says to look, and not to commit."""
_REST: Final = 3.0
CHAT_RESTS: Final = 0.8
_ERROR: Final = re.compile(" ERROR | CRITICAL |Traceback")
# What is written of a fault, and of what the server or a process that comes back says of it.
_EXPECTED: Final = (
    *("ALARM crash_loop: ", "ALARM store_unwritable: ", "alarms can't be stored: "),
    *("every chat has waited", "was taken over by another process", "ALARM unwatched: "),
    "ALARM clock_differs: ",
    "ALARM maybe_paid_again: ",  # a proxy brings what it has heard no answer to, and no key tells it
)


@final
class Cable:
    """What lies between a process and the database: it hands bytes on, unless a direction is cut.

    Attributes:
        port: where it listens.
        target: the server's port; new connections go there.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listening.getsockname()[1]
        self._open = {"up": threading.Event(), "down": threading.Event()}
        self._halves = False
        self._sides: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.join()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, *ways: str) -> None:
        """Hand nothing on any more in these directions; what is sent meanwhile waits."""
        for way in ways:
            self._open[way].clear()

    def stall(self) -> None:
        """Hand on half of what the process says next, and nothing behind it."""
        self._halves = True

    def join(self) -> None:
        """Hand on again, also what has waited."""
        self._halves = False
        for way in self._open.values():
            way.set()

    def close(self) -> None:
        """End all of it."""
        self.join()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for side in self._sides:
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for side in self._sides:
            side.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self._sides.append(client)
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)  # as its server does that is down
                continue
            self._sides.append(server)
            for one, other, way in ((client, server, "up"), (server, client, "down")):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                thread = threading.Thread(target=self._hand_on, args=(one, other, way), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _hand_on(self, one: socket.socket, other: socket.socket, way: str) -> None:
        with suppress(OSError):
            while said := one.recv(65536):
                if way == "up" and self._halves and len(said) > _SHORT:
                    self._open[way].clear()
                    other.sendall(said[: len(said) // 2])
                    said = said[len(said) // 2 :]
                self._open[way].wait()
                other.sendall(said)
        # That a connection has ended doesn't pass a cut, either.
        self._open[way].wait()
        for side in (one, other):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


@attrs.define
class Waits:
    """How long chats have waited: when that was over, from the request on, and behind the 200."""

    all: list[tuple[float, float, float]] = attrs.Factory(list[tuple[float, float, float]])

    def most(self, since: float) -> tuple[float, float]:
        """The longest of those that were over since a moment."""
        recent = [(whole, behind) for at, whole, behind in self.all if at >= since]
        return max((one[0] for one in recent), default=0.0), max((one[1] for one in recent), default=0.0)


@final
class World:
    """The database, the processes, the platform and the chats."""

    def __init__(
        self, folder: Path, server: Server, spare: Server | None, platform: Platform, chance: random.Random
    ) -> None:
        self.server = server
        self.spare = spare
        self.platform = platform
        self.chance = chance
        self.cables = [Cable(server.port) for _ in range(NODES)]
        self.ports = [free_port() for _ in range(NODES)]
        self.processes: list[BotProcess | None] = [None] * NODES
        self.waits = Waits()
        self.tries = Counter[str]()
        self.said = defaultdict[int, list[str]](list)
        self.folder = folder
        self.over = False

    async def start(self, number: int) -> None:
        """Start a process; it works or stands by."""
        url = self.server.url(port=self.cables[number].port, query="schema=torture")
        self.processes[number] = await start_node(
            "bot",
            module=_MODULE,
            port=self.ports[number],
            platform=self.platform.url,
            store=url,
            log=self.folder / f"log{number}",
            ready=b" 200 ",
            environ={
                "OVEN": str(self.folder / "oven"),
                "CLOCK": str(self.folder / f"clock{number}"),
                "TRIOBOT_LOG_TRACEBACKS": "1",
            },
        )

    def process(self, number: int) -> BotProcess:
        """The process of this number."""
        process = self.processes[number]
        assert process is not None
        return process

    async def working(self) -> int:
        """The number of the process that works."""
        while True:
            for number, port in enumerate(self.ports):
                with suppress(OSError, trio.BrokenResourceError), trio.move_on_after(1):
                    if b"\r\n\r\nready" in await _get(port):
                        return number
            await trio.sleep(0.05)

    # --- chats

    async def post(self, body: bytes) -> float:
        """Bring an event to a process as a proxy does, until one has taken it; return when that was."""
        number = self.chance.randrange(NODES)
        while True:
            status = await self._post_once(number, body)
            if status == 200:
                return trio.current_time()
            self.tries["refused by a process" if status else "asked another process"] += 1
            number = (number + 1) % NODES
            if status:
                await trio.sleep(0.2)

    async def _post_once(self, number: int, body: bytes) -> int:
        users = Users(self.ports[number], f"/{SECRET}")
        with trio.move_on_after(_PROXY_SECONDS), suppress(OSError, trio.BrokenResourceError):
            async with users.connect() as line:
                return await users.post(line, body, close=True)
        return 0

    async def chat(self, chat: int, rest: float) -> None:
        """Say and press, one after the other, until it is over; and buy now and then."""
        number = 0
        async with trio.open_nursery() as again:
            while not self.over:
                number += 1
                kind = self.chance.random()
                if kind < 0.5:
                    said = f"s{chat}.{number}"
                    body = text_event(chat, said)
                elif kind < 0.9:
                    said = f"p{chat}.{number}"
                    body = press_event(chat, (said, 1), said)
                else:
                    said = f"buy{chat}.{number}"
                    body = text_event(chat, said)
                began = trio.current_time()
                if said.startswith("p") and self.chance.random() < 0.2:
                    again.start_soon(self.post, body)
                taken = await self.post(body)
                await self.sees(chat, f"{number} {said}")
                if said.startswith("buy"):
                    number += 1
                    await self.pay(chat, number)
                else:
                    self.said[chat].append(f"{number} {said}")
                    now = trio.current_time()
                    self.waits.all.append((now, now - began, now - taken))
                await trio.sleep(self.chance.random() * rest)

    async def pay(self, chat: int, number: int) -> None:
        """Pay what is asked for, and wait until that is known."""
        self.said[chat] += [f"{number - 1} buy{chat}.{number - 1}", f"{number} pay", f"{number} paid"]
        await self.sees(chat, f"{number} pay")
        ref_id, bill = list(self.platform.bills[chat].items())[-1]
        bill.paid = True
        await self.post(pay_event(chat, ref_id, bill.message_id))
        await self.sees(chat, f"{number} paid")

    async def sees(self, chat: int, text: str) -> None:
        """Wait for a text."""
        texts = self.platform.texts[chat]
        await self.platform.wait_until(lambda: text in texts[-3:], within=PATIENCE)

    # --- what must hold

    async def settle(self) -> None:
        """Wait until nothing is left to be handled."""
        with trio.move_on_after(PATIENCE):
            while self.server.ask("SELECT count(*) FROM torture.inbox") != [(0,)]:
                await trio.sleep(0.1)

    def check(self) -> Mapping[str, int]:
        """Count what must not be; all are 0."""
        found, sold = Counter[str](), 0
        for chat, said in self.said.items():
            heard = [text for text, _ in groupby(self.platform.texts[chat])]
            sent, seen = set(said), dict.fromkeys(heard)
            found["lost"] += len(sent - seen.keys())
            found["answered twice"] += len(heard) - len(seen)
            found["chats out of order"] += [text for text in seen if text in sent] != said
            sold += sum(text.endswith(" paid") for text in said)
        doubled = self.server.ask(
            "SELECT count(*) FROM (SELECT 1 FROM audit GROUP BY body HAVING count(*) > 1) a"
        )
        found["accepted twice"] = int(str(doubled[0][0]))
        keys = keys_in(self.folder / "oven") if sold else {}
        found["meals not given once"] = sum(len(one) != 1 for one in keys.values()) + abs(len(keys) - sold)
        settled = self.server.ask("SELECT count(*) FROM torture.payments WHERE state = 'settled'")[0][0]
        paid = sum(bill.verified for bills in self.platform.bills.values() for bill in bills.values())
        found["ledger and wallets differ"] = abs(int(str(settled)) - paid) + abs(paid - sold)
        found["rows left in the inbox"] = int(
            str(self.server.ask("SELECT count(*) FROM torture.inbox")[0][0])
        )
        found["conversations that failed"] = int(
            str(self.server.ask("SELECT count(*) FROM torture.conversations WHERE error IS NOT NULL")[0][0])
        )
        found["refused"] = self.tries["refused by a process"]
        found["processes that ended"] = sum(
            process is None or process.popen.poll() is not None for process in self.processes
        )
        return found

    def lines(self) -> Sequence[str]:
        """What the processes have said, in its order."""
        lines = [line for n in range(NODES) for line in (self.folder / f"log{n}").read_text().splitlines()]
        return sorted(line for line in lines if line.startswith("20"))  # a traceback's lines have no time

    def server_time(self) -> int:
        """The time of day by which alarms are noted, in milliseconds."""
        ((now,),) = self.server.ask("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
        return int(str(now))

    def alarms(self, since: int) -> Sequence[str]:
        """The texts of alarms that the store has of this time."""
        return [
            str(text) for (text,) in self.server.ask(f"SELECT text FROM torture.alarms WHERE last >= {since}")
        ]

    def complaints(self) -> Sequence[str]:
        """What the processes have said that nobody expects."""
        said = "".join((self.folder / f"log{n}").read_text() for n in range(NODES))
        errors = [one for one in re.split("^(?=20)", said, flags=re.MULTILINE) if _ERROR.search(one)]
        return [one for one in errors if not any(words in one for words in _EXPECTED)]

    @property
    def repeated(self) -> int:
        """How many sends came once more, right behind the first."""
        return sum(len(texts) - len([1 for _ in groupby(texts)]) for texts in self.platform.texts.values())


def keys_in(oven: Path) -> Mapping[str, set[str]]:
    """The keys under which each meal was given: a process that died in the step is asked for it again."""
    found = defaultdict[str, set[str]](set)
    for line in oven.read_text().splitlines():
        key, order = line.split()
        found[order].add(key)
    return found


async def _get(port: int) -> bytes:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(b"GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        return bytes(await stream.receive_some(4096))


# --- faults, each to the process that works

Fault = Callable[[World, int], Awaitable[None]]


async def calm(world: World, number: int) -> None:
    """Nothing happens, to compare."""
    await trio.sleep(5)


async def kill(world: World, number: int) -> None:
    """SIGKILL; it is back after two seconds."""
    await world.process(number).kill()
    await trio.sleep(2)
    await world.start(number)


async def stop(world: World, number: int) -> None:
    """SIGTERM, as a deploy."""
    assert await world.process(number).stop() == 0
    await world.start(number)


async def deploy(world: World, number: int) -> None:
    """All of them, one after the other."""
    for one in range(NODES):
        await stop(world, one)


async def kill_all(world: World, number: int) -> None:
    """All at once, and back at once."""
    for one in range(NODES):
        await world.process(one).kill()
    async with trio.open_nursery() as nursery:
        for one in range(NODES):
            nursery.start_soon(world.start, one)


async def freeze(world: World, number: int) -> None:
    """It stands still for longer than its session lives."""
    await world.process(number).freeze()
    await trio.sleep(4.5)
    world.process(number).thaw()


async def blink(world: World, number: int) -> None:
    """It stands still, and is back before anybody may take its place."""
    await world.process(number).freeze()
    await trio.sleep(2)
    world.process(number).thaw()


async def freeze_long(world: World, number: int) -> None:
    """It stands still for longer than a proxy waits."""
    await world.process(number).freeze()
    await trio.sleep(8)
    world.process(number).thaw()


async def freeze_and_kill(world: World, number: int) -> None:
    """It stands still, and dies of it."""
    await world.process(number).freeze()
    await trio.sleep(1)
    await kill(world, number)


async def terminate(world: World, number: int) -> None:
    """The server ends all sessions, five times."""
    for _ in range(5):
        world.server.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'bots'")
        await trio.sleep(0.3)


async def restart(world: World, number: int) -> None:
    """The server stops, and starts."""
    await trio.to_thread.run_sync(world.server.end)
    world.server.start()  # it lives as long as the thread that starts it


async def away(world: World, number: int) -> None:
    """The server is away for longer than an event may wait at one process."""
    await trio.to_thread.run_sync(world.server.end)
    await trio.sleep(7)
    world.server.start()


async def crash(world: World, number: int) -> None:
    """The server's sessions die, and it recovers from its log."""
    await trio.to_thread.run_sync(world.server.crash)


async def die(world: World, number: int) -> None:
    """The server's machine loses its power, and is back."""
    await trio.to_thread.run_sync(world.server.die)
    world.server.start()


async def server_freezes(world: World, number: int) -> None:
    """The server stands still."""
    world.server.freeze()
    await trio.sleep(4)
    world.server.thaw()


async def cut(world: World, number: int, seconds: float = 8, ways: Sequence[str] = ("up", "down")) -> None:
    """Nothing passes between the process and the database."""
    world.cables[number].cut(*ways)
    await trio.sleep(seconds)
    world.cables[number].join()


async def cut_short(world: World, number: int) -> None:
    """For a second only."""
    await cut(world, number, 1)


async def answers_lost(world: World, number: int) -> None:
    """Only what the server says."""
    await cut(world, number, 8, ["down"])


async def asks_lost(world: World, number: int) -> None:
    """Only what the process says."""
    await cut(world, number, 8, ["up"])


async def standby_cut(world: World, number: int) -> None:
    """Of one that stands by."""
    await cut(world, (number + 1) % NODES)


async def half_a_pipeline(world: World, number: int) -> None:
    """The network stops in the middle of what the process commits, or takes in."""
    world.cables[number].stall()
    await trio.sleep(8)
    world.cables[number].join()


async def clock_jumps(world: World, number: int) -> None:
    """The clock of its machine is an hour ahead, and then an hour behind."""
    for off, seconds in ((3_600, 12), (-3_600, 7)):
        (world.folder / f"clock{number}").write_text(str(off))
        await trio.sleep(seconds)
    (world.folder / f"clock{number}").write_text("0")


async def clock_of_a_standby(world: World, number: int) -> None:
    """That of one that stands by."""
    await clock_jumps(world, (number + 1) % NODES)


async def disk_full(world: World, number: int) -> None:
    """The server can't write any row."""
    tables = "inbox", "deliveries", "conversations", "journal", "payments", "commits", "alarms"
    words = "could not extend file: No space left on device"
    before = "BEFORE INSERT OR UPDATE ON torture."
    world.server.ask(
        "CREATE OR REPLACE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION '{words}' USING ERRCODE = 'disk_full'; END $$",
        *(f"CREATE TRIGGER no_room {before}{one} FOR EACH ROW EXECUTE FUNCTION no_room()" for one in tables),
    )
    await trio.sleep(ADMITTED_WITHIN + 2)  # until then nothing is refused, and nothing needs to be said
    world.server.ask(*(f"DROP TRIGGER no_room ON torture.{one}" for one in tables))


async def locked(world: World, number: int) -> None:
    """Somebody holds rows that it writes."""

    def hold() -> psycopg.Connection:
        connection = psycopg.connect(world.server.url(user="postgres"))
        connection.execute("SET search_path TO torture")
        connection.execute("SELECT FROM conversations ORDER BY id LIMIT 5 FOR UPDATE")
        return connection

    connection = await trio.to_thread.run_sync(hold)
    await trio.sleep(5)
    connection.close()


async def locked_and_killed(world: World, number: int) -> None:
    """And it dies meanwhile."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(locked, world, number)
        await trio.sleep(1)
        await kill(world, number)


async def standby_gone(world: World, number: int) -> None:
    """The server's standby stands still, and each commit waits for it."""
    assert world.spare is not None
    world.spare.freeze()
    await trio.sleep(4)
    world.spare.thaw()


async def standby_missing(world: World, number: int) -> None:
    """The server's only standby is gone for longer than an event may wait at one process."""
    assert world.spare is not None
    await trio.to_thread.run_sync(world.spare.end)
    await trio.sleep(7)
    world.spare.start()


async def failover(world: World, number: int) -> None:
    """The server's machine dies, and its standby is made the primary; the address leads there."""
    spare = world.spare
    assert spare is not None
    await trio.to_thread.run_sync(world.server.die)
    await trio.to_thread.run_sync(spare.promote)
    for cable in world.cables:
        cable.target = spare.port
    world.server, world.spare = spare, None


PAIRED: Final[Sequence[Fault]] = (standby_gone, standby_missing, failover)
"""What befalls a server with a synchronous standby; the last one once."""
FAULTS: Final[Sequence[Fault]] = (
    *(calm, kill, stop, deploy, kill_all, freeze, blink, freeze_long, freeze_and_kill),
    *(terminate, restart, away, crash, die, server_freezes),
    *(cut, cut_short, answers_lost, asks_lost, standby_cut, half_a_pipeline, locked, locked_and_killed),
    *(clock_jumps, clock_of_a_standby, disk_full),
)


_TAKEN: Final = "this process has the store now, and works"
_LOST: Final = "another process has taken the store over; the work here was cut, and goes on there"
_AWAY: Final = "look at the database's server, and at the network between"
_CLOCK: Final = "this machine's clock is 3600.0 s ahead of the database server's"
TOLD: Final[Mapping[Fault, Sequence[str]]] = {
    **dict.fromkeys((kill, stop, deploy, freeze_and_kill, locked_and_killed), (_TAKEN,)),
    **dict.fromkeys((cut, answers_lost, asks_lost, half_a_pipeline), (_TAKEN,)),
    **dict.fromkeys((freeze, freeze_long), (_TAKEN, _LOST)),
    away: (_AWAY,),
    disk_full: ("free some space on the database's server",),
    clock_jumps: (_CLOCK,),
    clock_of_a_standby: (f", which stands by: {_CLOCK}",),
    standby_missing: (_AWAY,),
    failover: ("goes on after a failover or a restore; nothing acknowledged is missing",),
}
"""What some process says of a fault, so that an operator can tell what has happened."""


@attrs.frozen
class Suffered:
    """What came of it.

    Attributes:
        found: how often what must not be was found.
        waits: by fault, the longest waits of each time.
        complaints: what the processes have said that nobody expects.
        untold: by fault, the words that no process has said of it.
    """

    events: int
    found: Mapping[str, int]
    waits: Mapping[str, Sequence[tuple[float, float]]]
    complaints: Sequence[str]
    tries: Mapping[str, int]
    repeated: int
    untold: Sequence[str]

    def tell(self) -> bool:
        """Print it; return whether nothing was found."""
        print(f"\n{'fault':18} times   longest wait: median / most   behind its 200: median / most")
        for name, times in self.waits.items():
            sides = zip(*times, strict=True)
            columns = [f"{statistics.median(one):13.2f} / {max(one):5.2f} s    " for one in sides]
            print(f"{name:18} {len(times):5}    {''.join(columns)}")
        found = ", ".join(f"{times} {what}" for what, times in self.found.items())
        print(f"\n{self.events} events; {found}")
        print(f"{dict(self.tries)}; sends repeated: {self.repeated}")
        for line in (*self.complaints, *(f"nobody said of {one}" for one in self.untold)):
            print(line)
        return not (any(self.found.values()) or self.complaints or self.untold)


@asynccontextmanager
async def _world(folder: Path, server: Server, spare: Server | None, seed: int) -> AsyncGenerator[World]:
    async with open_platform() as platform:
        world = World(folder, server, spare, platform, random.Random(seed))
        try:
            for number in range(NODES):
                await world.start(number)
            server.ask(
                "CREATE TABLE audit (body bytea)",
                "GRANT ALL ON audit TO bots",
                "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " IF NEW.content_type LIKE 'application/x-www%' AND"
                " position('payCallback'::bytea IN NEW.body) = 0"
                " THEN INSERT INTO public.audit VALUES (NEW.body); END IF; RETURN NULL; END $$",
                "CREATE TRIGGER note AFTER INSERT ON torture.inbox FOR EACH ROW EXECUTE FUNCTION note()",
            )
            yield world
            await world.process(await world.working()).stop()
        finally:
            for process in world.processes:
                if process is not None:
                    process.popen.send_signal(signal.SIGCONT)
                    process.kill_now()
                    process.popen.wait()
            for cable in world.cables:
                cable.close()


async def suffer(
    folder: Path,
    server: Server,
    faults: Sequence[Fault],
    *,
    spare: Server | None = None,
    chats: int = CHATS,
    seed: int = 1,
    rest: float = CHAT_RESTS,
    tell: Callable[[str], None] = lambda said: None,
) -> Suffered:
    """Have chats talk while these faults happen, one after the other."""
    waits = defaultdict[str, list[tuple[float, float]]](list)
    untold = list[str]()
    async with _world(folder, server, spare, seed) as world:
        async with trio.open_nursery() as nursery:
            for chat in range(1000, 1000 + chats):
                nursery.start_soon(world.chat, chat, rest)
            await trio.sleep(_REST)
            for fault in faults:
                began = trio.current_time()
                heard, now = len(world.lines()), world.server_time()
                await fault(world, await world.working())
                await world.working()
                await trio.sleep(_REST)
                most = world.waits.most(began)
                waits[fault.__name__].append(most)
                said = "\n".join([*world.lines()[heard:], *world.alarms(now)])
                untold += [f"{fault.__name__}: {words}" for words in TOLD.get(fault, ()) if words not in said]
                tell(f"{fault.__name__:18} longest wait {most[0]:5.2f} s, behind its 200 {most[1]:5.2f} s")
            world.over = True
        await trio.sleep(1)
        events = sum(map(len, world.said.values()))
        await world.settle()
        return Suffered(
            events, world.check(), dict(waits), world.complaints(), dict(world.tries), world.repeated, untold
        )


def main() -> None:
    """Do it for as many rounds as are asked for, and say what came of it."""
    known = {fault.__name__: fault for fault in (*FAULTS, *PAIRED)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("rounds", type=int, nargs="?", default=1)
    parser.add_argument("faults", nargs="*", choices=[*known, []])
    parser.add_argument(
        "--rest", type=float, default=CHAT_RESTS, help="seconds between a chat's events, at most"
    )
    given = parser.parse_args()
    rounds, chosen = given.rounds, [known[word] for word in given.faults] or [*FAULTS, *PAIRED]
    if (reason := why_not()) is not None:
        raise SystemExit(reason)
    alone, paired = ([one for one in chosen if (one in PAIRED) is both] for both in (False, True))
    told = partial(suffer, rest=given.rest, tell=partial(print, flush=True))
    held = list[bool]()
    if alone:
        with tempfile.TemporaryDirectory() as folder, run_server() as server:
            held.append(trio.run(told, Path(folder), server, alone * rounds).tell())
    for _ in range(rounds if paired else 0):
        with tempfile.TemporaryDirectory() as folder, run_pair(synchronous=True) as (server, spare):
            held.append(trio.run(partial(told, spare=spare), Path(folder), server, paired).tell())
    if not all(held):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
