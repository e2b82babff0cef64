"""References to places: read and write a place's data, send signals to a place, start and stop its routes.

`Room.to` makes references for a conversation: each call through such a reference is an operation. `Bot.to`
makes references for all other code.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, final

import attrs
import trio
from typing_extensions import TypeVarTuple

from ...base.frozen import guarded
from ...engine.records import Id
from ...errors import ConfigError, LocalProtocolError
from ...seams.outbox import OnUnknown
from ...seams.patience import await_store
from ...seams.rooms import person_place, room_place
from ...seams.values import encode_value, encoded
from ...wire.ids import ChatId, Recipient, SenderId, as_sender_id
from ...wire.operations import Operation
from ...wire.rules import check_text
from ..beginnings import Facts
from ..data import Key, ReadKey, check_key
from ..operations import Operations
from ..running.branches import OperationKind, refuse_conversations
from ..running.lines import calling_line
from ..services import Also
from .signals import Halt, RoomName

if TYPE_CHECKING:
    from ..shared import Shared

T = TypeVar("T")
Args = TypeVarTuple("Args")

INSTEAD: Final = "chat.to(chat_id), or the chat's own methods"
LONGEST_ROOM_KEY: Final = 128
"""Maximum number of characters of a room's key."""


@final
@guarded
class Door:
    """Access to the bot's places. In a conversation, each call is a recorded operation.

    In a conversation, each stored row has a deduplication key made of the conversation, the operation and the
    stored value. So an operation that is repeated after a crash stores nothing twice.

    Attributes:
        operations: the conversation's operations; None for code outside of conversations.
    """

    _shared: Callable[[], Shared] = attrs.field(repr=False)
    operations: Operations | None = attrs.field(default=None, repr=False)

    @classmethod
    def of(cls, operations: Operations) -> Door:
        return cls(lambda: operations.shared, operations)

    def shared(self, what: str = "bot.to()", instead: str = INSTEAD) -> Shared:
        """Return the running bot's state. The arguments are for `refuse_conversations`.

        Raises:
            ForeignTaskError: a conversation uses a `Door` that was made for code outside of conversations.
            ConfigError: the bot isn't running.
        """
        if self.operations is None:
            refuse_conversations(what, instead)
        return self._shared()

    async def effect(self, kind: OperationKind, body: Callable[[Id | None], Awaitable[T]]) -> T:
        """Run `body` with the operation's id; outside of conversations, with None.

        In a conversation, `body` is repeated while the store can't be reached.
        """
        if self.operations is None:
            return await body(None)
        return await self.operations.effect(kind, lambda own: await_store(partial(body, own)))

    def gives(self, what: str, args: Sequence[object] = ()) -> None:
        """Record an action that may give paid goods; see `Operations.gives`."""
        if self.operations is not None:
            self.operations.gives(what, args)

    def done(self, own: Id | None, kind: OperationKind) -> Also | None:
        """Return the writes that record an operation as done; None outside of conversations."""
        operations = self.operations
        return None if operations is None or own is None else partial(operations.done, own, kind)

    async def perform(self, operation: Operation[T], on_unknown: OnUnknown) -> T:
        """Send a request, in order with the other requests to that chat."""
        sender = self.shared().services.outbox if self.operations is None else self.operations
        return await sender.perform(operation, on_unknown=on_unknown)

    async def start(
        self, chat_id: ChatId, fn: Callable[..., object], args: tuple[object, ...], key: str | None
    ) -> bool:
        shared, operations = self.shared(), self.operations
        route = shared.table.route_of(fn, args, f"{calling_line()}: start()")
        value = None if operations is None or encoded(operations.value) is None else operations.value
        sender = None if operations is None else operations.facts.event.sender
        self.gives(f"a start of {route.name}")

        async def body(own: Id | None) -> bool:
            once = key or self.once(own, (route.first_name, args))
            also = None if key is None else self.done(own, OperationKind.START)
            start = partial(shared.chat_calls.start, chat_id, route.name, args, key=key, once=once)
            own_chat = self._facts_in(chat_id) is not None
            return await start(value=value, sender=sender, own=own_chat, also=also)

        # The result is False if the store already had a call with this deduplication key. Without an author's
        # key, only an earlier try of this operation can have stored such a call.
        return await self.effect(OperationKind.START, body) or key is None

    async def stop(self, chat_id: ChatId, fn: Callable[..., object], key: str | None) -> bool:
        shared, facts = self.shared(), self._facts_in(chat_id)
        halt = Halt(chat_id, shared.table.route_of(fn, None, f"{calling_line()}: stop()").name, key)
        # If a run stops itself, the run's end is recorded, but not this operation.
        itself = facts is not None and halt.ends(facts.route.name, facts.key)

        async def body(own: Id | None) -> bool:
            also = None if itself else self.done(own, OperationKind.STOP)
            own_chat = facts is not None
            return await shared.chat_calls.stop(chat_id, halt.name, key, own=own_chat, also=also)

        return await self.effect(OperationKind.STOP, body)

    def reading(self) -> AbstractContextManager[None]:
        """Return a context manager that parks the conversation if a value can't be decoded.

        Outside of conversations the context manager does nothing.
        """
        return nullcontext() if self.operations is None else self.operations.reading()

    def write(
        self, own: Id, kind: OperationKind, place: ChatId, key: str, value: str | None, result: str | None
    ) -> None:
        """Queue the value and the operation's result as one unit; later writes may depend on this unit."""
        conversation = cast("Operations", self.operations).conversation
        if conversation.dead or (writer := conversation.writer) is None:
            return
        put = self._shared().keeping.put_now(place, key, value, writer)
        writer.write([put, writer.unit.result(own, kind.value, result)])

    def _facts_in(self, chat_id: ChatId) -> Facts | None:
        """Return the calling conversation's facts if the conversation is in this chat, else None."""
        operations = self.operations
        return operations.facts if operations is not None and operations.chat_id == chat_id else None

    def once(self, own: Id | None, stored: object) -> str | None:
        """Return the operation's deduplication key for a row with the value `stored`; None outside of
        conversations.
        """
        if self.operations is None:
            return None
        digest = hashlib.blake2b(encode_value(stored).encode(), digest_size=12).hexdigest()
        return f"{self.operations.facts.id}/{own}/{digest}"


