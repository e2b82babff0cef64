"""How a command asks a bot: the running one over its socket or its store, else the store itself, opened."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias, TypeVar, final

import attrs
import trio

from ..base.clock import SystemClock
from ..errors import ConfigError, StoreError, StoreLockedError
from ..operator.api import OperatorApi, Tell
from ..operator.calling import ask
from ..operator.loopback import file_of, is_on_server, socket_path
from ..operator.orders import ask_through
from ..operator.requests import (
    AboutBroadcasts,
    AboutJobs,
    ListAlarms,
    ListJournals,
    Reach,
    ReadCode,
    ReadJournals,
    ReadKept,
    Request,
    ShowJournal,
    Status,
    Told,
)
from ..runtime.settings import Settings, read_environment
from ..runtime.work import api_of
from ..store import Stamp, copy_still, is_made, open_store
from .loading import load_bot

Ask: TypeAlias = "Callable[[Request, Tell], Awaitable[None]]"
"""Carries a question to the running bot, or to the store itself."""

_T = TypeVar("_T")
_PAUSES: Final = (0.1, 0.2, 0.4, 0.8)
"""How long a process that has just taken a store may need until it can be asked."""


@final
class _OpenElsewhereError(StoreError):
    """Another process has the store, and could not be asked; nothing was done."""


def settings_of(arguments: argparse.Namespace) -> Settings:
    """Read the settings that name the store.

    Raises:
        ConfigError: a variable can't be read, or there is no such bot.
    """
    settings = load_bot(arguments.bot).settings() if arguments.bot else read_environment(os.environ)
    return settings if arguments.store is None else attrs.evolve(settings, store=arguments.store)


def stamp_of(settings: Settings) -> Stamp:
    """Return what a store is bound to.

    Raises:
        ConfigError: there is no token.
    """
    return Stamp(settings.base_url, settings.checked_token.reveal())


def store_file(settings: Settings) -> Path:
    """Return the file of a store that has one.

    Raises:
        ConfigError: it has none.
    """
    if is_on_server(settings.store):
        raise ConfigError(
            "a store in PostgreSQL is no file: back it up and check it with PostgreSQL's own tools, such as"
            " pg_dump; inspect looks at it while its bot runs"
        )
    if (file := file_of(settings.store)) is None:
        raise ConfigError("only a sqlite: store is a file; a store in memory ends with its bot")
    return file


def consult(settings: Settings, request: Request) -> list[Told]:
    """Ask the bot, and return the lines of its answer.

    Raises:
        ConfigError: there is no store, or no such thing in it.
        StoreError: it could not be done.
    """
    return trio.run(gather, partial(ask_bot, settings), request)


async def gather(ask: Callable[[Request, Tell], Awaitable[object]], request: Request) -> list[Told]:
    """Ask, and return the lines of the answer.

    Raises: as `consult`.
    """
    told: list[Told] = []

    async def tell(fields: Told) -> None:
        await trio.lowlevel.checkpoint()
        told.append(fields)

    await ask(request, tell)
    return told


async def ask_bot(settings: Settings, request: Request, tell: Tell) -> bool:
    """Ask within a program that runs already; returns whether it was the running bot that answered.

    Raises: as `consult`.
    """
    return await _once_settled(partial(_ask_once, settings, request, tell))


async def ask_running(store: str, request: Request, tell: Tell) -> bool:
    """Ask the bot that runs on the store at this address; False if none does. The store isn't opened.

    Raises:
        ConfigError, StoreError: what the bot answered, or why it can't be asked.
    """
    if is_on_server(store):
        return await ask_through(store, request, tell)
    place = socket_path(store)
    return place is not None and await ask(place, request, tell)


async def _ask_once(settings: Settings, request: Request, tell: Tell) -> bool:
    if await ask_running(settings.store, request, tell):
        return True
    stamp = None if _only_reads(request) else stamp_of(settings)
    async with _own_api(settings, stamp) as api:
        await api.answer(request, tell)
    return False


def _only_reads(request: Request) -> bool:
    """Return whether it changes nothing: who may read the file gets an answer, whosever the store is."""
    match request:
        case ListJournals() | ShowJournal() | ReadJournals() | ReadCode() | ReadKept() | ListAlarms():
            return True
        case Reach():  # only a running bot does it
            return True
        case AboutJobs():
            return request == AboutJobs()
        case AboutBroadcasts(fields):
            return fields.get("ask") in ("broadcast.list", "broadcast.status")
        case _:
            return False


@asynccontextmanager
async def open_api(settings: Settings) -> AsyncGenerator[Ask]:
    """Ask many questions: of the running bot, else of the store itself, which is opened once, to be read.

    Raises: as `consult`; also what it yields does.
    """
    async with AsyncExitStack() as opened:
        yield await _once_settled(partial(_open_one, settings, opened))


async def _open_one(settings: Settings, opened: AsyncExitStack) -> Ask:
    if (running := await _running(settings)) is not None:
        return running
    return (await opened.enter_async_context(_own_api(settings, None))).answer


async def _once_settled(try_it: Callable[[], Awaitable[_T]]) -> _T:
    """Try it, and again for a moment while another process has the store and can't be asked yet."""
    for pause in _PAUSES:
        try:
            return await try_it()
        except _OpenElsewhereError:
            await trio.sleep(pause)
    return await try_it()


