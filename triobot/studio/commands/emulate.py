"""``triobot emulate``: the emulated platform alone, on this machine, for a bot in any language."""

from __future__ import annotations

import argparse
import os
import socket
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import trio

from ...cli.arguments import port
from ...cli.terminal import harmless, set_up_logging, until_signal
from ...emulator.exchange import ShiftedClock
from ...emulator.faults import Switches
from ...emulator.server import Emulator, serve_emulator
from ...errors import ConfigError
from ..keeping import SavedPlatform
from .listening import add_listening, announced, check_listening, ignored_variables

DETAILS: Final = """\
A bot in any language talks to it as to the platform, with the printed token. You make people act in a
browser, on the page that is printed last, or through the control API, whose address and token are printed,
too. When it ends everything is gone, unless --store names a file: then people, chats, money and files are
there again the next time, with the same tokens.

Only this machine can reach it, unless you add --expose. TRIOBOT_* variables are not read.

examples:
  triobot emulate --bot-url http://127.0.0.1:8080/THE-SECRET
  triobot emulate --store shop.platform --open --bot-url http://127.0.0.1:3000/hook
  triobot emulate --port 0 --json --lower-case-callbacks --bot-url http://127.0.0.1:3000/hook
"""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port", metavar="N", type=port, default=8081, help="0 for a free one (default 8081)"
    )
    parser.add_argument(
        "--bot-url", metavar="URL", help="post events to this address; it includes the secret"
    )
    parser.add_argument(
        "--token", metavar="TOKEN", help="the token that the bot must send (default: a new one)"
    )
    parser.add_argument(
        "--store",
        metavar="FILE",
        type=_file,
        help="keep the platform between runs, in this file and beside it",
    )
    parser.add_argument("--json", action="store_true", help="post events as JSON, not as forms")
    parser.add_argument(
        "--lower-case-callbacks",
        action="store_true",
        help="call payment events paycallback and invoicecallback, as some clients expect",
    )
    parser.add_argument(
        "--expose",
        action="store_true",
        help="listen on all addresses of this machine: for a bot on another one, in a network that you trust",
    )
    add_listening(parser)


def _file(text: str) -> Path:
    if text.startswith(("sqlite:", "memory:")):
        raise argparse.ArgumentTypeError("must be a file for the platform alone, such as shop.platform")
    return Path(text).resolve()


def run(arguments: argparse.Namespace) -> None:
    """Run the emulator until Ctrl-C."""
    check_listening(arguments)
    set_up_logging(debug=arguments.debug)
    trio.run(until_signal, partial(_emulate, arguments))


async def _emulate(arguments: argparse.Namespace) -> None:
    if arguments.bot_url is not None:
        _check_address(arguments.bot_url)
    with closing(SavedPlatform(arguments.store)) as saved:
        serve = partial(
            serve_emulator,
            port=arguments.port,
            host="0.0.0.0" if arguments.expose else "127.0.0.1",  # all addresses only with --expose
            expose=arguments.expose,
            names=_own_names() if arguments.expose else (),
            bot_url=arguments.bot_url,
            token=saved.secret("token", arguments.token),
            control_token=saved.secret("control"),
            switches=Switches(
                json_events=arguments.json,
                lower_case_callbacks=arguments.lower_case_callbacks,
                strict=arguments.strict,
            ),
            clock=ShiftedClock(ahead=saved.ahead),
            folder=saved.folder,
        )
        async with trio.open_nursery() as nursery:
            platform: Emulator = await nursery.start(serve)
            saved.load(platform.exchange)
            nursery.start_soon(saved.keep)
            _greet(arguments, platform)
            await nursery.start(announced, arguments, platform)


def _greet(arguments: argparse.Namespace, platform: Emulator) -> None:
    store: Path | None = arguments.store
    if arguments.expose:
        print("EXPOSED: every machine that reaches this one can use the emulator with these tokens.")
    print(f"base_url       {platform.base_url}")
    print(f"token          {harmless(platform.token)}")
    print(f"control        {platform.control_url}")
    print(f"control token  {platform.control_token}")
    print(f"page           {platform.page_address}")
    kept = "kept nowhere: all of it is gone at the end" if store is None else harmless(str(store))
    print(f"store          {kept}")
    if found := ignored_variables(os.environ):
        print(f"not read       {', '.join(map(harmless, found))}: settings are for bots in production")
    if arguments.bot_url is None:
        print("no --bot-url: events are posted nowhere")
    print("Ctrl-C ends it.", flush=True)


def _check_address(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        # The URL isn't repeated: it contains a secret.
        raise ConfigError("--bot-url must look like http://127.0.0.1:8080/THE-SECRET")


def _own_names() -> list[str]:
    """Return the names by which other machines may reach this machine; other `Host` values are refused."""
    name = socket.gethostname()
    try:
        addresses = [str(found[4][0]) for found in socket.getaddrinfo(name, None, socket.AF_INET)]
    except OSError:
        addresses = []
    return sorted({name, socket.getfqdn(), *addresses})
