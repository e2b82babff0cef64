"""``triobot inspect``: conversations turn by turn in the browser, read only."""

from __future__ import annotations

import argparse
import getpass
import logging
import os
import secrets
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, cast, final

import trio

from ...base.frozen import guarded
from ...cli.arguments import port
from ...cli.consulting import Ask, gather, open_to_look, settings_of
from ...cli.exported import lines_of_export, read_exported
from ...cli.loading import check_there
from ...cli.terminal import harmless, set_up_logging, until_signal
from ...emulator.server import ServedPage
from ...emulator.views import JsonObject
from ...errors import ConfigError
from ...operator.api import Tell
from ...operator.routes import Answer, Question
from ...seams.rooms import place_name
from ...wire.ids import ChatId
from ...wire.rules import JsonValue
from ..errors import TravelError
from ..inspector import serve_inspector
from ..stored_journals import StoredJournals
from ..travel.saved_page import saved_page
from ..travel.twins import Twins, view_row
from .listening import add_opening, check_listening, open_page, tell_ready

log: Final = logging.getLogger("triobot.inspect")

DETAILS: Final = """\
Shows a conversation at each of its turns, as `triobot dev` does: its chat, the line in which the code stood,
what it waited for. It asks a running bot; if the bot is stopped, it reads a copy of the store. It sends
nothing, runs no step, opens no resource and writes nothing. It imports MODULE, which runs the code at the
top level of that module.

It hides what people wrote: of a text it shows the length, of a variable the kind. --show-values shows all of
it, and the log says who looked at which chat.

WHICH is a chat's number, a conversation's, or a file that `triobot journal export` wrote; without it, all
conversations are listed. An export with --redact can't be shown: no code can be run over it.

Whoever has the printed address can look. Only this machine can reach it. Ctrl-C ends it. --to FILE writes one
conversation as a page instead, which any browser opens, with no server and no installation: to attach to a
report.

examples:
  triobot inspect pizza:bot
  triobot inspect 13601 pizza:bot --show-values
  triobot inspect 13601 pizza.py:bot --store sqlite:dev.db --open
  triobot inspect report.jsonl pizza:bot
  triobot inspect report.jsonl pizza:bot --to report.html
"""
_PAGE: Final = 500
"""Maximum number of conversations in one page of the list."""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "which",
        metavar="WHICH",
        nargs="?",
        help="a chat's or conversation's number, or a file with an exported journal",
    )
    parser.add_argument("bot", metavar="MODULE:BOT", nargs="?", help="run journals under this bot's code")
    parser.add_argument("--store", metavar="URL", help="the bot's store, if `triobot run` is given one")
    parser.add_argument("--show-values", action="store_true", help="show what people wrote")
    parser.add_argument("--to", metavar="FILE.html", type=Path, help="write a page that needs no server")
    parser.add_argument(
        "--port", metavar="N", type=port, default=0, help="the page's port (default: a free one)"
    )
    add_opening(parser)


def run(arguments: argparse.Namespace) -> None:
    """Serve the page until Ctrl-C, or write the page of ``--to``."""
    check_listening(arguments)
    which, bot = _meant(arguments.which, arguments.bot)
    if bot is None:
        raise ConfigError("which code? triobot inspect WHICH MODULE:BOT")
    check_there(bot)
    arguments.bot = None
    set_up_logging(debug=arguments.debug)
    trio.run(until_signal, partial(_inspect, arguments, which, bot))


def _meant(first: str | None, second: str | None) -> tuple[int | Path | None, str | None]:
    """Return the number or file that the arguments name, if any, and the bot's target."""
    if first is None:
        raise ConfigError("which bot? triobot inspect MODULE:BOT")
    if second is None and not _is_number(first) and (first.endswith(".py") or not Path(first).is_file()):
        return None, first
    return int(first) if _is_number(first) else Path(first), second


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit()


# --- the inspected bot, store or export


@final
@guarded
class _Subject:
    """The inspected bot, store or export.

    Attributes:
        words: description for the terminal.
        ask: sends a request to the bot, store or export.
        what: ``bot``, ``store`` or ``export``.
        started_at: wall time of the bot's last start, if known.
    """

    words: str
    ask: Ask
    what: str
    started_at: int | None = None


@asynccontextmanager
async def _opened(arguments: argparse.Namespace, which: int | Path | None) -> AsyncGenerator[_Subject]:
    if isinstance(which, Path):
        lines = lines_of_export(which)
        read_exported(lines)
        yield _Subject(f"the journal in {which}", partial(_ask_export, lines), "export")
        return
    settings = settings_of(arguments)
    async with open_to_look(settings) as (ask, running):
        (status,) = await gather(ask, {"ask": "status"})
        started_at = cast("int | None", status["opened_at"])
        words = f"the bot that runs on {settings.store}" if running else f"{settings.store}, as it is now"
        yield _Subject(words, ask, "bot" if running else "store", started_at)


async def _ask_export(lines: Sequence[Answer], question: Question, tell: Tell) -> None:
    """Answer an operator's request from an exported journal, as a bot would."""
    row, given = lines[0], question.get
    match question["ask"]:
        case "journals.list" if given("chat_id") in (None, row["chat_id"]) and not given("after"):
            await tell(row)
        case "journals.list":
            await trio.lowlevel.checkpoint()
        case "journals.code":  # an export's lines also contain the code
            for line in lines:
                await tell(line)
        case "journals.show" if given("conversation") == row["conversation"]:
            for line in lines:
                await tell(line)
        case _:
            raise ConfigError("that isn't in this file")


