"""``triobot send``, ``signal`` and ``start``: reach a chat of the running bot from another program."""

from __future__ import annotations

import argparse
from typing import Final

from .arguments import add_bot_options, add_json, chat
from .consulting import consult, print_answer, settings_of

DETAILS: Final = """\
The bot must run on this machine, as this user; another program of the machine, such as a job of cron or a
shop in PHP, reaches its chats so. The docs' page run says how to do the same by HTTP over the bot's
socket.

send returns once the platform has taken the message, and prints its number. signal and start return once the
bot has stored it: then it happens, whatever crashes. NAME is a route's, as `triobot journal list` prints it,
or a signal's class: Shipped, or shop.Shipped. JSON has the fields of the signal, or a list of arguments.
With --key, a second one with the same key does nothing.

examples:
  triobot send 1234 "The shop is closed tomorrow."
  triobot signal 1234 Shipped '{"order": 7}' --key shipped-7
  triobot start 1234 shop.ask_later '[7]' --key order-7 --bot shop.py:bot
"""


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of one command to the command's `parser`."""
    way = parser.prog.split()[-1]
    parser.set_defaults(way=way, name=None, key=None)
    parser.add_argument("chat", metavar="CHAT", type=chat, help="the chat's number")
    if way == "send":
        parser.add_argument("value", metavar="TEXT", help="the message")
    else:
        what, given = ("the signal's class", "its fields") if way == "signal" else ("the route", "arguments")
        parser.add_argument("name", metavar="NAME", help=what)
        parser.add_argument("value", metavar="JSON", nargs="?", default="", help=f"{given}; none by default")
        parser.add_argument(
            "--key",
            metavar="KEY",
            help="a second one with this key does nothing for seven days (TRIOBOT_RETENTION_DAYS)",
        )
    add_json(parser, what="one JSON object, for programs")
    add_bot_options(parser)


def run(arguments: argparse.Namespace) -> None:
    given = {name: getattr(arguments, name) for name in ("name", "value", "key")}
    question = {"ask": f"chats.{arguments.way}", "chat_id": arguments.chat, **given}
    (answer,) = consult(settings_of(arguments), question)
    if arguments.way == "send":
        line = f"sent: message {answer['message_id']}"
    else:
        line = "stored" if answer["done"] else "nothing to do: one with this key is known"
    print_answer([answer], [line], as_json=arguments.json)
