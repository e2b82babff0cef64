"""``triobot alarms``: list open alarms, each with the action to take, or acknowledge alarms."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Final

from ..base.alarm_kinds import ABOUT
from ..errors import ConfigError
from ..operator.routes import Answer, Question
from .arguments import add_actions, add_json
from .consulting import consult, instant, print_answer, settings_of

DETAILS: Final = """\
It asks a running bot; while none runs, it uses the store.
An alarm about a state of the bot ends when the state is over. An alarm about a payment may end when nothing
is at risk any more. Each alarm ends when you acknowledge it. The docs' page alarms says what each kind
means.

examples:
  triobot alarms
  triobot alarms --json | jq .kind
  triobot alarms acknowledge --kind conversation_crashed
  triobot alarms acknowledge --kind adopted --key 1234567890123456
  triobot alarms acknowledge --all
"""

_ACTIONS: Final = {
    "list": "list open alarms, the oldest first",
    "acknowledge": "end alarms that a person has read, and list those still open",
}


def declare(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _ACTIONS, unsaid="list")
    add_json(parser, *actions.values())
    acknowledge = actions["acknowledge"]
    acknowledge.add_argument("--kind", metavar="KIND", choices=sorted(ABOUT), help="only alarms of this kind")
    acknowledge.add_argument("--key", metavar="KEY", help="only the alarm about this")
    acknowledge.add_argument("--all", action="store_true", help="all that are open")


def run(arguments: argparse.Namespace) -> None:
    question: Question = {"ask": "alarms.list"}
    if arguments.action == "acknowledge":
        if arguments.all == (arguments.kind is not None or arguments.key is not None):
            raise ConfigError("say which alarms: --kind KIND, --key KEY or both; or --all")
        given = {"kind": arguments.kind, "key": arguments.key, "all": arguments.all}
        question = {"ask": "alarms.acknowledge", **given}
    rows = consult(settings_of(arguments), question)
    print_answer(rows, _lines(rows), as_json=arguments.json)


def _lines(rows: Sequence[Answer]) -> Iterator[str]:
    for row in rows:
        about = f"{row['kind']} {row['key']} x{row['count']}"
        yield f"{about}, {instant(row['first'])} to {instant(row['last'])}"
        yield f"  {row['text']}"
        if str(row["act"]) not in str(row["text"]):
            yield f"  {row['act']}"
    if not rows:
        yield "no alarm is open"