def _noted(ask: Ask) -> Ask:
    """Return a function like `ask` that also logs, for each journal shown, the user's name and the chat."""

    async def noting(question: Question, tell: Tell) -> None:
        async def note(fields: Answer) -> None:
            if "route" in fields:
                chat = place_name(ChatId(cast("int", fields["chat_id"])))
                log.warning("%s sees what was written in %s", getpass.getuser(), chat)
            await tell(fields)

        await ask(question, note if question["ask"] == "journals.show" else tell)

    return noting


# --- serving


async def _inspect(arguments: argparse.Namespace, which: int | Path | None, bot: str) -> None:
    async with _opened(arguments, which) as subject:
        shows: bool = arguments.show_values
        ask = _noted(subject.ask) if shows else subject.ask
        journals = StoredJournals(ask, partial(_marks, subject.started_at))
        chat, named = await _meant_in(journals, which)
        about: JsonObject = {"what": subject.what, "bot": bot, "hidden": not shows}
        news = trio.lowlevel.ParkingLot()

        async with trio.open_nursery() as nursery:
            values = "shown" if shows else "hidden"
            command = [sys.executable, "-m", "triobot.studio.commands.twin", values]
            twins = Twins(command, os.environ, bot, journals, news.unpark_all)
            # --to needs only one replay, so no second twin is kept ready.
            wait_up = trio.lowlevel.checkpoint if arguments.to is None else trio.sleep_forever
            await nursery.start(twins.pool.run, wait_up)
            if arguments.to is not None:
                row = await _only(journals, chat, named)
                await _save(arguments.to, twins, row, news)
                nursery.cancel_scope.cancel()
                return
            serve = partial(
                serve_inspector,
                twins,
                partial(_listed, journals, about, chat),
                key=secrets.token_urlsafe(24),
                port=arguments.port,
            )
            inspector: ServedPage = await nursery.start(serve)
            _greet(subject, inspector, bot, shows=shows)
            if arguments.ready_fd is not None:
                facts = {"page": inspector.page_address, "key": inspector.control_token}
                tell_ready(arguments.ready_fd, facts)
            if arguments.open:
                await open_page(inspector.one_time_address())


async def _meant_in(journals: StoredJournals, which: int | Path | None) -> tuple[int | None, int | None]:
    """Return the chat and the conversation to which the view is limited; None for no limit."""
    if not isinstance(which, int):
        return None, None
    if await journals.conversations(which):
        return which, None
    try:
        lines = await journals.journal(which)
    except TravelError:
        lines = []
    if not lines:
        raise ConfigError(f"there is neither a chat nor a conversation {which} that is kept")
    return cast("int", lines[0]["chat_id"]), which


async def _only(journals: StoredJournals, chat: int | None, conversation: int | None) -> JsonObject:
    """Return the row of the only conversation that matches; raise ConfigError unless exactly one matches."""
    rows = await (journals.every(0, _PAGE) if chat is None else journals.conversations(chat))
    rows = [row for row in rows if conversation in (None, row["conversation"])]
    if len(rows) != 1:
        numbers = ", ".join(str(row["conversation"]) for row in rows[-10:]) or "none"
        raise ConfigError(f"--to writes one conversation, so name its number; there are {numbers}")
    return rows[0]


async def _save(path: Path, looks: Twins, row: JsonObject, news: trio.lowlevel.ParkingLot) -> None:
    """Replay a conversation, and write its page to `path`."""
    chat, conversation = cast("int", row["chat_id"]), cast("int", row["conversation"])
    id = cast("dict[str, str]", await looks.open(chat, conversation))["id"]
    while "notches" not in looks.passed(id):
        await news.park()
    page = await saved_page(looks, id)
    try:
        await trio.Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error.strerror}") from error
    print(f"triobot: conversation {conversation} is in {harmless(str(path))}")


def _marks(started_at: int | None, since: int) -> Sequence[JsonObject]:
    if started_at is None or started_at < since:
        return []
    return [{"t": started_at, "what": "restart"}]


async def _listed(
    journals: StoredJournals, about: JsonObject, chat: int | None, after: int
) -> Mapping[str, JsonValue]:
    if chat is not None:
        rows, more = [*await journals.conversations(chat)], None
    else:
        rows = [*await journals.every(after, _PAGE)]
        more = rows[-1]["conversation"] if len(rows) == _PAGE else None
    return {"about": about, "conversations": [view_row(row) for row in rows], "after": more}


def _greet(subject: _Subject, inspector: ServedPage, bot: str, *, shows: bool) -> None:
    print(f"\n  {harmless(subject.words)}:\n")
    print(f"    {inspector.page_address}\n")
    print(f"  What {harmless(bot)} does on import is done, and what it does between its operations.")
    print("  Nothing is sent, no step runs, nothing is written.")
    if not shows:
        print("  What people wrote is hidden; --show-values shows it.")
    print("  Ctrl-C ends it.\n", flush=True)
