"""A conversation that failed, and a process that is killed before its user has heard so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loopback import Users, open_platform, text_event
from tests.processes.process import SECRET, Stack, listen, on_both_stacks_when_long, start_bot

pytestmark = pytest.mark.processes

APOLOGY = "Something went wrong here. Please start again."


@pytest.mark.slow
@on_both_stacks_when_long
async def test_an_apology_that_was_on_its_way_at_a_kill_is_said(tmp_path: Path, stack: Stack) -> None:
    """Nobody knows whether it arrived, so it comes again: better than silence."""
    store = tmp_path / "bot.db"
    async with open_platform() as platform:
        with listen() as sock:
            users, texts = Users(sock.getsockname()[1], f"/{SECRET}"), platform.texts[7]

            async def say(word: str) -> None:
                async with users.connect() as line:
                    assert await users.post(line, text_event(7, word), close=True) == 200

            process = await start_bot("bot", stack=stack, platform=platform.url, store=store, sock=sock)
            try:
                await say("hi")
                await platform.wait_until(lambda: texts == ["hi"])
                platform.held = {7}
                await say("fail")
                await platform.wait_held()
                await process.kill()
                platform.release()  # what the killed process sent arrives now
                await platform.wait_until(lambda: texts == ["hi", APOLOGY])

                process = await start_bot("bot", stack=stack, platform=platform.url, store=store, sock=sock)
                await platform.wait_until(lambda: texts == ["hi", APOLOGY, APOLOGY])
                assert await process.stop() == 0

                process = await start_bot("bot", stack=stack, platform=platform.url, store=store, sock=sock)
                await say("hello")
                await platform.wait_until(lambda: "hello" in texts)
                assert texts == ["hi", APOLOGY, APOLOGY, "hello"]
                assert await process.stop() == 0
            finally:
                process.popen.kill()
                process.popen.wait()
