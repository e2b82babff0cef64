"""How one place gets to another: what is said through a conversation's reference are operations of its own.

There are two doors to a place: `Room.to` is a conversation's, where each call is one of its operations;
`Bot.to` is for everybody else.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from types import CodeType
from typing import Any, Final, Protocol, TypeVar, final

import attrs
import trio
from typing_extensions import TypeVarTuple

from ...base.frozen import guarded
from ...engine.records import Id
from ...errors import ConfigError, LocalProtocolError, UnrecordableError
from ...seams.outbox import OnUnknown
from ...seams.patience import await_store
from ...seams.rooms import hears, person_place, room_place
from ...seams.values import encode_value
from ...wire.ids import ChatId, Recipient, SenderId, as_sender_id
from ...wire.operations import Operation
from ...wire.rules import check_text
from ..conversation import Conversation
from ..data import Key, ReadKey, check_key
from ..journal_writer import outcome_of
from ..routes.declarations import Table
from ..running.branches import OperationKind
from ..running.lines import calling_line
from .calls import Halt, RoomName

T = TypeVar("T")
Args = TypeVarTuple("Args")

LONGEST_ROOM_KEY: Final = 128
"""Characters of a room's key."""


class Door(Protocol):
    """How a reference gets to its place."""

    async def perform(self, operation: Operation[T], on_unknown: OnUnknown) -> T:
        """Send something."""
        ...

    async def signal(self, place: ChatId, value: object, key: str | None, room: RoomName | None) -> None:
        """Tell the place something."""
        ...

    async def start(
        self, chat_id: ChatId, fn: Callable[..., object], args: tuple[object, ...], key: str | None
    ) -> bool:
        """Start a route."""
        ...

    async def stop(self, chat_id: ChatId, fn: Callable[..., object], key: str | None) -> bool:
        """Stop a route."""
        ...

    async def data(self, chat_id: ChatId) -> Mapping[str, str]:
        """Read what the chat keeps."""
        ...

    def reading(self) -> AbstractContextManager[None]:
        """Return a context to read a kept value in; it says what a failure to read that does."""
        ...

    async def put_data(self, place: ChatId, key: str, value: str | None) -> None:
        """Keep something for the place, or with None nothing."""
        ...

    async def update(self, place: ChatId, key: str, change: Callable[[str | None], str]) -> str:
        """Put what this makes of the old value in its place, and return it."""
        ...


