"""A platform with a bot behind it, in one process, over real sockets."""

from __future__ import annotations

import secrets
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, final

import attrs
import trio

from ..emulator.server import Emulator, serve_emulator
from ..secrets import Secret
from ..settings import Settings

if TYPE_CHECKING:
    from ..bot import Bot


@final
@attrs.frozen
class Stage:
    """What is running.

    Attributes:
        platform: the emulator.
        address: where the bot listens, without the secret.
    """

    platform: Emulator
    address: str


@asynccontextmanager
async def open_stage(bot: Bot, *, store: str, port: int = 0) -> AsyncGenerator[Stage]:
    """Run a platform and a bot on it while the block runs. No setting of the environment is read.

    Args:
        store: the bot's.
        port: the platform's; 0 takes a free one.
    """
    token, secret = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    # Each needs the other's address at its start, so the bot's port is opened before either.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with trio.open_nursery() as platforms:
            platform: Emulator = await platforms.start(
                partial(
                    serve_emulator,
                    port=port,
                    bot_url=f"{address}/{secret}",
                    token=token,
                    control_token=secrets.token_urlsafe(24),
                )
            )
            settings = Settings(
                token=Secret(token),
                base_url=platform.base_url,
                webhook_secret=Secret(secret),
                store=store,
                development=True,
                fd=listening.detach(),
            )
            async with trio.open_nursery() as bots:
                await bots.start(partial(bot.serve, settings=settings))
                yield Stage(platform, address)
                bot.stop()
            platforms.cancel_scope.cancel()
