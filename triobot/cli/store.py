"""``triobot store``: back up, restore, check, copy and rebind a bot's store."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import trio

from ..base.clock import SystemClock
from ..errors import ConfigError, StoreError, StoreLockedError
from ..operator.calling import ask
from ..operator.loopback import is_on_server, socket_path
from ..runtime.settings import Settings
from ..store import rebind_store
from ..store.copying import copy_elsewhere
from ..store.restoring import back_up_file, examine_file, restore_file
from .arguments import add_actions, add_json
from .consulting import settings_of, stamp_of, store_file

DETAILS: Final = """\
backup copies the store into a new file, while the bot runs or not. Don't use cp: a copy of a live store
misses what is in its log.

restore makes a backup the store again, while the bot doesn't run, and keeps the store that it replaces
beside it. The bot then knows that it was restored: it asks what became of payments, and stops a broadcast
that was under way, since nobody knows who was told after the backup. check looks for damage, in the store of
a bot that doesn't run, or in a backup.

copy moves a store into a new one: from a file to PostgreSQL or back. Stop the bot first. Conversations go on
in the copy where they were; the old store is left as it was, and says where it went, so that no bot runs on
it any more. If the command is cut off, run it again: it begins again.

A store belongs to one bot on one platform, so that nobody opens another bot's conversations and payments by
accident. After you have replaced the token, or the platform has moved, rebind says that it is still the same
bot; after restore of a backup from before that, too.

examples:
  triobot store backup /var/backups/pizza-monday.db
  triobot store check /var/backups/pizza-monday.db
  triobot store restore /var/backups/pizza-monday.db
  triobot store rebind pizza:bot
  triobot store copy sqlite:pizza.db postgresql://pizza@10.0.0.20/pizza --bot pizza:bot
"""


def declare(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, {name: what for name, (what, _) in _ACTIONS.items()})
    actions["backup"].add_argument("what", metavar="FILE", help="the new file")
    actions["restore"].add_argument("what", metavar="FILE", help="the backup")
    actions["check"].add_argument(
        "what", metavar="FILE", nargs="?", help="a backup, or another file; else the bot's store"
    )
    actions["rebind"].add_argument(
        "what", metavar="MODULE:BOT", nargs="?", help="the bot whose settings count, as with --bot"
    )
    add_json(actions["check"])
    actions["copy"].add_argument("origin", metavar="FROM", help="the address of the store")
    actions["copy"].add_argument("target", metavar="TO", help="where it is to go, in the same form")


def run(arguments: argparse.Namespace) -> None:
    _, do = _ACTIONS[arguments.action]
    do(arguments)


def _backup(arguments: argparse.Namespace) -> None:
    target = Path(arguments.what).absolute()
    settings = settings_of(arguments)
    trio.run(_back_up, settings, target)
    print(f"backed up {settings.store} to {target}")


async def _back_up(settings: Settings, target: Path) -> None:
    file, place = store_file(settings), socket_path(settings.store)
    assert place is not None
    if await ask(place, {"ask": "backup", "path": str(target)}, _nothing):
        return
    try:
        # Copy the file without opening the store: a damaged store needs a backup most.
        await trio.to_thread.run_sync(back_up_file, file, target, SystemClock().now())
    except StoreLockedError as error:
        raise StoreLockedError(f"{error}; and that process doesn't answer at {place}") from error


async def _nothing(fields: object) -> None:
    await trio.lowlevel.checkpoint()


def _restore(arguments: argparse.Namespace) -> None:
    settings = settings_of(arguments)
    kept = restore_file(Path(arguments.what), store_file(settings), SystemClock().now())
    print(f"restored {settings.store} from {arguments.what}")
    if kept is not None:
        print(f"the store before it is kept as {kept}")


def _check(arguments: argparse.Namespace) -> None:
    file = store_file(settings_of(arguments)) if arguments.what is None else Path(arguments.what)
    try:
        problems = examine_file(file)
    except StoreLockedError as error:
        raise StoreLockedError(f"{error}; back it up, and check the backup") from error
    if arguments.json:
        print(json.dumps({"file": str(file), "problems": list(problems)}))
    else:
        for problem in problems:
            print(problem)
    if problems:
        raise StoreError(f"{file} is damaged; restore a backup, and keep this file for a closer look")
    if not arguments.json:
        print(f"{file} is whole")


def _rebind(arguments: argparse.Namespace) -> None:
    arguments.bot = arguments.what or arguments.bot
    if arguments.bot is None:
        raise ConfigError("whose? triobot store rebind MODULE:BOT")
    settings = settings_of(arguments)
    if not is_on_server(settings.store) and not (file := store_file(settings)).is_file():
        raise ConfigError(f"there is no store at {file}")
    trio.run(partial(rebind_store, settings.store, stamp=stamp_of(settings), clock=SystemClock()))
    print(f"{settings.store} now belongs to this token at {settings.base_url}")


def _copy(arguments: argparse.Namespace) -> None:
    if arguments.store is not None:
        raise ConfigError("copy takes both stores by their addresses, FROM and TO: leave --store out")
    settings = settings_of(arguments)
    rows = copy_elsewhere(
        arguments.origin,
        arguments.target,
        stamp=stamp_of(settings),
        clock=SystemClock(),
        tell=lambda text: print(text, file=sys.stderr, flush=True),
    )
    if rows is None:
        print(f"{arguments.origin} was copied to {arguments.target} before")
    else:
        print(f"copied {arguments.origin} to {arguments.target}: {rows:,} rows")
    print(f"no bot runs on {arguments.origin} any more: set TRIOBOT_STORE to {arguments.target}")


_ACTIONS: Final[dict[str, tuple[str, Callable[[argparse.Namespace], None]]]] = {
    "backup": ("copy the store into a new file, while the bot runs or not", _backup),
    "restore": ("replace the store with a backup, while the bot doesn't run", _restore),
    "check": ("check a store for damage, while the bot doesn't run", _check),
    "copy": ("move the store to PostgreSQL, or back to a file", _copy),
    "rebind": ("confirm that the store belongs to the same bot, after a new token", _rebind),
}
