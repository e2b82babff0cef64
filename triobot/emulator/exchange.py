"""Joins the pure world to time, files and the network: what both HTTP faces of the emulator work on.

`Recorder` notes the requests of both directions in the traffic, as they pass.
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
# Uploads stream past: their bytes are the files', which can be looked at on their own.
_UNKEPT: Final = "multipart/form-data"
CALL: Final = "triobot.call"
"""The key in an operation's scope under which its `RecordedCall` is."""
_ANOTHER_ANSWER: Final = Liberty("status", "of an answer must be 200: no other is known to settle an event")


@final
class ShiftedClock:
    """A wall clock that can be put forward, so that an hour needn't be waited for.

    Args:
        ahead: how far it is ahead from the start, in milliseconds.
    """

    def __init__(self, base: WallClock | None = None, *, ahead: int = 0) -> None:
        self._base = base
        self._ahead = ahead

    def now(self) -> int:
        """Return wall milliseconds, with what was added."""
        base = self._base.now() if self._base is not None else time.time_ns() // 1_000_000
        return base + self._ahead

    @property
    def ahead(self) -> int:
        """Return how far it was put forward, in milliseconds."""
        return self._ahead

    def advance(self, milliseconds: int) -> None:
        """Put the clock forward; it never goes back."""
        if milliseconds < 0:
            raise ValueError("time doesn't go back")
        self._ahead += milliseconds


@final
@guarded
class Logged:
    """A request that the bot made; the token is not kept.

    Attributes:
        liberties: what of it the interface doesn't promise to take; where the platform is strict, the first
            is why it was refused.
    """

    at: int
    path: str
    fields: tuple[tuple[str, str], ...] = attrs.field(repr=False)
    status: int
    liberties: tuple[Liberty, ...] = ()


class BotProcess(Protocol):
    """What people may know of the bot's process, and do to it."""

    def view(self) -> dict[str, JsonValue]:
        """Return the process's state: ``phase``, ``pid``, ``since``, ``starts``, ``problem``, ``target``."""
        ...

    def runtime(self) -> dict[str, JsonValue]:
        """Return the bot's counts by name, and its ``alarms``; empty until the bot reports them."""
        ...

    def chats(self) -> Sequence[dict[str, JsonValue]]:
        """Return the chats in its memory, those with the latest happenings first."""
        ...

    def payments(self) -> Sequence[JsonValue]:
        """Return the newest entries of its ledger."""
        ...

    def lines(self, after: int) -> Sequence[tuple[int, str]]:
        """Return the lines that it wrote after this number and that are still kept, with their numbers."""
        ...

    async def pass_time(self, milliseconds: int) -> None:
        """Put its clocks forward; returns once it has done what was due, or a moment later."""
        ...

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        ...

    def restart(self) -> None:
        """Start it, or bring it to rest and start it again."""
        ...


@final
class TravelError(TriobotError):
    """What was asked of a conversation's past can't be told; the text says why.

    Attributes:
        gone: it could be a moment ago: ask for the pass anew.
        refused: it was understood, and can't be done there.
    """

    def __init__(self, why: str, *, gone: bool = False, refused: bool = False) -> None:
        super().__init__(why)
        self.gone = gone
        self.refused = refused


class Looks(Protocol):
    """What people may see of what a bot's conversations were; see `docs/studio.md`.

    All of it raises a `TravelError` where it can't be told.
    """

    async def conversations(self, chat_id: int) -> JsonValue:
        """List a chat's conversations, the newest first."""
        ...

    async def open(self, chat_id: int, conversation: int) -> JsonValue:
        """Begin a pass over a conversation; returns its id."""
        ...

    def passed(self, id: str) -> JsonValue:
        """Return a pass's head, or its id alone while it is not ready."""
        ...

    async def notches(self, id: str, start: int, end: int) -> bytes:
        """Return some of its notches, as compressed JSON."""
        ...

    async def path(self, id: str, start: int, end: int) -> bytes:
        """Return the lines that ran in some of its turns, as compressed JSON."""
        ...

    async def source(self, id: str, source: int) -> bytes:
        """Return one of its sources, compressed."""
        ...

    async def value(self, id: str, notch: int, branch: str, frame: int, name: str) -> JsonValue:
        """Return a variable nearly whole."""
        ...

    async def close(self, id: str) -> None:
        """Forget a pass."""
        ...