@final
@guarded
class RecordedDoor:
    """The door of `Room.to`.

    What it stores has a key made of the conversation, the operation and what is stored: when a crash lets the
    operation happen again, the second is dropped.
    """

    _conversation: Conversation = attrs.field(repr=False)

    async def perform(self, operation: Operation[T], on_unknown: OnUnknown) -> T:
        """Send something, in the order of that chat."""
        return await self._conversation.perform(operation, on_unknown=on_unknown)

    async def signal(self, place: ChatId, value: object, key: str | None, room: RoomName | None) -> None:
        """Tell another place something."""
        elsewhere = self._conversation.shared.elsewhere

        self._conversation.gives(f"a signal {type(value).__qualname__}", (value,))

        async def body(own: Id) -> None:
            once = key or self._once(own, value)
            await await_store(partial(elsewhere.signal, place, value, once, room))

        await self._conversation.effect(OperationKind.SIGNAL, body)

    async def start(
        self, chat_id: ChatId, fn: Callable[..., object], args: tuple[object, ...], key: str | None
    ) -> bool:
        """Start a route."""
        conversation, elsewhere = self._conversation, self._conversation.shared.elsewhere
        own_chat = chat_id == conversation.life.chat_id
        route = conversation.shared.table.route_of(fn, args, f"{calling_line()}: start()")
        value, sender = recordable(conversation.value), conversation.event.sender

        conversation.gives(f"a start of {route.name}")

        async def body(own: Id) -> bool:
            once = key or self._once(own, (route.first_name, args))
            also = None if key is None else partial(conversation.done, own, OperationKind.START)
            start = partial(elsewhere.start, chat_id, route.name, args, key=key, once=once, value=value)
            return await await_store(partial(start, sender=sender, own=own_chat, also=also))

        started = await conversation.effect(OperationKind.START, body)
        # Without a key of the author's, what was dropped is what this very operation had started.
        return started or key is None

    async def stop(self, chat_id: ChatId, fn: Callable[..., object], key: str | None) -> bool:
        """Stop a route."""
        conversation, elsewhere = self._conversation, self._conversation.shared.elsewhere
        own_chat = chat_id == conversation.life.chat_id
        name = conversation.shared.table.route_of(fn, None, f"{calling_line()}: stop()").name
        # Of a run that stops itself nothing but its end is to be known.
        itself = own_chat and Halt(chat_id, name, key).ends(conversation.route.name, conversation.key)

        async def body(own: Id) -> bool:
            also = None if itself else partial(conversation.done, own, OperationKind.STOP)
            stop = partial(elsewhere.stop, chat_id, name, key, own=own_chat, also=also)
            return await await_store(stop)

        return await conversation.effect(OperationKind.STOP, body)

    async def data(self, chat_id: ChatId) -> Mapping[str, str]:
        """Read what a chat keeps, as an operation of the conversation."""
        keeping = self._conversation.shared.keeping

        async def body(own: Id) -> dict[str, str]:
            return dict(await await_store(partial(keeping.data, chat_id)))

        return await self._conversation.effect(OperationKind.GET, body)

    def reading(self) -> AbstractContextManager[None]:
        """Return a context in which a value that can't be read parks the conversation."""
        return self._conversation.reading()

    async def put_data(self, place: ChatId, key: str, value: str | None) -> None:
        """Keep something, once: that it was done is stored with it."""
        self._conversation.gives(f"a change of what {key!r} keeps")

        async def body(own: Id) -> None:
            await trio.lowlevel.checkpoint()
            self._write(own, OperationKind.SET, place, key, value, None)

        await self._conversation.effect(OperationKind.SET, body)

    async def update(self, place: ChatId, key: str, change: Callable[[str | None], str]) -> str:
        """Put what this makes of the old value in its place, once: the result is stored with it."""
        conversation, keeping = self._conversation, self._conversation.shared.keeping
        conversation.gives(f"a change of what {key!r} keeps")

        def changed(old: str | None) -> str:
            with conversation.reading():
                return change(old)

        async def body(own: Id) -> str:
            old = (await await_store(partial(keeping.read, place))).get(key)
            if conversation.dead:
                return ""  # nobody hears of it: the next incarnation begins anew
            text = changed(old)
            self._write(own, OperationKind.UPDATE, place, key, text, text)
            return text

        return await conversation.effect(OperationKind.UPDATE, body)

    def _write(
        self, own: Id, kind: OperationKind, place: ChatId, key: str, value: str | None, result: str | None
    ) -> None:
        """Hand over a value and what the operation brought, as one: others may build on it from here on."""
        conversation = self._conversation
        if conversation.dead or conversation.writer is None:
            return
        put = conversation.shared.keeping.put_now(place, key, value, conversation.writer)
        known = conversation.writer.result_of(own, kind.value)(*outcome_of(result))
        conversation.writer.write([put, *known])

    def _once(self, own: Id, stored: object) -> str:
        digest = hashlib.blake2b(encode_value(stored).encode(), digest_size=12).hexdigest()
        return f"{self._conversation.id}/{own}/{digest}"


def recordable(value: object) -> object:
    """Return the value if it can be recorded, else None."""
    try:
        encode_value(value)
    except UnrecordableError:
        return None
    return value


