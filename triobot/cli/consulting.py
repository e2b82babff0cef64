"""Send a command's request to the running bot, by a socket or through the bot's store. If no bot runs, open
the store.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
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
from ..operator.routes import Answer, Question
from ..runtime.settings import Settings, read_environment
from ..runtime.work import api_of
from ..store import Stamp, is_made, open_store
from ..store.offline_copy import copy_offline
from .loading import load_bot
from .terminal import harmless

Ask: TypeAlias = "Callable[[Question, Tell], Awaitable[None]]"
"""Function that sends an operator's request to the running bot, or to an opened store."""

_T = TypeVar("_T")
_OF_ANY_BOT: Final = (
    *("journals.list", "journals.show", "journals.open", "journals.code", "kept", "alarms.list", "jobs.list"),
    *("broadcast.list", "broadcast.status", "chats.send", "chats.signal", "chats.start"),
)
"""Requests for which a store is opened without a token, since these requests change nothing in an opened
store. Without a running bot, the calls to a chat (`chats.send` and so on) fail.
"""
_PAUSES: Final = (0.1, 0.2, 0.4, 0.8)
"""Pauses before new attempts, in seconds: a process that has just opened a store can't answer at once."""


@final
class _OpenElsewhereError(StoreError):
    """Another process has the store, but could not be reached; nothing was changed."""


def settings_of(arguments: argparse.Namespace) -> Settings:
    """Load the settings that name the store.

    Raises:
        ConfigError: a variable is invalid, or there is no such bot.
    """
    settings = load_bot(arguments.bot).settings() if arguments.bot else read_environment(os.environ)
    return settings if arguments.store is None else attrs.evolve(settings, store=arguments.store)


def stamp_of(settings: Settings) -> Stamp:
    """Return the stamp that binds a store to this bot and platform.

    Raises:
        ConfigError: there is no token.
    """
    return Stamp(settings.base_url, settings.checked_token.reveal())


def store_file(settings: Settings) -> Path:
    """Return the store's file.

    Raises:
        ConfigError: the store is not in a file.
    """
    if is_on_server(settings.store):
        raise ConfigError(
            "a store in PostgreSQL is no file: back it up and check it with PostgreSQL's own tools, such as"
            " pg_dump; inspect looks at it while its bot runs"
        )
    if (file := file_of(settings.store)) is None:
        raise ConfigError("only a sqlite: store is a file; a store in memory ends with its bot")
    return file


def consult(settings: Settings, question: Question) -> list[Answer]:
    """Send a request to the bot or its store, and return the answer's lines.

    Raises:
        ConfigError: there is no store, or the store lacks what `question` names.
        StoreError: the store or the bot failed.
    """
    return trio.run(gather, partial(ask_bot, settings), question)


async def gather(ask: Callable[[Question, Tell], Awaitable[object]], question: Question) -> list[Answer]:
    """Send a request with `ask`, and return the answer's lines.

    Raises: as `consult`.
    """
    answers: list[Answer] = []

    async def tell(fields: Answer) -> None:
        await trio.lowlevel.checkpoint()
        answers.append(fields)

    await ask(question, tell)
    return answers


async def ask_bot(settings: Settings, question: Question, tell: Tell) -> bool:
    """Send a request within a Trio program. Return True if a running bot answered, False if this process
    opened the store and answered.

    Raises: as `consult`.
    """
    return await _once_settled(partial(_ask_once, settings, question, tell))


async def ask_running(store: str, question: Question, tell: Tell) -> bool:
    """Send a request to the bot that runs on the store at the address `store`. Return False if no bot runs.
    Never open the store.

    Raises:
        ConfigError, StoreError: the bot answered with this error, or could not be reached.
    """
    if is_on_server(store):
        return await ask_through(store, question, tell)
    place = socket_path(store)
    return place is not None and await ask(place, question, tell)


