"""``triobot replay``: replay a stored conversation under the current code, and show where the code waits."""

from __future__ import annotations

import argparse
import pdb
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, cast

import trio

from ...cli.consulting import consult, instant, settings_of
from ...cli.exported import lines_of_export, read_exported
from ...cli.loading import load_bot
from ...cli.terminal import harmless
from ...cli.tracebacks import authors_words
from ...conversations.inspection.replay_state import authors_frames
from ...conversations.inspection.rerun import Rerun, open_rerun
from ...conversations.revival.stored import Stored
from ...conversations.routes.router import table_of
from ...conversations.running.lines import authors_traceback, frames_of, positions
from ...engine.records import EFFECTS, FIRED, OUTCOMES, TURNS
from ...errors import ConfigError
from ...operator.routes import Answer
from ...runtime.bot import Bot, dry_services_of
from ...runtime.settings import Settings
from ...seams.rooms import place_name
from ...wire.ids import ChatId

DETAILS: Final = """\
Runs the journal of a conversation under the code of MODULE:BOT, and says where the conversation stands then:
in which line and operation, and with --locals with which variables. A conversation that crashed is kept for a
week: of that one it shows the line that failed and the calls that led there, and with --locals the error's
own words. --pdb opens the debugger there. It sends nothing, runs no step, opens no resource and writes
nothing. The bot may run meanwhile. It needs no token, and reads a store of `triobot dev`, too.

WHICH is a chat's number, or a file that `triobot journal export` wrote without --redact. In a chat it takes
the conversation that goes on there, else the last one that crashed, or ended and is kept.

examples:
  triobot replay 1234 pizza:bot
  triobot replay 1234 pizza:bot --until 7 --locals
  triobot replay 13601 pizza.py:bot --store sqlite:dev.db --pdb
  triobot replay report.jsonl pizza:bot --pdb
"""
_WIDTH: Final = 200
_ABOUT: Final = OUTCOMES | EFFECTS | {FIRED}
"""Tags of records that belong to one operation or block."""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("which", metavar="WHICH", help="a chat's number, or a file with an exported journal")
    parser.add_argument("bot", metavar="MODULE:BOT", help="run the journal under this bot's code")
    parser.add_argument(
        "--conversation", metavar="NUMBER", type=int, help="which one, if the chat has several"
    )
    parser.add_argument("--until", metavar="ID", help="stop before the outcome of this operation, such as 7")
    parser.add_argument(
        "--locals", action="store_true", help="show the variables, which may hold what people wrote"
    )
    parser.add_argument("--pdb", action="store_true", help="open the debugger where it stands")
    parser.add_argument("--store", metavar="URL", help="the bot's store, if `triobot run` is given one")


def run(arguments: argparse.Namespace) -> None:
    """Replay the journal, and print where the code waits or failed; exit with 1 if the replay diverges."""
    bot = load_bot(arguments.bot)
    settings = settings_of(arguments)
    stored = read_exported(_lines(arguments, settings))
    if arguments.until is not None:
        stored = until(stored, arguments.until)
    if not trio.run(_replay, bot, settings, stored, arguments):
        raise SystemExit(1)


def _lines(arguments: argparse.Namespace, settings: Settings) -> list[Answer]:
    which: str = arguments.which
    digits = which.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        return lines_of_export(Path(which))
    number: int | None = arguments.conversation
    if number is None:
        rows = consult(settings, {"ask": "journals.list", "chat_id": int(which), "crashed": True})
        kept = [row for row in rows if row["ended_at"] is not None]
        crashed = [cast("int", row["conversation"]) for row in kept if row["error"] is not None]
        ended = [cast("int", row["conversation"]) for row in kept if row["error"] is None]
        found = [cast("int", row["conversation"]) for row in rows if row["ended_at"] is None]
        found = found or crashed[-1:] or ended[-1:]
        if len(found) != 1:
            what = f"{len(found)}: say which with --conversation, of {found}" if found else "no conversation"
            raise ConfigError(f"{place_name(ChatId(int(which)))} has {what}")
        number = found[0]
        if others := [str(one) for one in crashed if one != number]:
            where = place_name(ChatId(int(which)))
            print(f"note: kept of {where}, since they crashed: {', '.join(others)}", file=sys.stderr)
    return consult(settings, {"ask": "journals.show", "conversation": number})


