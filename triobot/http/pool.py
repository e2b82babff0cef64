"""Keeps track of idle connections, taken places, and the requests in line for one. Pure: waits for nothing.

Each call costs the same however many connections there are: none looks at all of them. A *place* is the
right to have a connection, open or being opened; there are `most` of them. A request that gets none waits in
line. A connection that becomes free goes to the first in line, or is closed for it if it leads elsewhere.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar, final

import attrs


@final
@attrs.frozen(cache_hash=True)
class Origin:
    """Where a connection leads, and what it may be used for.

    Attributes:
        scheme: ``http`` or ``https``.
        host, port: what is connected to.
        name: what the certificate must be for, if not `host`.
    """

    scheme: str
    host: str
    port: int
    name: str | None = None


class Pooled(Protocol):
    """What a pool needs of a connection."""

    @property
    def origin(self) -> Origin:
        """Return where the connection leads."""
        ...

    def close(self) -> None:
        """Close the connection at once."""
        ...


C = TypeVar("C", bound=Pooled)


@final
@attrs.define(eq=False)
class Waiter(Generic[C]):
    """A request in line.

    Attributes:
        wake: called once, with a connection, or with None for a place to open one.
    """

    origin: Origin
    wake: Callable[[C | None], None]


@final
class Pool(Generic[C]):
    """The places and idle connections of one transport.

    Args:
        most: connections at once.
        most_idle: how many of them may be idle; beyond it the oldest is closed.
        keep_seconds: after so long an idle one is not used again.
    """

    def __init__(self, *, most: int, most_idle: int, keep_seconds: float) -> None:
        self._most: Final = most
        self._most_idle: Final = most_idle
        self._keep_seconds: Final = keep_seconds
        self._taken = 0
        # All idle ones, the oldest first; and the same by origin, where the youngest is used first.
        self._idle: OrderedDict[C, float] = OrderedDict()
        self._by_origin: dict[Origin, OrderedDict[C, None]] = {}
        self._line: OrderedDict[Waiter[C], None] = OrderedDict()

    @property
    def taken(self) -> int:
        """Return the number of connections that are open or being opened, the idle ones included."""
        return self._taken

    @property
    def idle(self) -> int:
        """Return the number of connections that wait for a request."""
        return len(self._idle)

    @property
    def waiting(self) -> int:
        """Return the number of requests in line."""
        return len(self._line)

    def take(self, origin: Origin, now: float) -> C | None:
        """Take the idle connection that was used last; None if there is none."""
        self._close_expired(now)
        ours = self._by_origin.get(origin)
        if ours is None:
            return None
        connection, _ = ours.popitem()
        del self._idle[connection]
        if not ours:
            del self._by_origin[origin]
        return connection

    def claim(self) -> bool:
        """Take a place for a new connection, closing an idle one if need be; False if there is none."""
        if self._taken < self._most:
            self._taken += 1
            return True
        if self._idle:
            self._forget_oldest().close()
            return True
        return False

    def line_up(self, waiter: Waiter[C]) -> None:
        """Add a request at the end of the line."""
        self._line[waiter] = None

    def leave(self, waiter: Waiter[C]) -> None:
        """Take a request out of the line before its turn."""
        del self._line[waiter]

    def give_back(self, connection: C, now: float) -> None:
        """Give a connection that can be used again to the first in line, or keep it idle."""
        if self._line:
            waiter, _ = self._line.popitem(last=False)
            if waiter.origin == connection.origin:
                waiter.wake(connection)
            else:
                connection.close()
                waiter.wake(None)
            return
        self._idle[connection] = now
        self._by_origin.setdefault(connection.origin, OrderedDict())[connection] = None
        if len(self._idle) > self._most_idle:
            self._forget_oldest().close()
            self._taken -= 1

    def free(self) -> None:
        """Free the place of a connection that was closed or never opened; the first in line gets it."""
        if self._line:
            waiter, _ = self._line.popitem(last=False)
            waiter.wake(None)
        else:
            self._taken -= 1

    def close_idle(self) -> None:
        """Close every idle connection."""
        while self._idle:
            self._forget_oldest().close()
            self._taken -= 1

    def _close_expired(self, now: float) -> None:
        while self._idle and now - next(iter(self._idle.values())) > self._keep_seconds:
            self._forget_oldest().close()
            self._taken -= 1

    def _forget_oldest(self) -> C:
        connection, _ = self._idle.popitem(last=False)
        ours = self._by_origin[connection.origin]
        del ours[connection]
        if not ours:
            del self._by_origin[connection.origin]
        return connection
