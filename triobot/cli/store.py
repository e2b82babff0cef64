"""``triobot store``: what an operator does to a store while the bot doesn't run."""

from __future__ import annotations

import argparse
from typing import Final

import attrs

from ..errors import ConfigError
from .arguments import Commands, add_command
from .loading import load_bot

_DETAILS: Final = """\
A store belongs to one bot on one platform, so that nobody opens another bot's conversations and payments by
accident. After the token was replaced, or the platform has moved, say that it is still the same bot:

  triobot store rebind pizza:bot
"""


def declare(commands: Commands) -> None:
    """Add the command to the grammar."""
    parser = add_command(commands, "store", rebind, summary="look after a bot's store", details=_DETAILS)
    parser.add_argument(
        "action", choices=["rebind"], help="rebind: bind the store to the present token and platform"
    )
    parser.add_argument("bot", metavar="MODULE:BOT", help="the bot whose settings count")
    parser.add_argument("--store", metavar="URL", help="the bot's store, if `triobot run` is given one")


def rebind(arguments: argparse.Namespace) -> None:
    """Bind the bot's store to its present token and platform."""
    import trio

    from ..clock import SystemClock
    from ..store import Stamp, rebind_sqlite

    settings = load_bot(arguments.bot).settings()
    if arguments.store is not None:
        settings = attrs.evolve(settings, store=arguments.store)
    engine, _, place = settings.store.partition(":")
    if engine != "sqlite" or not place:
        raise ConfigError("only a sqlite: store is bound to a platform and a token")
    if not trio.run(trio.Path(place).is_file):
        raise ConfigError(f"there is no store at {place}")
    stamp = Stamp(settings.base_url, settings.checked_token.reveal())

    async def bind() -> None:
        await rebind_sqlite(place, stamp=stamp, clock=SystemClock())

    trio.run(bind)
    print(f"{settings.store} now belongs to this token at {settings.base_url}")
