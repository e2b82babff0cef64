"""Connection of the pure world to time, files and the network, for both HTTP interfaces of the emulator."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import BinaryIO, Final, cast, final

import trio
from quart import Blueprint

from ..base.clock import WallClock
from ..base.frozen import guarded
from ..wire.content import Descriptor, MediaKind
from ..wire.events import Event
from ..wire.ids import ChatId
from ..wire.operations import Operation
from ..wire.platform_side import Body, encode_event
from ..wire.rules import JsonValue
from .acts import Acting, Events
from .blobs import Blobs
from .deliveries import PostedEvent
from .door import AsgiApp, Message, Receive, Send
from .faults import FaultPlan, Outage
from .performing import Refusal, Result, perform
from .pusher import BotAddress, Post, Pusher, PushSettings
from .strictness import Liberty
from .traffic import LONGEST, RecordedCall, Traffic
from .world import ImpossibleActError, User, World

_KEPT: Final = 1_000
# The bytes of an upload aren't recorded: the file itself can be opened.
_UNKEPT: Final = "multipart/form-data"
CALL: Final = "triobot.call"
"""Key of the request's `RecordedCall` in the ASGI scope of an operation's request."""
_ANOTHER_ANSWER: Final = Liberty("status", "of an answer must be 200: no other is known to settle an event")


@final
class ShiftedClock:
    """A wall clock that can be put forward, so that nobody has to wait an hour for a refund.

    Attributes:
        ahead: lead over the base clock, in milliseconds.
    """

    def __init__(self, base: WallClock | None = None, *, ahead: int = 0) -> None:
        self._base = base
        self.ahead = ahead

    def now(self) -> int:
        """Return wall milliseconds, including the lead."""
        base = self._base.now() if self._base is not None else time.time_ns() // 1_000_000
        return base + self.ahead

    def advance(self, milliseconds: int) -> None:
        """Put the clock forward; a negative number raises ValueError."""
        if milliseconds < 0:
            raise ValueError("time doesn't go back")
        self.ahead += milliseconds


@final
@guarded(eq=False)
class Beside:
    """Access to the bot's process, for a program that runs a bot beside the platform.

    Attributes:
        process: returns the process's state: ``phase``, ``pid``, ``since``, ``starts``, ``problem``,
            ``target``.
        view: returns ``runtime``, ``inside``, ``crowd``, ``travel`` and ``held`` of the page's stream (see
            `follower`).
        lines: returns the kept lines of the process's output with numbers above the given number.
        pass_time: puts the process's clocks forward by these milliseconds; returns when the due work is done,
            or after a few seconds.
        blueprints: further HTTP routes under ``/control``.
    """

    process: Callable[[], dict[str, JsonValue]]
    view: Callable[[], dict[str, JsonValue]]
    lines: Callable[[int], Sequence[tuple[int, str]]]
    pass_time: Callable[[int], Awaitable[None]]
    blueprints: Sequence[Blueprint]


@final
class Exchange:
    """One running platform.

    Attributes:
        traffic: newest requests in both directions, with their answers.
        beside: access to the bot's process; None if this program runs only the platform.
        liberties: number of times that the bot took each liberty (see `strictness`), by operation.
        hear_operation: called before each operation of the bot.
        hear_liberty: called when a liberty is taken for the first time.
        address: the address of events, if events are posted over HTTP.
    """

    def __init__(
        self,
        world: World,
        blobs: Blobs,
        clock: ShiftedClock,
        post: Post,
        push: PushSettings | None = None,
    ) -> None:
        self.world = world
        self.blobs = blobs
        self.clock = clock
        self.plan = FaultPlan()
        self.pusher = Pusher(
            post,
            self._encode,
            fault=self.plan.for_event,
            settings=push,
            now=clock.now,
            takes=lambda status: status == 200 if world.switches.strict else status < 300,
            watch=self.watch,
        )
        self.outage = Outage()
        self.traffic = Traffic()
        self.beside: Beside | None = None
        self.hear_operation: Callable[[Operation[object]], None] = lambda _: None
        self.liberties: Counter[tuple[str, Liberty]] = Counter()
        self.hear_liberty: Callable[[str, Liberty], None] | None = None
        self.address: BotAddress | None = None
        if isinstance(post, BotAddress):
            self.address = post
            post.tell = self.tell
        self._changed = trio.Event()
        self._news = 0

    def _encode(self, event: Event) -> Body:
        chosen = self.world.switches
        return encode_event(
            event, as_json=chosen.json_events, lower_case_callbacks=chosen.lower_case_callbacks
        )

    def perform(self, operation: Operation[object]) -> Result | Refusal:
        """Perform an operation of the bot."""
        self.hear_operation(operation)
        answer, _ = perform(self.world, operation, self.clock.now())
        self.tell()
        return answer

    def note_liberties(self, operation: str, taken: tuple[Liberty, ...], call: RecordedCall | None) -> None:
        """Record the liberties of the bot's request, or of the bot's answer to an event.

        Args:
            operation: the request's operation, or the event's type.
        """
        if call is not None:
            call.liberties = taken
        for liberty in taken:
            # The number of entries is bounded, because a bot may invent names of operations.
            if (operation, liberty) not in self.liberties and len(self.liberties) < _KEPT:
                self.liberties[operation, liberty] = 0
                if self.hear_liberty is not None:
                    self.hear_liberty(operation, liberty)
            if (operation, liberty) in self.liberties:
                self.liberties[operation, liberty] += 1

    def act(self, user: User, what: Callable[[Acting], Events], chat: ChatId | None = None) -> Events:
        """Perform a person's act now, in `chat` or in the private chat. Queue the act's events for the bot.

        Raises:
            ImpossibleActError: the app doesn't offer this act; nothing happened.
            PushQueueFullError: too many events wait for the bot; nothing happened.
        """
        self.pusher.check_room()
        events = what(Acting(self.world, user, self.clock.now(), chat))
        self.pusher.push(*events)
        self.tell()
        return events

    def post_again(self, number: int, change: Callable[[Event], Event]) -> PostedEvent:
        """Pass the event of delivery `number` to `change`, and post the event that `change` returns.

        Raises:
            ImpossibleActError: the event is no longer kept.
            PushQueueFullError: too many events wait for the bot.
        """
        if (before := self.pusher.deliveries.get(number)) is None:
            raise ImpossibleActError("there is no event of this number, or it is forgotten by now")
        posted = self.pusher.push_again(before, change(before.event))
        self.tell()
        return posted

    def view_address(self) -> dict[str, JsonValue]:
        """Return the bot's address, and whether a bot listens there, as JSON.

        If this program runs the bot, the bot counts as listening while its process runs.
        """
        address, bot = self.address, None if self.beside is None else self.beside.process()
        if address is None:
            return {"address": None, "listens": False, "since": 0, "reached_at": None}
        return {
            "address": address.shown,
            "listens": address.listens if bot is None else bot.get("phase") == "running",
            "since": address.since if bot is None else bot.get("since"),
            "reached_at": address.reached_at,
        }

    def pass_time(self, milliseconds: int) -> None:
        """Put the clock forward, and make the refunds that fall due."""
        self.clock.advance(milliseconds)
        self.world.catch_up(self.clock.now())
        self.tell()

    async def upload(
        self, kind: MediaKind, filename: str, source: BinaryIO, duration: float = 0
    ) -> Descriptor:
        """Store a file, and return its descriptor; `duration` is in seconds, for sounds and videos.

        Raises:
            FileTooLargeError: the file was too large; nothing was kept.
        """
        file_id = self.world.letters()
        stored, measured = await self.blobs.keep(file_id, source, shrink=kind == "image")
        return self.world.uploads.add(
            file_id, kind, filename, stored.size, measured=measured, duration=duration
        )

    async def wait_change(self, after: int) -> None:
        """Wait until the world has a change with a number above `after`."""
        while self.world.seq <= after:
            await self._changed.wait()

    async def wait_news(self, after: int) -> int:
        """Wait until `tell` was called more than `after` times; return the number of calls.

        `tell` is called for changes of the world, and also for requests, faults and new states of the bot's
        process.
        """
        while self._news <= after:
            await self._changed.wait()
        return self._news

    def tell(self) -> None:
        """Wake all pages and requests that wait for news."""
        self._news += 1
        self._changed.set()
        self._changed = trio.Event()

    # --- recording the requests in both directions

    async def record(self, scope: Message, receive: Receive, send: Send, app: AsgiApp, note: str) -> None:
        """Serve the request of an operation, and record request and answer.

        Args:
            note: description of the planned fault.
        """
        headers = cast("list[tuple[bytes, bytes]]", scope["headers"])
        kind = next((value for name, value in headers if name.lower() == b"content-type"), b"").decode(
            "latin-1"
        )
        traffic, started = self.traffic, trio.current_time()
        name = str(scope["path"]).strip("/")
        call = traffic.begin("operation", name, self.clock.now(), content_type=kind, note=note)
        self.tell()
        answer = bytearray()
        status: int | None = None

        async def received() -> Message:
            message = await receive()
            chunk = cast("bytes", message.get("body", b""))
            call.size += len(chunk)
            if not kind.startswith(_UNKEPT):
                call.body = (call.body + chunk)[:LONGEST]
            return message

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = cast("int", message["status"])
            elif len(answer) < LONGEST:
                answer.extend(cast("bytes", message.get("body", b"")))
            await send(message)

        try:
            await app({**scope, CALL: call}, received, sent)
        finally:
            traffic.end(call, trio.current_time() - started, status, bytes(answer))
            self.tell()

    def watch(self, posted: PostedEvent, body: Body) -> Callable[[int | None], None]:
        """Record that the posting of an event begins. Return a function that records the answer's status."""
        traffic, started = self.traffic, trio.current_time()
        call = traffic.begin(
            "event",
            posted.type,
            self.clock.now(),
            content_type=body.content_type,
            body=body.data,
            note=posted.note,
            delivery=posted.number,
        )
        self.tell()

        def answered(status: int | None) -> None:
            if status not in (None, 200):
                self.note_liberties(posted.type, (_ANOTHER_ANSWER,), call)
            traffic.end(call, trio.current_time() - started, status)
            self.tell()

        return answered
