"""Stopping loses nothing, killing loses nothing that was acknowledged, deploying refuses nobody."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from tests.loopback import Platform, Users, open_platform
from tests.processes.process import (
    SECRET,
    Stack,
    listen,
    on_all_stacks,
    on_both_stacks,
    running_bot,
    start_bot,
)

pytestmark = pytest.mark.processes


def first_times(texts: Sequence[str]) -> list[str]:
    """The texts in order, repetitions left out."""
    return list(dict.fromkeys(texts))


def is_all_handled(users: Users, platform: Platform) -> bool:
    """Whether all that was acknowledged has come back."""
    return all(set(said) <= set(platform.texts[chat]) for chat, said in users.accepted.items())


def count_of(users: Users) -> int:
    """How many events were acknowledged."""
    return sum(len(said) for said in users.accepted.values())


@pytest.mark.slow
@on_all_stacks
async def test_stopping_in_the_middle_of_a_load_loses_nothing(tmp_path: Path, stack: Stack) -> None:
    """What was accepted until the very end is handled before the stop or after the next start."""
    store = tmp_path / "bot.db"
    async with open_platform() as platform:
        with listen() as sock:
            users = Users(sock.getsockname()[1], f"/{SECRET}")
            process = await start_bot("single", stack=stack, platform=platform.url, store=store, sock=sock)
            async with trio.open_nursery() as nursery:

                async def talk(chat: int) -> None:
                    for number in range(40):
                        async with users.connect() as line:
                            status = await users.say(line, chat, str(number), close=True)
                            # hypercorn closes what it has accepted and not read when it stops.
                            assert status == 200 or (stack != "ours" and status == 0)

                for chat in range(1, 9):
                    nursery.start_soon(talk, chat)
                await platform.wait_until(lambda: platform.total > 50)
                assert await process.stop() == 0
                process = await start_bot(
                    "single", stack=stack, platform=platform.url, store=store, sock=sock
                )
            await platform.wait_until(lambda: is_all_handled(users, platform))
            assert await process.stop() == 0

        assert count_of(users) > 300
        for chat, said in users.accepted.items():
            handled = first_times(platform.texts[chat])
            # What hypercorn did not answer may have been stored.
            assert [text for text in handled if stack == "ours" or text in said] == said


@on_all_stacks
async def test_kill_9_at_random_moments_loses_no_acknowledged_event(
    tmp_path: Path, stack: Stack, long: bool
) -> None:
    """Whatever was answered 200 is handled, in each chat's order, though the process dies again and again."""
    store = tmp_path / "bot.db"
    chance = random.Random(5)
    async with open_platform() as platform:
        with listen() as sock:
            users = Users(sock.getsockname()[1], f"/{SECRET}")
            for round_ in range(6 if long else 3):
                process = await start_bot(
                    "single", stack=stack, platform=platform.url, store=store, sock=sock
                )
                async with trio.open_nursery() as nursery:

                    async def talk(chat: int, round_: int) -> None:
                        try:
                            async with users.connect() as line:
                                for number in range(1000):
                                    if await users.say(line, chat, f"{round_}.{number}") != 200:
                                        return
                        except (trio.BrokenResourceError, OSError):
                            return

                    for chat in range(1, 17):
                        nursery.start_soon(talk, chat, round_)
                    # So much work, not so much time: a slow machine must not make this an empty test.
                    wanted = count_of(users) + chance.randint(10, 200)
                    await platform.wait_until(lambda wanted=wanted: count_of(users) >= wanted)
                    await trio.sleep(chance.uniform(0, 0.01))
                    await process.kill()
                    # Connections that wait for the dead process's successor would wait for ever.
                    nursery.cancel_scope.cancel()
            process = await start_bot("single", stack=stack, platform=platform.url, store=store, sock=sock)
            await platform.wait_until(lambda: is_all_handled(users, platform))
            await process.stop()

        assert count_of(users) >= (60 if long else 30)
        for chat, said in users.accepted.items():
            # One that was stored but not answered in time may stand between them.
            handled = [text for text in first_times(platform.texts[chat]) if text in set(said)]
            assert handled == said


@pytest.mark.slow
async def test_restarts_under_load_refuse_no_connection(tmp_path: Path, long: bool) -> None:
    """A deploy that hands the listening socket over is not noticed by anybody who connects."""
    store, restarts = tmp_path / "bot.db", 20 if long else 3
    async with open_platform() as platform:
        with listen() as sock:
            users = Users(sock.getsockname()[1], f"/{SECRET}")
            process = await start_bot("single", platform=platform.url, store=store, sock=sock)
            done = trio.Event()
            statuses: list[int] = []
            async with trio.open_nursery() as nursery:

                async def talk(chat: int) -> None:
                    number = 0
                    while not done.is_set():
                        async with users.connect() as line:
                            statuses.append(await users.say(line, chat, str(number), close=True))
                        number += 1

                for chat in range(1, 5):
                    nursery.start_soon(talk, chat)
                for _ in range(restarts):
                    assert await process.stop() == 0
                    process = await start_bot("single", platform=platform.url, store=store, sock=sock)
                    wanted = len(statuses) + 8
                    await platform.wait_until(lambda wanted=wanted: len(statuses) >= wanted)
                done.set()
            await platform.wait_until(lambda: is_all_handled(users, platform))
            await process.stop()

        assert set(statuses) == {200}
        assert len(statuses) >= 8 * restarts


@pytest.mark.slow
@on_both_stacks
async def test_a_dead_platform_delays_and_loses_nothing(tmp_path: Path, stack: Stack) -> None:
    """While the platform is dead events are accepted; when it is back they are answered, in order."""
    async with open_platform() as platform:
        platform.dead = True
        async with running_bot("bot", stack=stack, platform=platform.url, store=tmp_path / "bot.db") as (
            _,
            port,
        ):
            users = Users(port, f"/{SECRET}")
            async with users.connect() as line:
                for number in range(10):
                    for chat in range(1, 6):
                        assert await users.say(line, chat, str(number)) == 200
            platform.dead = False
            await platform.wait_until(lambda: is_all_handled(users, platform))

        assert {chat: first_times(texts) for chat, texts in platform.texts.items()} == users.accepted


@pytest.mark.slow
@on_both_stacks
async def test_words_that_are_said_again_are_handled_again(tmp_path: Path, stack: Stack) -> None:
    """An equal text is a repetition only if nobody heard the answer; a sender that closes at once did."""
    async with open_platform() as platform:
        async with running_bot("bot", stack=stack, platform=platform.url, store=tmp_path / "bot.db") as (
            _,
            port,
        ):
            users = Users(port, f"/{SECRET}")
            for number in range(40):
                async with users.connect() as line:
                    assert await users.say(line, 1, "yes", close=number % 2 == 0) == 200
            await platform.wait_until(lambda: platform.total == 40)

        assert len(platform.texts[1]) == 40
