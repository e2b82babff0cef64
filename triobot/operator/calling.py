"""The other end of the socket: a command that asks a running bot."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import trio

from ..errors import StoreError
from .place import short_name
from .requests import Request, Told, decode_line, encode_request, failed

_LONGEST_LINE: Final = 64 * 1024 * 1024


async def ask(path: Path, request: Request, tell: Callable[[Told], Awaitable[None]]) -> bool:
    """Ask the bot behind this socket; False if there is none.

    Args:
        tell: called with each line of the answer.

    Raises:
        ConfigError, StoreError: what the bot answered, or that it ended in the middle of it.
        RemoteProtocolError: there is something else behind the socket.

    Cancellation: *ambiguous*: what was asked for may be done.
    """
    stream = await _connect(path)
    if stream is None:
        return False
    async with stream:
        await stream.send_all(encode_request(request))
        said = bytearray()
        while True:
            chunk = await stream.receive_some()
            if not chunk or len(said) > _LONGEST_LINE:
                raise StoreError("the bot ended before it had answered; ask again")
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
    except BaseException:
        connection.close()
        raise
    return trio.SocketStream(connection)
