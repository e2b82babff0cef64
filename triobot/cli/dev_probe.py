"""The process of a probe under ``triobot dev``: ``python -m triobot.cli.dev_probe FD``; see `travel.probes`.

It loads the bot so that it tells which lines it reaches, does one thing, and ends. What that is comes as JSON
on its standard input; what it says goes to FD as lines of JSON, the last of which has ``files`` or ``error``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

import attrs
import trio

from ..bot import Bot, dry_services_of
from ..conversations.inspection.rerun import open_rerun
from ..conversations.routes.router import table_of
from ..emulator.views import JsonObject
from ..engine.records import time_of
from ..errors import TriobotError
from ..settings import read_environment
from ..testing import virtual
from ..testing.promises import BrokenPromise
from ..testing.simulating import FirstBroken, Plan, simulate_until_broken
from ..travel.past import notch_starts
from ..travel.reached import Reached, probing, steps_in
from ..wire.rules import JsonValue
from .exported import read_exported
from .loading import load_bot
from .simulate import again

Say = Callable[[JsonObject], None]


def main() -> None:
    """Do what is asked for."""
    asked: Mapping[str, Any] = json.loads(sys.stdin.buffer.read())
    with os.fdopen(int(sys.argv[1]), "wb") as line:

        def say(told: JsonObject) -> None:
            line.write(json.dumps(told, separators=(",", ":")).encode() + b"\n")
            line.flush()

        try:
            with probing() as reached:
                bot = load_bot(asked["bot"])
                if "plan" in asked:
                    _let_in(bot, asked["bot"], Plan(**asked["plan"]), reached, say)
                else:
                    _look_again(bot, asked["journals"], reached, say)
        except TriobotError as error:
            say({"error": str(error)})


def _let_in(bot: Bot, target: str, plan: Plan, reached: Reached, say: Say) -> None:
    """Let a crowd use the bot, and say what came of it."""
    found = FirstBroken()

    def progress(part: float) -> None:
        say({"part": part})

    told: JsonObject = {"failed": ""}
    try:
        outcome = virtual.run(partial(simulate_until_broken, bot, plan, found, progress=progress))
    except Exception as error:  # a journal that doesn't repeat itself, or whatever a background task raises
        told["failed"] = str(error) or type(error).__name__
    else:
        names = ("acts", "events", "messages", "faults", "routes", "kept", "broken")
        told |= {name: getattr(outcome, name) for name in names}
    if found.promise is not None:
        told["first"] = _told_first(found, found.promise)
        told["journals"] = cast("JsonValue", found.journals)
    say({**told, "again": again(target, plan), "files": reached.told()})


def _told_first(found: FirstBroken, promise: BrokenPromise) -> JsonObject:
    """Tell what broke, and at which notch of whose conversation."""
    told: JsonObject = {"text": promise.text, "person": found.person, "notch": None}
    told["kills"] = list[JsonValue](found.kills)
    if found.journals:
        told |= {name: cast("JsonValue", found.journals[0][0][name]) for name in ("chat_id", "conversation")}
    if found.journals and promise.at is not None:
        records = read_exported(found.journals[0]).records
        times = [time_of(records[place]) for place in notch_starts(records)]
        told["notch"] = max(sum(time <= promise.at for time in times) - 1, 0)
    return told


def _look_again(bot: Bot, journals: Sequence[Sequence[JsonObject]], reached: Reached, say: Say) -> None:
    """Run journals again, dry, and say what they reach."""
    settings = attrs.evolve(read_environment(os.environ), development=True)
    services, table, steps = dry_services_of(bot, settings), table_of(bot), set[str]()

    async def run_all() -> None:
        for given, lines in enumerate(journals):
            say({"given": given, "of": len(journals)})
            # What the present code can't be run over reaches nothing of it.
            with suppress(TriobotError):
                stored = read_exported(lines)
                steps.update(steps_in(stored))
                async with open_rerun(services, table, stored):
                    seen = set(reached.noted)
                # It was told to go where it stands; what that ran never happened.
                reached.forget_since(seen)

    trio.run(run_all)
    say({"files": reached.told(steps), "conversations": len(journals)})


if __name__ == "__main__":
    main()
