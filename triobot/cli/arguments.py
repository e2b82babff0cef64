"""The parts of the grammar that several commands share."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import TypeAlias

# The class is generic to type checkers only, and public in all but its name.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # pyright: ignore[reportPrivateUsage]


def add_command(
    commands: Commands,
    name: str,
    command: Callable[[argparse.Namespace], None],
    *,
    summary: str,
    details: str,
) -> argparse.ArgumentParser:
    """Add a sub-command that calls `command` with what was parsed."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--debug", action="store_true", help="show tracebacks and the runtime's own debug log"
    )
    parser.set_defaults(command=command)
    return parser


def port(text: str) -> int:
    """Read a TCP port; 0 takes a free one."""
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError("must be a number from 0 to 65535")
    return int(text)


def mode(text: str) -> int:
    """Read the mode of a file, in octal."""
    if not re.fullmatch(r"(0o?)?[0-7]{3}", text):
        raise argparse.ArgumentTypeError("must be a mode in octal, such as 660")
    return int(text[-3:], 8)


def seconds(text: str) -> float:
    """Read a time in seconds that isn't negative."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("must be a number of seconds, 0 or more")
    return value


def hours(text: str) -> float:
    """Read a time in hours, of a year at most, that isn't negative."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 8760:
        raise argparse.ArgumentTypeError("must be a number of hours from 0 to 8760")
    return value


def descriptor(text: str) -> int:
    """Read the number of an inherited file descriptor."""
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError("must be the number of an inherited socket, such as 3")
    return int(text)
