"""``triobot status``: a bot's state, and the waiting work in its store."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, cast

import trio

from ..base.alarm_kinds import STOPPING
from ..errors import StoreError
from ..operator.loopback import is_on_server
from ..operator.routes import Answer
from ..runtime.settings import Settings
from .arguments import add_bot_options, add_json
from .consulting import ask_running, consult, gather, instant, print_answer, settings_of, span, store_file

DETAILS: Final = """\
It asks a running bot. While none runs, it reads the store.

With --check it says in one line and by its exit code whether the bot does its work. Then it asks the running
bot only, for five seconds at most. It needs no token and never opens the store, since a bot that starts just
then would be refused.
  0  the bot does its work
  1  it can't ask: a setting is wrong, or the bot is another user's
  2  wrong usage
  3  no bot runs
  4  it can't know: the bot gives no answer, or the store can't be read
  5  a bot runs and does not work, or an alarm that stops its work is open

examples:
  triobot status
  triobot status --bot pizza:bot --json | jq .inbox
  triobot status --check || echo "look after the bot"
"""
_Checked: TypeAlias = "tuple[int, str, Answer | None]"

GONE: Final = 3
UNKNOWN: Final = 4
STOPPED: Final = 5

_PATIENCE: Final = 5.0
_MOST_ALARMS: Final = 20
_SQLITE: Final = b"SQLite format 3\0"


def declare(parser: argparse.ArgumentParser) -> None:
    add_bot_options(parser)
    add_json(parser, what="one JSON object, for programs")
    parser.add_argument(
        "--check", action="store_true", help="say in one line, and by the exit code, whether the bot works"
    )


def run(arguments: argparse.Namespace) -> None:
    settings = settings_of(arguments)
    if arguments.check:
        code, line, state = trio.run(_checked, settings)
        print_answer([{"code": code, "said": line, "status": state}], [line], as_json=arguments.json)
        sys.exit(code)
    (state,) = consult(settings, {"ask": "status"})
    print_answer([state], _lines(state), as_json=arguments.json)


async def _checked(settings: Settings) -> _Checked:
    """Request the running bot's status. Return the exit code, a line with the reason, and the status.

    Raises:
        ConfigError: the bot refuses this user.
    """
    try:
        state = await _ask_running(settings.store)
    except trio.TooSlowError:
        return UNKNOWN, f"the bot gives no answer within {_PATIENCE:.0f} seconds", None
    except StoreError as error:
        return UNKNOWN, str(error), None
    if state is None:
        return (GONE, "no bot runs", None) if is_on_server(settings.store) else _without(store_file(settings))
    stopping = sorted(STOPPING.intersection(cast("Mapping[str, int]", state["open_alarm_kinds"])))
    alarms = f"; open alarms that stop its work: {', '.join(stopping)}" if stopping else ""
    return (0 if state["working"] and not stopping else STOPPED), f"the bot {_state(state)}{alarms}", state


def _without(store: Path) -> _Checked:
    """Return the result without a running bot. Check whether the store's file exists and is readable."""
    try:
        with store.open("rb") as file:
            readable = file.read(len(_SQLITE)) in (_SQLITE, b"")  # a new store is empty for a moment
    except FileNotFoundError:
        return GONE, f"no bot runs, and there is no store at {store}", None
    except OSError as error:
        return UNKNOWN, f"no bot runs, and the store {store} can't be read: {error.strerror}", None
    if not readable:
        return UNKNOWN, f"no bot runs, and {store} is no store", None
    return GONE, "no bot runs", None


async def _ask_running(store: str) -> Answer | None:
    with trio.fail_after(_PATIENCE):
        found = await gather(partial(ask_running, store), {"ask": "status"})
    return found[0] if found else None


def _state(state: Answer) -> str:
    states = cast("Mapping[str, str]", state["states"])
    why = [f"{part} {state}" for part, state in states.items() if state not in ("ok", "working")]
    return "works" if state["working"] else f"DOES NOT WORK ({', '.join(why)})"


def _lines(state: Answer) -> Iterator[str]:
    now = cast("int", state["at"])
    if not state["running"]:
        began = state["opened_at"]
        last = "none has run on this store" if began is None else f"the last one began {instant(began)}"
        yield f"no bot runs; {last}"
    else:
        node = f", the active node being {named}" if (named := state.get("node")) else ""
        yield f"the bot {_state(state)}, since {instant(state['opened_at'])}{node}"
    if state["unclean"]:
        yield f"stops in a row that were not clean: {state['unclean']}"
    if state["epoch"]:
        yield f"restored from a backup: {state['epoch']} times"
    if state["risk"]:
        yield f"THE STORE MAY LOSE what it has acknowledged: {state['risk']}"
    live = f", {state['live']} in memory" if "live" in state else ""
    yield f"conversations: {state['conversations']}{live}, {state['parked']} parked"
    if state["next_wake"] is not None:
        yield f"next wakes at {instant(state['next_wake'])}"
    oldest = state["oldest_event_at"]
    age = f", the oldest for {span(now - oldest)}" if isinstance(oldest, int) else ""
    yield f"inbox: {state['inbox']} events wait{age} ({state['inbox_bytes']} bytes)"
    yield f"effects of unknown outcome: {state['unknown_effects']}; unreadable requests kept: {state['raw']}"
    if "outbox" in state:
        yield f"outbox: {_numbers(state['outbox'])}"
        waited = cast("float", state["send_age"])
        if waited >= 1:
            yield f"the oldest of what is to be sent has waited for {span(int(waited * 1000))}"
        yield f"arrived since the start: {_numbers(state['arrived'])}"
        yield f"since the start: {_numbers(state['counts'])}"
    yield f"payments: {_numbers(state['payments'])}"
    if "money" in state:
        yield _money(state["money"], now)
    if state.get("payment_facts"):
        yield f"of them since the start: {_numbers(state['payment_facts'])}"
    yield f"open alarms: {state['open_alarms'] or 'none'}"
    alarms = cast("list[Answer]", state["alarms"])
    for alarm in alarms[:_MOST_ALARMS]:
        yield f"  {instant(alarm['last'])} {alarm['kind']} x{alarm['count']}: {alarm['text']}"
    if len(alarms) > _MOST_ALARMS:
        yield f"  and {len(alarms) - _MOST_ALARMS} more: `triobot alarms`"


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
