"""``triobot status``: how a bot is, and what waits in its store."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Final, cast

from ..operator.requests import Status, Told
from .arguments import add_json
from .consulting import add_bot_options, consult, instant, settings_of, span
from .terminal import harmless

DETAILS: Final = """\
A running bot is asked over the socket beside its store. While none runs, the store itself tells what it can.

examples:
  triobot status
  triobot status --bot pizza:bot --json | jq .inbox
"""


def declare(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    add_bot_options(parser)
    add_json(parser, what="one JSON object, for programs")


def run(arguments: argparse.Namespace) -> None:
    """Print how the bot is."""
    (told,) = consult(settings_of(arguments), Status())
    if arguments.json:
        print(json.dumps(told))
        return
    for line in _lines(told):
        print(harmless(line))


def _lines(told: Told) -> Iterator[str]:
    now = cast("int", told["at"])
    if not told["running"]:
        yield f"no bot runs; the last one began {instant(told['opened_at'])}"
    else:
        states = cast("Mapping[str, str]", told["states"])
        why = ", ".join(f"{part} {state}" for part, state in states.items() if state not in ("ok", "working"))
        state = "works" if told["working"] else f"DOES NOT WORK ({why})"
        yield f"the bot {state}, since {instant(told['opened_at'])}"
    if told["unclean"]:
        yield f"stops in a row that were not clean: {told['unclean']}"
    if told["epoch"]:
        yield f"restored from a backup: {told['epoch']} times"
    live = f", {told['live']} in memory" if "live" in told else ""
    yield f"conversations: {told['conversations']}{live}, {told['parked']} parked"
    if told["next_wake"] is not None:
        yield f"next wakes at {instant(told['next_wake'])}"
    oldest = told["oldest_event_at"]
    age = f", the oldest for {span(now - oldest)}" if isinstance(oldest, int) else ""
    yield f"inbox: {told['inbox']} events wait{age} ({told['inbox_bytes']} bytes)"
    yield f"effects of unknown outcome: {told['unknown_effects']}; unreadable requests kept: {told['raw']}"
    if "outbox" in told:
        yield f"outbox: {_numbers(told['outbox'])}"
        waited = cast("float", told["send_age"])
        if waited >= 1:
            yield f"the oldest of what is to be sent has waited for {span(int(waited * 1000))}"
        yield f"arrived since the start: {_numbers(told['arrived'])}"
        yield f"since the start: {_numbers(told['counts'])}"
    yield f"payments: {_numbers(told['payments'])}"
    if "money" in told:
        yield _money(told["money"], now)
    if told.get("payment_facts"):
        yield f"of them since the start: {_numbers(told['payment_facts'])}"
    if told["open_alarms"]:
        yield f"open alarms: {told['open_alarms']}; `triobot payments alarms`"
    alarms = cast("list[Told]", told.get("alarms", []))
    if told["running"]:
        yield f"alarms: {len(alarms) or 'none'}"
    for alarm in alarms:
        yield f"  {instant(alarm['at'])} {alarm['kind']} x{alarm['times']}: {alarm['text']}"


def _money(ages: object, now: int) -> str:
    money = cast("Mapping[str, int | None]", ages)

    def some(what: str) -> str:
        since = money[f"oldest_{what}_at"]
        return str(money[what]) + ("" if since is None else f", the oldest for {span(now - since)}")

    return (
        f"said to be paid and not verified: {some('unverified')}; "
        f"captured and not settled: {some('unsettled')}"
    )


def _numbers(numbers: object) -> str:
    shown = [f"{name} {value}" for name, value in cast("Mapping[str, object]", numbers).items() if value]
    return ", ".join(shown) or "nothing"
