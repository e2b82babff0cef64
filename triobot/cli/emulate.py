"""``triobot emulate``: the platform itself, on this machine, for a bot in any language."""

from __future__ import annotations

import argparse
from typing import Final

from .arguments import Commands, add_command, port

_DETAILS: Final = """\
A bot in any language talks to it as to the platform, with the token that is printed. People come to life
through the control API, whose address and token are printed, too. Everything is gone when it ends.

Only this machine can reach it, unless --expose is given. TRIOBOT_* variables are not read.

examples:
  triobot emulate --bot-url http://127.0.0.1:8080/THE-SECRET
  triobot emulate --port 0 --json --lower-case-callbacks --bot-url http://127.0.0.1:3000/hook
"""


def declare(commands: Commands) -> None:
    """Add the command to the grammar."""
    parser = add_command(commands, "emulate", emulate, summary="be the platform", details=_DETAILS)
    parser.add_argument(
        "--port", metavar="N", type=port, default=8081, help="0 for a free one (default 8081)"
    )
    parser.add_argument("--bot-url", metavar="URL", help="where events are posted to, secret and all")
    parser.add_argument(
        "--token", metavar="TOKEN", help="the token that the bot must send (default: a new one)"
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
        help="listen on all of this machine's addresses: for a bot on another one, on a network that you trust",
    )


def emulate(arguments: argparse.Namespace) -> None:
    """Run the emulator until Ctrl-C."""
