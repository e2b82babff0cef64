"""Random programs of a durable coroutine: nested lists of statements, and what runs them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from zlib import crc32

import trio

from triobot.engine import LEFT, Channel, Event, Run, Scope
from triobot.errors import NonDurableCancelError

from .world import ListHost

Statement = tuple[Any, ...]

_PLAIN = ["send"] * 3 + ["recv"] * 2 + ["sleep"] * 2 + ["step", "stepraise", "rand", "data", "once", "plain"]
_BLOCKS = (
    ["timeout"] * 3
    + ["when"] * 3
    + ["whenshield"] * 2
    + ["branches"] * 2
    + ["when2", "fail", "loop", "finally", "try", "raise", "cancelme", "shield", "shieldfin", "waitfin"]
    + ["plainnursery", "race", "event", "channel", "full", "lateclean", "foreign", "nap", "drain"]
)
_WRAPS = frozenset(
    (
        "finally",
        "shieldfin",
        "waitfin",
        "shield",
        "try",
        "cancelme",
        "race",
        "event",
        "channel",
        "full",
        "lateclean",
    )
)


def random_program(r: random.Random, *, straight: bool, depth: int = 0) -> list[Statement]:
    """Return some statements.

    Args:
        straight: one branch, and no block.
    """
    found: list[Statement] = []
    for _ in range(r.randint(1, 4 if depth < 2 else 2)):
        kinds = list(_PLAIN)
        if depth < 3:
            kinds += ["loop", "try", "if"]
        if depth < 4 and not straight:
            kinds += _BLOCKS
        kind = r.choice(kinds)

        def within() -> list[Statement]:
            return random_program(r, straight=straight, depth=depth + 1)

        match kind:
            case "sleep":
                found.append((kind, r.choice([0, 1000, 1000, 2000, 3000, 5000])))
            case "recv":
                found.append((kind, r.choice(["", "", "a", "b"])))
            case "timeout" | "fail":
                found.append((kind, r.choice([0, 1, 2, 3, 5, 8]), within()))
            case "when" | "whenshield":
                found.append((kind, r.choice(["", "a", "b"]), within()))
            case "when2":
                found.append((kind, r.choice(["", "a", "b"]), r.choice(["", "a", "b"]), within()))
            case "branches":
                found.append((kind, [within() for _ in range(r.randint(1, 3))]))
            case "loop":
                found.append((kind, r.randint(2, 3), within()))
            case "if":
                found.append((kind, within(), [("send",)]))
            case _:
                found.append((kind, within()) if kind in _WRAPS else (kind,))
    if depth == 0 and r.random() < 0.1:
        found.append(("continue",))
    # Without a draw of its own: what a seed gives stays what it was.
    if depth == 0 and crc32(repr(found).encode()) % 4 == 0:
        beside = not straight and found[-1] != ("continue",)
        found = [("beside" if beside and crc32(repr(found).encode()) % 8 else "around", found)]
    return found


def taking(what: str) -> Callable[[str], object]:
    """Return a filter for the events that begin with this."""
    return lambda text: text if text.startswith(what) else LEFT


class Runner:
    """Runs a program; `log` is what its code remembers."""

    def __init__(self, program: list[Statement], host: ListHost) -> None:
        self.program = program
        self.host = host
        self.log: list[Any] = []

    async def __call__(self, run: Run, generation: int = 0) -> object:
        self.log.append(f"g{generation}")
        await self.block(run, self.program, generation)
        return [str(one) for one in self.log]

    async def block(self, run: Run, body: list[Statement], generation: int = 0) -> None:
        for place, statement in enumerate(body):
            kind, *rest = statement
            await getattr(self, f"do_{kind}")(run, *rest, **({"at": place} if kind == "send" else {}))
            if kind == "continue" and generation < 1:
                run.continue_as("again", generation + 1)

    async def say(self, run: Run, text: str) -> None:
        id = run.upcoming()
        got = await run.effect("send", self.host.send, id, text, print=str(len(text)), lane="lane")
        self.log.append(f"s{got['length']}")

    async def step(self, run: Run, body: Callable[[], Any]) -> Any:
        # Where two runs are compared, two bodies must not end in the order of Trio's scheduler.
        return await run.effect("step", body, lane="" if self.host.race else "lane")

    # --- straight on

    async def do_send(self, run: Run, at: int) -> None:
        await self.say(run, f"{at}:{len(self.log)}:{'|'.join(map(str, self.log[-3:]))}")

    async def do_once(self, run: Run) -> None:
        try:
            text = f"once{len(self.log)}"
            doubt = TimeoutError("unknown")
            await run.effect("send", self.host.send, run.upcoming(), text, lane="lane", in_doubt=doubt)
            self.log.append("once")
        except TimeoutError:
            self.log.append("unknown" if self.host.race else "once")

    async def do_recv(self, run: Run, what: str) -> None:
        self.log.append(await run.wait("receive", taking(what)))

    async def do_sleep(self, run: Run, milliseconds: int) -> None:
        await run.sleep(milliseconds / 1000)
        self.log.append(f"z{run.now()}")

    async def do_step(self, run: Run) -> None:
        self.log.append(await self.step(run, self.host.body))

    async def do_stepraise(self, run: Run) -> None:
        try:
            await self.step(run, self.host.failing)
        except (KeyError, ValueError) as error:
            self.log.append(repr(error))

    async def do_rand(self, run: Run) -> None:
        self.log.append(round(run.random().random(), 6))

    async def do_data(self, run: Run) -> None:
        n = run.read("n", 0)
        run.write("n", n + 1)
        self.log.append(f"d{n}:{run.read('n')}")

    async def do_drain(self, run: Run) -> None:
        self.log.append(f"drained {run.drain(taking('a'))}")

    async def do_plain(self, run: Run) -> None:
        await trio.lowlevel.checkpoint()

    async def do_foreign(self, run: Run) -> None:
        """A plain scope around an operation."""
        try:
            with trio.CancelScope() as plain:
                plain.cancel()
                await run.sleep(1)
                self.log.append("slept")
        except NonDurableCancelError:
            self.log.append("foreign")

    async def do_plainnursery(self, run: Run) -> None:
        async def work(rounds: int) -> None:
            for _ in range(rounds):
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, 1)
            nursery.start_soon(work, 3)

    async def do_if(self, run: Run, one: list[Statement], other: list[Statement]) -> None:
        await self.block(run, one if len(self.log) % 2 else other)

    async def do_loop(self, run: Run, rounds: int, body: list[Statement]) -> None:
        for _ in range(rounds):
            await self.block(run, body)

    async def do_try(self, run: Run, body: list[Statement]) -> None:
        try:
            await self.block(run, body)
        except* ValueError:
            self.log.append("caught")

    async def do_raise(self, run: Run) -> None:
        raise ValueError(7)

    async def do_continue(self, run: Run) -> None:
        """`block` goes on."""

    async def do_nap(self, run: Run) -> None:
        """An await of something else that takes time, as the only one of its turn."""
        await self.say(run, f"nap{len(self.log)}")
        await trio.sleep(300 if self.host.race else 0)
        await self.say(run, f"up{len(self.log)}")

    async def do_doze(self, run: Run) -> None:
        await trio.sleep(700)

    # --- parts

    async def do_around(self, run: Run, body: list[Statement]) -> None:
        """Code around other code, with operations of its own."""
        with run.part("outer"):
            await self.say(run, "before")
            with run.part("inner"):
                self.log.append(await self.step(run, self.host.body))
                self.log.append(round(run.random().random(), 6))
                with run.part(""):
                    await self.block(run, body)
                await self.say(run, f"behind{len(self.log)}")
            await self.say(run, "after")

    async def do_beside(self, run: Run, body: list[Statement]) -> None:
        """Code around other code, with a block and a child."""
        with run.part("outer"):
            async with run.open_nursery() as nursery:

                async def child() -> None:
                    for _ in range(3):
                        await run.sleep(2)
                        await self.say(run, f"child{len(self.log)}")

                nursery.start_soon(child)
                with run.scope(12) as scope:
                    await self.do_around_once(run, body)
                nursery.cancel()
            self.log.append(f"p{scope.cancelled_caught}")
            await self.say(run, "after")

    async def do_around_once(self, run: Run, body: list[Statement]) -> None:
        with run.part("inner"):
            await self.say(run, "within")
            with run.part(""):
                await self.block(run, body)

    # --- blocks

    async def do_timeout(self, run: Run, seconds: float, body: list[Statement]) -> None:
        with run.scope(seconds) as scope:
            await self.block(run, body)
            self.log.append("in")
        self.log.append(f"t{scope.cancelled_caught}{scope.expired}")

    async def do_fail(self, run: Run, seconds: float, body: list[Statement]) -> None:
        with run.scope(seconds) as scope:
            await self.block(run, body)
        if scope.cancelled_caught:
            self.log.append("slow")
            await self.say(run, f"slow{len(self.log)}")

    async def do_when(self, run: Run, what: str, body: list[Statement], *, shield: bool = False) -> None:
        with run.scope(takes=taking(what)) as scope:
            if shield:
                with run.scope(9, shield=True):
                    await self.block(run, body)
                    await run.sleep(1.5)
            self.log.append("body")
            await run.wait("receive", taking("b" if what == "a" else "a"))
        self.log.append(f"w{scope.event}{scope.cancelled_caught}")
        await self.say(run, f"after{scope.event}")

    async def do_whenshield(self, run: Run, what: str, body: list[Statement]) -> None:
        await self.do_when(run, what, body, shield=True)

    async def do_when2(self, run: Run, one: str, other: str, body: list[Statement]) -> None:
        with run.scope(takes=taking(one)) as outer:
            with run.scope(takes=taking(other)) as inner:
                with run.scope(7, shield=True):
                    await self.block(run, body)
                    await run.sleep(1.5)
                self.log.append("inner")
                await run.sleep(4)
            self.log.append(f"i{inner.event}{inner.cancelled_caught}")
            await run.sleep(2)
        self.log.append(f"o{outer.event}{outer.cancelled_caught}")

    async def do_shield(self, run: Run, body: list[Statement]) -> None:
        with run.scope(20, shield=True):
            await self.block(run, body)

    async def do_finally(self, run: Run, body: list[Statement]) -> None:
        try:
            await self.block(run, body)
        finally:
            self.log.append("fin")
            await self.say(run, "fin")

    async def do_shieldfin(self, run: Run, body: list[Statement]) -> None:
        try:
            await self.block(run, body)
        finally:
            with run.scope(9, shield=True):
                self.log.append("sfin")
                await self.say(run, f"bye{len(self.log)}")
                await run.sleep(1)

    async def do_waitfin(self, run: Run, body: list[Statement]) -> None:
        """Cleanup that waits for a word, a while."""
        try:
            await self.block(run, body)
        finally:
            with run.scope(shield=True), run.scope(2) as scope:
                await self.say(run, "sure?")
                self.log.append(await run.wait())
            self.log.append(f"f{scope.cancelled_caught}")

    async def do_lateclean(self, run: Run, body: list[Statement]) -> None:
        """A body that cleans up outside, slowly, when it is cut."""

        async def slow() -> int:
            if self.host.instant:
                return 1
            try:
                await trio.sleep(1700)
                return 1
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(300)

        with run.scope(1) as scope:
            self.log.append(await self.step(run, slow))
            await self.block(run, body)
        self.log.append(f"l{scope.cancelled_caught}")

    # --- children

    async def do_branches(self, run: Run, bodies: list[list[Statement]]) -> None:
        try:
            async with run.open_nursery() as nursery:
                for body in bodies:
                    nursery.start_soon(self.block, run, body)
                self.log.append("body")
        finally:
            self.log.append("join")

    async def do_race(self, run: Run, body: list[Statement]) -> None:
        """Two children, of which the first one ends the other."""
        async with run.open_nursery() as nursery:

            async def one() -> None:
                await self.block(run, body)
                self.log.append("one")
                nursery.cancel()

            async def other() -> None:
                self.log.append(await run.wait())
                self.log.append("two")
                nursery.cancel()

            nursery.start_soon(one)
            nursery.start_soon(other)
        self.log.append("raced")

    async def do_cancelme(self, run: Run, body: list[Statement]) -> None:
        with run.scope() as scope:
            async with run.open_nursery() as nursery:

                async def cancels() -> None:
                    await run.sleep(2)
                    scope.cancel()

                nursery.start_soon(cancels)
                nursery.start_soon(self.block, run, body)
        self.log.append(f"c{scope.cancelled_caught}")

    async def do_event(self, run: Run, body: list[Statement]) -> None:
        told = Event(run)
        with run.scope(6) as scope:
            async with run.open_nursery() as nursery:

                async def sets() -> None:
                    await self.block(run, body)
                    told.set()
                    if len(self.log) % 3 == 0:
                        scope.cancel()

                async def waits() -> None:
                    await told.wait()
                    self.log.append("told")
                    await self.say(run, "told")

                nursery.start_soon(waits)
                nursery.start_soon(sets)
                nursery.start_soon(waits)
        self.log.append(f"e{scope.cancelled_caught}")

    async def do_channel(self, run: Run, body: list[Statement]) -> None:
        channel = Channel[Any](run, math.inf)
        async with run.open_nursery() as nursery:

            async def gives() -> None:
                await self.block(run, body)
                for number in range(3):
                    channel.send_nowait(number)

            async def takes(name: str) -> None:
                with run.scope(8):
                    self.log.append((name, await channel.receive()))
                    await self.say(run, f"{name}{self.log[-1][1]}")

            for name in "xy":
                nursery.start_soon(takes, name)
            nursery.start_soon(gives)

    async def do_full(self, run: Run, body: list[Statement]) -> None:
        """A channel that makes its senders wait, and is closed."""
        channel = Channel[Any](run, 1)
        async with run.open_nursery() as nursery:

            async def gives() -> None:
                with run.scope(5):
                    for number in range(4):
                        await channel.send(number)
                        self.log.append(f"sent{number}")
                channel.close()

            async def takes() -> None:
                await self.block(run, body)
                with suppress(trio.EndOfChannel):
                    while True:
                        self.log.append(f"got{await channel.receive()}")
                self.log.append("closed")

            nursery.start_soon(gives)
            nursery.start_soon(takes)

    # --- directed

    async def do_f0(self, run: Run) -> None:
        """An event ends a block whose body is under a shield, and leaves it at its own end."""
        with run.scope(takes=taking("")) as scope:
            with run.scope(shield=True):
                await run.sleep(3)
            await run.wait("receive", taking("q"))
        await self.say(run, f"block {scope.event}")
        await self.say(run, f"then {await run.wait()}")

    async def do_f0nested(self, run: Run) -> None:
        with run.scope(takes=taking("")) as outer:
            with run.scope(takes=taking("")) as inner, run.scope(shield=True):
                await run.sleep(3)
            await self.say(run, f"inner {inner.event}")
            await run.sleep(2)
        await self.say(run, f"outer {outer.event}")
        await self.say(run, f"then {await run.wait()}")

    async def do_pass(self, run: Run) -> None:
        """A value is passed to a branch, and its block cut, in one turn."""
        told, channel = Event(run), Channel[Any](run, math.inf)
        scopes: list[Scope] = []

        async def waits(what: Callable[[], Any]) -> None:
            with run.scope() as scope:
                scopes.append(scope)
                self.log.append(str(await what()))
                await self.say(run, "went on")
            self.log.append(f"p{scope.cancelled_caught}")

        async with run.open_nursery() as nursery:
            nursery.start_soon(waits, told.wait)
            nursery.start_soon(waits, channel.receive)
            await run.wait()
            told.set()
            channel.send_nowait(5)
            for scope in scopes:
                scope.cancel()
            await self.say(run, "cut")
