"""The socket's client: sends a request to a running bot."""

from __future__ import annotations

import errno
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import trio

from ..errors import ConfigError, StoreError
from .place import short_name
from .requests import Request, Told, decode_line, encode_request, failed

_LONGEST_LINE: Final = 64 * 1024 * 1024
_NO_ANSWER: Final = "the bot ended before it had answered, or runs as another user; ask again"


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
    said = bytearray()
    while True:
        chunk = await stream.receive_some()
        if not chunk or len(said) > _LONGEST_LINE:
            raise StoreError(_NO_ANSWER)
        said += chunk
        while (end := said.find(b"\n")) >= 0:
            fields = decode_line(bytes(said[:end]))
            del said[: end + 1]
            if "end" in fields:
                return True
            if "failed" in fields:
                raise failed(fields)
            await tell(fields)


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
