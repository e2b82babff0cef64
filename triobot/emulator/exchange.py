"""Connects the pure world to time, files and the network; both HTTP interfaces of the emulator use it.

`Recorder` records the requests of both directions in the traffic.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO, Final, Protocol, cast, final

import attrs
import trio

from ..base.clock import WallClock
from ..base.frozen import guarded
from ..errors import TriobotError
from ..wire.content import Descriptor, MediaKind
from ..wire.encode import Body
from ..wire.events import Event
from ..wire.operations import Operation
from ..wire.rules import JsonValue
from .blobs import Blobs
from .deliveries import PostedEvent
from .door import AsgiApp, Message, Receive, Send
from .faults import FaultPlan, Outage
from .performing import Refusal, Result, perform
from .pusher import BotAddress, Pusher
from .strictness import Liberty
from .traffic import LONGEST, RecordedCall, Traffic
from .world import ImpossibleActError, World

_KEPT: Final = 1_000
# The bytes of an upload aren't recorded: the file itself can be opened.
_UNKEPT: Final = "multipart/form-data"
CALL: Final = "triobot.call"
"""Key in an operation's scope: its `RecordedCall`."""
_ANOTHER_ANSWER: Final = Liberty("status", "of an answer must be 200: no other is known to settle an event")


@final
class ShiftedClock:
    """A wall clock that can be put forward, so that no one has to wait an hour.

    Args:
        ahead: initial lead over the base clock, in milliseconds.
    """

    def __init__(self, base: WallClock | None = None, *, ahead: int = 0) -> None:
        self._base = base
        self._ahead = ahead

    def now(self) -> int:
        """Return wall milliseconds, including the lead."""
        base = self._base.now() if self._base is not None else time.time_ns() // 1_000_000
        return base + self._ahead

    @property
    def ahead(self) -> int:
        """Lead over the base clock, in milliseconds."""
        return self._ahead

    def advance(self, milliseconds: int) -> None:
        """Put the clock forward; a negative number raises ValueError."""
        if milliseconds < 0:
            raise ValueError("time doesn't go back")
        self._ahead += milliseconds


@final
@guarded
class Logged:
    """A recorded request of the bot, without the token.

    Attributes:
        liberties: properties of the request that the interface doesn't promise to accept. A strict platform
            refused the request because of the first liberty.
    """

    at: int
    path: str
    fields: tuple[tuple[str, str], ...] = attrs.field(repr=False)
    status: int
    liberties: tuple[Liberty, ...] = ()


class BotProcess(Protocol):
    """The bot's process, as the page shows and controls it."""

    def view(self) -> dict[str, JsonValue]:
        """Return the process's state: ``phase``, ``pid``, ``since``, ``starts``, ``problem``, ``target``."""
        ...

    def runtime(self) -> dict[str, JsonValue]:
        """Return the bot's counts by name, and its ``alarms``; empty until the bot reports them."""
        ...

    def chats(self) -> Sequence[dict[str, JsonValue]]:
        """Return the chats in the bot's memory, the most recently active first."""
        ...

    def payments(self) -> Sequence[JsonValue]:
        """Return the newest entries of the bot's ledger."""
        ...

    def lines(self, after: int) -> Sequence[tuple[int, str]]:
        """Return the kept lines of output with numbers above `after`."""
        ...

    async def pass_time(self, milliseconds: int) -> None:
        """Put the process's clocks forward; return when the due work is done, or after a few seconds."""
        ...

    def kill(self) -> None:
        """Kill the process."""
        ...

    def restart(self) -> None:
        """Start the process, or stop it gracefully and start it again."""
        ...


@final
class TravelError(TriobotError):
    """A request about conversations' past that can't be answered; the text contains the reason.

    Attributes:
        gone: whether the pass or branch existed before, and can be opened again.
        refused: whether the request was understood, but is impossible in this pass or branch.
    """

    def __init__(self, why: str, *, gone: bool = False, refused: bool = False) -> None:
        super().__init__(why)
        self.gone = gone
        self.refused = refused


class Looks(Protocol):
    """The read-only view of a bot's past conversations; see `docs/studio.md`.

    All methods raise `TravelError` if the request can't be answered.
    """

    async def conversations(self, chat_id: int) -> JsonValue:
        """Return a chat's conversations, newest first."""
        ...

    async def open(self, chat_id: int, conversation: int) -> JsonValue:
        """Start a pass over a conversation; return the pass's id."""
        ...

    def passed(self, id: str) -> JsonValue:
        """Return a pass's head, or only its id while the pass isn't ready."""
        ...

    async def notches(self, id: str, start: int, end: int) -> bytes:
        """Return some notches of a pass, as compressed JSON."""
        ...

    async def path(self, id: str, start: int, end: int) -> bytes:
        """Return the lines that ran in some turns of a pass, as compressed JSON."""
        ...

    async def source(self, id: str, source: int) -> bytes:
        """Return one source of a pass, compressed."""
        ...

    async def value(self, id: str, notch: int, branch: str, frame: int, name: str) -> JsonValue:
        """Return one variable as a long text."""
        ...

    async def close(self, id: str) -> None:
        """Discard a pass."""
        ...


