"""One bot in several processes with a store in shards: what is killed, and stopped, under load."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.loopback import PATIENCE, Users, open_platform
from tests.processes.bots import ROUNDS
from tests.processes.process import SECRET, BotProcess, environment, family, listen, lives, start_bot

pytestmark = pytest.mark.processes

SHARDS, PROCESSES = 4, 2
RUN = "processes run"


@asynccontextmanager
async def running(
    name: str, platform: str, folder: Path, *arguments: str
) -> AsyncGenerator[tuple[BotProcess, Users]]:
    """A bot in two processes on four shards."""
    with listen() as sock:
        process = await start_bot(
            name,
            platform=platform,
            store=f"sqlite:{folder}/bot.db?shards={SHARDS}",
            sock=sock,
            arguments=["--processes", str(PROCESSES), *arguments],
            log=folder / "log",
        )
        try:
            with trio.fail_after(PATIENCE):
                while RUN not in process.output:
                    await trio.sleep(0.02)
            yield process, Users(sock.getsockname()[1], f"/{SECRET}")
        finally:
            left = process.kill_now()
            process.popen.wait()
            with trio.fail_after(PATIENCE):
                while any(map(lives, left)):
                    await trio.sleep(0.005)


async def kill_one(process: BotProcess, which: int) -> None:
    """SIGKILL to one of the two processes that have shards; then wait until there are two again."""
    victim = children_of(process)[which]
    os.kill(victim, signal.SIGKILL)
    with trio.fail_after(PATIENCE):
        while victim in children_of(process) or len(children_of(process)) < PROCESSES:
            await trio.sleep(0.01)


def children_of(process: BotProcess) -> list[int]:
    """The processes that have shards now."""
    return [pid for pid in family(process.popen.pid)[1:] if lives(pid)]


def once_each(texts: list[str]) -> list[str]:
    """The texts without a repetition of one right behind it: a send whose outcome nobody knows."""
    return [text for text, _ in groupby(texts)]


async def test_no_acknowledged_event_is_lost_when_processes_are_killed(tmp_path: Path) -> None:
    """Whichever process takes an event, and whichever dies: each chat is answered, in its order."""
    chats, texts, refused = 40, 12, list[int]()
    async with open_platform() as platform, running("bot", platform.url, tmp_path) as (process, users):

        async def talk(own: range) -> None:
            for number in range(texts):
                for chat in own:
                    # A process that dies takes its connections along, as it does alone.
                    while (status := await users.calls(chat, f"{chat}/{number}")) != 200:
                        refused.append(status)
                        await trio.sleep(0.05)

        async def kill() -> None:
            for which in (0, 1, 0):
                await trio.sleep(0.4)
                await kill_one(process, which)

        async with trio.open_nursery() as nursery:
            for start in range(1000, 1000 + chats, 5):
                nursery.start_soon(talk, range(start, start + 5))
            nursery.start_soon(kill)
        expected = {chat: [f"{chat}/{n}" for n in range(texts)] for chat in range(1000, 1000 + chats)}

        def all_answered() -> bool:
            return all(once_each(platform.texts[chat]) == said for chat, said in expected.items())

        await platform.wait_until(all_answered)
        assert await process.stop() == 0
        assert process.output.count("it is started again") == 3
    # 503 is for an event that was held for two seconds, and 0 for a connection that died with its process.
    assert set(refused) <= {0, 503}
    repeats = sum(len(said) for said in platform.texts.values()) - chats * texts
    assert repeats <= 3 * SHARDS * 16


@pytest.mark.slow
async def test_a_clean_stop_repeats_nothing_and_loses_nothing(tmp_path: Path) -> None:
    chats, rounds = 30, 2
    async with open_platform() as platform:
        for run in range(rounds):
            async with running("bot", platform.url, tmp_path) as (process, users):
                for number in range(2):
                    for chat in range(1, chats + 1):
                        assert await users.calls(chat, f"{chat}/{run}/{number}") == 200
                assert await process.stop() == 0
        async with running("bot", platform.url, tmp_path) as (process, _):
            # What had been accepted and not begun is answered now.
            await platform.wait_until(lambda: platform.total >= chats * rounds * 2)
            assert await process.stop() == 0
    said = [(run, number) for run in range(rounds) for number in range(2)]
    assert platform.texts == {
        chat: [f"{chat}/{run}/{number}" for run, number in said] for chat in range(1, chats + 1)
    }


@pytest.mark.slow
async def test_a_process_that_alone_is_told_to_end_is_started_again(tmp_path: Path) -> None:
    """It waits for none of the others, which go on: not for the grace, which is longer than this test."""
    async with (
        open_platform() as platform,
        running("bot", platform.url, tmp_path, "--grace", "3600") as (process, users),
    ):
        for which in range(PROCESSES):
            told = children_of(process)[which]
            os.kill(told, signal.SIGTERM)
            with trio.fail_after(PATIENCE):
                while lives(told) or len(children_of(process)) < PROCESSES:
                    await trio.sleep(0.02)
            for chat in range(1, 9):
                while await users.calls(chat, f"{which}") != 200:
                    await trio.sleep(0.05)
        await platform.wait_until(lambda: platform.total >= 8 * PROCESSES)
        assert await process.stop() == 0
        assert process.output.count("alone was told to end, and has; it is started again") == PROCESSES
        assert "ERROR" not in process.output
    assert platform.texts == {chat: ["0", "1"] for chat in range(1, 9)}


@pytest.mark.slow
async def test_chats_count_in_rooms_of_other_processes_whatever_is_killed(tmp_path: Path) -> None:
    """Values and signals cross shards once each, though the one that asks dies, or the one that is asked."""
    chats, each = 60, 60 * ROUNDS
    async with open_platform() as platform, running("tallies", platform.url, tmp_path) as (process, users):
        for chat in range(1, chats + 1):
            assert await users.calls(chat, "count") == 200
        for which in (0, 1):
            await trio.sleep(0.2)
            await kill_one(process, which)
        await platform.wait_until(lambda: sum("counted" in said for said in platform.texts.values()) == chats)
        while platform.texts[0][-1:] != [f"total {each} {each}"]:
            asked = len(platform.texts[0])
            while await users.calls(0, "total") != 200:
                await trio.sleep(0.05)
            await platform.wait_until(partial(_has_more, platform.texts[0], asked))
        assert await process.stop() == 0
    assert all(text.split()[1] == str(each) for text in platform.texts[0])


def _has_more(texts: list[str], than: int) -> bool:
    return len(texts) > than


@pytest.mark.slow
@pytest.mark.cold
async def test_the_parent_s_death_brings_the_others_to_rest(tmp_path: Path) -> None:
    """Else they would hold the shards, and the next start would be refused."""
    async with open_platform() as platform:
        async with running("bot", platform.url, tmp_path) as (process, users):
            assert await users.calls(7, "hello") == 200
            children = children_of(process)
            process.popen.kill()
            with trio.fail_after(PATIENCE):
                while any(map(lives, children)):
                    await trio.sleep(0.02)
        async with running("bot", platform.url, tmp_path) as (process, users):
            assert await users.calls(7, "again") == 200
            await platform.wait_until(lambda: platform.texts[7] == ["hello", "again"])
            assert await process.stop() == 0


@pytest.mark.slow
@pytest.mark.cold  # no children but those
async def test_a_process_that_stands_still_keeps_no_bot_from_ending(tmp_path: Path) -> None:
    """It is killed some seconds after the second signal; the next start goes on."""
    async with open_platform() as platform:
        async with running("bot", platform.url, tmp_path) as (process, users):
            assert await users.calls(7, "hello") == 200
            await platform.wait_until(lambda: platform.texts[7] == ["hello"])
            frozen = children_of(process)[0]
            os.kill(frozen, signal.SIGSTOP)
            process.popen.send_signal(signal.SIGTERM)
            while "once more stops at once" not in process.output:
                await trio.sleep(0.02)
            process.popen.send_signal(signal.SIGTERM)
            with trio.fail_after(PATIENCE):
                while process.popen.poll() is None:
                    await trio.sleep(0.02)
            assert not lives(frozen)
            assert "has not ended and is killed" in process.output
        async with running("bot", platform.url, tmp_path) as (process, users):
            assert await users.calls(7, "again") == 200
            # Whether the first one was sent is unknown if its process was stopped right behind it.
            await platform.wait_until(lambda: once_each(platform.texts[7]) == ["hello", "again"])
            assert await process.stop() == 0


@pytest.mark.slow
async def test_what_one_bot_has_is_told_by_all_its_shards(tmp_path: Path) -> None:
    """The operator's commands ask each process for its own shards, while they run and when they don't."""
    async with open_platform() as platform:
        async with running("bot", platform.url, tmp_path) as (process, users):
            for chat in range(1, 21):
                assert await users.calls(chat, f"{chat}") == 200
            await platform.wait_until(lambda: platform.total == 20)
            [status] = await told(tmp_path, platform.url, "status")
            assert (status["running"], status["working"], status["shards"]) == (True, True, SHARDS)
            assert (status["conversations"], status["live"]) == (20, 20)
            rows = await told(tmp_path, platform.url, "journal", "list")
            assert sorted(row["chat_id"] for row in rows) == list(range(1, 21))
            numbers = [row["conversation"] for row in rows]
            assert numbers == sorted(set(numbers))
            for row in rows[:5]:
                [shown, *_] = await told(tmp_path, platform.url, "journal", "show", str(row["conversation"]))
                assert shown["chat_id"] == row["chat_id"]
            [gone] = await told(tmp_path, platform.url, "forget", "7", "--yes")
            assert gone["found"]
            await told(tmp_path, platform.url, "store", "backup", str(tmp_path / "copy"), as_json=False)
            assert await process.stop() == 0
        assert [path.name for path in tmp_path.glob("*.sock")] == []
        [status] = await told(tmp_path, platform.url, "status")
        assert (status["running"], status["conversations"]) == (False, 19)
    assert sorted(path.name for path in tmp_path.glob("copy.?")) == [f"copy.{n}" for n in range(SHARDS)]


async def told(folder: Path, platform: str, *command: str, as_json: bool = True) -> list[dict[str, Any]]:
    """What a command says of the bot, line by line."""
    run = [sys.executable, "-m", "triobot", *command, *(["--json"] if as_json else [])]
    store = f"sqlite:{folder}/bot.db?shards={SHARDS}"
    done = await trio.run_process(
        run, capture_stdout=True, env=environment(TRIOBOT_STORE=store, TRIOBOT_BASE_URL=platform)
    )
    return [json.loads(line) for line in done.stdout.splitlines()] if as_json else []
