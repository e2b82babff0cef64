"""``triobot journal``: arguments; `journal_work` implements the command."""

from __future__ import annotations

import argparse
from typing import Final

from .arguments import add_actions, add_json, place, positive

DETAILS: Final = """\
list says where each conversation stands, and nothing that was said. --chat lists those of one chat, also
those that crashed and are kept. list --by line runs the journals under the code of --bot, and says at which
line of which route how many people wait, and for how long. show prints a journal as a table, and export
writes it as JSON lines; both hold what people wrote. export --redact keeps the order and the shape of every
value, and leaves out the content: attach that one to a bug report.

check runs all journals under the code of MODULE:BOT, and reads all that chats keep under a Key. It sends and
writes nothing. It says what a deploy would park, by route, line and reason, with an example of each, and ends
with 1 if there are any. With --sample it runs N journals only, the same number of each route. The bot may run
meanwhile.

accept says that the two lines which check shows with CODE are the same operation. It counts whom that
concerns, until you add --yes. Before a deploy or after it: what was parked for that reason goes on at once.

retry tries parked conversations once more, such as after a deploy that mends them. end ends them, and --say
tells their users, even if the bot stops before these words have left. If end ends the aside of a payment,
another run of this aside begins and gives the goods. Both take one number, or all conversations of a chat, of
a route, or with a reason. Then they only count, by route and reason, until you add --yes. Without a running
bot, the next start does it.

examples:
  triobot journal list
  triobot journal list --chat 1234
  triobot journal list --by line --bot pizza:bot
  triobot journal show 41
  triobot journal export 41 --redact > report.jsonl
  triobot journal check pizza:bot
  triobot journal check pizza:bot --sample 1000
  triobot journal accept 7f3a21 pizza:bot --yes
  triobot journal retry --route pizza.order
  triobot journal end --route pizza.order --say "Please order again: /order" --yes
"""

_ACTIONS: Final = {
    "list": "list where each conversation waits",
    "show": "print what happened in a conversation, as a table",
    "export": "write what happened in a conversation, as JSON lines",
    "check": "list the conversations that a deploy would park",
    "accept": "confirm that two lines are the same operation",
    "retry": "try parked conversations once more",
    "end": "end parked conversations",
}


def declare(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _ACTIONS)
    add_json(parser, *actions.values())
    listing, checking = actions["list"], actions["check"]
    for name in ("show", "export"):
        actions[name].add_argument(
            "number", metavar="NUMBER", type=positive, help="a conversation's, as the list says it"
        )
    for name in ("retry", "end"):
        settling = actions[name]
        settling.add_argument(
            "number", metavar="NUMBER", type=positive, nargs="?", help="a conversation's, as the list says it"
        )
        settling.add_argument("--route", metavar="NAME", help="those of this route only")
        settling.add_argument("--reason", metavar="TEXT", help="those whose reason holds this")
        settling.add_argument("--yes", action="store_true", help="do it, after a count")
    for action in (listing, actions["retry"], actions["end"]):
        action.add_argument("--chat", metavar="CHAT", type=place, help="those of this chat only")
    listing.add_argument("--by", choices=("line",), help="count them by route and line of the code of --bot")
    listing.add_argument("--after", metavar="NUMBER", type=positive, default=0, help="those behind this one")
    listing.add_argument("--limit", metavar="N", type=positive, default=100, help="so many at most (100)")
    actions["export"].add_argument("--redact", action="store_true", help="keep the shapes, lose the content")
    actions["end"].add_argument("--say", metavar="TEXT", default="", help="what their users hear")
    actions["accept"].add_argument("code", metavar="CODE", help="of two lines, as check says it")
    actions["accept"].add_argument("--yes", action="store_true", help="do it, after a count")
    for action in (checking, actions["accept"]):
        action.add_argument(
            "target", metavar="MODULE:BOT", nargs="?", help="the bot whose code it is, as with --bot"
        )
    checking.add_argument("--sample", metavar="N", type=positive, help="N conversations only, of all routes")
    checking.add_argument(
        "--processes", metavar="N", type=positive, help="run journals in N processes (one a processor)"
    )
