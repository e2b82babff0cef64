"""``triobot broadcast``: show the progress of broadcasts, and stop one."""

from __future__ import annotations

import argparse
import sys
from typing import Final, cast

import attrs
import trio

from ..operator.api import Tell
from ..operator.routes import Answer, Question
from ..runtime.settings import Settings
from ..seams.broadcasts import BroadcastStatus
from .arguments import add_actions, add_json
from .consulting import ask_bot, consult, gather, print_answer, settings_of
from .terminal import is_terminal, progress_line

DETAILS: Final = """\
The bot's own code starts a broadcast: await bot.broadcast(KEY).start(content, to). The command asks a running
bot; in a terminal, `status` follows it to the end. While none runs, it reads the store. For people
who are `unknown`, the message was on its way when the bot died; they are not told again. People who are
`gone` have left.

examples:
  triobot broadcast list
  triobot broadcast status version-2 --bot pizza:bot
  triobot broadcast stop version-2 --bot pizza:bot
"""

_ACTIONS: Final = {
    "list": "list broadcasts, with their progress",
    "status": "print a broadcast's progress; in a terminal, until its end",
    "stop": "stop a broadcast: no further user gets it",
}
_LOOK_EVERY: Final = 0.5


def declare(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _ACTIONS)
    add_json(parser, *actions.values())
    for name in ("status", "stop"):
        actions[name].add_argument("key", metavar="KEY", help="the broadcast's, as the list names it")


def run(arguments: argparse.Namespace) -> None:
    settings, key = settings_of(arguments), getattr(arguments, "key", None)
    if arguments.action == "status" and not arguments.json:
        trio.run(follow, settings, arguments.key)
        return
    (answer,) = consult(settings, {"ask": f"broadcast.{arguments.action}", "key": key})
    if arguments.action == "list":
        broadcasts = cast("list[Answer]", answer["broadcasts"])
        bar = is_terminal(sys.stdout)
        lines = (progress_line(str(one["key"]), status_of(one), bar=bar) for one in broadcasts)
        print_answer(broadcasts, lines, as_json=arguments.json)
    elif arguments.action == "status":
        print_answer([answer["broadcast"]], [], as_json=True)
    else:
        line = "It tells nobody more." if answer["stopped"] else "There was nothing to stop."
        print_answer([{"key": key, "stopped": answer["stopped"]}], [line], as_json=arguments.json)


async def follow(settings: Settings, key: str) -> None:
    """Print a broadcast's progress; in a terminal, follow a running bot's broadcast to its end."""
    running, at_terminal = False, is_terminal(sys.stdout)

    async def ask(question: Question, tell: Tell) -> None:
        nonlocal running
        running = await ask_bot(settings, question, tell)

    while True:
        (answer,) = await gather(ask, {"ask": "broadcast.status", "key": key})
        status = status_of(cast("Answer", answer["broadcast"]))
        line = progress_line(key, status, bar=at_terminal)
        # Only a running bot makes progress: don't follow a broadcast in a store that no bot uses.
        followed = running and at_terminal
        if not followed or status.over or status.state == "none":
            print(f"\r\x1b[K{line}" if followed else line)
            return
        print(f"\r\x1b[K{line}", end="", flush=True)
        await trio.sleep(_LOOK_EVERY)


def status_of(view: Answer) -> BroadcastStatus:
    fields = {field.name: view[field.name] for field in attrs.fields(BroadcastStatus) if field.name in view}
    return BroadcastStatus(**fields)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
