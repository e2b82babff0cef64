"""``triobot dev``: the platform, the bot, and a page in the browser for playing all users.

With ``--store``, both the bot's store and the platform (people, chats, money and files) are kept for the
command's next start. A new platform would refuse all chats in the bot's store, and reuse these chats' numbers
for other chats.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

import trio

from ...base.extras import install_line
from ...base.signals import ending_signals
from ...cli.arguments import port
from ...cli.consulting import ask_bot
from ...cli.loading import check_there, parse_target
from ...cli.terminal import harmless, set_up_logging
from ...emulator.exchange import Beside, ShiftedClock
from ...emulator.faults import Switches
from ...emulator.pusher import PushSettings
from ...emulator.server import Emulator, serve_emulator
from ...errors import ConfigError
from ...operator.loopback import file_of
from ...runtime.settings import read_environment
from ..keeping import SavedPlatform
from ..stored_journals import StoredJournals
from ..supervisor import BotSupervisor, keep_asking
from ..travel.crowds import CrowdProcess
from ..travel.routes import bot_blueprint, past_blueprint
from ..travel.twins import Twins
from .dev_reload import HeldReload
from .listening import add_listening, announced, check_listening, ignored_variables

log: Final = logging.getLogger("triobot")

DETAILS: Final = """\
Open the printed address in a browser. There you are everybody who talks to your bot. You have their wallets,
see every request in both directions, and make things go wrong.

The bot runs in a process of its own, and starts anew when you save a Python file beside it. At the end its
store and the platform are thrown away, unless --store names a store: then both are kept. No setting for
production is used: neither the TRIOBOT_* variables, nor a token, platform or store that the bot's file names.

Whoever has the printed address can play your users. Only this machine can reach it.

examples:
  triobot dev pizza.py:bot
  triobot dev examples/shop.py:bot --port 9000 --store sqlite:dev.db
"""

_WALLET: Final = 10_000_000
_COINS: Final = 100
# A kept store belongs to one platform address and one token: both must be the same at the next start.
_LASTING_TOKEN: Final = "the-development-platform-of-triobot"
# Maximum number of attempts for an event while the bot answers 5xx: the author gets time for a fix. While the
# bot is down, events wait without attempts.
_ATTEMPTS: Final = 100


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bot", metavar="MODULE:BOT", help="the bot, such as pizza:bot or path/pizza.py:bot")
    parser.add_argument(
        "--port",
        metavar="N",
        type=port,
        default=8081,
        help="the page's port, 0 for a free one (default 8081)",
    )
    parser.add_argument(
        "--store", metavar="URL", help="keep the bot's store and the platform between runs, in sqlite:PATH"
    )
    parser.add_argument("--no-reload", action="store_true", help="don't restart the bot when files change")
    add_listening(parser)


def run(arguments: argparse.Namespace) -> None:
    """Run the platform, the page and the bot until Ctrl-C, or until the terminal window is closed."""
    check_there(arguments.bot)
    check_listening(arguments)
    kept: str | None = arguments.store
    if kept is not None and file_of(kept) is None:
        raise ConfigError("--store takes sqlite:PATH, such as sqlite:dev.db")
    set_up_logging(debug=arguments.debug, level=logging.WARNING)
    trio.run(_dev, arguments)


async def _dev(arguments: argparse.Namespace) -> None:
    token, secret = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    platform_port = 0
    if arguments.store is not None:
        token, platform_port = _LASTING_TOKEN, arguments.port + 1 if arguments.port else 0
    with (
        trio.open_signal_receiver(*ending_signals()) as signals,
        socket.create_server(("127.0.0.1", 0)) as listening,
        TemporaryDirectory(prefix="triobot-dev-") as folder,
        # `saved` is closed after the platform's last change, even if the command ends with an error.
        closing(SavedPlatform.beside(arguments.store)) as saved,
    ):
        store: str = arguments.store or f"sqlite:{folder}/dev.db"
        bot_port = listening.getsockname()[1]
        opening = trio.Semaphore(1)
        supervisor = BotSupervisor(
            arguments.bot,
            listening,
            partial(print, file=sys.stderr, flush=True),
            opening=opening,
            ahead=saved.ahead,
            marks=saved.marks,
        )
        async with trio.open_nursery() as platforms:
            platform: Emulator = await platforms.start(
                partial(
                    serve_emulator,
                    port=platform_port,
                    page_port=arguments.port,
                    bot_url=f"http://127.0.0.1:{bot_port}/{secret}",
                    token=token,
                    control_token=saved.secret("control"),
                    clock=ShiftedClock(ahead=saved.ahead),
                    switches=Switches(strict=arguments.strict),
                    push=PushSettings(attempts=_ATTEMPTS),
                    wait_bot=supervisor.wait_taking,
                    folder=saved.folder,
                )
            )
            saved.load(platform.exchange)
            _populate(platform)
            platforms.start_soon(saved.keep)
            environ = child_environment(
                os.environ, token=token, base_url=platform.base_url, secret=secret, store=store
            )
            # A store accepts writes only from its own bot; the token in these settings identifies the bot.
            settings = read_environment(environ)
            journals = StoredJournals(partial(ask_bot, settings), supervisor.marks, settings, opening)
            twins = Twins([*_module("twin"), "dev"], environ, arguments.bot, journals, platform.exchange.tell)
            crowd = CrowdProcess(
                _module("dev_crowd"), environ, arguments.bot, platform.exchange.tell, twins.pool.nursery
            )
            reload = HeldReload(twins, supervisor, journals, platform.exchange)
            platform.exchange.beside = Beside(
                process=supervisor.view,
                view=lambda: {
                    **supervisor.reported,
                    "crowd": crowd.crowd(),
                    "travel": list(twins.view()),
                    "held": list(reload.view()),
                },
                lines=supervisor.lines,
                pass_time=supervisor.pass_time,
                blueprints=(
                    past_blueprint(platform.exchange, twins, reload),
                    bot_blueprint(supervisor, crowd, twins),
                ),
            )
            _greet(arguments, platform, store)
            await platforms.start(announced, arguments, platform)
            async with trio.open_nursery() as bots:
                bots.start_soon(supervisor.run, environ, platform.exchange.tell)
                bots.start_soon(keep_asking, supervisor, store, platform.exchange)
                bots.start_soon(twins.pool.run, supervisor.wait_up)
                if not arguments.no_reload:
                    bots.start_soon(_reload, arguments.bot, reload)
                async for _ in signals:
                    break
                platforms.start_soon(_kill_on_next, signals, supervisor)
                bots.cancel_scope.cancel()
            platforms.cancel_scope.cancel()


def _module(name: str) -> list[str]:
    """Return the command line that runs a module of this package in a process."""
    return [sys.executable, "-m", f"{__package__}.{name}"]


def child_environment(
    environ: Mapping[str, str], *, token: str, base_url: str, secret: str, store: str
) -> dict[str, str]:
    """Return `environ` for the bot's process, with other triobot settings and without inherited sockets."""
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
    """Add two people to a platform without people. Users can add more people on the page."""
    if list(platform.world.people):
        return
    for name in ("Sara", "علی"):
        platform.world.add_user(name, irr=_WALLET, coin=_COINS)


