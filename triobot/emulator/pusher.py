"""Posts events to the bot: in order, one in flight, as the platform does (interface section 6).

What the platform does after a failed delivery is not known. Here a connection failure or a 5xx is tried
again, `PushSettings.attempts` times altogether; any other answer settles the event. A bot that restarts
within that time misses nothing, and one that relies on it is wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, final

import attrs
import httpx
import trio

from ..errors import TriobotError
from ..wire.encode import Body, encode_event_data
from ..wire.events import Event
from .faults import EventFault

Post: TypeAlias = Callable[[Body], Awaitable[int | None]]
"""Posts a body; returns the status, or None without an answer."""

Watch: TypeAlias = Callable[[str, Body, EventFault], Callable[["int | None"], None]]
"""Is told of each posting, of which type and with which fault; what it returns is told of the answer."""

_KEPT: Final = 1_000
_ROOM: Final = 16


@final
class PushQueueFullError(TriobotError):
    """The bot takes events more slowly than they are made; nothing was queued. Try again later."""


@final
@attrs.frozen
class PushSettings:
    """How hard to try.

    Attributes:
        attempts: how often an event is posted at most while the bot can't be reached or answers 5xx.
        interval: seconds between these.
        capacity: events that may wait; beyond it, acts are refused.
    """

    attempts: int = 3
    interval: float = 1.0
    capacity: int = 10_000


@final
@attrs.frozen
class PostedEvent:
    """How posting an event ended.

    Attributes:
        type: the event's type.
        attempts: how often it was posted; 0 for one that was dropped on demand.
        status: the last answer, or None without one.
    """

    type: str
    attempts: int
    status: int | None


@final
class Pusher:
    """The queue of events on their way to the bot. Bounded: beyond the capacity `push` refuses.

    Args:
        post: how a body gets to the bot.
        encode: an event's body, in the format that the bot was promised.
        fault: what goes wrong with this type of event, if anything.

    Attributes:
        watch: sees each posting pass.
    """

    def __init__(
        self,
        post: Post,
        encode: Callable[[Event], Body],
        *,
        fault: Callable[[str], EventFault | None] = lambda kind: None,
        settings: PushSettings | None = None,
    ) -> None:
        self._post = post
        self._encode = encode
        self._fault = fault
        self._settings = settings or PushSettings()
        self._queue: deque[tuple[Event, bool]] = deque()
        self._flying: Event | None = None
        self._more = trio.Event()
        self._idle = trio.Event()
        self._idle.set()
        self.deliveries: deque[PostedEvent] = deque(maxlen=_KEPT)
        self.watch: Watch | None = None

    @property
    def pending(self) -> Sequence[Event]:
        """Return the events that no bot has taken yet: the one in flight, and those that wait."""
        flying = () if self._flying is None else (self._flying,)
        return (*flying, *(event for event, _ in self._queue))

    @property
    def waiting(self) -> int:
        """Count the events that are not in flight yet."""
        return len(self._queue)

    def check_room(self) -> None:
        """Make sure that whatever one act makes can be queued.

        Raises:
            PushQueueFullError: it might not.
        """
        if len(self._queue) + _ROOM > self._settings.capacity:
            raise PushQueueFullError("too many events wait for the bot")

    def push(self, *events: Event) -> None:
        """Queue events behind those that wait: all of them, or none.

        Raises:
            PushQueueFullError: there is no room.
        """
        if len(self._queue) + len(events) > self._settings.capacity:
            raise PushQueueFullError("too many events wait for the bot")
        self._queue.extend((event, False) for event in events)
        if events:
            self._idle = trio.Event() if self._idle.is_set() else self._idle
            self._more.set()

    async def wait_idle(self) -> None:
        """Wait until nothing waits and nothing is in flight."""
        await self._idle.wait()

    async def run(self) -> None:
        """Post what is queued, for ever."""
        while True:
            await self._wait_more()
            event, seen = self._queue.popleft()
            self._flying = event
            fault = None if seen else self._fault(encode_event_data(event)[0])
            if fault is not None and fault.behind and await self._behind(event):
                continue
            await self._deliver(event, fault or EventFault())
            self._flying = None
            if not self._queue:
                self._idle.set()

    async def _wait_more(self) -> None:
        while not self._queue:
            self._more = trio.Event()
            await self._more.wait()

    async def _behind(self, event: Event) -> bool:
        with trio.move_on_after(1):
            await self._wait_more()
        if self._queue:
            self._queue.insert(1, (event, True))
            return True
        return False

    async def _deliver(self, event: Event, fault: EventFault) -> None:
        kind = encode_event_data(event)[0]
        if fault.drop:
            if self.watch is not None:
                self.watch(kind, self._encode(event), fault)(None)
            self.deliveries.append(PostedEvent(kind, 0, None))
            return
        await trio.sleep(fault.delay)
        body = self._encode(event)
        for _ in range(1 + fault.duplicates):
            self.deliveries.append(await self._try(kind, body, fault))

    async def _try(self, kind: str, body: Body, fault: EventFault) -> PostedEvent:
        status: int | None = None
        attempt = 0
        while attempt < self._settings.attempts:
            if attempt:
                await trio.sleep(self._settings.interval)
            attempt += 1
            answered = self.watch(kind, body, fault) if self.watch is not None else None
            status = await self._post(body)
            if answered is not None:
                answered(status)
            if status is not None and status < 500:
                break
        return PostedEvent(kind, attempt, status)


@final
class HttpPost:
    """Posts over HTTP, to one address; redirects are not followed.

    Args:
        wait: what each posting waits for first, such as that the bot's process is up.

    Attributes:
        url: the bot's address, or None while it has none: events are lost then, as on the platform.
    """

    def __init__(
        self, client: httpx.AsyncClient, url: str | None, wait: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._client = client
        self._wait = wait
        self.url = url

    async def __call__(self, body: Body) -> int | None:
        """Post one body; return the status, or None without an answer."""
        if self.url is None:
            return None
        if self._wait is not None:
            await self._wait()
        try:
            answer = await self._client.post(
                self.url, content=body.data, headers={"content-type": body.content_type}
            )
        except httpx.TransportError:
            return None
        return answer.status_code
