"""``triobot dev``: the platform, the bot on it, and a page in the browser where one is its users.

The platform of a bot whose store is kept outlives the run as well: its people, chats, money and files. Were
the next run's platform a new one, it would refuse all the chats that the bot knows, and give their numbers to
others.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast, final

import trio

from ..emulator.exchange import Exchange, ShiftedClock
from ..emulator.pusher import PushSettings
from ..emulator.remembering import UnreadableWorldError, dump_world, load_world
from ..emulator.server import Emulator, serve_emulator
from ..errors import ConfigError
from ..operator.calling import file_of
from .arguments import port
from .loading import parse_target
from .supervisor import BotSupervisor, keep_asking, read_journal
from .terminal import harmless, set_up_logging

log: Final = logging.getLogger("triobot")

DETAILS: Final = """\
Open the printed address in a browser: you are everybody who talks to your bot, and you have their wallets,
every request in both directions, and the switches that make things go wrong.

The bot runs in a process of its own and is started anew when a Python file beside it is saved. Its store is
thrown away at the end together with the platform, unless --store names one: then both are kept. No setting
for production is used: not the TRIOBOT_* variables, and no token, platform or store that the bot's file
names.

Whoever has the printed address can play your users; only this machine can reach it.

examples:
  triobot dev pizza.py:bot
  triobot dev examples/shop.py:bot --port 9000 --store sqlite:dev.db
"""

_WALLET: Final = 10_000_000
_COINS: Final = 100
# A store that outlives the run belongs to one platform and one token, so these must be the same next time.
_LASTING_TOKEN: Final = "the-development-platform-of-triobot"
# While the bot is down events wait; when it is up but answers 5xx, it gets many a chance to mend.
_ATTEMPTS: Final = 100
# What is lost by a kill -9 of the platform itself; a chat of thousands of messages takes a while to write.
_EVERY: Final = 2.0
_SHARE: Final = 20
_BEFORE: Final = "before_its_store"


def declare(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument("bot", metavar="MODULE:BOT", help="the bot, such as pizza:bot or path/pizza.py:bot")
    parser.add_argument(
        "--port",
        metavar="N",
        type=port,
        default=8081,
        help="the page's port, 0 for a free one (default 8081)",
    )
    parser.add_argument(
        "--store",
        metavar="URL",
        help="sqlite:PATH to keep the bot's store, and the platform with it, between runs",
    )
    parser.add_argument("--no-reload", action="store_true", help="don't restart the bot when files change")


def run(arguments: argparse.Namespace) -> None:
    """Run the platform, the page and the bot until Ctrl-C, or until the terminal's window is closed."""
    parse_target(arguments.bot)
    set_up_logging(debug=arguments.debug, level=logging.WARNING)
    trio.run(_dev, arguments)


async def _dev(arguments: argparse.Namespace) -> None:
    token, secret = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    platform_port = 0
    if arguments.store is not None:
        token, platform_port = _LASTING_TOKEN, arguments.port + 1 if arguments.port else 0
    with (
        trio.open_signal_receiver(*_endings()) as signals,
        socket.create_server(("127.0.0.1", 0)) as listening,
        TemporaryDirectory(prefix="triobot-dev-") as folder,
        # However it ends, and when nothing can happen on the platform any more.
        closing(SavedPlatform(arguments.store)) as saved,
    ):
        store: str = arguments.store or f"sqlite:{folder}/dev.db"
        ahead = read_skipped(store)
        supervisor = BotSupervisor(
            arguments.bot,
            listening.fileno(),
            partial(print, file=sys.stderr, flush=True),
            partial(read_journal, store),
            ahead=ahead,
            keep_ahead=partial(keep_skipped, store),
        )
        async with trio.open_nursery() as platforms:
            platform: Emulator = await platforms.start(
                partial(
                    serve_emulator,
                    port=platform_port,
                    page_port=arguments.port,
                    bot_url=f"http://127.0.0.1:{listening.getsockname()[1]}/{secret}",
                    token=token,
                    control_token=secrets.token_urlsafe(24),
                    clock=ShiftedClock(ahead=ahead),
                    push=PushSettings(attempts=_ATTEMPTS),
                    wait_bot=supervisor.wait_up,
                    folder=saved.folder,
                )
            )
            platform.exchange.bot = supervisor
            saved.load(platform.exchange)
            _populate(platform)
            platforms.start_soon(saved.keep)
            environ = child_environment(
                os.environ, token=token, base_url=platform.base_url, secret=secret, store=store
            )
            _greet(arguments, platform, store)
            async with trio.open_nursery() as bots:
                bots.start_soon(supervisor.run, environ, platform.exchange.tell)
                bots.start_soon(keep_asking, supervisor, store, platform.exchange)
                if not arguments.no_reload:
                    bots.start_soon(_reload, arguments.bot, supervisor)
                async for _ in signals:
                    break
                platforms.start_soon(_kill_on_next, signals, supervisor)
                bots.cancel_scope.cancel()
            platforms.cancel_scope.cancel()


