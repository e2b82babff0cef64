"""Posts events to the bot: in order, one in flight, as the platform does (interface section 6).

The platform's behaviour after a failed delivery isn't known. Here an event is posted again after a connection
failure or a 5xx answer, `PushSettings.attempts` times in total. Any other answer settles the event. So a bot
that restarts during these attempts misses no event. The real platform may not repeat events. `Deliveries`
keeps the outcome of each event. People may request that an event be posted again, unchanged or changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, final
from urllib.parse import urlsplit

import httpx
import trio

from ..base.frozen import guarded
from ..errors import TriobotError
from ..wire.events import Event
from ..wire.platform_side import Body
from .deliveries import Deliveries, PostedEvent, State
from .faults import EventFault, in_words

Post: TypeAlias = Callable[[Body], Awaitable[int | None]]
"""Posts a body; returns the HTTP status, or None without an answer."""

Watch: TypeAlias = Callable[[PostedEvent, Body], Callable[["int | None"], None]]
"""Called before each attempt; returns a function that is called with the status of the answer."""

_ROOM: Final = 16
# From this status on, an answer means that the bot failed. So the event is posted again, whatever its type.
_TRIED_AGAIN: Final = 500
_BEST_FIRST: Final[Sequence[State]] = ("delivered", "refused", "lost")
# Seconds between two checks of the bot's address: `_OFTEN` while no bot listens, else `_SELDOM`.
_OFTEN: Final = 1.0
_SELDOM: Final = 15.0


@final
class PushQueueFullError(TriobotError):
    """Too many events already wait for the bot, so no further event was queued. Try again later."""


@final
@guarded
class PushSettings:
    """Retry settings.

    Attributes:
        attempts: maximum number of attempts for an event while the bot can't be reached or answers 5xx.
        interval: seconds between two attempts.
        capacity: maximum number of waiting events; further acts are refused.
    """

    attempts: int = 3
    interval: float = 1.0
    capacity: int = 10_000


@final
class Pusher:
    """The bounded queue of events to the bot. A full queue refuses events with PushQueueFullError.

    Args:
        post: posts a body to the bot.
        encode: returns an event's body, in the configured format.
        fault: returns the fault for an event of this type, or None.
        now: returns wall milliseconds.
        takes: returns whether a status below 500 means that the bot accepted the event.
        watch: called before each attempt (see `Watch`).

    Attributes:
        deliveries: delivery states of the events.
    """

    def __init__(
        self,
        post: Post,
        encode: Callable[[Event], Body],
        *,
        fault: Callable[[str], EventFault | None] = lambda kind: None,
        settings: PushSettings | None = None,
        now: Callable[[], int] = lambda: 0,
        takes: Callable[[int], bool] = lambda status: status < 300,
        watch: Watch = lambda posted, body: lambda status: None,
    ) -> None:
        self._post = post
        self._encode = encode
        self._fault = fault
        self._now = now
        self._takes = takes
        self._watch = watch
        self._settings = settings or PushSettings()
        self._queue: deque[tuple[PostedEvent, bool]] = deque()
        self._flying: PostedEvent | None = None
        self._more = trio.Event()
        self._idle = trio.Event()
        self._idle.set()
        self.deliveries = Deliveries()

    @property
    def pending(self) -> Sequence[Event]:
        """Unsettled events: the event in flight, and the waiting events."""
        flying = () if self._flying is None else (self._flying.event,)
        return (*flying, *(posted.event for posted, _ in self._queue))

    @property
    def waiting(self) -> int:
        """Number of events that are not in flight yet."""
        return len(self._queue)

    def check_room(self) -> None:
        """Check that the queue has room for the events of any act.

        Raises:
            PushQueueFullError: the queue may have too little room.
        """
        if len(self._queue) + _ROOM > self._settings.capacity:
            raise PushQueueFullError("too many events wait for the bot")

    def push(self, *events: Event) -> None:
        """Queue all `events` after the waiting events.

        Raises:
            PushQueueFullError: the queue has too little room; none of the events was queued.
        """
        if len(self._queue) + len(events) > self._settings.capacity:
            raise PushQueueFullError("too many events wait for the bot")
        now = self._now()
        for event in events:
            self._append(self.deliveries.begin(event, now))

    def push_again(self, before: PostedEvent, event: Event) -> PostedEvent:
        """Queue `event` as a repetition of the delivery `before`, and return the new delivery.

        Args:
            event: the event of `before`, or a changed event.

        Raises:
            PushQueueFullError: the queue has too little room.
        """
        self.check_room()
        posted = self.deliveries.begin(
            event, self._now(), again=before.number, changed=event is not before.event
        )
        self._append(posted)
        return posted

    def _append(self, posted: PostedEvent) -> None:
        self._queue.append((posted, False))
        self._idle = trio.Event() if self._idle.is_set() else self._idle
        self._more.set()

    async def wait_idle(self) -> None:
        """Wait until no event waits or is in flight."""
        await self._idle.wait()

    async def run(self) -> None:
        """Post queued events until cancelled."""
        while True:
            await self._wait_more()
            posted, seen = self._queue.popleft()
            self._flying = posted
            fault = None if seen else self._fault(posted.type)
            if fault is not None:
                posted.note = in_words(fault)
                if fault.behind and await self._behind(posted):
                    continue
            await self._deliver(posted, fault or EventFault())
            self._flying = None
            if not self._queue:
                self._idle.set()

    async def _wait_more(self) -> None:
        while not self._queue:
            self._more = trio.Event()
            await self._more.wait()

    async def _behind(self, posted: PostedEvent) -> bool:
        with trio.move_on_after(1):
            await self._wait_more()
        if self._queue:
            self._queue.insert(1, (posted, True))
            return True
        return False

    async def _deliver(self, posted: PostedEvent, fault: EventFault) -> None:
        if fault.drop:
            self._watch(posted, self._encode(posted.event))(None)
            self.deliveries.settle(posted, "lost")
            return
        await trio.sleep(fault.delay)
        body = self._encode(posted.event)
        statuses = [await self._try(posted, body) for _ in range(1 + fault.duplicates)]
        self.deliveries.settle(posted, min(map(self._state_of, statuses), key=_BEST_FIRST.index))

    async def _try(self, posted: PostedEvent, body: Body) -> int | None:
        status: int | None = None
        for attempt in range(self._settings.attempts):
            if attempt:
                await trio.sleep(self._settings.interval)
            answered = self._watch(posted, body)
            status = await self._post(body)
            self.deliveries.answer(posted, status)
            answered(status)
            if status is not None and status < _TRIED_AGAIN:
                break
        return status

    def _state_of(self, status: int | None) -> State:
        if status is None or status >= _TRIED_AGAIN:
            return "lost"
        return "delivered" if self._takes(status) else "refused"


@final
class BotAddress:
    """Posts events to the bot's address, without following redirects, and records whether a bot listens.

    Args:
        wait: awaited before each posting, for example until the bot's process runs.

    Attributes:
        url: the address; None: events are lost, as on a platform without the bot's address.
        shown: the address without its path, which is a secret; None without an address.
        listens: whether a bot listens; None before the first attempt to connect, and False without an
            address.
        since: wall milliseconds of the last change of `listens`.
        reached_at: wall milliseconds of the last successful connection.
        tell: called when `listens` changes.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        url: str | None,
        wait: Callable[[], Awaitable[None]] | None = None,
        now: Callable[[], int] = lambda: 0,
    ) -> None:
        parts = urlsplit(url or "")
        self._client = client
        self.url = url
        self._wait = wait
        self._now = now
        self._place = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        self.shown = None if url is None else f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self.listens: bool | None = None if url is not None else False
        self.since = 0
        self.reached_at: int | None = None
        self.tell: Callable[[], None] = lambda: None

    async def __call__(self, body: Body) -> int | None:
        """Post one body; return the HTTP status, or None without an answer."""
        if self.url is None:
            return None
        if self._wait is not None:
            await self._wait()
        try:
            answer = await self._client.post(
                self.url, content=body.data, headers={"content-type": body.content_type}
            )
        except httpx.TransportError as error:
            # Most other errors mean that the bot was reached, but answered too late or not at all.
            self._learn(listens=not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout))
            return None
        self._learn(listens=True)
        return answer.status_code

    def _learn(self, *, listens: bool) -> None:
        now = self._now()
        if listens:
            self.reached_at = now
        if listens != self.listens:
            self.listens, self.since = listens, now
            self.tell()

    async def look(self) -> None:
        """Check until cancelled whether a bot listens; check more often while no bot listens."""
        if self.url is None:
            return
        while True:
            # Some servers log each connection, so a listening bot is checked less often.
            if not self.listens or self._now() - (self.reached_at or 0) >= _SELDOM * 1_000:
                self._learn(listens=await self._connects())
            await trio.sleep(_OFTEN)

    async def _connects(self) -> bool:
        with trio.move_on_after(_OFTEN):
            try:
                stream = await trio.open_tcp_stream(*self._place)
            except OSError:
                return False
            await trio.aclose_forcefully(stream)
            return True
        return False
