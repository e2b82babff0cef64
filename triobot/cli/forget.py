"""``triobot forget``: delete all data of a chat, a person or a room."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Final

from ..errors import ConfigError
from ..seams.rooms import person_place, room_place
from ..wire.ids import ChatId, SenderId
from .arguments import add_bot_options, add_json, chat, person
from .consulting import consult, settings_of
from .terminal import is_terminal

DETAILS: Final = """\
Ends what runs in the chat without a word, and deletes its conversations and their journals, waiting events,
what the chat keeps, who wrote in it, and the digests by which repetitions are known. It overwrites their
places in the file. Backups keep what they hold.

The numbers, amounts and times of payments stay, for the books; what was bought and who paid is deleted. While
money is open in the chat, nothing is deleted: goods that were paid for are given or settled first, and a
running bot takes away a button that somebody could still press, and watches it for 75 minutes.

--person deletes what the bot keeps of a person over all chats; what was said in chats stays. Forgetting a
chat leaves what is kept of its people. --room deletes what a room keeps and what runs in it. NAME is the
oldest name of its function: module and name, such as shop.lobby, if you gave it no other. It is an error
if nothing is kept of such a room; for a chat or a person the command only says so.

examples:
  triobot forget 1234
  triobot forget --person 71
  triobot forget --room clinic.day 2026-03-01
  triobot forget 1234 --yes --bot pizza:bot
"""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chat", metavar="CHAT", type=chat, nargs="?", help="the chat's number")
    parser.add_argument("--person", metavar="ID", type=person, help="forget this person, not a chat")
    parser.add_argument(
        "--room", metavar=("NAME", "KEY"), nargs="+", help="forget this room; KEY names one of several"
    )
    parser.add_argument("--yes", action="store_true", help="don't ask")
    add_json(parser, what="one JSON object, for programs")
    add_bot_options(parser)


def run(arguments: argparse.Namespace) -> None:
    place, what = _meant(arguments)
    settings = settings_of(arguments)
    if not arguments.yes:
        if not is_terminal(sys.stdin):
            raise ConfigError(f"nobody is there to be asked; say --yes to forget {what} for good")
        word = what.split()[-1]
        if _typed(f"Forget everything of {what} in {settings.store}? Type {word}: ") != word:
            raise ConfigError("nothing was done")
    (answer,) = consult(settings, {"ask": "chats.forget", "chat_id": place})
    if arguments.json:
        print(json.dumps({"chat_id": place, **answer}))
    if not answer["found"] and arguments.room is not None:
        # Any name and key identify a room. The only sign of a mistyped name or key is that nothing is found.
        raise ConfigError(
            f"nothing is kept of {what}, so nothing was deleted; check KEY, and NAME: it is the oldest name"
            " of the room's function, its module and name, such as shop.lobby, if it was given no other"
        )
    if arguments.json:
        return
    if not answer["found"]:
        print(f"nothing was kept of {what}; backups keep what they hold")
        return
    print(
        f"forgotten of {what}: {answer['conversations']} conversations with {answer['records']} records,"
        f" {answer['events']} waiting events, {answer['values']} kept values, {answer['others']} other rows;"
        " backups keep what they hold"
    )


def _meant(arguments: argparse.Namespace) -> tuple[ChatId, str]:
    number: int | None = arguments.chat
    person: int | None = arguments.person
    room: list[str] | None = arguments.room
    if sum(one is not None for one in (number, person, room)) != 1 or len(room or ()) > 2:
        raise ConfigError("say one chat's number, or --person ID, or --room NAME KEY")
    if room is not None:
        return room_place(room[0], "".join(room[1:])), f"room {' '.join(room)}"
    if person is not None:
        return person_place(SenderId(person)), f"person {person}"
    assert number is not None
    return ChatId(number), f"chat {number}"


def _typed(question: str) -> str:
    try:
        return input(question)
    except EOFError:  # Ctrl-D
        print()
        return ""
