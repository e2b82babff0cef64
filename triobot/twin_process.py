"""The twin's own process: ``python -m triobot.twin_process``, started and asked by `twin`.

One question a line on its standard input, one answer a line on its standard output. It ends with its input.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

import attrs
import trio

from .bot import Bot, dry_services_of, importing
from .clock import StoppedClock, Timepiece
from .conversations.inspection.closed import closed_resources, touched
from .conversations.inspection.exported import read_exported
from .conversations.inspection.rerun import Divergence, open_rerun
from .conversations.inspection.standing import Standing, as_json
from .conversations.routes.router import table_of
from .errors import NondeterminismError, TriobotError
from .settings import Settings

if TYPE_CHECKING:
    from .wire.rules import JsonValue

# A journal has some seconds; code that never waits can't be ended from within, and ends with the process.
_SPINS: Final = 20


def main() -> None:
    """Answer until nobody asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(19)
    # What the bot's own modules print is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for line in sys.stdin:
        signal.alarm(_SPINS)
        said = _answer(json.loads(line))
        signal.alarm(0)
        print(json.dumps(said), file=answers, flush=True)


def _answer(asked: dict[str, Any]) -> JsonValue:
    module, file, name = asked["home"]
    sys.path[:] = asked["path"]
    try:
        with importing(module):
            bot: object = getattr(_module(module, file), name, None)
    except (Exception, SystemExit):
        return None
    return trio.run(_run, bot, asked) if isinstance(bot, Bot) else None


def _module(name: str, file: str) -> ModuleType:
    loaded = sys.modules.get(name)
    if loaded is not None and Path(getattr(loaded, "__file__", None) or "").resolve() == Path(file):
        return loaded
    try:
        found = importlib.import_module(name)
    except ModuleNotFoundError:
        found = None
    if found is not None and Path(getattr(found, "__file__", None) or "").resolve() == Path(file):
        return found
    # Loaded by its place, as some test runners and the command line do.
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    found = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


async def _run(bot: Bot, asked: dict[str, Any]) -> JsonValue:
    resources = closed_resources()
    found: Divergence | None = None
    standing, beyond, failed_at = Standing(), None, None
    reworded: list[list[str]] = []
    try:
        stored = read_exported(asked["lines"])
        services = dry_services_of(bot, Settings(charge_hosts=tuple(asked["hosts"])))
        clock = Timepiece(StoppedClock(stored.records[-1].time))
        services = attrs.evolve(services, resources=resources, clock=clock)
        async with open_rerun(services, table_of(bot), stored, group=asked["group"]) as rerun:
            found, standing = rerun.divergence, rerun.standing()
            beyond, failed_at = rerun.beyond(), rerun.failed_at
            reworded += [
                [one.operation, one.what, rerun.prints.get(one.operation, ""), one.line]
                for one in rerun.reworded
            ]
    except NondeterminismError as error:
        found = Divergence("0", error.what, "?")
    except TriobotError as error:
        found = Divergence("0", str(error), "?")
    if touched(resources):
        return None  # its words may depend on what is open in the bot's own process only
    answer: dict[str, object] = {
        "divergence": None if found is None else [found.operation, found.what, found.line],
        "reworded": reworded,
        "standing": as_json(standing),
        "beyond": beyond,
        "failed_at": failed_at,
    }
    return cast("JsonValue", answer)


if __name__ == "__main__":
    main()
