"""``triobot nodes``: list the processes that share a bot's store."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs
import trio

from ..store import read_nodes
from .arguments import add_bot_options, add_json
from .consulting import print_answer, settings_of, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..store.postgres.roster import NodeRow

DETAILS: Final = """\
It says which process of the bot has the store and works, and which ones stand by: these take events in, and
one of them goes on with the work within seconds when the first one ends. What the database has a process wait
for, such as another session's lock, is said in the database's words. One that has said nothing for some time
stands still, or is cut off: another one takes its place; where none stands by, restart it.

The store is in PostgreSQL, such as postgresql://HOST/DATABASE. The database is asked, so that no bot has to
run.

example:
  triobot nodes
"""


def declare(parser: argparse.ArgumentParser) -> None:
    add_bot_options(parser)
    add_json(parser, what="a list of JSON objects, for programs")


def run(arguments: argparse.Namespace) -> None:
    nodes = trio.run(read_nodes, settings_of(arguments).store)
    print_answer([[attrs.asdict(node) for node in nodes]], _lines(nodes), as_json=arguments.json)


def _lines(nodes: Sequence[NodeRow]) -> Iterator[str]:
    if not any(node.works for node in nodes):
        yield "no process works"
    for node in nodes:
        place = f" at {node.address}" if node.address else ""
        version = f", triobot {node.version}" if node.version else ""
        waits = f", and waits for {node.waits_for}" if node.waits_for else ""
        silent = f", but has said nothing for {span(int(node.silent * 1000))}" if node.silent else ""
        does = "works" if node.works else "stands by"
        yield f"{node.name}{place} {does} for {span(int(node.seconds * 1000))}{version}{waits}{silent}"