class Travels(Looks, Protocol):
    """The view of past conversations on a platform: with branches, which continue from a notch."""

    def view(self) -> Sequence[JsonValue]:
        """Return for each pass whether it is ready; never raises."""
        ...

    def open_told(
        self, journals: Sequence[Sequence[dict[str, JsonValue]]], marks: Sequence[dict[str, JsonValue]]
    ) -> JsonValue:
        """Start a pass over the first of these journals, from a chat outside the store; return the new id."""
        ...

    async def branch(self, id: str, notch: int, *, group: bool | None, asks: Sequence[str] = ()) -> bytes:
        """Open a branch at a notch of a pass; return the branch's state as compressed JSON.

        Args:
            asks: steps whose recorded results aren't used.
        """
        ...

    async def same_answers(
        self,
        chat_id: int,
        conversation: int,
        *,
        group: bool | None,
        numbers: int,
        asks: Sequence[str] = (),
        said: Sequence[JsonValue] = (),
    ) -> bytes:
        """Open a branch in which the current code gets the recorded answers; return the branch's state.

        Args:
            numbers: the branch's messages get numbers above this number.
            said: people's texts in the chat: time, sender, text.
        """
        ...

    async def in_branch(self, id: str, what: str, given: Mapping[str, JsonValue]) -> bytes:
        """Run one command in a branch; return the branch's state afterwards, as compressed JSON."""
        ...

    async def close_branch(self, id: str) -> None:
        """Discard a branch."""
        ...

    async def keep(self, id: str, notch: int | None, *, group: bool | None) -> JsonValue:
        """Write a test of a pass up to a notch, or, without `notch`, of a branch; run the test."""
        ...


class Crowds(Protocol):
    """Simulated crowds that use the bot; see `docs/studio.md`.

    The methods raise `TravelError` if the request is impossible.
    """

    def crowd(self) -> JsonValue:
        """Return the crowd's state."""
        ...

    def let_in(self, plan: Mapping[str, JsonValue]) -> None:
        """Start a crowd with a bot of its own, beside the real bot."""
        ...

    def send_home(self) -> None:
        """Stop the crowd."""
        ...

    def failing(self) -> tuple[Sequence[Sequence[dict[str, JsonValue]]], Sequence[dict[str, JsonValue]]]:
        """Return the journals of the chat in which a promise was broken, and the kills of the process."""
        ...


class Reload(Protocol):
    """Control of a reload that open conversations hold back: see `docs/studio.md`."""

    def view(self) -> Sequence[JsonValue]:
        """Return the conversations that hold the reload back; empty if none does."""
        ...

    async def choose(self, chat_id: int, conversation: int, way: str) -> None:
        """Decide about one of these conversations.

        Raises:
            TravelError: the conversation doesn't hold the reload, or the decision can't be carried out.
        """
        ...

    async def take(self, branch: str) -> None:
        """Replace a conversation by a branch in which the new code got the same answers; load the new code.

        Raises:
            TravelError: the branch is gone, or can't replace the conversation.
        """
        ...


