"""The socket's client: sends a request to a running bot."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Final

import trio

from ..errors import ConfigError, StoreError
from .requests import Request, Told, decode_line, encode_request, failed

_LONGEST: Final = 100
_DESCRIPTORS: Final = Path("/proc/self/fd")
_LONGEST_NAME: Final = _LONGEST - len(f"{_DESCRIPTORS}/12345/")
_LONGEST_LINE: Final = 64 * 1024 * 1024
_NO_ANSWER: Final = "the bot ended before it had answered, or runs as another user; ask again"


def file_of(store: str) -> Path | None:
    """Return the file of the store at this address; None if it is no file."""
    engine, _, place = store.partition(":")
    return Path(place) if engine == "sqlite" and place else None


def socket_path(store: str) -> Path | None:
    """Return the socket path of the bot with this store address; None if the store is no file."""
    path = file_of(store)
    return None if path is None else path.resolve().with_name(f"{path.name}.sock")


@contextmanager
def short_name(path: Path) -> Generator[str]:
    """Yield a name of this path that is short enough for the kernel; it holds within the block.

    Raises:
        OSError: there is none (ENAMETOOLONG), or the folder can't be opened. Where the system has no
            ``/proc``, none is made.
    """
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    if len(os.fsencode(path.name)) > _LONGEST_NAME or not _DESCRIPTORS.is_dir():
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(path))
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"{_DESCRIPTORS}/{folder}/{path.name}"
    finally:
        os.close(folder)


async def ask(path: Path, request: Request, tell: Callable[[Told], Awaitable[None]]) -> bool:
    """Ask the bot behind this socket; False if there is none.

    Args:
        tell: called with each line of the answer.

    Raises:
        ConfigError, StoreError: what the bot answered, or that it ended in the middle of it, or that this
            user may not ask it.
        RemoteProtocolError: the answer is none of a bot.

    Cancellation: *ambiguous*: the request may be carried out.
    """
    stream = await _connect(path)
    if stream is None:
        return False
    async with stream:
        try:
            return await _converse(stream, request, tell)
        except trio.BrokenResourceError:
            # It was killed; or it runs as another user, and has closed the connection unread.
            raise StoreError(_NO_ANSWER) from None


async def _converse(
    stream: trio.SocketStream, request: Request, tell: Callable[[Told], Awaitable[None]]
) -> bool:
    await stream.send_all(encode_request(request))
    async with aclosing(lines_of(stream, _LONGEST_LINE)) as lines:
        async for line in lines:
            if not line.endswith(b"\n"):
                break
            fields = decode_line(line)
            if "end" in fields:
                return True
            if "failed" in fields:
                raise failed(fields)
            await tell(fields)
    raise StoreError(_NO_ANSWER)


async def lines_of(stream: trio.abc.ReceiveStream, longest: int) -> AsyncGenerator[bytes]:
    """Yield each line of a stream, with its end; what is longer, or breaks off, comes without one."""
    rest = bytearray()
    async for chunk in stream:
        rest += chunk
        while (end := rest.find(b"\n") + 1) or len(rest) > longest:
            end = end or len(rest)
            yield bytes(rest[:end])
            del rest[:end]
    if rest:
        yield bytes(rest)


async def _connect(path: Path) -> trio.SocketStream | None:
    connection = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_name(path) as name:
            await connection.connect(name)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        connection.close()
        return None
    except PermissionError:
        connection.close()
        raise ConfigError(
            f"this user may not ask the bot at {path}; run the command as the bot's user, or as root"
        ) from None
    except OSError as error:
        connection.close()
        if error.errno == errno.ENAMETOOLONG:
            return None  # where the bot could make none, either
        raise
    except BaseException:
        connection.close()
        raise
    return trio.SocketStream(connection)
