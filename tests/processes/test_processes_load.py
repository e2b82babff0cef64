"""Under load from many chats, with a real process, real sockets and a real file."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.loopback import Users, open_platform
from tests.processes.process import SECRET, Stack, on_both_stacks, on_both_stacks_when_long, running_bot

pytestmark = pytest.mark.processes


@pytest.mark.slow
@on_both_stacks_when_long
async def test_each_chat_keeps_its_order_in_and_out(tmp_path: Path, stack: Stack) -> None:
    """What a chat sends comes back in its order, however the chats are mixed."""
    chats = 80 if stack == "ours" else 40
    async with open_platform() as platform:
        async with running_bot("bot", stack=stack, platform=platform.url, store=tmp_path / "bot.db") as (
            _,
            port,
        ):
            users = Users(port, f"/{SECRET}")

            async def talk(chats: range) -> None:
                async with users.connect() as line:
                    for number in range(10):
                        for chat in chats:
                            assert await users.say(line, chat, f"{chat}/{number}") == 200

            async with trio.open_nursery() as nursery:
                for start in range(1000, 1000 + chats, 5):
                    nursery.start_soon(talk, range(start, start + 5))
            await platform.wait_until(lambda: platform.total == 10 * chats)

        assert dict(users.accepted) == dict(platform.texts)


@pytest.mark.slow
@on_both_stacks_when_long
async def test_a_stuck_chat_slows_nobody(tmp_path: Path, stack: Stack) -> None:
    """A chat whose sends are never answered does not delay another's."""
    async with open_platform() as platform:
        platform.held = {1, 2, 3}
        async with running_bot("bot", stack=stack, platform=platform.url, store=tmp_path / "bot.db") as (
            _,
            port,
        ):
            users = Users(port, f"/{SECRET}")
            async with users.connect() as line:
                for chat in (1, 2, 3, *range(100, 150)):
                    for number in range(4):
                        assert await users.say(line, chat, str(number)) == 200
            await platform.wait_until(lambda: platform.total == 200)

        assert not platform.held & set(platform.texts)


@pytest.mark.slow
@on_both_stacks_when_long
async def test_memory_stays_flat_when_events_come_faster_than_they_are_handled(
    tmp_path: Path, stack: Stack
) -> None:
    """What is not handled yet waits on disk: four times the events, the same memory."""
    async with open_platform() as platform:
        platform.held = set(range(100, 120))
        async with running_bot("bot", stack=stack, platform=platform.url, store=tmp_path / "bot.db") as (
            process,
            port,
        ):
            users = Users(port, f"/{SECRET}")
            resident: list[int] = []
            for number in range(40):
                async with users.connect() as line:
                    for chat in platform.held:
                        assert await users.say(line, chat, f"{number}" + "x" * 40_000) == 200
                if number in (9, 39):
                    resident.append(process.resident)

        # 600 events of 40 kB came between the two: 24 MB if they were kept.
        assert resident[1] - resident[0] < 8_000_000


@on_both_stacks
async def test_an_error_in_one_conversation_touches_no_other(tmp_path: Path, stack: Stack) -> None:
    """The chat whose code failed gets an apology; the others don't notice."""
    async with open_platform() as platform:
        async with running_bot("bot", stack=stack, platform=platform.url, store=tmp_path / "bot.db") as (
            _,
            port,
        ):
            users = Users(port, f"/{SECRET}")
            async with users.connect() as line:
                for chat, text in ((1, "one"), (2, "two"), (1, "fail"), (2, "three")):
                    assert await users.say(line, chat, text) == 200
            await platform.wait_until(lambda: platform.total == 4)

        assert platform.texts[2] == ["two", "three"]
        assert platform.texts[1][0] == "one"
        assert "wrong" in platform.texts[1][1]


@pytest.mark.slow
@on_both_stacks_when_long
async def test_a_flooding_chat_harms_only_itself(tmp_path: Path, stack: Stack) -> None:
    """Above its quota it gets 503; others are served, and what was accepted is handled in order."""
    async with open_platform() as platform:
        platform.held = {1}
        async with running_bot("bot", stack=stack, platform=platform.url, store=tmp_path / "bot.db") as (
            _,
            port,
        ):
            users = Users(port, f"/{SECRET}")
            statuses: list[int] = []
            while len(statuses) < 1100:
                async with users.connect() as line:
                    statuses += [await users.say(line, 1, str(len(statuses) + n)) for n in range(100)]
            async with users.connect() as line:
                assert set(statuses) == {200, 503}
                assert set(statuses[-50:]) == {503}
                for number in range(20):
                    assert await users.say(line, 2, str(number)) == 200
                await platform.wait_until(lambda: platform.texts[2] == users.accepted[2])
            platform.release()
            await platform.wait_until(lambda: len(platform.texts[1]) >= statuses.count(200))
            # A connection of its own: the one above was idle for longer than the server keeps one.
            async with users.connect() as line:
                assert await users.say(line, 1, "again") == 200
            await platform.wait_until(lambda: platform.texts[1][-1] == "again")

        # The one that is held for so long may outlast its deadline, and is then sent once more.
        assert {chat: list(dict.fromkeys(texts)) for chat, texts in platform.texts.items()} == users.accepted
