"""Posts events to the bot: in order, one in flight, as the platform does (interface section 6).

What the platform does after a failed delivery is not known. Here a connection failure or a 5xx is tried
again, `PushSettings.attempts` times altogether; any other answer settles the event. A bot that restarts
within that time misses nothing, and one that relies on it is wrong. What became of each is in `Deliveries`;
people may have one posted again, as it was or changed.
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
from ..wire.encode import Body
from ..wire.events import Event
from .deliveries import Deliveries, PostedEvent, Posting, State
from .faults import EventFault, in_words

Post: TypeAlias = Callable[[Body], Awaitable[int | None]]
"""Posts a body; returns the status, or None without an answer."""

Watch: TypeAlias = Callable[[PostedEvent, Body], Callable[["int | None"], None]]
"""Is told of each posting; what it returns is told of the answer."""

_ROOM: Final = 16
# Such an answer says that it is not the event's fault.
_TRIED_AGAIN: Final = 500
_BEST_FIRST: Final[Sequence[State]] = ("delivered", "refused", "lost")
# Seconds between two looks whether a bot listens: while none does, and while one does.
_OFTEN: Final = 1.0
_SELDOM: Final = 15.0


@final
class PushQueueFullError(TriobotError):
    """The bot takes events more slowly than they are made; nothing was queued. Try again later."""


@final
@guarded
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
class Pusher:
    """The queue of events on their way to the bot. Bounded: beyond the capacity `push` refuses.

    Args:
        post: how a body gets to the bot.
        encode: an event's body, in the format that the bot was promised.
        fault: what goes wrong with this type of event, if anything.
        now: wall milliseconds.
        takes: tells whether an answer below 500 is that of a bot which took the event.

    Attributes:
        deliveries: what became of each event, and what waits.
        watch: sees each posting pass.
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
    ) -> None:
        self._post = post
        self._encode = encode
        self._fault = fault
        self._now = now
        self._takes = takes
        self._settings = settings or PushSettings()
        self._queue: deque[tuple[PostedEvent, bool]] = deque()
        self._flying: PostedEvent | None = None
        self._more = trio.Event()
        self._idle = trio.Event()
        self._idle.set()
        self.deliveries = Deliveries()
        self.watch: Watch | None = None

    @property
    def pending(self) -> Sequence[Event]:
        """Return the events that no bot has taken yet: the one in flight, and those that wait."""
        flying = () if self._flying is None else (self._flying.event,)
        return (*flying, *(posted.event for posted, _ in self._queue))

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
        now = self._now()
        for event in events:
            self._append(self.deliveries.begin(event, now))

    def push_again(self, before: PostedEvent, event: Event) -> PostedEvent:
        """Queue an event that was posted before, as it was, or one in its place.

        Raises:
            PushQueueFullError: there is no room.
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
        """Wait until nothing waits and nothing is in flight."""
        await self._idle.wait()

    async def run(self) -> None:
        """Post what is queued, for ever."""
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
            if self.watch is not None:
                self.watch(posted, self._encode(posted.event))(None)
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
            answered = self.watch(posted, body) if self.watch is not None else None
            at, began = self._now(), trio.current_time()
            status = await self._post(body)
            took = round((trio.current_time() - began) * 1_000)
            self.deliveries.answer(posted, Posting(at, status, took))
            if answered is not None:
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
    """Whether a bot listens where events are posted to, as far as is known.

    Args:
        url: that address; None where there is none.

    Attributes:
        shown: the address without its path, which is a secret.
        listens: None before anything was tried.
        since: wall milliseconds since when that is so.
        reached_at: when a bot was last reached, in wall milliseconds.
        tell: is called when something of it has changed.
    """

    def __init__(self, url: str | None, now: Callable[[], int] = lambda: 0) -> None:
        parts = urlsplit(url or "")
        self._now = now
        self._place = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        self.shown = None if url is None else f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self.listens: bool | None = None if url is not None else False
        self.since = 0
        self.reached_at: int | None = None
        self.tell: Callable[[], None] | None = None

    def learn(self, *, listens: bool) -> None:
        """Take note of how a connection went."""
        now = self._now()
        if listens:
            self.reached_at = now
        if listens != self.listens:
            self.listens, self.since = listens, now
            if self.tell is not None:
                self.tell()

    async def look(self) -> None:
        """Connect now and then, for ever: often while no bot listens, so that one that starts is seen."""
        if self.shown is None:
            return
        while True:
            # Some servers write a line for each connection: one that works is left alone for longer.
            if not self.listens or self._now() - (self.reached_at or 0) >= _SELDOM * 1_000:
                self.learn(listens=await self._connects())
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


@final
class HttpPost:
    """Posts over HTTP, to one address; redirects are not followed.

    Args:
        wait: what each posting waits for first, such as that the bot's process is up.
        address: learns from each posting whether a bot listens there.

    Attributes:
        url: the bot's address, or None while it has none: events are lost then, as on the platform.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        url: str | None,
        wait: Callable[[], Awaitable[None]] | None = None,
        address: BotAddress | None = None,
    ) -> None:
        self._client = client
        self._wait = wait
        self._address = address or BotAddress(url)
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
        except httpx.TransportError as error:
            # Any other: it was reached, and said nothing, or too late.
            self._address.learn(listens=not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout))
            return None
        self._address.learn(listens=True)
        return answer.status_code