@final
class Exchange:
    """One running platform.

    Attributes:
        requests: newest requests of the bot.
        traffic: newest requests in both directions, with their answers.
        bot: the bot's process, if this program runs it.
        liberties: number of times that the bot took each liberty (see `Logged`), by operation.
        hear_liberty: called when a liberty is taken for the first time.
        travels: access to past conversations, if available.
        crowds: simulated crowds, if available.
        reload: the held reload, if available.
        address: whether a bot listens at the address of events.
    """

    def __init__(
        self,
        world: World,
        *,
        pusher: Pusher,
        blobs: Blobs,
        plan: FaultPlan | None = None,
        clock: ShiftedClock | None = None,
        address: BotAddress | None = None,
    ) -> None:
        self.world = world
        self.pusher = pusher
        self.blobs = blobs
        self.plan = plan or FaultPlan()
        self.clock = clock or ShiftedClock()
        self.outage = Outage()
        self.requests: deque[Logged] = deque(maxlen=_KEPT)
        self.traffic = Traffic()
        self.bot: BotProcess | None = None
        self.liberties: Counter[tuple[str, Liberty]] = Counter()
        self.hear_liberty: Callable[[str, Liberty], None] | None = None
        self.travels: Travels | None = None
        self.crowds: Crowds | None = None
        self.reload: Reload | None = None
        self.address = address or BotAddress(None)
        self.address.tell = self.tell
        self._changed = trio.Event()
        self._news = 0

    def perform(self, operation: Operation[object]) -> Result | Refusal:
        """Perform an operation of the bot."""
        answer, _ = perform(self.world, operation, self.clock.now())
        self.tell()
        return answer

    def log(self, logged: Logged, call: RecordedCall | None) -> None:
        """Record a request of the bot; `call` is the same request in the traffic."""
        self.requests.append(logged)
        self.note_liberties(logged.path, logged.liberties, call)

    def note_liberties(self, operation: str, taken: tuple[Liberty, ...], call: RecordedCall | None) -> None:
        """Record the liberties of an operation, or of the answer to an event of this type."""
        if call is not None:
            call.liberties = taken
        for liberty in taken:
            # Bounded, because a bot may invent names.
            if (operation, liberty) not in self.liberties and len(self.liberties) < _KEPT:
                self.liberties[operation, liberty] = 0
                if self.hear_liberty is not None:
                    self.hear_liberty(operation, liberty)
            if (operation, liberty) in self.liberties:
                self.liberties[operation, liberty] += 1

    def act(self, what: Callable[[int], tuple[Event, ...]]) -> tuple[Event, ...]:
        """Perform a person's act now, and queue its events for the bot.

        Raises:
            ImpossibleActError: the app doesn't offer this act; nothing happened.
            PushQueueFullError: too many events wait for the bot; nothing happened.
        """
        self.pusher.check_room()
        events = what(self.clock.now())
        self.pusher.push(*events)
        self.tell()
        return events

    def post_again(self, number: int, change: Callable[[Event], Event]) -> PostedEvent:
        """Post an event again, as it was or as `change` returns it.

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
        """Return whether a bot listens, as JSON. A bot that this program started listens while it runs."""
        address, bot = self.address, self.bot.view() if self.bot is not None else None
        return {
            "address": address.shown,
            "listens": address.listens if bot is None else bot.get("phase") == "running",
            "since": address.since if bot is None else bot.get("since"),
            "reached_at": address.reached_at,
        }

    def pass_time(self, milliseconds: int) -> None:
        """Put the clock forward, and carry out what falls due."""
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
            file_id,
            kind,
            filename,
            stored.size,
            size=measured.size if measured is not None else None,
            previews=measured.previews if measured is not None else None,
            duration=duration,
        )

    async def wait_change(self, after: int) -> None:
        """Wait until the world has a change with a number above `after`."""
        while self.world.seq <= after:
            await self._changed.wait()

    async def wait_news(self, after: int) -> int:
        """Wait until `tell` was called more than `after` times; return the number of calls.

        News includes more than the world's changes: requests, faults, the state of the bot's process.
        """
        while self._news <= after:
            await self._changed.wait()
        return self._news

    def tell(self) -> None:
        """Wake all pages and requests that wait for news."""
        self._news += 1
        self._changed.set()
        self._changed = trio.Event()


@final
class Recorder:
    """Records operations and events in the traffic."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def record(self, scope: Message, receive: Receive, send: Send, app: AsgiApp, note: str) -> None:
        """Serve an operation, and record it; `note` describes the planned fault."""
        headers = cast("list[tuple[bytes, bytes]]", scope["headers"])
        kind = next((value for name, value in headers if name.lower() == b"content-type"), b"").decode(
            "latin-1"
        )
        traffic, started = self._exchange.traffic, trio.current_time()
        name = str(scope["path"]).strip("/")
        call = traffic.begin("operation", name, self._exchange.clock.now(), content_type=kind, note=note)
        self._exchange.tell()
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
            self._exchange.tell()

    def post(self, posted: PostedEvent, body: Body) -> Callable[[int | None], None]:
        """Record the start of an event's posting; return the function to call with its status."""
        traffic, started = self._exchange.traffic, trio.current_time()
        call = traffic.begin(
            "event",
            posted.type,
            self._exchange.clock.now(),
            content_type=body.content_type,
            body=body.data,
            note=posted.note,
            delivery=posted.number,
        )
        self._exchange.tell()

        def answered(status: int | None) -> None:
            if status not in (None, 200):
                self._exchange.note_liberties(posted.type, (_ANOTHER_ANSWER,), call)
            traffic.end(call, trio.current_time() - started, status)
            self._exchange.tell()

        return answered
