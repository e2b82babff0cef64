"""Rooms, and what is kept beyond a chat, of a real process that is killed again and again."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio

from tests.loopback import Users, open_platform, text_event
from tests.processes.bots import ROUNDS
from tests.processes.process import SECRET, Stack, listen, on_both_stacks_when_long, start_bot

pytestmark = pytest.mark.processes

CHATS, KILLS = 100, 2
EXPECTED = f"total {CHATS * ROUNDS} {CHATS * ROUNDS}"


def has_more(texts: list[str], than: int) -> bool:
    return len(texts) > than


@pytest.mark.slow
@on_both_stacks_when_long
async def test_a_hundred_chats_count_in_one_place_and_in_four_rooms(tmp_path: Path, stack: Stack) -> None:
    """Whatever of it is killed: each update is made once, and each signal heard once."""
    store = tmp_path / "bot.db"
    async with open_platform() as platform:
        with listen() as sock:
            users = Users(sock.getsockname()[1], f"/{SECRET}")

            process = await start_bot("tallies", stack=stack, platform=platform.url, store=store, sock=sock)
            try:
                async with users.connect() as line:
                    for chat in range(1, CHATS + 1):
                        assert await users.post(line, text_event(chat, "count")) == 200
                for number in range(KILLS):
                    await trio.sleep(0.1 + 0.2 * number)
                    await process.kill()
                    process = await start_bot(
                        "tallies", stack=stack, platform=platform.url, store=store, sock=sock
                    )
                await platform.wait_until(lambda: len(platform.texts) == CHATS)
                # What was told last may be on its way to its room.
                while platform.texts[0][-1:] != [EXPECTED]:
                    asked = len(platform.texts[0])
                    assert await users.calls(0, "total") == 200
                    await platform.wait_until(partial(has_more, platform.texts[0], asked))
                assert await process.stop() == 0
            finally:
                process.popen.kill()
                process.popen.wait()
    assert {text for chat, texts in platform.texts.items() if chat for text in texts} == {"counted"}
    assert all(text.split()[1] == f"{CHATS * ROUNDS}" for text in platform.texts[0])