@asynccontextmanager
async def open_to_look(settings: Settings) -> AsyncGenerator[tuple[Ask, bool]]:
    """Ask many questions that only read, for as long as the block runs; nothing is written.

    What is yielded with it says whether the running bot answers. Else a copy of its store does, and whoever
    starts the bot meanwhile is in nobody's way.

    Raises: as `consult`; also what it yields does.
    """
    if (running := await _running(settings)) is not None:
        yield running, True
        return
    file, place = store_file(settings), socket_path(settings.store)
    with TemporaryDirectory(prefix="triobot-inspect-") as made:
        clock = SystemClock()
        try:
            copy = await trio.to_thread.run_sync(copy_still, file, Path(made))
        except StoreLockedError as error:
            raise StoreLockedError(f"{error}; and that process doesn't answer at {place}") from error
        try:
            async with open_store(f"sqlite:{copy}", stamp=None, clock=clock, visit=True) as store:
                yield api_of(store, clock).answer, False
        except (ConfigError, StoreError) as error:
            # What is wrong with the copy is wrong with the store.
            raise type(error)(str(error).replace(str(copy), str(file))) from None


async def _running(settings: Settings) -> Ask | None:
    """Return what asks the running bot; None if none runs."""

    async def ignore(_: Told) -> None:
        """Drop the answer: what counts is that there is one."""

    if not await ask_running(settings.store, Status(), ignore):
        return None

    async def ask_it(request: Request, tell: Tell) -> None:
        if not await ask_running(settings.store, request, tell):
            raise ConfigError("the bot has ended meanwhile; ask again")

    return ask_it


@asynccontextmanager
async def _own_api(settings: Settings, stamp: Stamp | None) -> AsyncGenerator[OperatorApi]:
    place = socket_path(settings.store)
    if is_on_server(settings.store):
        # Opened with a stamp, one that is gone would be made anew, and nobody would miss its chats.
        if not await is_made(settings.store):
            raise ConfigError(f"there is no store at {settings.store}")
    elif not await trio.Path(file := store_file(settings)).is_file():
        raise ConfigError(f"there is no store at {file}")
    clock = SystemClock()
    async with AsyncExitStack() as opened:
        try:
            store = await opened.enter_async_context(
                open_store(settings.store, stamp=stamp, clock=clock, visit=True)
            )
        except StoreLockedError as error:
            rest = "ask again, and that process is asked"
            if place is not None:
                rest = f"and that process doesn't answer at {place}"
            raise _OpenElsewhereError(f"{error}; {rest}") from error
        yield api_of(store, clock)


def instant(at: object) -> str:
    """Write a time of the store's for people."""
    if not isinstance(at, int):
        return "-"
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def moment(at: object) -> str:
    """Write a time of the store's to the millisecond: of one turn and the next there may be few between."""
    return f"{instant(at)[:-1]}.{at % 1000:03}Z" if isinstance(at, int) else "-"


def span(milliseconds: int) -> str:
    """Write how long something took, in its largest unit."""
    seconds = max(0, milliseconds) // 1000
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
