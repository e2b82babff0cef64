"""A bot whose disk is lost, and a stream of its store beside it: real processes, each killed by SIGKILL."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import pytest
import trio

from tests.loopback import PATIENCE, Users, open_platform, press_event, text_event
from tests.processes.ordering import Customer, check_heard
from tests.processes.process import ROOT, SECRET, environment, listen, running_bot, start_bot
from triobot.store.replica import copy_replica

pytestmark = pytest.mark.processes

CHATS = range(1000, 1040, 2)


@attrs.frozen
class Streaming:
    """``triobot store stream``, in a process of its own."""

    popen: subprocess.Popen[bytes]
    folder: Path
    log: Path

    async def has_all(self) -> None:
        """Wait until it has what is committed now."""
        now = time.time_ns() // 1_000_000
        with trio.fail_after(PATIENCE):
            while self.as_of() <= now:
                await trio.sleep(0.05)

    def as_of(self) -> int:
        try:
            return int(json.loads((self.folder / "stream.json").read_text())["as_of"])
        except FileNotFoundError:
            return 0

    async def said(self, words: str) -> None:
        """Wait until it has said this."""
        with trio.fail_after(PATIENCE):
            while words not in self.log.read_text():
                await trio.sleep(0.05)


@contextmanager
def streaming(store: Path, folder: Path, log: Path) -> Generator[Streaming]:
    """A streamer, killed at the end of the block."""
    command = [sys.executable, "-m", "triobot", "store", "stream", str(folder)]
    with log.open("ab") as output:
        popen = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(TRIOBOT_STORE=f"sqlite:{store}"),
            stdout=output,
            stderr=output,
        )
    try:
        yield Streaming(popen, folder, log)
    finally:
        popen.kill()
        popen.wait()


@pytest.mark.slow
async def test_conversations_go_on_after_the_disk_of_their_bot_is_lost(tmp_path: Path) -> None:
    """Streamer and bot are killed under load; then the bot is, for good, and its disk is lost."""
    disk, folder, log = tmp_path / "disk", tmp_path / "replica", tmp_path / "log"
    disk.mkdir()
    folder.mkdir()
    store = disk / "bot.db"
    async with open_platform() as platform:
        with listen() as sock:
            users = Users(sock.getsockname()[1], f"/{SECRET}")
            customers = [Customer(platform, users, chat) for chat in CHATS]

            async def start() -> None:
                nonlocal process
                process = await start_bot(
                    "orders", platform=platform.url, store=store, sock=sock, log=tmp_path / "bot.log"
                )

            process = await start_bot(
                "orders", platform=platform.url, store=store, sock=sock, log=tmp_path / "bot.log"
            )
            try:
                async with trio.open_nursery() as load:
                    for customer in customers:
                        load.start_soon(customer.order, 0)
                    with streaming(store, folder, log) as streamer:
                        await streamer.said("takes an image")
                        await platform.wait_until(lambda: platform.total >= len(CHATS))
                    with streaming(store, folder, log) as streamer:
                        await streamer.has_all()
                        await process.kill()
                        await streamer.said("waits, since no bot runs")
                        await start()
                        await streamer.has_all()
                with streaming(store, folder, log) as streamer:
                    async with trio.open_nursery() as load:
                        for customer in customers:
                            load.start_soon(begin_second, customer)
                    await streamer.has_all()
                    await process.kill()
                    streamer.popen.terminate()
                    assert streamer.popen.wait(PATIENCE) == 0
                for file in disk.iterdir():
                    file.unlink()
                await command(store, "store", "check", str(folder))
                restored = await command(store, "store", "restore", str(folder))
                assert "it has all that was committed by" in restored
                await start()
                async with trio.open_nursery() as load:
                    for customer in customers:
                        load.start_soon(end_second, customer)
                told = json.loads(await command(store, "status", "--json"))
                assert (told["epoch"], told["conversations"], told["parked"]) == (1, 0, 0)

                # The empty store of a bot that lost its disk takes no replica's place.
                await process.kill()
                for file in disk.iterdir():
                    file.unlink()
                await start()
                with streaming(store, folder, log) as streamer:
                    await streamer.said("holds the stream of another store")
                    assert streamer.popen.wait(PATIENCE) == 1
                assert await process.stop() == 0
            finally:
                process.kill_now()
                process.popen.wait()
    for chat in CHATS:
        check_heard(platform.texts[chat], chat, orders=2)


@pytest.mark.slow
async def test_a_stream_ends_when_its_folder_goes(tmp_path: Path) -> None:
    """It fills no folder that it hasn't locked, and it doesn't try for ever in vain."""
    folder, log = tmp_path / "replica", tmp_path / "log"
    folder.mkdir()
    store = tmp_path / "bot.db"
    async with (
        open_platform() as platform,
        running_bot("bot", platform=platform.url, store=store),
    ):
        with streaming(store, folder, log) as streamer:
            await streamer.has_all()
            folder.rename(tmp_path / "elsewhere")
            await streamer.said(f"triobot: the folder {folder} is gone, or another is in its place")
            assert streamer.popen.wait(PATIENCE) == 1


@pytest.mark.slow
async def test_no_event_that_was_answered_before_the_last_shipped_moment_is_missing(
    tmp_path: Path, long: bool
) -> None:
    """However often the streamer is killed, and in whatever it does: it begins anew, or folds, or writes."""
    chance, folder, log = random.Random(1), tmp_path / "replica", tmp_path / "log"
    folder.mkdir()
    store = tmp_path / "bot.db"
    answered: dict[int, list[int]] = {chat: [] for chat in range(16)}
    async with (
        open_platform() as platform,
        running_bot("bot", platform=platform.url, store=store) as (_, port),
        trio.open_nursery() as load,
    ):
        users = Users(port, f"/{SECRET}")

        async def talk(customer: Customer) -> None:
            times = answered[customer.chat]
            while True:
                await customer.post(text_event(customer.chat, _word(customer.chat, len(times))))
                times.append(time.time_ns() // 1_000_000)

        for chat in answered:
            load.start_soon(talk, Customer(platform, users, chat))
        for _ in range(30 if long else 3):
            with streaming(store, folder, log) as streamer:
                await streamer.has_all()
                # So many events later, so that a kill falls into whatever comes then.
                count = sum(map(len, answered.values())) + chance.randrange(400)
                with trio.fail_after(PATIENCE):
                    while sum(map(len, answered.values())) < count:
                        await trio.sleep(0.005)
            as_of = streamer.as_of()
            there = await trio.to_thread.run_sync(_words_in, folder, tmp_path)
            for chat, times in answered.items():
                before = sum(at < as_of for at in times)
                missing = [n for n in range(before) if _word(chat, n) not in there]
                assert not missing, f"{len(missing)} of {before} of chat {chat}"
        load.cancel_scope.cancel()


def _word(chat: int, n: int) -> str:
    return f"w{chat}x{n}."


def _words_in(folder: Path, aside: Path) -> str:
    """All that conversations have recorded, and what waits for them, as a replica comes back."""
    with TemporaryDirectory(dir=aside) as made:
        copy, _, missing = copy_replica(folder, Path(made))
        assert missing is None
        with closing(sqlite3.connect(copy)) as rows:
            found = rows.execute("SELECT records FROM journal UNION ALL SELECT body FROM inbox").fetchall()
        return "\n".join(one if isinstance(one, str) else one.decode() for (one,) in found)


async def begin_second(customer: Customer) -> None:
    """The second order, up to a question that waits."""
    await customer.post(text_event(customer.chat, "1"))
    await customer.sees("1: Name?")
    await customer.post(text_event(customer.chat, f"quick {customer.chat}.1"))
    await customer.sees("1: Hurry?")


async def end_second(customer: Customer) -> None:
    """The rest of it."""
    await customer.post(text_event(customer.chat, "yes 1"))
    await customer.sees("1: Size")
    button = customer.platform.buttons[customer.chat]["Large"]
    await customer.post(press_event(customer.chat, button, f"press{customer.chat}x1"))
    await customer.sees(f"1: quick {customer.chat}.1")


async def command(store: Path, *arguments: str) -> str:
    """What a command says about a store."""
    ended = await trio.run_process(
        [sys.executable, "-m", "triobot", *arguments],
        cwd=ROOT,
        env=environment(TRIOBOT_STORE=f"sqlite:{store}"),
        capture_stdout=True,
    )
    return ended.stdout.decode()
