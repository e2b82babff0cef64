"""``triobot webhook-url``: the address to register with the platform, secret and all."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from ..errors import ConfigError, StoreLockedError
from .arguments import Commands, add_command
from .loading import load_bot

if TYPE_CHECKING:
    from ..settings import Settings
    from ..webhook.secrets import Secrets

_DETAILS: Final = """\
Whoever has this address can forge events of every chat: paste it into the developer portal, and nowhere else.
The secret in it is the first one of TRIOBOT_WEBHOOK_SECRET (or TRIOBOT_WEBHOOK_SECRET_FILE); without those it
is the one that the bot's store keeps, which can be read only while the bot doesn't run.

examples:
  triobot webhook-url pizza:bot --public-url https://bot.example.com
  TRIOBOT_PUBLIC_URL=https://example.com/bot triobot webhook-url pizza.py:bot
  triobot webhook-url --public-url https://bot.example.com      (settings from TRIOBOT_* alone)
"""


def declare(commands: Commands) -> None:
    """Add the command to the grammar."""
    parser = add_command(
        commands,
        "webhook-url",
        print_address,
        summary="print the address to register with the platform",
        details=_DETAILS,
    )
    parser.add_argument("bot", metavar="MODULE:BOT", nargs="?", help="the bot whose settings and store count")
    parser.add_argument(
        "--public-url",
        metavar="URL",
        help="where the platform reaches the webhook, mount prefix included (default TRIOBOT_PUBLIC_URL)",
    )
    parser.add_argument("--store", metavar="URL", help="the bot's store, if `triobot run` is given one")


def print_address(arguments: argparse.Namespace) -> None:
    """Print the full address on the standard output, and nothing else."""
    import trio

    from ..settings import read_environment

    settings = load_bot(arguments.bot).settings() if arguments.bot else read_environment(os.environ)
    if arguments.store is not None:
        settings = attrs.evolve(settings, store=arguments.store)
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
    new = not _exists(settings.store)
    try:
        secrets, _ = trio.run(current_secret, settings)
    except StoreLockedError as error:
        raise StoreLockedError(
            f"{error}. The secret is kept in there: stop the bot for a moment, or set TRIOBOT_WEBHOOK_SECRET"
            " for the bot and for this command"
        ) from error
    if new and settings.webhook_secret is None:
        # In the wrong folder this is not the bot's store, and the secret not the bot's secret.
        print(f"triobot: made a new store, {settings.store}, with a new secret", file=sys.stderr)
    print(full_address(base, secrets))


async def current_secret(settings: Settings) -> tuple[Secrets, Settings]:
    """The secrets that a run with these settings accepts, and settings that name them.

    A store that isn't there yet is made, since the bot will use it.

    Raises:
        StoreLockedError: another process has the store, and only that knows the secret.
    """
    from ..clock import SystemClock
    from ..runtime import webhook_secrets
    from ..secrets import Secret
    from ..store import Stamp, open_store
    from ..webhook.secrets import Secrets

    if settings.webhook_secret is not None:
        return Secrets.parse(settings.webhook_secret.reveal()), settings
    stamp = Stamp(settings.base_url, settings.checked_token.reveal())
    async with open_store(settings.store, stamp=stamp, clock=SystemClock(), visit=True) as store:
        secrets = await webhook_secrets(settings, store)
    return secrets, attrs.evolve(settings, webhook_secret=Secret(secrets.current))


def _exists(store: str) -> bool:
    engine, _, place = store.partition(":")
    return engine != "sqlite" or Path(place).exists()


def full_address(base: str, secrets: Secrets) -> str:
    """Where the webhook is seen from outside, with the current secret.

    Raises:
        ConfigError: `base` is no address that the platform could reach.
    """
    from ..webhook.secrets import webhook_address

    return webhook_address(base, secrets)
