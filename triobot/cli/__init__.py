"""The command line: ``triobot`` and ``python -m triobot.cli``.

One module a command; each adds its own arguments. What only some commands run on, the emulator and the test
kit, is imported when they run, so that ``triobot run`` never loads it. What goes wrong on purpose is one line
on the error output and exit code 1; wrong usage is exit code 2.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from .. import __version__
from . import (
    broadcast,
    demo,
    dev,
    emulate,
    forget,
    journal,
    payments,
    replay,
    run,
    simulate,
    status,
    store,
    talk,
    webhook_url,
)
from .terminal import report, set_up_streams

_EXAMPLES: Final = """\
examples:
  triobot demo                          see a bot at work: nothing to set up
  triobot dev examples/pizza.py:bot     work on a bot, with its users in your browser
  triobot talk examples/quiz.py:bot     talk to a bot in the terminal, as its user
  triobot run examples/echo.py:bot      run a bot (its token is in TRIOBOT_TOKEN)
  triobot emulate --bot-url http://...  be the platform, for a bot in any language

`triobot COMMAND --help` says more about each.
"""


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="triobot",
        description="Run bots, and what one needs around them.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"triobot {__version__}")
    parser.set_defaults(debug=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    operating = (status, payments, journal, replay, broadcast, store, forget)
    for command in (run, dev, talk, simulate, webhook_url, emulate, demo, *operating):
        command.declare(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command; without `argv`, the process's own arguments.

    Raises:
        SystemExit: always when something failed: 1 with a line on the error output, 2 for wrong usage, 130
            for Ctrl-C.
    """
    set_up_streams()
    arguments = build_parser().parse_args(argv)
    try:
        arguments.command(arguments)
    except BaseException as error:
        sys.exit(report(error, debug=arguments.debug))
