"""Who says the same word again after a kill is heard: what was answered 200 is no reason to drop the next."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.loopback import Platform, Users, open_platform, text_event
from tests.processes.process import SECRET, Stack, get, listen, on_both_stacks_when_long, start_bot

pytestmark = pytest.mark.processes


def heard(platform: Platform, words: str) -> bool:
    """Whether the bot has said something that begins so."""
    return any(text.startswith(words) for text in platform.texts[7])


@on_both_stacks_when_long
@pytest.mark.parametrize("pause", [0, 0.6], ids=["at once", "a moment later"])
async def test_an_equal_word_after_a_kill_is_handled(tmp_path: Path, stack: Stack, pause: float) -> None:
    """Killed as soon as it was answered, before anything is written behind, or when all has been."""
    store = tmp_path / "bot.db"
    async with open_platform() as platform:
        with listen() as sock:
            users = Users(sock.getsockname()[1], f"/{SECRET}")

            async def say(word: str) -> None:
                async with users.connect() as line:
                    assert await users.post(line, text_event(7, word), close=True) == 200

            process = await start_bot("orders", stack=stack, platform=platform.url, store=store, sock=sock)
            try:
                await say("order")
                await platform.wait_until(lambda: heard(platform, "order: Name?"))
                await say("yes")
                # Who answers the next one has done with that; a kill before leaves the answer in doubt.
                assert b" 200 " in await get(users.port, "/healthz")
                await trio.sleep(pause)
                await process.kill()
                process = await start_bot(
                    "orders", stack=stack, platform=platform.url, store=store, sock=sock
                )
                await platform.wait_until(lambda: heard(platform, "order: Hurry?"))

                await say("yes")

                await platform.wait_until(lambda: heard(platform, "order: Size of"))
                assert await process.stop() == 0
            finally:
                process.popen.kill()
                process.popen.wait()
