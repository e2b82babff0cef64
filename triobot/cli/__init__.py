"""The command line: ``triobot`` and ``python -m triobot``.

One module a command, and of these only the one that is asked for is imported: the help needs none of them,
and ``triobot run`` never loads the emulator. Where a command's work is in a module of its own,
its help loads no Trio either. What goes wrong on purpose is one line on the error output and exit code 1;
wrong usage is exit code 2.
"""

from __future__ import annotations

import argparse
import gc
import io
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, Protocol, cast, final

from ..base.version import __version__

COMMANDS: Final = {
    "new": "make a folder for a new bot",
    "run": "run a bot",
    "dev": "work on a bot, and be its users in your browser",
    "talk": "talk to a bot in the terminal, as its user",
    "simulate": "let a random crowd use a bot",
    "webhook-url": "print the address to register with the platform",
    "emulate": "emulate the platform, for a bot in any language",
    "demo": "see a bot at work",
    "send": "send something to a chat of the running bot",
    "signal": "tell a chat of the running bot that something happened elsewhere",
    "start": "start a route in a chat of the running bot",
    "status": "say whether a bot works, and what waits in it",
    "alarms": "list open alarms, or acknowledge them",
    "payments": "list payments, verify and settle them",
    "journal": "list, show and check conversations and their journals",
    "replay": "show where a stored conversation stands",
    "inspect": "show conversations at each of their turns, in your browser",
    "broadcast": "show broadcasts, or stop one",
    "jobs": "list jobs, run one now, or forget one",
    "nodes": "say which processes share a bot's store, and which one works",
    "store": "back up, stream, restore, check and move a bot's store",
    "forget": "delete everything of a chat, a person or a room",
    "completion": "print a script that completes commands in your shell",
}
"""What each does; the module has the command's name."""
_STUDIO: Final = frozenset({"demo", "dev", "emulate", "inspect", "replay", "simulate", "talk"})
"""Those for a developer: their modules are in `triobot.studio.commands`."""
_TOGETHER: Final = {"send": "reach", "signal": "reach", "start": "reach"}
"""The modules of those that have no module of their own name."""
_APART: Final = {"run": ".run_work", "journal": ".journal_work"}
"""Where the work of a command is, if not beside its arguments."""

_EXAMPLES: Final = """\
examples:
  triobot demo                          see a bot at work: nothing to set up
  triobot new pizza                     make a folder with a bot of yours
  triobot dev examples/pizza.py:bot     work on a bot, with its users in your browser
  triobot talk examples/quiz.py:bot     talk to a bot in the terminal, as its user
  triobot run examples/echo.py:bot      run a bot (its token is in TRIOBOT_TOKEN)
  triobot emulate --bot-url http://...  be the platform, for a bot in any language

`triobot COMMAND --help` says more about each.
"""


class CommandModule(Protocol):
    """The module of a command."""

    DETAILS: str

    def declare(self, parser: argparse.ArgumentParser) -> None:
        """Add its arguments."""
        ...


class WorkModule(Protocol):
    """The module with the work of a command: its own, unless that is apart."""

    def run(self, arguments: argparse.Namespace) -> None:
        """Do what was asked."""
        ...


@final
class CommandParser(argparse.ArgumentParser):
    """Reads a command's arguments in any order: an option may stand before what the command is about.

    Alone, argparse gives a FILE that may be left out nothing, as soon as an option stands before it.
    """

    _mixing = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Read what is known; see the base class."""
        # Where actions follow, each reads what stands behind its name.
        if self._mixing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._mixing = True  # the base class comes here again
        try:
            return super().parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read a command's arguments; ``work`` is the module that does it. Without any, the help is asked for.

    Raises:
        SystemExit: help or the version was asked for and printed, or the usage is wrong.
    """
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="triobot",
        description="Write, run and look after bots.",
        epilog=_EXAMPLES,
        formatter_class=plain,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"triobot {__version__}")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=CommandParser
    )
    asked = argv[0] if argv else "--help"
    for name, summary in COMMANDS.items():
        its = commands.add_parser(name, help=summary, formatter_class=plain, allow_abbrev=False)
        if name == asked:
            module, command = module_of(name), read_module(name)
            its.description, its.epilog = f"{summary[0].upper()}{summary[1:]}.", command.DETAILS
            its.add_argument(
                "--debug", action="store_true", help="show tracebacks and the runtime's own debug log"
            )
            its.set_defaults(work=_APART.get(name, module))
            command.declare(its)
    if asked not in COMMANDS and not asked.startswith("-"):
        parser.error(_unknown(asked))
    return parser.parse_args([asked, *argv[1:]])


def module_of(name: str) -> str:
    """Return the module of a command, as seen from this package."""
    if name in _STUDIO:
        return f"triobot.studio.commands.{name}"
    return f".{_TOGETHER.get(name, name.replace('-', '_'))}"


def read_module(name: str) -> CommandModule:
    """Import the module of a command."""
    return cast("CommandModule", import_module(module_of(name), __name__))


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    rest = f"did you mean {near[0]!r}?" if near else "`triobot --help` names them all"
    return f"there is no command {name!r}; {rest}"


def set_up_streams() -> None:
    """Let what a terminal's encoding lacks be escaped, rather than end the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command; without `argv`, the process's own arguments.

    Raises:
        SystemExit: always when something failed: 1 with a line on the error output, 2 for wrong usage, 130
            for Ctrl-C.
    """
    set_up_streams()
    gc.disable()  # hundreds of modules and classes come into being, and hardly any garbage
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        work = cast("WorkModule", import_module(arguments.work, __name__))
        gc.freeze()
    finally:
        gc.enable()
    try:
        work.run(arguments)
    except BaseException as error:
        from .terminal import report

        sys.exit(report(error, debug=arguments.debug))
