"""The command line: ``triobot`` and ``python -m triobot``.

Each command has a module, and only the requested command's module is imported. So ``triobot --help`` imports
no command, and ``triobot run`` never imports the emulator. If a command's implementation has a module of its
own, the command's help doesn't import Trio either. After an expected error, a command prints one line on
stderr and exits with code 1. Wrong usage exits with code 2.
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
    "dev": "develop a bot, and play its users in your browser",
    "talk": "talk to a bot in the terminal, as its user",
    "simulate": "run a bot with a random crowd of users",
    "webhook-url": "print the address to register with the platform",
    "emulate": "emulate the platform, for a bot in any language",
    "demo": "watch a bot at work",
    "send": "send something to a chat of the running bot",
    "signal": "send a signal of another program to a chat of the running bot",
    "start": "start a route in a chat of the running bot",
    "status": "print whether a bot works, and its queues",
    "alarms": "list open alarms, or acknowledge them",
    "payments": "list payments, verify and settle them",
    "journal": "list, show and check conversations and their journals",
    "replay": "show the line where a stored conversation waits",
    "inspect": "show conversations at each of their turns, in your browser",
    "broadcast": "show broadcasts, or stop one",
    "jobs": "list jobs, or run one now",
    "nodes": "list the processes that share a bot's store, and which one works",
    "store": "back up, restore, check and move a bot's store",
    "forget": "delete everything of a chat, a person or a room",
    "completion": "print a script that completes commands in your shell",
}
"""Summary of each command; the module has the command's name."""
_STUDIO: Final = frozenset({"demo", "dev", "emulate", "inspect", "replay", "simulate", "talk"})
"""Developers' commands, with modules in `triobot.studio.commands`."""
_TOGETHER: Final = {"send": "reach", "signal": "reach", "start": "reach"}
"""Commands that share a module, with the module's name."""
_APART: Final = {"run": ".run_work", "journal": ".journal_work"}
"""Commands with separate modules for arguments and implementation, with the implementation's module."""

_EXAMPLES: Final = """\
examples:
  triobot demo                          see a bot at work: nothing to set up
  triobot new pizza                     make a folder with a bot of yours
  triobot dev pizza.py:bot              work on a bot, with its users in your browser
  triobot talk pizza.py:bot             talk to a bot in the terminal, as its user
  triobot run pizza.py:bot              run a bot (its token is in TRIOBOT_TOKEN)
  triobot emulate --bot-url http://...  be the platform, for a bot in any language

`triobot COMMAND --help` says more about each.
"""


class CommandModule(Protocol):
    """A command's module: help text and arguments."""

    DETAILS: str

    def declare(self, parser: argparse.ArgumentParser) -> None: ...


class WorkModule(Protocol):
    """The module that implements a command; often also the command's `CommandModule`."""

    def run(self, arguments: argparse.Namespace) -> None: ...


@final
class CommandParser(argparse.ArgumentParser):
    """Parses a command's arguments in any order: an option may precede a positional argument.

    argparse alone assigns nothing to an optional positional argument once an option precedes it.
    """

    _mixing = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the known arguments; see the base class."""
        # If a command has actions, the action's parser parses the arguments after the action's name.
        if self._mixing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._mixing = True  # the base class calls parse_known_args, too
        try:
            return super().parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command's arguments; without arguments, print the help. ``work`` in the result names the module
    that implements the command.

    Raises:
        SystemExit: the help or version was printed, or the usage is wrong.
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
    """Return the name of a command's module; a leading dot means relative to this package."""
    if name in _STUDIO:
        return f"triobot.studio.commands.{name}"
    return f".{_TOGETHER.get(name, name.replace('-', '_'))}"


def read_module(name: str) -> CommandModule:
    return cast("CommandModule", import_module(module_of(name), __name__))


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    rest = f"did you mean {near[0]!r}?" if near else "`triobot --help` names them all"
    return f"there is no command {name!r}; {rest}"


def set_up_streams() -> None:
    """Escape characters that the terminal's encoding lacks, instead of raising UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command with the arguments `argv`; None: with the process's arguments.

    Raises:
        SystemExit: the command failed. The exit code is 1 after an error, 2 for wrong usage, 130 for Ctrl-C.
    """
    set_up_streams()
    gc.disable()  # imports create hundreds of modules and classes, but hardly any garbage
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
