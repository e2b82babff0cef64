"""``triobot broadcast``: what an operator sees of broadcasts, and the brake."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import attrs

from ..errors import ConfigError
from .arguments import Commands, add_command
from .loading import load_bot

if TYPE_CHECKING:
    from ..jobs import BroadcastStatus
    from ..settings import Settings
    from ..wire.rules import JsonValue

Ask: TypeAlias = "Callable[[Mapping[str, JsonValue]], Awaitable[Mapping[str, JsonValue]]]"
"""Carries a question of `triobot.outbox.desk` to whoever has the store, and brings the answer."""

_DETAILS: Final = """\
A broadcast is started by the bot's own code: await bot.broadcast(KEY).start(content, to).
The store is read here, so the bot must rest meanwhile; a running one says status() and takes stop() itself.
Who is `unknown` was on the way when the bot died, and is not told again; who is `gone` has left.

examples:
  triobot broadcast list pizza:bot
  triobot broadcast status pizza:bot version-2
  triobot broadcast stop pizza:bot version-2
"""

_LOOK_EVERY: Final = 0.5


def declare(commands: Commands) -> None:
    """Add the command to the grammar."""
    parser = add_command(
        commands, "broadcast", run, summary="look at broadcasts, or stop one", details=_DETAILS
    )
    parser.add_argument("action", choices=["list", "status", "stop"], help="what to do")
    parser.add_argument("bot", metavar="MODULE:BOT", help="the bot whose settings count")
    parser.add_argument("key", metavar="KEY", nargs="?", help="the broadcast, for status and stop")
    parser.add_argument("--store", metavar="URL", help="the bot's store, if `triobot run` is given one")


def run(arguments: argparse.Namespace) -> None:
    """Do what was asked."""
    import trio

    if (arguments.key is None) != (arguments.action == "list"):
        raise ConfigError("`status` and `stop` take the key of a broadcast, and `list` takes none")
    settings = load_bot(arguments.bot).settings()
    if arguments.store is not None:
        settings = attrs.evolve(settings, store=arguments.store)
    trio.run(_run, settings, arguments.action, arguments.key)


async def _run(settings: Settings, action: str, key: str | None) -> None:
    from ..clock import SystemClock
    from ..outbox.desk import StoredBroadcasts, answer
    from ..store import Stamp, open_store

    engine, _, place = settings.store.partition(":")
    if engine != "sqlite" or not place:
        raise ConfigError("only a sqlite: store outlives its bot")
    await _must_exist(place)
    stamp = Stamp(settings.base_url, settings.checked_token.reveal())
    async with open_store(settings.store, stamp=stamp, clock=SystemClock()) as store:
        desk = StoredBroadcasts(store)

        async def ask(question: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
            return await answer(desk, question)

        await converse(ask, action, key)


async def _must_exist(place: str) -> None:
    import trio

    if not await trio.Path(place).is_file():
        raise ConfigError(f"there is no store at {place}")


async def converse(ask: Ask, action: str, key: str | None, *, live: bool = False) -> None:
    """Ask, and print the answer; with `live`, watch a broadcast in a terminal until it is over.

    Raises:
        ConfigError: the question was refused.
    """
    import trio

    from .bar import progress_line

    at_terminal = sys.stdout.isatty()
    if action == "list":
        answered = _checked(await ask({"ask": "broadcast.list"}))
        for one in cast("list[dict[str, JsonValue]]", answered["broadcasts"]):
            print(progress_line(str(one["key"]), status_of(one), bar=at_terminal))
        return
    assert key is not None
    if action == "stop":
        stopped = _checked(await ask({"ask": "broadcast.stop", "key": key}))["stopped"]
        print("It tells nobody more." if stopped else "There was nothing to stop.")
        return
    while True:
        answered = _checked(await ask({"ask": "broadcast.status", "key": key}))
        status = status_of(cast("dict[str, JsonValue]", answered["broadcast"]))
        line = progress_line(key, status, bar=at_terminal)
        if not (live and at_terminal) or status.over or status.state == "none":
            print(f"\r\x1b[K{line}" if live and at_terminal else line)
            return
        print(f"\r\x1b[K{line}", end="", flush=True)
        await trio.sleep(_LOOK_EVERY)


def status_of(view: Mapping[str, JsonValue]) -> BroadcastStatus:
    """The status in an answer."""
    from ..jobs import BroadcastStatus

    fields = {field.name: view[field.name] for field in attrs.fields(BroadcastStatus) if field.name in view}
    return BroadcastStatus(**fields)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def _checked(answered: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    if "error" in answered:
        raise ConfigError(str(answered["error"]))
    return answered
