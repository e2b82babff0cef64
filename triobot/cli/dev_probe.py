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
from typing import Any

import attrs
import trio

from ..bot import Bot, dry_services_of
from ..conversations.inspection.rerun import open_rerun
from ..conversations.routes.router import table_of
from ..emulator.views import JsonObject
from ..errors import TriobotError
from ..settings import read_environment
from ..travel.reached import Reached, probing, steps_in
from .exported import read_exported
from .loading import load_bot

Say = Callable[[JsonObject], None]


def main() -> None:
    """Do what is asked for."""
    asked: Mapping[str, Any] = json.loads(sys.stdin.buffer.read())
    with os.fdopen(int(sys.argv[1]), "wb") as line:

        def say(told: JsonObject) -> None:
            line.write(json.dumps(told, separators=(",", ":")).encode() + b"\n")
            line.flush()

        if "plan" in asked:
            # Only a crowd needs the emulator, half of what there would be to load.
            from .dev_crowd import let_in

            act = let_in
        else:
            act = _look_again
        try:
            with probing() as reached:
                bot = load_bot(asked["bot"])
                act(bot, asked, reached, say)
        except TriobotError as error:
            say({"error": str(error)})


def _look_again(bot: Bot, asked: Mapping[str, Any], reached: Reached, say: Say) -> None:
    """Run journals again, dry, and say what they reach."""
    journals: Sequence[Sequence[JsonObject]] = asked["journals"]
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
