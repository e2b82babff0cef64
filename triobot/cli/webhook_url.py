"""``triobot webhook-url``: print the address to register with the platform, including the secret."""

from __future__ import annotations

import argparse
import sys
from typing import Final

import attrs
import trio

from ..base.clock import SystemClock
from ..base.secrets import Secret
from ..errors import ConfigError, StoreLockedError
from ..operator.loopback import file_of, is_on_server
from ..runtime.settings import Settings
from ..store import admission_at, is_made, open_store
from ..webhook.kept_secrets import FORMER_SECRET, SECRET, renew_webhook_secret, webhook_secrets
from ..webhook.secrets import Secrets, read_kept, webhook_address
from .arguments import number
from .consulting import settings_of, stamp_of

DETAILS: Final = """\
Whoever has this address can forge events of every chat: paste it into the developer portal, and nowhere else.
The secret in it is the first one of TRIOBOT_WEBHOOK_SECRET (or TRIOBOT_WEBHOOK_SECRET_FILE); without those it
is the one that the bot's store keeps; a file can be read only while the bot doesn't run.

--renew makes a new secret, keeps it in the store, and prints the new address: register it with the platform.
The bot accepts the former address for a day more, so that no event is lost meanwhile. --overlap 0 ends it at
once: use it when strangers have the address.

examples:
  triobot webhook-url pizza:bot --public-url https://bot.example.com
  TRIOBOT_PUBLIC_URL=https://example.com/bot triobot webhook-url pizza.py:bot
  triobot webhook-url pizza:bot --renew --overlap 2
  triobot webhook-url --public-url https://bot.example.com      (settings from TRIOBOT_* alone)
"""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bot", metavar="MODULE:BOT", nargs="?", help="the bot whose settings and store count")
    parser.add_argument(
        "--public-url",
        metavar="URL",
        help="where the platform reaches the webhook, mount prefix included (default TRIOBOT_PUBLIC_URL)",
    )
    parser.add_argument("--store", metavar="URL", help="the bot's store, if `triobot run` is given one")
    parser.add_argument("--renew", action="store_true", help="make a new secret, and print the new address")
    parser.add_argument(
        "--overlap",
        metavar="HOURS",
        type=number("a number of hours from 0 to 8760", 0, 8760),
        help="how long the former address is accepted after --renew (default 24)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print only the full address on standard output."""
    settings = settings_of(arguments)
    base: str | None = arguments.public_url or settings.public_url
    if base is None:
        raise ConfigError(
            "no public address: give --public-url or set TRIOBOT_PUBLIC_URL to where the platform reaches the"
            " bot"
        )
    if settings.webhook_secret is None and settings.store == "memory:":
        raise ConfigError(
            "the store is memory: and keeps no secret between runs; set TRIOBOT_WEBHOOK_SECRET for the bot"
            " and for this command"
        )
    if arguments.overlap is not None and not arguments.renew:
        raise ConfigError("--overlap says how long the old address is heard after --renew; give that, too")
    if arguments.renew and settings.webhook_secret is not None:
        raise ConfigError(
            "the secret is set by TRIOBOT_WEBHOOK_SECRET, not kept by the store: put a new one in front of"
            " it, with a comma, register the new address, and take the old one out"
        )
    file = file_of(settings.store)
    new = file is not None and not file.exists()
    overlap = None if not arguments.renew else 24.0 if arguments.overlap is None else arguments.overlap
    try:
        if overlap is not None:
            trio.run(_renew, settings, overlap)
        secrets, _ = trio.run(current_secret, settings)
    except StoreLockedError as error:
        raise StoreLockedError(
            f"{error}. The secret is kept in there: stop the bot for a moment, or set TRIOBOT_WEBHOOK_SECRET"
            " for the bot and for this command"
        ) from error
    if new and settings.webhook_secret is None:
        # If the command runs in a wrong folder, the new store is not the bot's store, and its secret is not
        # the bot's.
        print(f"triobot: made a new store, {settings.store}, with a new secret", file=sys.stderr)
    print(webhook_address(base, secrets))


async def _renew(settings: Settings, overlap: float) -> None:
    clock = SystemClock()
    async with open_store(settings.store, stamp=stamp_of(settings), clock=clock, visit=True) as store:
        await renew_webhook_secret(store, clock.now() + round(overlap * 3_600_000))


async def current_secret(settings: Settings) -> tuple[Secrets, Settings]:
    """Return the secrets that a bot with these settings accepts, and the settings with which to start this
    bot.

    If the settings have no secret, a missing store is created, since the bot will use this store. For a store
    in memory, the returned settings contain the secret, since such a store would lose the secret before the
    bot's start.

    Raises:
        StoreLockedError: another process has the store's file, which contains the secret.
    """
    if settings.webhook_secret is not None:
        return Secrets.parse(settings.webhook_secret.reveal()), settings
    clock = SystemClock()
    if is_on_server(settings.store) and await is_made(settings.store):
        # Another process may have the store; the store's settings can still be read.
        kept = await admission_at(settings.store).settings(stamp_of(settings))
        if SECRET in kept:
            return read_kept(kept[SECRET], kept.get(FORMER_SECRET, ""), clock.now())[0], settings
    async with open_store(settings.store, stamp=stamp_of(settings), clock=clock, visit=True) as store:
        secrets, _ = await webhook_secrets(settings.webhook_secret, store, clock.now())
    if settings.store != "memory:":
        return secrets, settings
    return secrets, attrs.evolve(settings, webhook_secret=Secret(secrets.current))
