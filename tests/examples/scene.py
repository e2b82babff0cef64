"""What the tests of the examples share: an example's bot, a platform around it, and people."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx

from triobot import Bot
from triobot.cli.stage import open_stage
from triobot.emulator.person import App, Seen, connect


@asynccontextmanager
async def playing(bot: Bot, *, store: str = "memory:") -> AsyncGenerator[App]:
    """Run the bot on a platform, and open the app."""
    async with (
        open_stage(bot, store=store) as stage,
        connect(stage.platform.control_url, stage.platform.control_token) as app,
    ):
        yield app


async def bytes_of(seen: Seen) -> bytes:
    """The bytes of a file that was seen."""
    content = seen.raw["content"]
    assert isinstance(content, dict)
    descriptor = content["descriptor"]
    assert isinstance(descriptor, dict)
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(str(descriptor["path"]))).raise_for_status().content
