"""Parsers of arguments, and options that several commands share."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Mapping
from typing import Final


def add_actions(
    parser: argparse.ArgumentParser, described: Mapping[str, str], *, unsaid: str | None = None
) -> Mapping[str, argparse.ArgumentParser]:
    """Add actions with their own help to a command about a bot's store. Return the actions' parsers.

    Args:
        described: each action's summary, by the action's name.
        unsaid: default action, which must have no arguments of its own; None: an action is required.
    """
    commands = parser.add_subparsers(
        title="actions",
        metavar="ACTION" if unsaid is None else "[ACTION]",
        dest="action",
        required=unsaid is None,
    )
    parser.set_defaults(action=unsaid)
    actions = {
        name: commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        for name, summary in described.items()
    }
    add_bot_options(parser, *actions.values())
    return actions


def whole(what: str, least: int, most: int = 10**18 - 1) -> Callable[[str], int]:
    """Return a parser of whole numbers within the bounds; `what` names the valid numbers in errors."""

    def read(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,19}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"must be {what}")
        return int(text)

    return read


def number(what: str, least: float, most: float) -> Callable[[str], float]:
    """Return a parser of numbers within the bounds; `what` names the valid numbers in errors."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"must be {what}")
        return value

    return read


port: Final = whole("a number from 0 to 65535", 0, 65535)
"""Parser of a TCP port; 0 means a free port."""
positive: Final = whole("a number from 1", 1)
chat: Final = whole("a chat's number, which has up to 18 digits, such as 1234", -(10**18) + 1)
person: Final = whole("a person's number, which has up to 18 digits, such as 71", -(10**18) + 1)
place: Final = whole("the number of a chat or a room, such as 1234", -(2**63) + 1, 2**63 - 1)


def mode(text: str) -> int:
    """Parse an octal file mode."""
    if not re.fullmatch(r"(0o?)?[0-7]{3}", text):
        raise argparse.ArgumentTypeError("must be a mode in octal, such as 660")
    return int(text[-3:], 8)


def add_bot_options(parser: argparse.ArgumentParser, *actions: argparse.ArgumentParser) -> None:
    """Add the options that name the bot or its store. Users may put options before or after the action."""
    for place in (parser, *actions):
        default = None if place is parser else argparse.SUPPRESS
        place.add_argument(
            "--bot",
            metavar="MODULE:BOT",
            default=default,
            help="take the settings from this bot (default: the TRIOBOT_* variables)",
        )
        place.add_argument(
            "--store", metavar="URL", default=default, help="the bot's store, if `triobot run` is given one"
        )
    for action in actions:
        action.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks of errors"
        )


def add_json(
    parser: argparse.ArgumentParser,
    *actions: argparse.ArgumentParser,
    what: str = "JSON, an object a line, for programs",
) -> None:
    """Add the option ``--json``.

    Args:
        actions: parsers of the command's actions, so that the option is allowed before and after an action.
        what: help text of the option.
    """
    for one in (parser, *actions):
        default = False if one is parser else argparse.SUPPRESS
        one.add_argument("--json", action="store_true", default=default, help=what)
