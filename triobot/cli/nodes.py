"""``triobot nodes``: the processes that share a bot's store in shards, and which of them has what."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from typing import Final

import attrs
import trio

from ..nodes.clocks import how_far
from ..store import drain_member, prefer_build, read_members
from ..store.members import NodeRow, Roster
from .arguments import add_actions, add_json
from .consulting import add_bot_options, settings_of, span
from .terminal import harmless

DETAILS: Final = """\
list says which nodes live, where their doors are, and which shards each has, for how long. Without an action,
it lists, too. drain has a node give up its shards to the others, one at a time, and take none until its
process is started again: do it before you stop a machine at leisure. A node is named as the list names it, or
by the number of its process, or by its door.

Shards go to the nodes of the newest build, by the names that `triobot run --build` or TRIOBOT_BUILD gives; a
build is newer than all that were seen before it. prefer has them go to another build that some node runs,
until a build comes that was never seen: so one goes back to what ran before.

The store is in PostgreSQL and in shards, such as postgresql://HOST/DATABASE?shards=4. The database is asked,
so that no bot has to run.

examples:
  triobot nodes
  triobot nodes drain pizza-1:812
  triobot nodes prefer 1.4.1
"""

_ACTIONS: Final = {
    "list": "say which nodes live, and which shards each has",
    "drain": "have a node give up its shards, and take none",
    "prefer": "have the shards go to the nodes of a build",
}


def declare(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    actions = add_actions(parser, _ACTIONS, unsaid="list")
    add_bot_options(parser, *actions.values())
    add_json(parser, *actions.values())
    actions["drain"].add_argument("node", metavar="NODE", help="the node, as the list names it")
    actions["prefer"].add_argument("build", metavar="BUILD", help="the build, as the list names it")


def run(arguments: argparse.Namespace) -> None:
    """List, drain, or prefer."""
    store = settings_of(arguments).store
    if arguments.action == "drain":
        trio.run(partial(drain_member, store, arguments.node))
        print(harmless(f"{arguments.node} gives up its shards"))
        return
    if arguments.action == "prefer":
        trio.run(partial(prefer_build, store, arguments.build))
        print(harmless(f"shards go to the build {arguments.build}"))
        return
    members = trio.run(read_members, store)
    if arguments.json:
        print(json.dumps(attrs.asdict(members)))
        return
    for line in _lines(members):
        print(harmless(line))


def _lines(members: Roster) -> Iterator[str]:
    if not members.nodes:
        yield "no node runs"
    for node in members.nodes:
        shards = [one for one in members.owners if one.owner == node.id]
        held = ", ".join(f"{one.shard} for {_for(one.seconds)}" for one in shards) or "none"
        yield (
            f"{node.name}  door {node.door}  triobot {node.version}  build {node.build}"
            f"  for {_for(node.seconds)}{_state_of(node)}"
        )
        yield f"  shards: {held}"
    if len({node.build for node in members.nodes}) > 1:
        newest = max(members.nodes, key=lambda node: node.build_number)
        yield f"shards go to the build {newest.build}"
    nodes = {node.id for node in members.nodes}
    for one in members.owners:
        if one.owner not in nodes:
            who = "nobody has it" if one.owner is None else f"a command has it open, {one.name}"
            last = f"; {one.name} had it last" if one.owner is None and one.name else ""
            yield f"shard {one.shard}: {who}, for {_for(one.seconds)}{last}"
        elif not one.works:
            yield f"shard {one.shard}: {one.name} is opening it, for {_for(one.seconds)}"


def _state_of(node: NodeRow) -> str:
    drained = ", drained" if node.drained else ""
    failing = ", the work of a shard failed there: see its log" if node.failing else ""
    clock = f", its clock is {how_far(node.clock_off)} the database server's" if node.clock_off else ""
    return f"{drained}{failing}{clock}"


def _for(seconds: float) -> str:
    return span(int(seconds * 1000))
