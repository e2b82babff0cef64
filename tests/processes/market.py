"""The emulated platform as a process of its own, a bot that sells on it, and the wire between the two."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import attrs
import trio

from tests.loopback import PATIENCE, Line, Users
from tests.processes.process import (
    ROOT,
    SECRET,
    TOKEN,
    BotProcess,
    Stack,
    command_for,
    environment,
    listen,
    start_process,
)
from triobot.emulator.person import App, Person, connect
from triobot.operator.calling import ask
from triobot.operator.loopback import socket_path
from triobot.operator.routes import Answer, Question

SELLING = Path(__file__).parent / "selling.py"


@attrs.define
class Wire:
    """Carries operations to the platform and answers back, unless it is told to hold them.

    Attributes:
        port: where the bot connects to.
        platform: the port of the platform.
        held: operations whose answers stay here until `release`.
        stopped: answers that came and were not passed on at once, as often as they came.
    """

    port: int
    platform: int
    held: set[str] = attrs.Factory(lambda: set[str]())
    stopped: dict[str, list[bytes]] = attrs.Factory(lambda: dict[str, list[bytes]]())
    _released: trio.Event = attrs.Factory(trio.Event)

    def release(self) -> None:
        """Hold nothing any more: what waits is passed on."""
        self.held.clear()
        self._released.set()
        self._released = trio.Event()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Carry one connection's operations, one after another."""
        bot = Line(stream)
        try:
            async with stream, await trio.open_tcp_stream("127.0.0.1", self.platform) as far:
                platform = Line(far)
                while True:
                    head, body = await bot.message()
                    if not head:
                        return
                    path = head.split(b" ")[1].decode().partition("/")[2]
                    head = head.replace(b":%d" % self.port, b":%d" % self.platform)
                    await far.send_all(head + b"\r\n\r\n" + body)
                    head, body = await platform.message()
                    if path in self.held:
                        self.stopped.setdefault(path, []).append(body)
                        await self._released.wait()
                    await stream.send_all(head + b"\r\n\r\n" + body)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # the bot was killed


@attrs.define
class Market:
    """Everything that a test touches.

    Attributes:
        app: the people, and the machine room of the platform.
        oven: where the bot writes which payment it gave the goods for.
        environ: the variables of the bot, and of its operator's commands.
    """

    app: App
    wire: Wire
    users: Users
    store: Path
    oven: Path
    environ: Mapping[str, str]
    start: Callable[[], Awaitable[BotProcess]]
    process: BotProcess | None = None

    @property
    def baked(self) -> list[str]:
        """The keys under which goods were given."""
        return self.oven.read_text().split() if self.oven.exists() else []

    async def states(self) -> list[str]:
        """The payments' states, as an operator sees them."""
        counts = (await self._asked({"ask": "status"}))["payments"]
        assert isinstance(counts, dict)
        return sorted(state for state, count in counts.items() for _ in range(count))

    async def waiting(self) -> object:
        """Events that nobody has dealt with yet."""
        return (await self._asked({"ask": "status"}))["inbox"]

    async def bills(self) -> list[Mapping[str, object]]:
        """Every payment that the platform knows of."""
        bills = await self.app.get("payments")
        assert isinstance(bills, list)
        return [cast("Mapping[str, object]", bill) for bill in bills]

    async def answered(self, events: int) -> bool:
        """Whether the platform has read a 200 for so many events."""
        deliveries = await self.app.get("deliveries")
        assert isinstance(deliveries, list)
        return [cast("Mapping[str, object]", one)["status"] for one in deliveries] == [200] * events

    async def number(self, person: Person) -> str:
        """Under which the only payment of this person goes."""
        (bill,) = [bill for bill in await self.bills() if bill["chat_id"] == person.chat_id]
        return str(bill["id"])

    async def alarms(self) -> dict[str, str]:
        """What is alarmed, and about what."""
        return {str(alarm["key"]): str(alarm["kind"]) for alarm in await self._all({"ask": "alarms.list"})}

    async def command(self, *words: str) -> str:
        """What a command says to this bot's operator; it has to end well."""
        ended = await trio.run_process(
            [sys.executable, "-m", "triobot", *words],
            cwd=ROOT,
            env=self.environ,
            capture_stdout=True,
            stderr=subprocess.STDOUT,
            check=False,
        )
        said = ended.stdout.decode()
        assert ended.returncode == 0, said
        return said

    async def _asked(self, question: Question) -> Answer:
        return (await self._all(question))[0]

    async def _all(self, question: Question) -> list[Answer]:
        answers: list[Answer] = []
        place = socket_path(f"sqlite:{self.store}")

        async def tell(told: Answer) -> None:
            answers.append(told)

        assert place is not None
        assert await ask(place, question, tell)
        return answers


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until another process has done something."""
    with trio.fail_after(PATIENCE):
        while not await condition():
            await trio.sleep(0.02)


@asynccontextmanager
async def open_market(folder: Path, stack: Stack = "ours") -> AsyncGenerator[Market]:
    """A platform, and a running bot on it; both are killed at the end."""
    with listen() as bot_socket:
        port = bot_socket.getsockname()[1]
        platform = subprocess.Popen(
            [
                *(sys.executable, "-m", "triobot", "emulate", "--port", "0", "--token", TOKEN),
                *("--bot-url", f"http://127.0.0.1:{port}/{SECRET}"),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert platform.stdout is not None
        told = dict[str, str]()
        try:
            for line in platform.stdout:
                name, _, value = line.strip().partition("  ")
                told[name] = value.strip()
                if name == "page":
                    break
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            own = listeners[0].socket.getsockname()[1]
            wire = Wire(own, int(told["base_url"].rpartition(":")[2]))
            store, oven = folder / "bot.db", folder / "oven"
            environ = environment(
                TRIOBOT_BASE_URL=f"http://127.0.0.1:{own}",
                TRIOBOT_STORE=f"sqlite:{store}",
                STACK=stack,
                OVEN=str(oven),
            )

            async def start() -> BotProcess:
                market.process = await start_process(
                    command_for("bot", bot_socket, stack, SELLING),
                    sock=bot_socket,
                    environ=environ,
                    log=folder / "log",
                )
                return market.process

            async with (
                connect(told["control"], told["control token"]) as app,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(trio.serve_listeners, wire.serve, listeners)
                market = Market(app, wire, Users(port, f"/{SECRET}"), store, oven, environ, start)
                try:
                    await start()
                    yield market
                finally:
                    if market.process is not None:
                        market.process.kill_now()
                        market.process.popen.wait()
                    nursery.cancel_scope.cancel()
        finally:
            platform.kill()
            platform.wait()
            platform.stdout.close()


async def buys(market: Market, name: str = "Ali", how: str = "buy") -> Person:
    """A person joins, and is shown a button."""
    person = await market.app.user(name, irr=500_000)
    await person.joins()
    await person.says(how)
    await person.sees("Pizza", within=PATIENCE)
    return person


async def are(market: Market, *states: str) -> bool:
    """Whether these are the payments' states, in the order of the alphabet."""
    return await market.states() == list(states)