@guarded
class RoomRef:
    """A place of the bot's, seen from elsewhere: what it keeps, and what it can be told.

    `Room.to` and `Bot.to` make one; `ChatRef` is that of a chat. What is said through `Room.to` are
    operations of the conversation: the same things are refused there that are refused on its own place.
    Through `Bot.to` nothing is recorded.
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
        """Read a fresh copy of what the place keeps under a key; see `Room.data`.

        Raises:
            KeyError: the slot is empty, and the key has no default.
            UnreadableRecordError: this program can't read what is stored, or it is of another class; names
                the place and the key. A conversation that asks is parked here instead.
            LocalProtocolError: a chat that is not named by its id.
        """
        check_key(key)
        data = await self._door.data(place := self._place)
        with self._door.reading():
            return key.load_of(place, data.get(key.name))

    async def set(self, key: Key[T], value: T) -> None:
        """Keep a value for the place: its conversations see it at once.

        Through `Bot.to` it is durable when this returns, and waits while the store is full. Through `Room.to`
        it happens once, whatever dies: it is stored together with the operation's record, and before anything
        that comes after it is seen.

        Raises:
            UnrecordableError: the value can't be recorded.
            LocalProtocolError: a chat that is not named by its id.

        Cancellation: *ambiguous*; it may be repeated.
        """
        check_key(key)
        await self._door.put_data(self._place, key.name, key.dump(value))

    async def clear(self, key: Key[Any]) -> None:
        """Empty a slot of the place, as ``del chat.data[KEY]`` does there; else as `set`.

        Raises:
            LocalProtocolError: a chat that is not named by its id.

        Cancellation: *ambiguous*; it may be repeated.
        """
        check_key(key)
        await self._door.put_data(self._place, key.name, None)

    async def update(self, key: Key[T], change: Callable[[T, *Args], T], *args: *Args) -> T:
        """Put ``change(old, *args)`` in the place of what is kept under a key, and return it.

        Nothing comes between the look at the old value and the write of the new one: so it books a slot, or
        finds it taken, without a lock. In a conversation it happens once, whatever dies: the value is stored
        together with the operation's record, and a replay returns what it returned. Through `Bot.to` there is
        no record: one that the process did not survive may have happened.

        Args:
            change: a plain function that depends on nothing but its arguments. It may be called more than
                once, and never on replay.
            args: what it gets besides the old value.

        Raises:
            KeyError: the slot is empty, and the key has no default.
            UnrecordableError: what it returns can't be recorded, or is of another class.
            ConfigError: `change` is no plain function.
            UnreadableRecordError, LocalProtocolError: as `get`.
            StepError: `change` raised an error that no record can hold; builtin ones come back as themselves.

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
        place = self._place

        def changed(text: str | None) -> str:
            value = change(key.load_of(place, text), *args)
            try:
                return key.dump(value)
            except UnrecordableError as error:
                raise _of_change(change, value, error) from None

        return key.load(await self._door.update(place, key.name, changed))

    async def signal(self, value: object, *, key: str | None = None) -> None:
        """Tell the place something: whoever there takes `triobot.filters.signal` of its class gets it.

        It is durable when this returns, and comes in order with the place's events. When nobody takes it now
        it waits for a conversation that does; in a room it waits while the room's coroutine runs, and begins
        it or is dropped else, see `Router.room`.

        Args:
            value: a frozen attrs class's, by preference; anything that can be recorded, but None.
            key: a second signal with the same key to this place within `Settings.retention_days`, seven if
                not told otherwise, is dropped. Through `Room.to` each call has one of its own: what a restart
                repeats is told once.

        Raises:
            UnrecordableError: the value can't be recorded.
            LocalProtocolError: a chat that is not named by its id; or a person's data, which hear nothing.
            StoreFullError: too many wait in this place; nothing was stored.

        Cancellation: *ambiguous*; with a `key` it may simply be repeated.
        """
        place = self._place
        if self._deaf or not hears(place):
            what = "place" if self._deaf else "person"
            raise LocalProtocolError(what, "keeps data, and hears nothing: tell a chat or a room")
        await self._door.signal(place, value, key, self._room)


def person_ref(door: Door, sender_id: SenderId) -> RoomRef:
    """Return what is kept of a person.

    Raises:
        LocalProtocolError: this is no person's id.
    """
    try:
        return RoomRef(door, person_place(as_sender_id(sender_id)))
    except LocalProtocolError:
        raise LocalProtocolError("sender_id", "must be a person's id, such as chat.sender.id") from None


def room_ref(door: Door, table: Table, fn: Callable[..., object], key: str | int, who: str) -> RoomRef:
    """Return the room of the kind that this function was declared as, with this key.

    Args:
        who: names what the function was given to, with the author's line.

    Raises:
        ConfigError: it is no room's, or the key is none.
    """
    route = table.route_of(fn, None, who, room=True)
    name = _room_key(key, who, "a room's key")
    return RoomRef(door, room_place(route.first_name, name), (route.first_name, name))


def place_ref(door: Door, name: str, key: str | int, who: str) -> RoomRef:
    """Return what is kept under this name and key, in a room of the same name if there is one.

    Raises:
        ConfigError: the name or the key is none.
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


def _told_of(change: Callable[..., object]) -> str:
    """Return how an error names a function that was given to `update`."""
    code = getattr(inspect.unwrap(change), "__code__", None)
    line = f" ({code.co_filename}:{code.co_firstlineno})" if isinstance(code, CodeType) else ""
    return f"{getattr(change, '__qualname__', type(change).__qualname__)}{line}"


def _check_change(change: object) -> None:
    if not callable(change):
        raise ConfigError(f"update() takes a function of the old value, not a value: {type(change).__name__}")
    if inspect.iscoroutinefunction(change):
        raise ConfigError(f"update() takes a plain function, without async: {_told_of(change)} is none")


def _of_change(change: Callable[..., object], value: object, error: UnrecordableError) -> UnrecordableError:
    """Return the error of what `update` can't store, with the function whose fault that is."""
    rule = error.rule
    if inspect.iscoroutine(value):
        value.close()  # it is not awaited, as we say
        rule += "; the function must be a plain one"
    elif value is None:
        rule += "; did the function forget `return`?"
    path = error.path.removeprefix("value")
    return UnrecordableError(error.kind, f"what {_told_of(change)} returned to update(){path}", rule)
