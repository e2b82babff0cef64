"""``triobot demo``: a platform, a bot and a user, talking over real sockets; nothing to set up."""

from __future__ import annotations

import argparse
from typing import Final

from .arguments import Commands, add_command, port

_DETAILS: Final = """\
Starts the emulated platform, a bot with a store in a temporary folder, and a scripted user, and prints their
conversation as it happens. Exits with 0 only if everything that it shows is true: what the user saw, the
wallet's balance, the bytes of the files. TRIOBOT_* variables are not read, and nothing is left behind.

The bot is triobot/cli/demo_bot.py.
"""


def declare(commands: Commands) -> None:
    """Add the command to the grammar."""
    parser = add_command(commands, "demo", demo, summary="see a bot at work", details=_DETAILS)
    parser.add_argument(
        "--port", metavar="N", type=port, default=0, help="the platform's port (default: a free one)"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing unless it fails")


def demo(arguments: argparse.Namespace) -> None:
    """Run the demo; fails if anything in it isn't so."""
