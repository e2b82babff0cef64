"""The process of a crowd under ``triobot dev``: ``python -m triobot.studio.commands.dev_crowd FD``.

See `travel.crowds`. FD is a socket to the parent. The parent sends the crowd's plan as one line of JSON. The
process sends lines of JSON back; the last line contains ``again`` or ``error``.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from ...cli.exported import read_exported
from ...cli.loading import load_bot
from ...emulator.views import JsonObject
from ...engine.records import time_of
from ...errors import TriobotError
from ...runtime.bot import Bot
from ...testing import virtual
from ...testing.promises import BrokenPromise
from ...testing.simulating import FirstBroken, Plan, simulate_until
from ...wire.rules import JsonValue
from ..travel.past import notch_starts
from .simulate import again, unseen


def main() -> None:
    """Simulate the crowd in the parent's plan."""
    with socket.socket(fileno=int(sys.argv[1])) as end, end.makefile("rwb") as line:
        asked: Mapping[str, Any] = json.loads(line.readline())

        def say(report: JsonObject) -> None:
            line.write(json.dumps(report, separators=(",", ":")).encode() + b"\n")
            line.flush()

        try:
            _let_in(load_bot(asked["bot"]), asked, say)
        except TriobotError as error:
            say({"error": str(error)})


def _let_in(bot: Bot, asked: Mapping[str, Any], say: Callable[[JsonObject], None]) -> None:
    plan, found = Plan(**asked["plan"]), FirstBroken()

    def progress(part: float) -> None:
        say({"part": part})

    report: JsonObject = {"failed": ""}
    try:
        outcome = virtual.run(partial(simulate_until, found, bot, plan, progress=progress))
    except Exception as error:  # code that differs from its journal, or any error of a background task
        report["failed"] = str(error) or type(error).__name__
    else:
        names = ("acts", "events", "messages", "faults", "routes", "kept", "broken")
        report |= {name: getattr(outcome, name) for name in names}
        report["never"] = cast("JsonValue", unseen(bot, outcome))
    if found.promise is not None:
        report["first"] = _view_first(found, found.promise)
        report["journals"] = cast("JsonValue", found.journals)
    say({**report, "again": again(asked["bot"], plan)})


def _view_first(found: FirstBroken, promise: BrokenPromise) -> JsonObject:
    """Describe the first broken promise, and the notch at which the conversation broke the promise."""
    view: JsonObject = {"text": promise.text, "person": found.person, "notch": None}
    view["kills"] = list[JsonValue](found.kills)
    if found.journals:
        view |= {name: cast("JsonValue", found.journals[0][0][name]) for name in ("chat_id", "conversation")}
        records = read_exported(found.journals[0]).records
        times = [time_of(records[place]) for place in notch_starts(records)]
        if not found.person:  # for each notch, name the author of the last event before the notch
            wrote = [[who for at, who in found.events if at <= time][-1:] for time in times]
            view["wrote"] = cast("JsonValue", wrote)
        if promise.at is not None:
            view["notch"] = max(sum(time <= promise.at for time in times) - 1, 0)
    return view


if __name__ == "__main__":
    main()
