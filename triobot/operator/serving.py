"""Serves the operator API: HTTP/1.1 on a Unix socket; on systems without Unix sockets, on loopback with a
key.

Only the bot's own user and root are answered: the socket's mode, which is set before the socket listens,
admits only its owner. At most eight connections are open at once. A connection is closed after
ten seconds without a request, or if the client doesn't accept an answer for thirty seconds. When a ninth
connection comes, the connection that has been silent longest is closed.

The HTTP server is imported at the first connection. So a bot with another webhook server imports triobot's
HTTP server only when an operator connects.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from ..base.binding import TcpBind, UnixBind, address_of, open_listeners
from ..base.limits import ServingLimits
from ..base.open_files import OWNER_ONLY
from ..errors import ConfigError, StoreError, TriobotError
from ..seams import own_http
from .api import OperatorApi
from .loopback import HEADER, HOST, close_door, door_file, has_unix_sockets, open_door, short_name
from .metrics import CONTENT_TYPE, METRICS_PATH, exposition
from .routes import LONGEST_BODY, ROUTES, Answer, decode_question, routes_at, status_of

if TYPE_CHECKING:
    from ..http.server_connection import Handler, Talk

log: Final = logging.getLogger("triobot.operator")

AT_ONCE: Final = 8
_SCRAPERS: Final = 16
_WAITING: Final = 128
"""Number of connections that the system queues until an open connection ends."""
_LIMITS: Final = ServingLimits(connections=AT_ONCE, idle_seconds=10.0, body_seconds=10.0)
_ONE: Final = ((b"content-type", b"application/json"),)
_LINES: Final = ((b"content-type", b"application/x-ndjson"),)
_TEXT: Final = ((b"content-type", b"text/plain; charset=utf-8"),)
_METRICS: Final = ((b"content-type", CONTENT_TYPE.encode()),)


async def serve_api(
    api: OperatorApi, path: Path, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve the API on a socket at `path` until cancelled.

    If the socket can't be made, log a warning and return: a bot can run without the socket.

    Without `triobot.http`, also log a warning and return. The caller must have the store's lock. So an
    existing socket of this user at `path` is left over from a dead process, and is replaced. Another kind of
    file, or another user's socket, is never deleted.
    """
    if not own_http.is_here():
        log.warning("there is no triobot.http, so nobody serves the operator's socket %s", path)
        task_status.started()
        return
    if not has_unix_sockets():
        await _serve_on_loopback(api, path, task_status)
        return
    try:
        listener = await listen_beside(path)
    except (ConfigError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        log.warning("the operator's socket %s can't be made: %s", path, why)
        task_status.started()
        return
    with removing_beside(path):
        task_status.started()
        await _serve_once_asked(partial(answer_operator, api), listener)


async def _serve_once_asked(answer: Handler, listener: trio.SocketListener) -> None:
    async with listener:
        await trio.lowlevel.wait_readable(listener.socket)
        from ..http.listener import serve_listeners

        await serve_listeners(answer, [listener], shutdown=trio.Event(), limits=_LIMITS)


async def _serve_on_loopback(api: OperatorApi, path: Path, task_status: trio.TaskStatus[None]) -> None:
    [listener] = await trio.open_tcp_listeners(0, host=HOST, backlog=_WAITING)
    try:
        door = open_door(path, listener.socket.getsockname()[1])
    except OSError as error:
        await listener.aclose()
        log.warning("the operator's key %s can't be written: %s", door_file(path), error.strerror)
        task_status.started()
        return

    async def answer(talk: Talk) -> None:
        if door.opens(talk.request.header(HEADER.encode())):
            await answer_operator(api, talk)
        else:
            await _refuse(
                talk, 401, f"the header Authorization must be: Bearer, and the key in {door_file(path)}"
            )

    try:
        task_status.started()
        await _serve_once_asked(answer, listener)
    finally:
        close_door(path, door)


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the socket at this path; None if the path has no socket of this user."""
    try:
        found = path.lstat()
    except OSError:
        return None
    ours = stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid()
    return (found.st_dev, found.st_ino) if ours else None


def _clear(path: Path) -> None:
    if _identity(path) is not None:
        _unlink(path)
    elif os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, "what is there is no socket of this user's, and was left alone")


async def listen_beside(path: Path) -> trio.SocketListener:
    """Listen on a socket beside the store, for the socket's owner only. A leftover socket is replaced.

    Raises:
        ConfigError, OSError: the socket can't be made, or another file is at `path`.
    """
    _clear(path)
    with short_name(path) as name:
        [listener] = await open_listeners([UnixBind(name, OWNER_ONLY)], backlog=_WAITING)
    return listener


@contextmanager
def removing_beside(path: Path) -> Generator[None]:
    """At the end of the block, remove the socket that was at this path at the start of the block; keep
    a newer socket.
    """
    own = _identity(path)
    try:
        yield
    finally:
        if _identity(path) == own:
            _unlink(path)


async def answer_operator(api: OperatorApi, talk: Talk) -> None:
    """Answer a request. If the answer fails in the middle, close the connection, which the client detects."""
    try:
        await _answer(api, talk)
    except TriobotError as error:
        if talk.status:
            log.warning("an answer at the operator's socket broke off: %s", error)
        else:
            await _refuse(talk, status_of(error), str(error))
    except trio.Cancelled:
        if not talk.status:
            # The kernel accepts such a short answer at once, so the write doesn't wait in the cancelled task.
            await _refuse(talk, 503, "the bot is stopping; ask again when it runs")
        raise


async def serve_metrics(
    apis: Callable[[], Sequence[OperatorApi]],
    bind: TcpBind,
    shutdown: trio.Event,
    *,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the metrics of all bots on their own port, until `shutdown` is set."""
    if not own_http.is_here():
        log.warning("there is no triobot.http, so nobody serves metrics at port %d", bind.port)
        task_status.started("no port")
        return
    from ..http.listener import serve_listeners

    async def handle(talk: Talk) -> None:
        if talk.request.target.partition(b"?")[0] == METRICS_PATH.encode():
            await _answer_metrics(apis(), talk)
        else:
            await talk.answer(404, _TEXT, b"there is GET /metrics\n", close=True)

    listeners = await open_listeners([bind], backlog=_SCRAPERS)
    address = address_of(listeners[0], secured=False)
    async with trio.open_nursery() as nursery:
        limits = ServingLimits(connections=_SCRAPERS)
        await nursery.start(partial(serve_listeners, handle, listeners, shutdown=shutdown, limits=limits))
        task_status.started(address)


async def _answer_metrics(apis: Sequence[OperatorApi], talk: Talk) -> None:
    """Answer a scraper with the metrics of all bots. If bots have the same name, append numbers to names."""
    if talk.request.method not in ("GET", "HEAD"):
        await talk.answer(405, (*_TEXT, (b"allow", b"GET, HEAD")), b"there is GET /metrics\n", close=True)
        return
    answers: dict[str, Answer] = {}
    try:
        for number, api in enumerate(apis, start=1):
            answers[api.name if api.name not in answers else f"{api.name}-{number}"] = await api.metrics()
    except StoreError as error:
        await talk.answer(503, _TEXT, f"{error}\n".encode(), close=True)
        return
    await talk.answer(200, _METRICS, exposition(answers).encode())


async def _answer(api: OperatorApi, talk: Talk) -> None:
    asked = talk.request
    path, _, query = asked.target.decode("latin-1").partition("?")
    if path == METRICS_PATH:
        await _answer_metrics([api], talk)
        return
    if path == "/":
        listed: list[Answer] = [
            {"method": route.method, "path": route.path, "fields": route.fields} for route in ROUTES
        ]
        await talk.answer(200, _LINES, b"".join(map(_line, listed)))
        return
    routes = routes_at(path)
    found = routes.get("GET" if asked.method == "HEAD" else asked.method)
    if not routes:
        await _refuse(talk, 404, "there is no such path; GET / tells which there are")
        return
    if found is None:
        allowed = ", ".join(sorted(routes))
        await _refuse(talk, 405, f"this path takes {allowed}", (b"allow", allowed.encode()))
        return
    body = bytearray()
    while piece := await talk.read():
        body += piece
        if len(body) > LONGEST_BODY:
            await _refuse(talk, 413, f"a request's body has {LONGEST_BODY} bytes at most")
            return
    route, fields = found
    headers = _LINES if route.is_of_many else _ONE

    async def tell(answer: Answer) -> None:
        if talk.status:
            await talk.write(_line(answer))
        else:
            await talk.begin(200, headers, _line(answer))

    await api.answer(decode_question(route, fields, query, bytes(body)), tell)
    if talk.status:
        await talk.end()
    else:
        await talk.answer(200, headers, b"")


async def _refuse(talk: Talk, status: int, text: str, *more: tuple[bytes, bytes]) -> None:
    await talk.answer(status, (*_ONE, *more), _line({"error": text}))


def _line(answer: Mapping[str, object]) -> bytes:
    return json.dumps(answer, separators=(",", ":")).encode() + b"\n"