async def _replay(bot: Bot, settings: Settings, stored: Stored, arguments: argparse.Namespace) -> bool:
    services, table = dry_services_of(bot, settings), table_of(bot)
    async with open_rerun(services, table, stored) as rerun:
        for line in _shown(rerun, stored, variables=arguments.locals):
            print(harmless(line))
        if arguments.pdb and rerun.failures:
            pdb.post_mortem(authors_traceback(rerun.failures[0].__traceback__))
        elif arguments.pdb and "" in rerun.tasks:
            _debug([frame for _, frame in _frames(rerun)])
        return rerun.divergence is None


def _shown(rerun: Rerun, stored: Stored, *, variables: bool) -> Iterator[str]:
    standing = rerun.standing()
    if rerun.divergence is not None:
        yield f"DIVERGES: {rerun.divergence}"
        if stored.row.ended_at is not None:
            yield f"when it ran, it failed with {stored.row.error}; this code doesn't come to that"
    for changed in rerun.changed:
        yield f"note: {changed}"
    if standing.ending is not None:
        yield standing.ending if rerun.failed_at is None else f"{standing.ending} at {rerun.failed_at}"
        for error in rerun.failures:
            yield from _words_of(error, variables=variables)
        return
    yield standing.words()
    for path, spot in standing.spots.items():
        yield f"{'main' if not path else f'child {path}'}: {' > '.join(spot.lines)}"
    for id, due, _ in standing.blocks:
        yield f"block {id} is open{'' if due is None else f' until {instant(due)}'}"
    if variables:
        yield from (f"{name} = {value}" for name, value in _variables(rerun).items())


def _words_of(error: Exception, *, variables: bool) -> Iterator[str]:
    """Yield the author's lines in an error's traceback, innermost last; with `variables` also the message."""
    if variables:
        yield from authors_words(error, variables=True).split("\n")
        return
    for at in positions(traceback.walk_tb(error.__traceback__)):
        yield f"{at.file}:{at.line} in {at.function}: {at.code}"


def _variables(rerun: Rerun) -> dict[str, str]:
    return {
        f"{path or 'main'} {frame.f_code.co_name}.{name}": repr(value)[:_WIDTH]
        for path, frame in _frames(rerun)
        for name, value in frame.f_locals.items()
    }


def _frames(rerun: Rerun) -> list[tuple[str, FrameType]]:
    return [
        (path, frame)
        for path, task in sorted(rerun.tasks.items(), reverse=True)
        for frame, _ in authors_frames(frames_of(task))
    ]


def _debug(frames: list[FrameType]) -> None:
    """Open the debugger in the frames of suspended tasks, as if an error had been raised there."""
    traceback: TracebackType | None = None
    for frame in reversed(frames):
        traceback = TracebackType(traceback, frame, frame.f_lasti, frame.f_lineno)
    pdb.post_mortem(traceback)


def until(stored: Stored, operation: str) -> Stored:
    """Return the journal up to the outcome of `operation`, without that outcome.

    Raises:
        ConfigError: the journal has no such operation.
    """
    records = stored.records
    found = [n for n, record in enumerate(records) if record[0] in _ABOUT and str(record[2]) == operation]
    if not found:
        raise ConfigError(f"the journal knows no operation {operation}; `triobot journal show` has them all")
    ends = next((n for n in found if records[n][0] in TURNS), len(records))
    # The rows of effects may belong to operations after the cut, so all these rows are left out.
    return Stored(stored.row, [record for record in records[:ends] if record[0] not in EFFECTS])