@guarded
class RoomRef:
    """Reference to a place of the bot, to read and change the place's data and to send signals there.

    `Room.to` and `Bot.to` make references; a `ChatRef` is the reference to a chat. Calls through `Room.to`
    are operations of the conversation, with the same restrictions as the conversation's own operations. Calls
    through `Bot.to` are not recorded.
    """

    _door: Door = attrs.field(repr=False)
    _whose: Recipient = attrs.field(repr=False)
    _room: RoomName | None = attrs.field(default=None, repr=False)
    _deaf: bool = attrs.field(default=False, repr=False)

    @property
    def _place(self) -> ChatId:
        assert isinstance(self._whose, int)
        return ChatId(self._whose)

    async def get(self, key: ReadKey[T]) -> T:
        """Read a fresh copy of the place's value under a key; see `Room.data`.

        Raises:
            KeyError: the slot is empty, and the key has no default.
            UnreadableRecordError: this program can't decode the stored value, or the value isn't of the key's
                class. The error names the place and the key. If a conversation calls `get`, the conversation
                is parked instead.
            LocalProtocolError: the reference names a chat by phone number or group name, not by id.
        """
        check_key(key)
        keeping, place = self._door.shared().keeping, self._place

        async def body(own: Id | None) -> dict[str, str]:
            return dict(await keeping.data(place))

        data = await self._door.effect(OperationKind.GET, body)
        with self._door.reading():
            return key.load_of(place, data.get(key.name))

    async def set(self, key: Key[T], value: T) -> None:
        """Store a value for the place. The place's conversations get the new value at once.

        Through `Bot.to` the value is durable on return; the call waits while the store is full. Through
        `Room.to` the value is stored exactly once, even across crashes: together with the operation's record,
        and before any later effect becomes visible.

        Raises:
            UnrecordableError: the value can't be recorded.
            LocalProtocolError: the reference names a chat by phone number or group name, not by id.

        Cancellation: *ambiguous*; the call may be repeated.
        """
        check_key(key)
        await self._put(key.name, key.dump(value))

    async def clear(self, key: Key[Any]) -> None:
        """Empty a slot of the place, as ``del chat.data[KEY]`` does in the chat itself. `set` describes the
        guarantees.

        Raises:
            LocalProtocolError: the reference names a chat by phone number or group name, not by id.

        Cancellation: *ambiguous*; the call may be repeated.
        """
        check_key(key)
        await self._put(key.name, None)

    async def _put(self, key: str, value: str | None) -> None:
        door, keeping, place = self._door, self._door.shared().keeping, self._place
        door.gives(f"a change of what {key!r} keeps")

        async def body(own: Id | None) -> None:
            if own is None:
                return await keeping.put(place, key, value)
            await trio.lowlevel.checkpoint()
            return door.write(own, OperationKind.SET, place, key, value, None)

        await door.effect(OperationKind.SET, body)

    async def update(self, key: Key[T], change: Callable[[T, *Args], T], *args: *Args) -> T:
        """Replace the value under a key by ``change(old, *args)``, and return the new value.

        No other change comes between the read and the write. So `update` can book an appointment without a
        lock. In a conversation the update happens exactly once, even across crashes: the value is stored
        together with the operation's record, and a replay returns the recorded value. Through `Bot.to` there
        is no record: after a crash during the call, the update may have happened.

        Args:
            change: a plain function that depends only on its arguments. `change` may be called more than
                once, and is never called on replay.
            args: arguments of `change` after the old value.

        Raises:
            KeyError: the slot is empty, and the key has no default.
            UnrecordableError: the value returned by `change` can't be recorded, or isn't of the key's class.
            ConfigError: `change` is not a plain function.
            UnreadableRecordError, LocalProtocolError: as for `get`.
            StepError: `change` raised an error that can't be recorded; builtin errors are raised unchanged.

        Cancellation: *ambiguous*.

        Examples:
            >>> def book(taken: dict[int, ChatId], hour: int, who: ChatId) -> dict[int, ChatId]:
            ...     return taken if hour in taken else {**taken, hour: who}
            >>> async def at_nine(chat: Chat) -> None:
            ...     taken = await chat.shared.update(TAKEN, book, 9, chat.id)
            ...     await chat.send("It is yours." if taken[9] == chat.id else "Somebody was faster.")
        """
        check_key(key)
        _check_change(change)
        door, keeping, place = self._door, self._door.shared().keeping, self._place
        door.gives(f"a change of what {key.name!r} keeps")

        async def body(own: Id | None) -> str:
            old = (await keeping.read(place)).get(key.name)
            if door.operations is not None and door.operations.conversation.dead:
                return ""  # the result is unused: the revived conversation repeats the operation
            with door.reading():
                text = key.dump(change(key.load_of(place, old), *args))
            if own is None:
                await keeping.put(place, key.name, text)
            else:
                door.write(own, OperationKind.UPDATE, place, key.name, text, text)
            return text

        return key.load(await door.effect(OperationKind.UPDATE, body))

    async def signal(self, value: object, *, key: str | None = None) -> None:
        """Send a signal to the place, for conversations that filter by `triobot.filters.signal`.

        The signal is durable on return, and arrives in order with the place's events. In a chat, an
        untaken signal waits for a conversation that takes the signal. In a room, a signal waits while the
        room's coroutine runs; otherwise the signal starts the coroutine or is dropped; see `Router.room`.

        Args:
            value: any recordable value but None, preferably an instance of a frozen attrs class.
            key: deduplication key: a second signal to this place with the same key within
                `Settings.retention_days` (by default seven) is dropped. Through `Room.to` each call has a key
                of its own, so a signal that is repeated after a restart is delivered once.

        Raises:
            UnrecordableError: the value can't be recorded.
            LocalProtocolError: the reference names a chat by phone number or group name, not by id; or the
                place is neither a chat nor a room, and only stores data.
            StoreFullError: too many signals wait in this place; nothing was stored.

        Cancellation: *ambiguous*; with a `key` the call may be repeated.
        """
        place = self._place
        if self._deaf:
            raise LocalProtocolError("place", "keeps data, and hears nothing: tell a chat or a room")
        chat_calls = self._door.shared().chat_calls
        self._door.gives(f"a signal {type(value).__qualname__}", (value,))

        async def body(own: Id | None) -> None:
            await chat_calls.signal(place, value, key or self._door.once(own, value), self._room)

        await self._door.effect(OperationKind.SIGNAL, body)


