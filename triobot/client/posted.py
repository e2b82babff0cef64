"""The straight way out: an operation as a form over a connection of our own transport, without httpx.

It is there with `triobot.http` only. The caller's task carries the request; without this couriers do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, final

import attrs
import httpx
import trio
from typing_extensions import TypeVar

from ..http.connections import ClientConnection, Connections, NothingSentError, Origin
from ..http.outgoing import encode_head
from ..wire.encode import FORM_TYPE, encode_operation_form
from ..wire.operations import Operation
from .address import BaseUrl
from .exchange import FAILURES, LARGEST_ANSWER, Answer, Delivery, broken_off, check_certain, retry_after_of

R = TypeVar("R")


@final
class Forms:
    """Writes operations out as whole requests.

    Args: as those of `PostedForm`, and
        headers: returns the headers of a request with a body of this type and length.
    """

    def __init__(
        self,
        connections: Connections,
        base: BaseUrl,
        headers: Callable[[str, int], dict[str, str]],
        within: float,
        read: Callable[[Operation[Any], Answer], Any],
        certain: Callable[[], float] | None,
    ) -> None:
        root = base.root
        port = root.port or {"https": 443, "http": 80}[root.scheme]
        self._origin: Final = Origin(root.scheme, root.raw_host.decode("ascii"), port)
        self._connections = connections
        self._base = base
        self._headers = headers
        self._within = within
        self._read = read
        self._certain = certain
        # A head is a quarter of an echo's instructions.
        self._heads: dict[str, bytes] = {}

    def write_out(self, operation: Operation[R], *, fresh: bool) -> PostedForm[R]:
        """See `PlatformClient.begin`."""
        message = self._message(operation.path, encode_operation_form(operation))
        origin, connections = self._origin, self._connections
        return PostedForm(
            operation, message, origin, connections, self._within, self._read, self._certain, fresh
        )

    def _message(self, path: str, form: bytes) -> bytes:
        start = self._heads.get(path)
        if start is None:
            pairs = [(name.encode(), value.encode()) for name, value in self._headers(FORM_TYPE, 0).items()]
            head = encode_head(b"POST", self._base.operation(path).raw_path, pairs)
            # The length is the last header; it and the empty line are put behind for each.
            start = self._heads[path] = head.removesuffix(b"0\r\n\r\n")
        return b"%s%d\r\n\r\n%s" % (start, len(form), form)


@final
@attrs.define(eq=False, repr=False)
class PostedForm(Generic[R]):
    """An operation on its way as a form, over a connection of our own transport: `seams.Begun`.

    Args:
        operation: what is asked.
        message: the whole request, written out.
        origin: where it goes.
        connections: it takes one of them, and gives it back.
        within: seconds that it is to be given.
        read: makes the result of the answer.
        certain: see `PlatformClient`.
        fresh: see `PlatformClient.begin`.
    """

    _operation: Operation[R]
    _message: bytes
    _origin: Origin
    _connections: Connections
    within: float
    _read: Callable[[Operation[R], Answer], R]
    _certain: Callable[[], float] | None = None
    _fresh: bool = False
    _connection: ClientConnection | None = None
    _dialing: trio.CancelScope | None = None
    _stalled: float = 0.0

    @property
    def may_have_left(self) -> bool:
        """See `seams.Begun`."""
        return self._connection is not None and self._connection.may_have_left

    async def result(self) -> R:
        """See `seams.Begun`."""
        connection, fresh = self._connection, False
        try:
            while True:
                if connection is None:
                    if self._stalled:
                        raise httpx.ConnectTimeout("its time was over before it had a connection")
                    if not self._fresh:
                        connection = self._connections.idle(self._origin)
                    if connection is None:
                        connection, fresh = await self._connect()
                    self._connection = connection
                    if self._certain is not None:
                        check_certain(self._operation.path, self._certain)
                    connection.post(self._message)
                try:
                    body = await connection.answer(LARGEST_ANSWER)
                    break
                except NothingSentError as error:
                    self._drop()
                    if fresh:
                        raise httpx.ConnectError(f"it ended at once: {error.__cause__}") from error
                    # It had ended unseen while it was idle.
                    connection = None
        except FAILURES as error:
            self._drop()
            return self._read(self._operation, self._broken_off(connection, error))
        except Exception:
            self._drop()
            raise
        self._connection = None
        self._connections.settle(connection)
        status = connection.reader.status
        if len(body) > LARGEST_ANSWER:
            return self._read(self._operation, Answer(status, b"", too_large=True))
        retry_after = None if status == 200 else retry_after_of(connection.reader.headers)
        return self._read(self._operation, Answer(status, body, retry_after))

    def expire(self, seconds: float) -> None:
        """See `seams.Begun`."""
        self._stalled = seconds
        if self._dialing is not None:
            self._dialing.cancel()
        if self._connection is not None:
            self._connection.cut()

    def close(self) -> None:
        """See `seams.Begun`."""
        self._drop()

    async def _connect(self) -> tuple[ClientConnection, bool]:
        with trio.CancelScope(deadline=trio.current_time() + self.within) as self._dialing:
            try:
                return await self._connections.get(self._origin, {}, None, fresh=self._fresh)
            finally:
                self._dialing = None
        self._stalled = self._stalled or self.within
        raise httpx.ConnectTimeout("its time was over before it had a connection")

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._connections.discard(connection)

    def _broken_off(self, connection: ClientConnection | None, error: Exception) -> Answer:
        delivery = Delivery(connection is not None and connection.may_have_left)
        status = 0 if connection is None else connection.reader.status
        patience = self._stalled or self.within
        cause = None if self._stalled else error
        return broken_off(self._operation.path, status, delivery, patience, cause)
