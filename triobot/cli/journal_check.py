"""``triobot journal check``: run all stored journals under new code, before that is deployed."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final, cast

from ..conversations.running.lines import line_above
from ..errors import ConfigError, NondeterminismError, UnreadableRecordError
from ..journal.faults import leaves
from .terminal import harmless

if TYPE_CHECKING:
    from ..bot import Bot
    from ..operator.requests import Request, Told
    from ..settings import Settings
    from .consulting import Ask

_PAGE: Final = 100
_BAR: Final = 40
# Each journal has some seconds; code that never waits can't be ended from within.
SPINS: Final = 20.0


class _RunsOnError(BaseException):
    """Code that runs on and on, without ever waiting; the text is its line."""


async def check(bot: Bot, settings: Settings) -> bool:
    """Check what is stored, one journal at a time; False if something would be parked."""
    from .consulting import open_desk

    checked = parked = reworded = 0
    async with open_desk(settings) as ask:
        total = cast("int", (await _answer(ask, _status()))[0]["conversations"])
        async with aclosing(_pages(ask)) as pages:
            async for page in pages:
                for told in page:
                    if (lines := await _journal(ask, told)) is None:
                        continue
                    checked += 1
                    because, changed = await _look(bot, settings, lines)
                    reworded += changed
                    if because is not None:
                        parked += 1
                        _clear()
                        where = f"chat {told['chat_id']}, conversation {told['conversation']} {told['route']}"
                        print(harmless(f"{where}: {because}"))
                    _show(checked / max(total, checked))
    _clear()
    note = f", {reworded} with other words than were said" if reworded else ""
    print(f"{checked} conversations: {checked - parked} go on, {parked} would be parked{note}")
    return parked == 0


def _status() -> Request:
    from ..operator import Status

    return Status()


async def _pages(ask: Ask) -> AsyncGenerator[list[Told]]:
    """The conversations that have not ended, a page at a time: they may be a million."""
    from ..operator import ListJournals

    after = 0
    while page := await _answer(ask, ListJournals(None, after, _PAGE)):
        after = cast("int", page[-1]["conversation"])
        yield [told for told in page if told["ended_at"] is None]


async def _journal(ask: Ask, told: Told) -> list[Told] | None:
    from ..journals import ConversationId
    from ..operator import ShowJournal

    try:
        return await _answer(ask, ShowJournal(ConversationId(cast("int", told["conversation"]))))
    except ConfigError:
        return None  # it has ended meanwhile


async def _look(bot: Bot, settings: Settings, lines: list[Told]) -> tuple[str | None, int]:
    """Why a conversation would be parked, and how many of its words have changed."""
    from ..bot import dry_services_of
    from ..conversations.inspection.exported import read_exported
    from ..conversations.inspection.rerun import open_rerun
    from ..conversations.revival.stored import survives
    from ..conversations.routes.router import table_of

    table = table_of(bot)
    try:
        stored = read_exported(lines)
        if not survives(stored, table):
            return None, 0  # it ends at the next start, with a word to its user
        with _bounded():
            async with open_rerun(dry_services_of(bot, settings), table, stored) as rerun:
                found = rerun.divergence
                return None if found is None else str(found), len(rerun.reworded)
    except NondeterminismError as error:
        return error.what, 0
    except UnreadableRecordError as error:
        return str(error), 0
    except BaseExceptionGroup as group:
        spins, rest = group.split(_RunsOnError)
        if rest is not None or spins is None:
            raise
        return f"it runs on and on, without ever waiting ({next(iter(leaves(spins)))})", 0


@contextmanager
def _bounded() -> Generator[None]:
    """Raise in code that never waits."""

    def ring(_: int, frame: FrameType | None) -> None:
        raise _RunsOnError(line_above(frame))

    if threading.current_thread() is not threading.main_thread():
        yield  # no signal comes to another one
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SPINS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


async def _answer(ask: Ask, request: Request) -> list[Told]:
    import trio

    answer: list[Told] = []

    async def tell(fields: Told) -> None:
        await trio.lowlevel.checkpoint()
        answer.append(fields)

    await ask(request, tell)
    return answer


def _show(part: float) -> None:
    if sys.stderr.isatty():
        full = round(part * _BAR)
        print(f"\r[{'#' * full}{'.' * (_BAR - full)}] {part:4.0%}", end="", file=sys.stderr, flush=True)


def _clear() -> None:
    if sys.stderr.isatty():
        print(f"\r{' ' * (_BAR + 8)}\r", end="", file=sys.stderr, flush=True)
