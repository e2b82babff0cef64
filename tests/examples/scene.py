"""A bot, a platform around it, and people, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from triobot import Bot
from triobot.emulator.person import App, connect
from triobot.studio.commands.transcript import open_stage


@asynccontextmanager
async def playing(bot: Bot, *, store: str = "memory:") -> AsyncGenerator[App]:
    """Run the bot on a platform, and open the app."""
    async with (
        open_stage(bot, store=store) as stage,
        connect(stage.platform.control_url, stage.platform.control_token) as app,
    ):
        yield app
