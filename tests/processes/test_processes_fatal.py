"""Conversations that kill the process itself, under a supervisor that starts it again and again."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import attrs
import pytest
import trio

from tests.loopback import PATIENCE, Platform, Users, open_platform
from tests.postgres import Server
from tests.processes.process import (
    ROOT,
    SECRET,
    BotProcess,
    Stack,
    command_for,
    environment,
    get,
    listen,
    on_both_stacks_when_long,
)

pytestmark = pytest.mark.processes

FATAL = Path(__file__).parent / "fatal.py"
STANDS = "neither returns nor awaits"
KILLERS = ("abort", "spin", "hungry")
GUILTY = "the code of fatal.{} was at work each of the 3 times that the program died"


@attrs.define
class Supervisor:
    """Starts the bot whenever it isn't there, and kills it when it doesn't answer.

    Attributes:
        folder: of this machine only.
        store: an address; empty: a file in the folder.
        starts: how often it was started.
        output: of all its processes so far.
    """

    platform: Platform
    folder: Path
    sock: socket.socket
    stack: Stack = "ours"
    store: str = ""
    starts: int = 0
    hung: int = 0
    process: BotProcess | None = None
    output: str = ""

    async def keep_it_running(self) -> None:
        """Until cancelled."""
        while True:
            self.process = process = self._start()
            try:
                while process.popen.poll() is None:
                    if not await self._is_healthy():
                        self.hung += 1
                        process.popen.kill()
                        await process.wait()
                    await trio.sleep(0.1)
            finally:
                process.popen.kill()
                process.popen.wait()
                self.output += process.output

    def _start(self) -> BotProcess:
        self.starts += 1
        log, command = self.folder / "log", command_for("bot", self.sock, self.stack, FATAL)
        more = environment(
            TRIOBOT_BASE_URL=self.platform.url,
            TRIOBOT_STORE=self.store or f"sqlite:{self.folder / 'bot.db'}",
            STATE_DIRECTORY=str(self.folder),
            STACK=self.stack,
        )
        with log.open("wb") as output:
            popen = subprocess.Popen(
                command, cwd=ROOT, pass_fds=[self.sock.fileno()], env=more, stdout=output, stderr=output
            )
        return BotProcess(popen, log)

    async def _is_healthy(self) -> bool:
        """A process that starts or ends isn't ill; one that doesn't answer, and knows of it, is."""
        assert self.process is not None
        with trio.move_on_after(1), contextlib.suppress(OSError, trio.BrokenResourceError):
            if b" 200 " in await get(self.sock.getsockname()[1], "/healthz"):
                return True
        return self.process.popen.poll() is not None or STANDS not in self.process.output


@pytest.mark.slow
@on_both_stacks_when_long
async def test_who_kills_the_process_is_parked_and_the_others_are_served(
    tmp_path: Path, stack: Stack
) -> None:
    """By an abort in an aside, by a loop without an await, by eating all memory: three in one bot."""
    async with open_platform() as platform:
        with listen() as sock:
            users = Users(sock.getsockname()[1], f"/{SECRET}")
            there = Supervisor(platform, tmp_path, sock, stack)

            async def say(chat: int, *words: str) -> None:
                for word in words:
                    while await _post(users, chat, word) != 200:
                        await trio.sleep(0.1)

            def saw(chats: Sequence[int], *texts: str) -> bool:
                return all(list(dict.fromkeys(platform.texts[chat])) == list(texts) for chat in chats)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(there.keep_it_running)
                innocent = range(10, 20)
                for chat in innocent:
                    await say(chat, "hi", "one")
                await say(4, "greedy")
                await platform.wait_until(lambda: saw(innocent, "1") and len(platform.texts[4]) == 2)
                assert there.starts == 1
                await say(1, "hi", "/abort", "one")
                await say(2, "spin", "long")
                await _until(lambda: there.hung >= 1)  # later, its thread may kill the process that spins
                await say(3, "eat")
                for chat in innocent:
                    await say(chat, "two")
                await platform.wait_until(lambda: saw([1], "1"))
                await platform.wait_until(lambda: saw(innocent, "1", "2"))
                await _until(lambda: all(GUILTY.format(name) in _said(there) for name in KILLERS))
                starts = there.starts
                for chat in innocent:
                    await say(chat, "three")
                await platform.wait_until(lambda: saw(innocent, "1", "2", "3"))
                assert there.starts == starts
                nursery.cancel_scope.cancel()
    for name in ("count", "greedy"):
        assert GUILTY.format(name) not in there.output
    raised = set(re.findall(r"ALARM (\w+):", there.output))
    # "greedy" fails; and a busy machine is late.
    assert raised - {"backlog"} == {"crash_loop", "conversation_parked", "conversation_crashed"}
    assert re.search(r"the code at \S*fatal.py:(39|40) " + STANDS, there.output)


@pytest.mark.slow
async def test_who_kills_one_machine_after_the_other_is_parked_there_too(
    tmp_path: Path, postgres: Server
) -> None:
    """Each of two machines that share a store learns of its own process's deaths only."""
    postgres.ask("DROP SCHEMA IF EXISTS fatal CASCADE")
    store = postgres.url(query="schema=fatal")
    async with open_platform() as platform, trio.open_nursery() as nursery:
        with listen() as first, listen() as second:
            machines: list[Supervisor] = []
            for name, sock in (("first", first), ("second", second)):
                (tmp_path / name).mkdir()
                machines.append(Supervisor(platform, tmp_path / name, sock, store=store))
                nursery.start_soon(machines[-1].keep_it_running)
            ways = [Users(sock.getsockname()[1], f"/{SECRET}") for sock in (first, second)]

            async def say(chat: int, word: str) -> None:
                """To whichever works."""
                for way in cycle(ways):
                    if await _post(way, chat, word) == 200:
                        return
                    await trio.sleep(0.1)

            for word in ("hi", "one"):
                await say(10, word)
            await platform.wait_until(lambda: platform.texts[10] == ["1"])
            await say(1, "/abort")
            await _until(lambda: any(GUILTY.format("abort") in _said(machine) for machine in machines))
            # The other may have died just before that, and isn't started again yet.
            await _until(lambda: all(_is_there(machine) for machine in machines))
            starts = [machine.starts for machine in machines]
            await say(10, "two")
            await platform.wait_until(lambda: list(dict.fromkeys(platform.texts[10])) == ["1", "2"])
            assert [machine.starts for machine in machines] == starts
            assert max(starts) >= 3
            nursery.cancel_scope.cancel()


def _said(there: Supervisor) -> str:
    return there.output + ("" if there.process is None else there.process.output)


def _is_there(machine: Supervisor) -> bool:
    return machine.process is not None and machine.process.popen.poll() is None


async def _until(condition: object) -> None:
    assert callable(condition)
    with trio.fail_after(PATIENCE):
        while not condition():
            await trio.sleep(0.1)


async def _post(users: Users, chat: int, text: str) -> int:
    with trio.move_on_after(3), contextlib.suppress(OSError, trio.BrokenResourceError):
        async with users.connect() as line:
            return await users.say(line, chat, text, close=True)
    return 0
