"""``triobot forget``: delete everything of one chat."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Final

from ..errors import ConfigError
from ..operator.requests import Forget
from ..wire.ids import ChatId
from .arguments import add_json, chat
from .consulting import add_bot_options, consult, settings_of

DETAILS: Final = """\
Conversations and their journals, waiting events, what the chat keeps, who wrote in it: all of it goes, and
what runs there is ended without a word, and so do the digests by which a repetition is known. The places in
the file are overwritten. Backups keep what they hold.

Of payments the numbers, amounts and times stay, for the books; what was bought, and who paid, goes. While
money is open in the chat nothing is deleted: what was paid is given or settled first, and a button that
somebody could still press is taken away by a running bot, and watched for 75 minutes.

examples:
  triobot forget 1234
  triobot forget 1234 --yes --bot pizza:bot
"""


def declare(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument("chat", metavar="CHAT", type=chat, help="the chat's number")
    parser.add_argument("--yes", action="store_true", help="don't ask")
    add_json(parser, "one JSON object, for programs")
    add_bot_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Forget the chat, when the person means it."""
    number: int = arguments.chat
    settings = settings_of(arguments)
    if not arguments.yes:
        if not sys.stdin.isatty():
            raise ConfigError("nobody is there to be asked; say --yes to forget the chat for good")
        if _typed(f"Forget everything of chat {number} in {settings.store}? Type its number: ") != str(
            number
        ):
            raise ConfigError("nothing was done")
    (told,) = consult(settings, Forget(ChatId(number)))
    if arguments.json:
        print(json.dumps({"chat_id": number, **told}))
        return
    print(
        f"forgotten of chat {number}: {told['conversations']} conversations with {told['records']} records,"
        f" {told['events']} waiting events, {told['values']} kept values, {told['others']} other rows;"
        " backups keep what they hold"
    )


def _typed(question: str) -> str:
    try:
        return input(question)
    except EOFError:  # Ctrl-D
        print()
        return ""