class Travels(Looks, Protocol):
    """What people may do besides, where there is a platform: go on in another way."""

    def view(self) -> Sequence[JsonValue]:
        """Tell of each pass whether it is ready; raises nothing."""
        ...

    def open_told(
        self, journals: Sequence[Sequence[dict[str, JsonValue]]], marks: Sequence[dict[str, JsonValue]]
    ) -> JsonValue:
        """Begin a pass over the first of these journals, of a chat elsewhere; returns its id."""
        ...

    async def branch(self, id: str, notch: int, *, group: bool | None, asks: Sequence[str] = ()) -> bytes:
        """Open a branch at a notch of a pass; return how it looks, as compressed JSON.

        Args:
            asks: steps whose recorded results are not given.
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
        """Give the present code the answers that were given in a conversation, in a branch.

        Args:
            numbers: its messages get numbers above this one.
            said: what people wrote in the chat: when, who, and the text.
        """
        ...

    async def in_branch(self, id: str, what: str, given: Mapping[str, JsonValue]) -> bytes:
        """Do something in a branch, and return how it looks then, as compressed JSON."""
        ...

    async def close_branch(self, id: str) -> None:
        """Throw a branch away."""
        ...

    async def keep(self, id: str, notch: int | None, *, group: bool | None) -> JsonValue:
        """Write a notch of a pass down as a test, or without one a branch; and run it."""
        ...


class Crowds(Protocol):
    """A crowd that uses the bot; see `docs/studio.md`.

    What can't be told raises a `TravelError`.
    """

    def crowd(self) -> JsonValue:
        """Tell how the crowd is."""
        ...

    def let_in(self, plan: Mapping[str, JsonValue]) -> None:
        """Let a crowd use the bot, beside the real one."""
        ...

    def send_home(self) -> None:
        """End the crowd."""
        ...

    def failing(self) -> tuple[Sequence[Sequence[dict[str, JsonValue]]], Sequence[dict[str, JsonValue]]]:
        """Return the journals of the chat where the crowd broke a promise, and when there was a kill."""
        ...


class Reload(Protocol):
    """What may be done about a reload that is held: see `docs/studio.md`."""

    def view(self) -> Sequence[JsonValue]:
        """Tell of each conversation that holds it back; nothing, if it isn't held."""
        ...

    async def choose(self, chat_id: int, conversation: int, way: str) -> None:
        """Choose what becomes of one of them.

        Raises:
            TravelError: it doesn't hold the reload, or that can't be done.
        """
        ...

    async def take(self, branch: str) -> None:
        """Have what new code made of a conversation's answers take its place, and be loaded with that.

        Raises:
            TravelError: the branch is gone, or that can't be done.
        """
        ...


@final
class Exchange:
    """One running platform.

    Attributes:
        requests: the newest requests of the bot.
        traffic: the newest requests in both directions, with their answers.
        bot: the bot's process, where this program keeps one.
        liberties: how often the bot took each, by operation.
        hear_liberty: is told of each the first time that it is taken.
        travels: what shows the past of its conversations, where something does.
        crowds: what lets a crowd use the bot, where something does.
        reload: what holds back new code, where something does.
        address: whether a bot listens where events are posted to.
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
        """Do what the bot asks."""
        answer, _ = perform(self.world, operation, self.clock.now())
        self.tell()
        return answer

    def log(self, logged: Logged, call: RecordedCall | None) -> None:
        """Note what the bot asked for; `call` is the same request as it was on the wire."""
        self.requests.append(logged)
        self.note_liberties(logged.path, logged.liberties, call)

    def note_liberties(self, operation: str, taken: tuple[Liberty, ...], call: RecordedCall | None) -> None:
        """Note what isn't promised: of an operation, or of the answer to an event of this type."""
        if call is not None:
            call.liberties = taken
        for liberty in taken:
            # A bot that makes up names must not fill the memory.
            if (operation, liberty) not in self.liberties and len(self.liberties) < _KEPT:
                self.liberties[operation, liberty] = 0
                if self.hear_liberty is not None:
                    self.hear_liberty(operation, liberty)
            if (operation, liberty) in self.liberties:
                self.liberties[operation, liberty] += 1

    def act(self, what: Callable[[int], tuple[Event, ...]]) -> tuple[Event, ...]:
        """Perform a person's act now, and queue its events for the bot.

        Raises:
            ImpossibleActError: the app doesn't offer that; nothing happened.
            PushQueueFullError: the bot is too far behind; nothing happened.
        """
        self.pusher.check_room()
        events = what(self.clock.now())
        self.pusher.push(*events)
        self.tell()
        return events

    def post_again(self, number: int, change: Callable[[Event], Event]) -> PostedEvent:
        """Post an event again: what `change` makes of it, or the same that it was given.

        Raises:
            ImpossibleActError: it is not known any more.
            PushQueueFullError: the bot is too far behind.
        """
        if (before := self.pusher.deliveries.get(number)) is None:
            raise ImpossibleActError("there is no event of this number, or it is forgotten by now")
        posted = self.pusher.push_again(before, change(before.event))
        self.tell()
        return posted

    def view_address(self) -> dict[str, JsonValue]:
        """Return whether a bot listens, as JSON: one whose process is ours does so when it runs."""
        address, bot = self.address, self.bot.view() if self.bot is not None else None
        return {
            "address": address.shown,
            "listens": address.listens if bot is None else bot.get("phase") == "running",
            "since": address.since if bot is None else bot.get("since"),
            "reached_at": address.reached_at,
        }

    def pass_time(self, milliseconds: int) -> None:
        """Put the clock forward, and let fall due what falls due."""
        self.clock.advance(milliseconds)
        self.world.catch_up(self.clock.now())
        self.tell()

    async def upload(
        self, kind: MediaKind, filename: str, source: BinaryIO, duration: float = 0
    ) -> Descriptor:
        """Keep a file, and describe it; `duration` is in seconds, for what plays.

        Raises:
            FileTooLargeError: it was not kept.
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
        """Wait until the world has changed since this number."""
        while self.world.seq <= after:
            await self._changed.wait()

    async def wait_news(self, after: int) -> int:
        """Wait until `tell` was called more often than `after` times; returns how often it was.

        Much more happens than the world's own changes: requests, faults, what becomes of the bot's process.
        """
        while self._news <= after:
            await self._changed.wait()
        return self._news

    def tell(self) -> None:
        """Wake up every page and request that waits for news."""
        self._news += 1
        self._changed.set()
        self._changed = trio.Event()


@final
class Recorder:
    """Sees operations come in and events go out."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def record(self, scope: Message, receive: Receive, send: Send, app: AsgiApp, note: str) -> None:
        """Serve an operation, and note it; `note` is what is made to go wrong."""
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
        """Note that an event is on its way; call what comes back with its answer."""
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
