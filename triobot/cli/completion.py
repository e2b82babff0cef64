"""``triobot completion``: print a script with which a shell completes ``triobot`` commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final, cast

from ..base.extras import needing
from . import COMMANDS, read_module

DETAILS: Final = """\
Prints a script that the shell reads at its start. It completes the commands, actions and options of this
version. Everything else is completed as a file's name.

install:
  bash    triobot completion bash > ~/.local/share/bash-completion/completions/triobot
  zsh     triobot completion zsh > "${fpath[1]}/_triobot"
  fish    triobot completion fish > ~/.config/fish/completions/triobot.fish
"""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")


def run(arguments: argparse.Namespace) -> None:
    with needing("completion", "`triobot completion`"):
        import shtab

    whole = argparse.ArgumentParser(prog="triobot")
    whole.add_argument("--version", action="version", help="show the version")
    commands = whole.add_subparsers()
    for name, summary in COMMANDS.items():
        read_module(name).declare(commands.add_parser(name, help=summary))
    for action in _actions(whole):
        if action.nargs != 0 and not action.choices:
            cast("Any", action).complete = shtab.FILE
    print(shtab.complete(whole, arguments.shell))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    # argparse has no public list of a parser's actions.
    for action in cast("Any", parser)._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            for below in cast("Any", action.choices).values():  # pyright: ignore[reportUnknownMemberType]
                yield from _actions(below)
