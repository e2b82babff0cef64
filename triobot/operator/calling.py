"""The operator API's client: sends a question to a running bot."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final, final

import httpx
import trio

from ..errors import ConfigError, StoreError
from ..store import file_of as file_of
from .loopback import has_unix_sockets, read_door, short_name
from .routes import Answer, Question, encode_question, error_in, read_line

_NO_ANSWER: Final = (
    "the bot ended before it had answered, or it runs as another user, or is of another version than this "
    "command; ask again"
)
_SILENCE: Final = 5.0
"""Seconds within which a running bot must answer ``GET /``. A working bot with a store in PostgreSQL may be
silent for this long."""
# A Unix socket has no host name.
_ANY_HOST: Final = "http://bot"


@final
class SilentBotError(StoreError, trio.TooSlowError):
    """A bot runs but doesn't answer; the question was not sent."""


async def ask(path: Path, question: Question, tell: Callable[[Answer], Awaitable[None]]) -> bool:
    """Send a question to the bot behind the socket at `path`. Return False if no bot runs.

    Args:
        tell: called with each line of the answer.

    Raises:
        ConfigError, StoreError: the bot answered with this error, or stopped during the answer, or refuses
            this user, or runs another version.
        SilentBotError: the bot's process is blocked.
        LocalProtocolError: no route fits `question`.

    Cancellation: *ambiguous*: the bot may act on the question.
    """
    method, target, body = encode_question(question)
    try:
        with _way_to(path) as way:
            if way is None:
                return False
            async with way as client:
                await _hear_that_it_lives(path, client)
                async with client.stream(method, target, content=body) as response:
                    await _hear(response, tell)
    except httpx.ConnectError as error:
        return _nobody(path, _cause_of(error))
    except OSError as error:
        return _nobody(path, error)
    except httpx.TransportError:
        # There are three possible reasons: the bot was killed; the bot runs as another user, and closed the
        # connection; or the bot's server is no HTTP server.
        raise StoreError(_NO_ANSWER) from None
    return True


@contextmanager
def _way_to(path: Path) -> Generator[httpx.AsyncClient | None]:
    """Yield a client for the bot at this socket, or on loopback if a file has the bot's port and key. Yield
    None if there is no such file.

    Neither way uses TLS, so no certificates are read (`verify`).
    """
    if has_unix_sockets():
        with short_name(path) as name:
            transport = httpx.AsyncHTTPTransport(verify=False, uds=name)
            yield httpx.AsyncClient(transport=transport, base_url=_ANY_HOST, timeout=None)
        return
    door = read_door(path)
    if door is None:
        yield None
        return
    transport = httpx.AsyncHTTPTransport(verify=False)
    yield httpx.AsyncClient(transport=transport, base_url=door.address, headers=[door.header], timeout=None)


async def _hear_that_it_lives(path: Path, client: httpx.AsyncClient) -> None:
    """Check that the bot answers ``GET /``; the answer needs no store. The operator's question, which is sent
    next, has no time limit.

    Raises:
        SilentBotError: there is no answer within the time limit.
    """
    with trio.move_on_after(_SILENCE) as patience:
        await client.get("/")
    if patience.cancelled_caught:
        raise SilentBotError(
            f"the bot at {path} runs and gives no answer within {_SILENCE:g} s, so nothing was asked of it."
            " Try again; if its process stands still, end it by SIGKILL: the next start loses nothing"
        )


async def _hear(response: httpx.Response, tell: Callable[[Answer], Awaitable[None]]) -> None:
    if response.status_code != HTTPStatus.OK:
        raise error_in(response.status_code, await response.aread())
    async for line in response.aiter_lines():
        await tell(read_line(line))


def _cause_of(error: httpx.ConnectError) -> BaseException | None:
    # httpx wraps httpcore's error, which wraps the socket's. httpcore removes the cause, but not the context.
    within: BaseException | None = error
    while within is not None and not isinstance(within, OSError):
        within = within.__context__
    return within


def _nobody(path: Path, why: BaseException | None) -> bool:
    """Return False if a connection's failure means that no bot runs; else raise."""
    match getattr(why, "__cause__", None):
        case ExceptionGroup(exceptions=[ConnectionRefusedError()]):
            return False  # on loopback: a killed bot has left the file with the key
        case _:
            pass
    match why:
        case FileNotFoundError() | ConnectionRefusedError() | NotADirectoryError():
            return False
        case OSError(errno=errno.ENAMETOOLONG):
            return False  # the bot could not make a socket with this name either
        case PermissionError():
            raise ConfigError(
                f"this user may not ask the bot at {path}; run the command as the bot's user, or as root"
            )
        case _:
            raise StoreError(f"the bot at {path} can't be asked: {why}")
