"""The operator API's client: sends a request to a running bot."""

from __future__ import annotations

import errno
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, closing
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import trio

from ..base.lines import lines_of
from ..errors import ConfigError, StoreError
from ..store import file_of as file_of
from .loopback import HOST, Loopback, has_unix_sockets, read_door, short_name
from .routes import Answer, Question, encode_question, error_in, read_line

if TYPE_CHECKING:
    from ..http.connections import ClientConnection

_NO_ANSWER: Final = (
    "the bot ended before it had answered, or it runs as another user, or is of another version than this "
    "command; ask again"
)
_SILENCE: Final = 5.0
"""Seconds within which a running bot must answer ``GET /``. Even a working bot may be silent for seconds if
its store is in PostgreSQL."""
_LONGEST: Final = 1024 * 1024
"""Maximum number of bytes of an answer that is one object."""


@final
class SilentBotError(StoreError, trio.TooSlowError):
    """A bot is running but doesn't answer; the request was not sent."""


async def ask(path: Path, question: Question, tell: Callable[[Answer], Awaitable[None]]) -> bool:
    """Send a request to the bot behind the socket at `path`. Return False if no bot runs.

    Args:
        tell: called with each line of the answer.

    Raises:
        ConfigError, StoreError: the bot answered with this error, stopped during the answer, refuses this
            user, or has another version.
        SilentBotError: the bot's process is blocked.
        LocalProtocolError: `question` is no request of the API.

    Cancellation: *ambiguous*: the bot may act on the request.
    """
    method, target, body = encode_question(question)
    door = None if has_unix_sockets() else read_door(path)
    try:
        stream = await _connect(path, door)
    except OSError as error:
        return _nobody(path, error)
    if stream is None:
        return False
    # Import the client only after connecting: without the package `triobot.http`, no bot serves the socket.
    from ..http.connections import ClientConnection, NothingSentError
    from ..http.links import LOST, PlainLink, detached
    from ..http.request import MalformedError

    try:
        with closing(ClientConnection(PlainLink(detached(stream.socket)))) as connection:
            connection.post(_encoded("GET", "/", b"", door))
            await _hear_that_it_lives(path, connection)
            connection.post(_encoded(method, target, body, door))
            await _hear(connection, tell)
    except (MalformedError, NothingSentError, *LOST):
        # There are three possible reasons: the bot was killed; the bot runs as another user, and closed the
        # connection; or the process behind the socket isn't an HTTP server.
        raise StoreError(_NO_ANSWER) from None
    return True


async def _connect(path: Path, door: Loopback | None) -> trio.SocketStream | None:
    """Connect to the bot at this socket, or on loopback. Return None if no bot listens on loopback."""
    if has_unix_sockets():
        with short_name(path) as name:
            return await trio.open_unix_socket(name)
    if door is None:
        return None
    try:
        return await trio.open_tcp_stream(HOST, door.port)
    except OSError:
        return None  # a bot that was killed has left the file with the key


def _encoded(method: str, target: str, body: bytes, door: Loopback | None) -> bytes:
    key = "" if door is None else "{}: {}\r\n".format(*door.header)
    head = f"{method} {target} HTTP/1.1\r\nHost: bot\r\n{key}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _hear_that_it_lives(path: Path, connection: ClientConnection) -> None:
    """Check that the bot answers ``GET /``; the answer needs no store.

    The operator's own request is sent after this check, and has no time limit.

    Raises:
        SilentBotError: there is no answer within the time limit.
    """
    with trio.move_on_after(_SILENCE) as patience:
        await connection.answer(_LONGEST)
    if patience.cancelled_caught:
        raise SilentBotError(
            f"the bot at {path} runs and gives no answer within {_SILENCE:g} s, so nothing was asked of it."
            " Try again; if its process stands still, end it by SIGKILL: the next start loses nothing"
        )


async def _hear(connection: ClientConnection, tell: Callable[[Answer], Awaitable[None]]) -> None:
    await connection.answer(0)
    if (status := connection.reader.status) != HTTPStatus.OK:
        raise error_in(status, await connection.answer(_LONGEST))
    async with aclosing(_pieces(connection)) as pieces, aclosing(lines_of(pieces, sys.maxsize)) as lines:
        async for line in lines:
            await tell(read_line(line))


async def _pieces(connection: ClientConnection) -> AsyncGenerator[bytes]:
    reader, size = connection.reader, 0
    while not (reader.done and reader.size == size):
        piece = await connection.answer(size)
        size = reader.size
        reader.pieces.clear()
        yield piece


def _nobody(path: Path, why: OSError) -> bool:
    """Return False if `why`, the failure of a connection, means that no bot runs; else raise an error."""
    match why:
        case FileNotFoundError() | ConnectionRefusedError() | NotADirectoryError():
            return False
        case OSError(errno=errno.ENAMETOOLONG):
            return False  # a bot can't make a socket with this name either
        case PermissionError():
            raise ConfigError(
                f"this user may not ask the bot at {path}; run the command as the bot's user, or as root"
            )
        case _:
            raise StoreError(f"the bot at {path} can't be asked: {why}")
