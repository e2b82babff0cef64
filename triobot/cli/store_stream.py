"""Keeps a replica of a running bot's store in a folder, for ``triobot store stream``; and reads replicas.

The bot sends its store, and this process writes the replica. Each connection begins with a new image. So
neither side needs the other side's state, and the current replica remains until the new image is complete.
"""

from __future__ import annotations

import math
from base64 import b64decode
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias, cast, final

import trio

from ..errors import ConfigError, ConflictError, NotFoundError, StoreError
from ..operator.api import STREAM_FORMAT
from ..operator.calling import ask
from ..operator.loopback import is_on_server, socket_path
from ..operator.routes import Answer
from ..runtime.settings import Settings
from ..seams.writes import Shipped
from ..store.replica import Manifest, Replica, copy_replica, lock_replica
from .consulting import instant, store_file
from .terminal import harmless, until_signal

Ask: TypeAlias = "Callable[[Callable[[Answer], Awaitable[None]]], Awaitable[bool]]"
"""Makes a bot send its store, line by line, to the given function. Returns False if no bot runs."""

_PAUSE: Final = 1.0
_PAUSE_AFTER_TROUBLE: Final = 10.0
_SILENCE: Final = 30.0
"""Seconds without data after which the bot or its machine counts as blocked."""
_BEHIND: Final = 5.0
_CUT: Final = "the bot has ended, or has cut the stream; then its log says why"
_OTHER_VERSION: Final = (
    "the bot that runs is of another version than this command; restart it, or stream it with its own"
)


def stream(settings: Settings, folder: Path) -> None:
    """Run `keep` until a signal."""
    trio.run(until_signal, partial(keep, settings, folder))


async def keep(settings: Settings, folder: Path) -> None:
    """Keep a replica in this folder, until cancelled.

    Raises:
        ConfigError: the folder can't be used for this store, the store can't be streamed, or the bot can't be
            asked.
        StoreLockedError: another process streams to the folder.
    """
    if is_on_server(settings.store):
        raise ConfigError(
            "triobot streams no store in PostgreSQL: use a standby of PostgreSQL's, or its archive of the log"
            " (pg_receivewal, archive_command)"
        )
    file, place = store_file(settings).absolute(), socket_path(settings.store)
    assert place is not None
    with lock_replica(folder, file) as replica:
        if replica.is_beside(file):
            _say(folder, "WARNING: it is on the same disk as the store, and is lost with it")
        await keep_replica(partial(ask, place, {"ask": "stream"}), replica, partial(_say, folder))


def _say(folder: Path, text: str) -> None:
    print(harmless(f"{folder}: {text}"), flush=True)


async def keep_replica(ask: Ask, replica: Replica, say: Callable[[str], None]) -> None:
    """Write the store that a bot sends, until cancelled. Reconnect when a connection ends, and report each
    change of state.

    Raises:
        ConfigError: the bot can't be asked, or the folder has another bot's replica.

    Cancellation: the data sent last may be missing.
    """
    state = _State(say)
    while True:
        taker = _Taker(replica, state)
        pause = _PAUSE
        try:
            with trio.CancelScope() as patience:
                taker.patience = patience
                taker.wait_on()
                if not await ask(taker.tell):
                    state.be("away", "waits, since no bot runs")
            if patience.cancelled_caught:
                state.be("silent", f"waits, since the bot has sent nothing for {_SILENCE:.0f} seconds")
        except NotFoundError:
            raise ConfigError(_OTHER_VERSION) from None
        except ConflictError as error:
            state.be(str(error), f"waits: {error}")
        except StoreError as error:
            why = _CUT if taker.begun and not taker.failed else str(error)
            state.be(why, f"begins anew: {why}")
            pause = _PAUSE_AFTER_TROUBLE if taker.failed else _PAUSE
        await trio.sleep(pause)


@final
class _State:
    """Reports a state's text when the state changes."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._state = ""

    def be(self, state: str, text: str) -> None:
        if state != self._state:
            self._state = state
            self._say(text)


@final
class _Taker:
    """Writes the pieces of one connection to the replica.

    Attributes:
        begun: whether a line was received.
        failed: whether writing to the folder failed.
        patience: scope that cancels the connection after a time without data.
    """

    def __init__(self, replica: Replica, state: _State) -> None:
        self.begun = self.failed = False
        self.patience = trio.CancelScope()
        self._replica = replica
        self._state = state
        self._as_of = 0
        self._caught_up_at = trio.current_time()

    def wait_on(self) -> None:
        """Start the time limit for the next data."""
        self.patience.deadline = trio.current_time() + _SILENCE

    async def tell(self, told: Answer) -> None:
        """Write a piece to the replica; the first line identifies the store instead."""
        self.patience.deadline = math.inf
        if not self.begun:
            self.begun = True
            await self._write(partial(self._replica.begin, _manifest(told)))
        else:
            piece = _piece(told)
            if piece.of == "image" and not piece.at:
                self._state.be("image", f"takes an image of {piece.size:,} bytes")
            await self._write(partial(self._replica.take, piece))
            self._tell_how_far(piece)
        self.wait_on()

    async def _write(self, work: Callable[[], None]) -> None:
        try:
            await trio.to_thread.run_sync(work)
        except StoreError:
            self.failed = True
            raise

    def _tell_how_far(self, piece: Shipped) -> None:
        now = trio.current_time()
        if piece.as_of is not None:
            self._as_of, self._caught_up_at = piece.as_of, now
            self._state.be("streams", "streams; has all that is committed")
        elif self._as_of and now - self._caught_up_at > _BEHIND:
            self._state.be("behind", f"is behind; has all that was committed by {instant(self._as_of)}")


def _manifest(told: Answer) -> Manifest:
    try:
        if told["stream"] == STREAM_FORMAT:
            return Manifest(*(cast("Any", told[name]) for name in ("store", "bot", "epoch", "boot")))
    except KeyError:
        pass
    raise ConfigError(_OTHER_VERSION)


def _piece(told: Answer) -> Shipped:
    try:
        return Shipped(**cast("Any", {**told, "data": b64decode(str(told["data"]))}))
    except (KeyError, TypeError, ValueError):
        raise ConfigError(_OTHER_VERSION) from None


@contextmanager
def copied(folder: Path, beside: Path) -> Generator[tuple[Path, Manifest, str | None]]:
    """Run `copy_replica` into a temporary folder in `beside`, which is deleted after the block."""
    with TemporaryDirectory(prefix="triobot-stream-", dir=beside) as made:
        yield copy_replica(folder, Path(made))
