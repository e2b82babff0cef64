"""``triobot broadcast``: show the progress of broadcasts, and stop one."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias, cast

import attrs
import trio

from ..operator.routes import Answer
from ..runtime.settings import Settings
from ..seams.broadcasts import BroadcastStatus
from ..wire.rules import JsonValue
from .arguments import add_actions, add_json
from .consulting import ask_bot, settings_of
from .terminal import is_terminal, progress_line

Ask: TypeAlias = "Callable[[Mapping[str, JsonValue]], Awaitable[Mapping[str, JsonValue]]]"
"""Sends a question of `triobot.outbox.broadcasts` to the process that has the store; returns the answer."""

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
    trio.run(_run, settings_of(arguments), arguments)


async def _run(settings: Settings, arguments: argparse.Namespace) -> None:
    running = False

    async def ask(question: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        nonlocal running
        lines: list[Mapping[str, JsonValue]] = []

        async def tell(line: Answer) -> None:
            await trio.lowlevel.checkpoint()
            lines.append(cast("Mapping[str, JsonValue]", line))

        running = await ask_bot(settings, question, tell)
        return lines[0]

    # Only a running bot makes progress: don't follow a broadcast in a store that no bot uses.
    action, key = arguments.action, None if arguments.action == "list" else arguments.key
    await converse(ask, action, key, live=lambda: running, as_json=arguments.json)


async def converse(
    ask: Ask, action: str, key: str | None, *, live: Callable[[], bool], as_json: bool = False
) -> None:
    """Send a question and print the answer. In a terminal, follow a `live` broadcast to its end.

    Args:
        live: returns whether a running bot has answered.
        as_json: print the answer as JSON, without following.
    """
    at_terminal = is_terminal(sys.stdout)
    if action == "list":
        answered = await ask({"ask": "broadcast.list"})
        for one in cast("list[dict[str, JsonValue]]", answered["broadcasts"]):
            line = progress_line(str(one["key"]), status_of(one), bar=at_terminal)
            print(json.dumps(one) if as_json else line)
        return
    assert key is not None
    if action == "stop":
        stopped = (await ask({"ask": "broadcast.stop", "key": key}))["stopped"]
        if as_json:
            print(json.dumps({"key": key, "stopped": stopped}))
            return
        print("It tells nobody more." if stopped else "There was nothing to stop.")
        return
    while True:
        answered = await ask({"ask": "broadcast.status", "key": key})
        if as_json:
            print(json.dumps(answered["broadcast"]))
            return
        status = status_of(cast("dict[str, JsonValue]", answered["broadcast"]))
        line = progress_line(key, status, bar=at_terminal)
        followed = live() and at_terminal
        if not followed or status.over or status.state == "none":
            print(f"\r\x1b[K{line}" if followed else line)
            return
        print(f"\r\x1b[K{line}", end="", flush=True)
        await trio.sleep(_LOOK_EVERY)


def status_of(view: Mapping[str, JsonValue]) -> BroadcastStatus:
    fields = {field.name: view[field.name] for field in attrs.fields(BroadcastStatus) if field.name in view}
    return BroadcastStatus(**fields)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