async def _ask_once(settings: Settings, question: Question, tell: Tell) -> bool:
    if await ask_running(settings.store, question, tell):
        return True
    stamp = None if question["ask"] in _OF_ANY_BOT else stamp_of(settings)
    async with _own_api(settings, stamp) as api:
        await api.answer(question, tell)
    return False


@asynccontextmanager
async def open_api(settings: Settings) -> AsyncGenerator[Ask]:
    """Yield a function that sends requests to the running bot. If no bot runs, open the store once, for
    reading, and yield a function that sends requests to this store.

    Raises: the errors of `consult`, also from the yielded function.
    """
    async with AsyncExitStack() as opened:
        yield await _once_settled(partial(_open_one, settings, opened))


async def _open_one(settings: Settings, opened: AsyncExitStack) -> Ask:
    if (running := await _running(settings)) is not None:
        return running
    return (await opened.enter_async_context(_own_api(settings, None))).answer


async def _once_settled(try_it: Callable[[], Awaitable[_T]]) -> _T:
    """Call `try_it`. Repeat the call a few times while another process has the store but can't answer yet."""
    for pause in _PAUSES:
        try:
            return await try_it()
        except _OpenElsewhereError:
            await trio.sleep(pause)
    return await try_it()


@asynccontextmanager
async def open_to_look(settings: Settings) -> AsyncGenerator[tuple[Ask, bool]]:
    """Yield a function for read-only requests, and whether a running bot answers them. Write nothing.

    Without a running bot, the function sends the requests to a copy of the store. So a bot can start while
    the block runs.

    Raises: the errors of `consult`, also from the yielded function.
    """
    if (running := await _running(settings)) is not None:
        yield running, True
        return
    file, place = store_file(settings), socket_path(settings.store)
    with TemporaryDirectory(prefix="triobot-inspect-") as made:
        clock = SystemClock()
        try:
            copy = await trio.to_thread.run_sync(copy_offline, file, Path(made))
        except StoreLockedError as error:
            raise StoreLockedError(f"{error}; and that process doesn't answer at {place}") from error
        try:
            async with open_store(f"sqlite:{copy}", stamp=None, clock=clock, visit=True) as store:
                yield api_of(store, clock).answer, False
        except (ConfigError, StoreError) as error:
            # Report an error of the copy as an error of the store.
            raise type(error)(str(error).replace(str(copy), str(file))) from None


async def _running(settings: Settings) -> Ask | None:
    """Return a function that sends requests to the running bot; None if no bot runs."""

    async def ignore(_: Answer) -> None: ...

    if not await ask_running(settings.store, {"ask": "status"}, ignore):
        return None

    async def ask_it(question: Question, tell: Tell) -> None:
        if not await ask_running(settings.store, question, tell):
            raise ConfigError("the bot has ended meanwhile; ask again")

    return ask_it


@asynccontextmanager
async def _own_api(settings: Settings, stamp: Stamp | None) -> AsyncGenerator[OperatorApi]:
    place = socket_path(settings.store)
    if is_on_server(settings.store):
        # With a stamp, opening a missing store would create an empty store, and hide that the bot's store is
        # lost.
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


def print_answer(answer: Iterable[object], lines: Iterable[str], *, as_json: bool) -> None:
    """Print the values of `answer` as JSON, or else `lines`."""
    for line in map(json.dumps, answer) if as_json else map(harmless, lines):
        print(line)


def instant(at: object) -> str:
    """Format a stored wall-clock time, to the second."""
    if not isinstance(at, int):
        return "-"
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def moment(at: object) -> str:
    """Format a wall-clock time of the store, to the millisecond: turns may be milliseconds apart."""
    return f"{instant(at)[:-1]}.{at % 1000:03}Z" if isinstance(at, int) else "-"


def span(milliseconds: int) -> str:
    """Format a duration in its largest unit."""
    seconds = max(0, milliseconds) // 1000
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
