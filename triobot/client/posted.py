"""Sends operations as forms over connections of `triobot.http`, without httpx.

This module needs `triobot.http`. With this module, the caller's task sends the request. Without this module,
the outbox starts a separate task (a courier) for each operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, final

import attrs
import trio
from typing_extensions import TypeVar

from ..http.connections import ClientConnection, Connections, NoConnectionError, NothingSentError
from ..http.links import LOST
from ..http.request import MalformedError
from ..wire.encode import FORM_TYPE, encode_operation_form
from ..wire.operations import Operation
from .terms import LARGEST_ANSWER, Reply, Terms, broken_off, cut_off, not_connected, retry_after_of, stalled

# Errors for failures of the connection or the other side, not for triobot's bugs.
_FAILURES: Final = (NoConnectionError, MalformedError, OSError, *LOST)

R = TypeVar("R")


@final
class Forms:
    """Encodes each operation as a whole HTTP request: the head, and a form with the operation's fields.

    Args:
        read: returns the operation's result for the platform's answer.
    """

    def __init__(
        self, connections: Connections, terms: Terms, read: Callable[[Operation[Any], Reply], Any]
    ) -> None:
        self.connections: Final = connections
        self.terms: Final = terms
        self.read: Final = read
        # Building a head takes a quarter of the instructions for answering a message, so heads are cached by
        # path.
        self._heads: dict[str, bytes] = {}

    def write_out(self, operation: Operation[R], *, fresh: bool) -> PostedForm[R]:
        """See `PlatformClient.begin`."""
        message = self._message(operation.path, encode_operation_form(operation))
        return PostedForm(operation, message, self, self.terms.patience, fresh)

    def _message(self, path: str, form: bytes) -> bytes:
        start = self._heads.get(path)
        if start is None:
            # The length is the last header: each request appends its length and the empty line.
            headers = [f"{name}: {value}" for name, value in self.terms.headers(FORM_TYPE, "").items()]
            lines = f"POST {self.terms.base.path}/{path} HTTP/1.1", *headers
            start = self._heads[path] = "\r\n".join(lines).encode()
        return b"%s%d\r\n\r\n%s" % (start, len(form), form)


@final
@attrs.define(eq=False, repr=False)
class PostedForm(Generic[R]):
    """A request that sends an operation as a form over a connection of `triobot.http`.

    Implements `seams.Begun`.

    Args:
        operation: the operation to perform.
        message: the whole encoded request.
        forms: provides the connection, and reads the answer.
        within: seconds after which the caller should call `expire`.
        fresh: see `PlatformClient.begin`.
    """

    _operation: Operation[R]
    _message: bytes
    _forms: Forms
    within: float
    _fresh: bool = False
    _connection: ClientConnection | None = None
    _dialing: trio.CancelScope | None = None
    _stalled: float = 0.0

    @property
    def may_have_left(self) -> bool:
        return self._connection is not None and self._connection.may_have_left

    async def result(self) -> R:
        connection, fresh = self._connection, False
        try:
            while True:
                if connection is None:
                    if self._stalled:
                        raise NoConnectionError("its time was over before it had a connection")
                    if not self._fresh:
                        connection = self._forms.connections.idle()
                    if connection is None:
                        connection, fresh = await self._connect(), True
                    self._connection = connection
                    self._forms.terms.check_certain(self._operation.path)
                    connection.post(self._message)
                try:
                    body = await connection.answer(LARGEST_ANSWER)
                    break
                except NothingSentError as error:
                    self._drop()
                    if fresh:
                        raise NoConnectionError(f"it ended at once: {error.__cause__}") from error
                    # The platform had closed the idle connection, so nothing was sent: use another
                    # connection.
                    connection = None
        except _FAILURES as error:
            self._drop()
            answer = self._broken_off(connection, error)
        except Exception:
            self._drop()
            raise
        else:
            self._connection = None
            self._forms.connections.settle(connection)
            status, large = connection.reader.status, len(body) > LARGEST_ANSWER
            retry_after = None if status == 200 else retry_after_of(connection.reader.headers)
            answer = Reply(status, b"" if large else body, retry_after, too_large=large)
        result: R = self._forms.read(self._operation, answer)
        return result

    def expire(self, seconds: float) -> None:
        self._stalled = seconds
        if self._dialing is not None:
            self._dialing.cancel()
        if self._connection is not None:
            self._connection.cut()

    def close(self) -> None:
        self._drop()

    async def _connect(self) -> ClientConnection:
        with trio.CancelScope(deadline=trio.current_time() + self.within) as self._dialing:
            try:
                return await self._forms.connections.open()
            finally:
                self._dialing = None
        self._stalled = self._stalled or self.within
        raise NoConnectionError("its time was over before it had a connection")

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _broken_off(self, connection: ClientConnection | None, error: Exception) -> Reply:
        path, may_have_left = self._operation.path, connection is not None and connection.may_have_left
        status = 0 if connection is None else connection.reader.status
        if self._stalled:
            return broken_off(status, stalled(path, self._stalled, may_have_left=may_have_left))
        if isinstance(error, NoConnectionError):
            return broken_off(status, not_connected(path, error), error)
        return broken_off(status, cut_off(path, error, may_have_left=may_have_left), error)