def _greet(arguments: argparse.Namespace, platform: Emulator, store: str) -> None:
    print(f"\n  {harmless(arguments.bot)} is on a platform of its own. Be its users at\n")
    print(f"    {platform.page_address}\n")
    print("  Where a conversation stands, or why it crashed:\n")
    print(f"    triobot replay CHAT {harmless(arguments.bot)} --locals --store {harmless(store)}\n")
    print(f"  {_whereabouts(arguments.store, store)}\n")
    if found := ignored_variables(os.environ):
        print(f"  For production, and not used here: {', '.join(map(harmless, found))}\n")
    print("  Ctrl-C ends it.\n", flush=True)


def _whereabouts(given: str | None, store: str) -> str:
    path = cast("Path", file_of(store))  # `run` has checked --store
    if given is None:
        return f"The store is in {path.parent}, which is deleted at the end: --store sqlite:dev.db keeps one."
    kept = harmless(str(path.resolve()))
    return f"The store {kept} is kept, and the platform beside it in {kept}.platform and {kept}.files."


async def _reload(target: str, reload: HeldReload) -> None:
    if not can_reload():
        print(f"triobot: files are not watched: {install_line('dev')}", file=sys.stderr)
        return

    def changed(names: str) -> None:
        print(f"triobot: {harmless(names)} changed", file=sys.stderr, flush=True)
        reload.saved()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reload.run)
        await watch(folder_of(target), changed, own=_file_of_bot(target))


async def _kill_on_next(signals: AsyncIterator[int], supervisor: BotSupervisor) -> None:
    """Kill the bot at the second Ctrl-C, without waiting for its graceful stop."""
    async for _ in signals:
        supervisor.kill()


def can_reload() -> bool:
    """Whether the package that watches files is installed."""
    return importlib.util.find_spec("watchfiles") is not None


def _file_of_bot(target: str) -> Path | None:
    place, _, is_file = parse_target(target)
    return Path(place).resolve() if is_file else None


def folder_of(target: str) -> Path:
    """Return the folder of the bot's file, or the working directory if `target` names a module."""
    place, _, is_file = parse_target(target)
    return Path(place).resolve().parent if is_file else Path.cwd()


async def watch(folder: Path, changed: Callable[[str], None], own: Path | None = None) -> None:
    """Call `changed` with the names of saved Python files; files saved together cause one call.

    Test files are ignored, except `own`, the bot's own file.
    """
    from watchfiles import PythonFilter, awatch

    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_set_at_end, stop)
        async for found in awatch(folder, watch_filter=PythonFilter(), stop_event=stop):
            paths = [Path(path) for _, path in found]
            if names := {one.name for one in paths if one == own or not _is_test(one.relative_to(folder))}:
                changed(", ".join(sorted(names)))


def _is_test(path: Path) -> bool:
    return path.parts[0] == "tests" or path.name.startswith("test_")


async def _set_at_end(stop: trio.Event) -> None:
    # The watching thread polls this event every few milliseconds; the thread doesn't notice a cancellation.
    try:
        await trio.sleep_forever()
    finally:
        stop.set()
