"""Serves the operator API on a Unix socket.

The socket's mode lets in its owner only, and the kernel tells whose process has connected: only the bot's own
user and root are answered. A line of JSON is a request of a command; ``GET /metrics`` is one of a scraper.
Eight connections are served at once; further ones wait. A connection that sends no request for ten seconds,
or takes no answer for thirty, is closed.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import socket
import stat
import struct
import traceback
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Final

import trio

from ..errors import RemoteProtocolError, StoreError, TriobotError
from .api import OperatorApi
from .calling import lines_of, short_name
from .metrics import CONTENT_TYPE, METRICS_PATH, exposition
from .requests import END, LONGEST_REQUEST, Told, decode_request, encode_line, failure

log: Final = logging.getLogger("triobot.operator")

AT_ONCE: Final = 8
_TO_ASK: Final = 10.0
_TO_TAKE: Final = 30.0
_LOGGED_EVERY: Final = 60.0
_HTTP: Final = (b"GET ", b"HEAD ")
_TEXT: Final = "text/plain; charset=utf-8"
_CREDENTIALS: Final = struct.Struct("3i")


async def serve_api(
    api: OperatorApi, path: Path, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until cancelled; where no socket can be made, warn and return: a bot runs without one, too.

    Call it under the store's lock only: a socket of this user's at this path must be a dead process's, and is
    replaced. Anything else at this path stays, also at the end.
    """
    try:
        listener = _bind(path)
    except OSError as error:
        log.warning("the operator's socket %s can't be made: %s", path, error.strerror)
        task_status.started()
        return
    own = _identity(path)
    with listener:
        try:
            task_status.started()
            async with trio.open_nursery() as nursery:
                room = trio.Semaphore(AT_ONCE)
                while True:
                    await room.acquire()
                    nursery.start_soon(_serve, api, await _accept(listener), room)
        finally:
            if _identity(path) == own:
                _unlink(path)


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the socket at this path; None if it is no socket of this user's."""
    try:
        found = path.lstat()
    except OSError:
        return None
    ours = stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid()
    return (found.st_dev, found.st_ino) if ours else None


def _bind(path: Path) -> trio.socket.SocketType:
    if _identity(path) is not None:
        _unlink(path)
    elif os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, "what is there is no socket of this user's, and was left alone")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_name(path) as name:
            # Others may write to the folder: a name could lead elsewhere by the time its mode is set.
            before = os.umask(0o177)
            try:
                listener.bind(name)
            finally:
                os.umask(before)
        listener.listen(AT_ONCE)
    except BaseException:
        listener.close()
        raise
    return trio.socket.from_stdlib_socket(listener)


async def _accept(listener: trio.socket.SocketType) -> trio.socket.SocketType:
    logged = -math.inf
    while True:
        try:
            connection, _ = await listener.accept()
        except OSError as error:
            # No descriptor to be had: that passes, and is no reason for a bot to end, or to fill its log.
            if trio.current_time() - logged >= _LOGGED_EVERY:
                logged = trio.current_time()
                log.warning("the operator's socket can't be answered now: %s", error.strerror)
            await trio.sleep(1)
        else:
            return connection


async def _serve(api: OperatorApi, connection: trio.socket.SocketType, room: trio.Semaphore) -> None:
    try:
        async with trio.SocketStream(connection) as stream:
            if not is_ours(connection):
                log.warning("somebody else's process asked at the operator's socket, and was sent away")
                return
            await _converse(api, stream)
    except (trio.BrokenResourceError, trio.TooSlowError):
        pass
    except Exception as error:
        # A mistake of ours in an answer must not end the bot. Its text may hold anything, and is left out.
        log.error("a question at the operator's socket failed: %s", type(error).__name__)  # noqa: TRY400
        log.debug("%s", "".join(traceback.format_tb(error.__traceback__)))
    finally:
        room.release()


def is_ours(connection: trio.socket.SocketType) -> bool:
    """Return whether the process at the other end is of this process's user, or of root."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the socket's mode is all there is
    _, uid, _ = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return uid in {os.geteuid(), 0}


async def _answer_http(api: OperatorApi, line: bytes) -> bytes:
    """Answer an HTTP request by its first line, for scrapers and curl; its headers change nothing."""
    method, _, rest = line.decode("latin-1").partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    status, kind, body = "200 OK", CONTENT_TYPE, b""
    if path != METRICS_PATH:
        status, kind, body = "404 Not Found", _TEXT, b"there is /metrics\n"
    else:
        try:
            body = exposition({api.name: await api.metrics()}).encode()
        except StoreError as error:
            status, kind, body = "503 Service Unavailable", _TEXT, f"{error}\n".encode()
    fields = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    return f"HTTP/1.1 {status}\r\n{fields}\r\n".encode() + (b"" if method == "HEAD" else body)


async def _converse(api: OperatorApi, stream: trio.SocketStream) -> None:
    async def tell(fields: Told) -> None:
        with trio.fail_after(_TO_TAKE):
            await stream.send_all(encode_line(fields))

    with trio.fail_after(_TO_ASK):
        async with aclosing(lines_of(stream, LONGEST_REQUEST)) as lines:
            line = await anext(lines, b"")
    if not line.endswith(b"\n"):
        return
    if line.startswith(_HTTP):
        with trio.fail_after(_TO_TAKE):
            await stream.send_all(await _answer_http(api, line))
        return
    try:
        await api.answer(decode_request(line), tell)
        await tell(END)
    except TriobotError as error:
        if isinstance(error, RemoteProtocolError):
            log.warning("the operator's socket was asked for what nobody understands: %s", error)
        await tell(failure(error))