def person_ref(door: Door, sender_id: SenderId) -> RoomRef:
    """Return a reference to the data kept for a person.

    Raises:
        LocalProtocolError: `sender_id` is not a person's id.
    """
    try:
        return RoomRef(door, person_place(as_sender_id(sender_id)), None, True)
    except LocalProtocolError:
        raise LocalProtocolError("sender_id", "must be a person's id, such as chat.sender.id") from None


def room_ref(door: Door, fn: Callable[..., object], key: str | int, who: str) -> RoomRef:
    """Return a reference to the room with this key, of the kind declared by the function `fn`.

    Args:
        who: description of the caller for errors, with the author's line.

    Raises:
        ConfigError: `fn` declares no room, or the key is invalid.
    """
    route = door.shared().table.route_of(fn, None, who, room=True)
    name = _room_key(key, who, "a room's key")
    return RoomRef(door, room_place(route.first_name, name), (route.first_name, name))


def place_ref(door: Door, name: str, key: str | int, who: str) -> RoomRef:
    """Return a reference to the data under this name and key; a room with the same name and key shares the
    data.

    Raises:
        ConfigError: the name or the key is invalid.
    """
    if not _room_key(name, who, what := "a place's name and key"):
        raise ConfigError(f"{who} takes {what}: the name is empty")
    return RoomRef(door, room_place(name, _room_key(key, who, what)), None, True)


def _room_key(key: str | int, who: str, what: str) -> str:
    name = str(key) if type(key) is int else key
    with suppress(LocalProtocolError):
        name = check_text("key", name, empty=True)
        if len(name) <= LONGEST_ROOM_KEY and "\0" not in name:
            return name
    raise ConfigError(
        f"{who} takes {what}: a text of at most {LONGEST_ROOM_KEY} characters, or a whole number"
    )


def _check_change(change: object) -> None:
    if not callable(change):
        raise ConfigError(f"update() takes a function of the old value, not a value: {type(change).__name__}")
    if inspect.iscoroutinefunction(change):
        name = getattr(change, "__qualname__", type(change).__qualname__)
        raise ConfigError(f"update() takes a plain function, without async: {name} is none")