def _endings() -> list[signal.Signals]:
    """List the signals that end it in order: Ctrl-C, a polite kill, the closing of the terminal's window."""
    endings = [signal.SIGINT, signal.SIGTERM]
    # Who said nohup wants it to outlive the window.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        endings.append(signal.SIGHUP)
    return endings


def child_environment(
    environ: Mapping[str, str], *, token: str, base_url: str, secret: str, store: str
) -> dict[str, str]:
    """Return the variables of the bot's process: of this one's settings none, but those given here."""
    kept = {name: value for name, value in environ.items() if not name.startswith(("TRIOBOT_", "LISTEN_"))}
    return {
        **kept,
        "PYTHONUNBUFFERED": "1",
        "TRIOBOT_TOKEN": token,
        "TRIOBOT_BASE_URL": base_url,
        "TRIOBOT_WEBHOOK_SECRET": secret,
        "TRIOBOT_STORE": store,
    }


def _populate(platform: Emulator) -> None:
    """Add two people to begin with, unless there are some from an earlier run; the page makes more."""
    if list(platform.world.people):
        return
    for name in ("Sara", "علی"):
        platform.world.add_user(name, irr=_WALLET, coin=_COINS)


def _greet(arguments: argparse.Namespace, platform: Emulator, store: str) -> None:
    print(f"\n  {harmless(arguments.bot)} is on a platform of its own. Be its users at\n")
    print(f"    {platform.page_address}\n")
    print("  Where a conversation stands, or why it crashed:\n")
    print(f"    triobot replay CHAT {harmless(arguments.bot)} --locals --store {harmless(store)}\n")
    print("  Ctrl-C ends it.\n", flush=True)


async def _reload(target: str, supervisor: BotSupervisor) -> None:
    if not can_reload():
        print("triobot: files are not watched: pip install 'triobot[dev]'", file=sys.stderr)
        return

    def changed(names: str) -> None:
        print(f"triobot: {harmless(names)} changed", file=sys.stderr, flush=True)
        supervisor.restart()

    await watch(folder_of(target), changed)


async def _kill_on_next(signals: AsyncIterator[int], supervisor: BotSupervisor) -> None:
    """Kill the bot at the second Ctrl-C, rather than wait until it comes to rest."""
    async for _ in signals:
        supervisor.kill()


def can_reload() -> bool:
    """Tell whether files can be watched here."""
    return importlib.util.find_spec("watchfiles") is not None


def folder_of(target: str) -> Path:
    """Return the folder of a bot's files: that of its own file, or the working directory for a module."""
    place, _, is_file = parse_target(target)
    return Path(place).resolve().parent if is_file else Path.cwd()


async def watch(folder: Path, changed: Callable[[str], None]) -> None:
    """Call `changed` with the names of Python files that were saved, once for those saved together."""
    from watchfiles import PythonFilter, awatch

    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_set_at_end, stop)
        async for found in awatch(folder, watch_filter=PythonFilter(), stop_event=stop):
            changed(", ".join(sorted({Path(path).name for _, path in found})))


async def _set_at_end(stop: trio.Event) -> None:
    # The watching thread looks at this event every few milliseconds, and not at a cancellation.
    try:
        await trio.sleep_forever()
    finally:
        stop.set()


def path_beside(store: str, suffix: str) -> Path | None:
    """Return the file of this kind beside the store at this address; None for a store that is no file."""
    path = file_of(store)
    return None if path is None else path.resolve().with_name(f"{path.name}.{suffix}")


def read_skipped(store: str) -> int:
    """Read how many milliseconds were skipped in the runs before; 0 for a store that is made only now.

    Raises:
        ConfigError: the file holds something else.
    """
    path = path_beside(store, "ahead")
    if path is None or not path.exists() or not path.with_suffix("").exists():
        return 0
    text = path.read_text(errors="replace").strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise ConfigError(f"{path} should hold the milliseconds that were skipped; delete it, or mend it")
    return int(text)


def keep_skipped(store: str, milliseconds: int) -> None:
    """Remember how many milliseconds were skipped."""
    if (path := path_beside(store, "ahead")) is not None:
        path.write_text(f"{milliseconds}\n")


@final
class SavedPlatform:
    """Keeps a platform between runs; keeps nothing beside a store that is in memory, or is thrown away.

    Args:
        store: the address of a store that outlives the run; None where none does.

    Attributes:
        folder: where its files are; None where nothing is kept.
    """

    def __init__(self, store: str | None) -> None:
        self._path = path_beside(store, "platform") if store is not None else None
        self.folder: Path | None = None
        self._exchange: Exchange | None = None
        if self._path is not None:
            self.folder = self._path.with_suffix(".files")
            if not self._store_is_there() and not self._is_before_its_store():
                # The store was thrown away, and with it all that the bot knew of these people.
                self._path.unlink(missing_ok=True)
                shutil.rmtree(self.folder, ignore_errors=True)

    def load(self, exchange: Exchange) -> None:
        """Put back the platform of the run before; from now on it is this one that is kept.

        Raises:
            ConfigError: its file is damaged.
        """
        if self._path is not None and self._path.exists():
            try:
                pending = load_world(exchange.world, _read(self._path)["world"])
            except (UnreadableWorldError, ValueError, KeyError) as error:
                raise ConfigError(
                    f"{self._path} should hold the platform of the run before, and can't be read; "
                    "delete it together with the store, or mend it"
                ) from error
            exchange.pusher.push(*pending)
        self._exchange = exchange

    async def keep(self) -> None:
        """Write down what happens, for ever; a moment behind it."""
        if self._path is None or self._exchange is None:
            return
        heard, written = 0, None
        while True:
            heard = await self._exchange.wait_news(heard)
            began = trio.current_time()
            kept = self._dump(self._exchange, closed=False)
            # Most news is of requests, and of the bot's process.
            if kept != written:
                await trio.to_thread.run_sync(self._write, kept)
                written = kept
            await trio.sleep(max(_EVERY, _SHARE * (trio.current_time() - began)))

    def close(self) -> None:
        """Write down how it ended; nothing where none was loaded, so that what is damaged can be mended."""
        if self._path is not None and self._exchange is not None:
            self._write(self._dump(self._exchange, closed=True))

    def _dump(self, exchange: Exchange, *, closed: bool) -> Mapping[str, object]:
        kept = dump_world(exchange.world, exchange.pusher.pending, closed=closed)
        return {_BEFORE: not self._store_is_there(), "world": kept}

    def _store_is_there(self) -> bool:
        return cast("Path", self._path).with_suffix("").exists()

    def _is_before_its_store(self) -> bool:
        """Tell whether no bot had made the store when this was written: it failed, or the run was short."""
        try:
            return _read(cast("Path", self._path)).get(_BEFORE) is True
        except (OSError, ValueError):
            return False

    def _write(self, kept: Mapping[str, object]) -> None:
        path = cast("Path", self._path)
        fresh = path.with_name(f"{path.name}.new")
        # As private as the store: what was said in the chats is in it.
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(kept, file)
        fresh.replace(path)


def _read(path: Path) -> dict[str, Any]:
    kept: object = json.loads(path.read_bytes())
    if not isinstance(kept, dict):
        raise ValueError("a JSON object is kept there")  # noqa: TRY004
    return cast("dict[str, Any]", kept)
