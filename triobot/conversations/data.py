"""A chat's data, which outlives the chat's conversations: typed values, kept in the store.

A chat's values are read once, before its first conversation runs. The values stay in memory, as text, while
the chat is active, so that reading and writing don't wait. One commit stores a conversation's writes and
consumes the events that caused these writes. So a crash keeps both or neither.

Authors declare a `Key` for each value. `Kept` has the values of one chat in memory, and `Keeping` reads and
writes the values of all chats.
"""

from __future__ import annotations

import logging
from collections import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NewType,
    Protocol,
    TypeAlias,
    TypeVar,
    Union,
    Unpack,
    cast,
    final,
    get_args,
    get_origin,
    is_typeddict,
    overload,
)
from weakref import WeakValueDictionary

import trio
from typing_extensions import TypeForm

from ..base.authors import contained, kind_of
from ..errors import ConfigError, LocalProtocolError, UnreadableRecordError, UnrecordableError
from ..seams.rooms import MOST_CHATS, is_chat, place_name
from ..seams.values import decode_value, encode_value, expect
from ..seams.writes import LARGEST_VALUE, PutData
from ..wire.ids import ChatId
from ..wire.rules import check_text
from .running.lines import failing_line
from .texts import Texts
from .workload import CommitQueue, EarlyEvent, UnitWriter

if TYPE_CHECKING:
    from ..store import Store

PAGE: Final = 256
OURS: Final = "triobot."
"""Prefix of the names under which the runtime stores its own values."""
JOINED: Final = f"{OURS}joined"
"""Key of the value that records that a chat was joined; the value is deleted when the user leaves."""
_declared: Final[set[str]] = set()
_keys: Final[dict[str, Key[Any]]] = {}
# Values of these classes are checked with their elements. Of values of other generic classes, only the class
# is checked.
_OF_ELEMENTS: Final = frozenset(
    (list, set, frozenset, abc.Collection, abc.Sequence, abc.MutableSequence, abc.Set, abc.MutableSet)
)
_OF_ENTRIES: Final = frozenset((dict, abc.Mapping, abc.MutableMapping))

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
log: Final = logging.getLogger("triobot.conversations")


Check: TypeAlias = Callable[[object], bool]
ReadText: TypeAlias = Callable[[str], str | None]
"""Returns the stored text of a key, or None."""


class _Missing(Enum):
    MISSING = "missing"


MISSING: Final = _Missing.MISSING


def any_declared() -> bool:
    """Return whether this program declares any key; without keys, no data has to be read."""
    return bool(_declared)


def declared_keys() -> Sequence[Key[Any]]:
    """Return the keys of this program. Of several keys with one name, only the last is returned."""
    return tuple(_keys.values())


class ReadKey(Protocol[T_co]):
    """A `Key` for reading. The key's type may be a subtype of the type to read: ``dict`` for ``Mapping``.

    For writing, a `Key` must have exactly the value's type.
    """

    name: str

    def load(self, text: str | None) -> T_co:
        """See `Key.load`."""
        ...

    def load_of(self, place: ChatId, text: str | None) -> T_co:
        """See `Key.load_of`."""
        ...


@final
class Key(Generic[T]):
    """A typed slot of `Chat.data`. Declare a key at the top of a module, not inside a conversation.

    Args:
        name: the name under which values are stored; don't change it.
        type: the values' class, or a type such as ``list[int]`` or ``int | None``. Immutable values, such as
            frozen attrs classes and tuples, fit best. Values are checked against the type, with their
            elements, but without the fields of attrs classes.
        default: the value of an empty slot; without a default, reading an empty slot raises KeyError.
        upgrade: converts a stored value of another type to `T`, after the bot has changed.

    Raises:
        ConfigError: the name can't be stored, or `type` is no class or type.
        UnrecordableError: the default can't be recorded.

    Examples:
        >>> LANGUAGE = Key("language", str, default="en")
    """

    # Two overloads: type checkers that don't support TypeForm use the first.
    @overload
    def __init__(
        self,
        name: str,
        type: type[T],
        *,
        default: T | _Missing = MISSING,
        upgrade: Callable[[object], T] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        type: TypeForm[T],
        *,
        default: T | _Missing = MISSING,
        upgrade: Callable[[object], T] | None = None,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        type: object,
        *,
        default: T | _Missing = MISSING,
        upgrade: Callable[[object], T] | None = None,
    ) -> None:
        try:
            if "\0" in check_text("name", name):
                raise LocalProtocolError("name", "must not hold U+0000")
            if name.startswith(OURS):
                raise LocalProtocolError("name", f"must not begin with {OURS!r}: those are the runtime's own")
        except LocalProtocolError as error:
            raise ConfigError(f"a key's {error}") from None
        if isinstance(type, str):
            raise ConfigError(f"Key({name!r}) takes the class of its value, not its name")
        self.name = name
        self._type = type
        self._upgrade = upgrade
        self._fits = _check_of(type)
        expect(type, f"Key({name!r})")
        if callable(default) and not self._fits(default):
            raise ConfigError(
                f"Key({name!r}, default=) takes a value, such as [] or 0, of which each reader gets a "
                "copy; not what makes one"
            )
        self._default = None if default is MISSING else self.dump(default)
        _declared.add(name)
        _keys[name] = self

    def __repr__(self) -> str:
        return f"Key({self.name!r})"

    def dump(self, value: T) -> str:
        """Return the text that is stored for a value.

        Raises:
            UnrecordableError: the value can't be recorded, or has another type.
        """
        if not self._fits(value):
            rule = f"{self!r} holds another class: {self._kind}"
            raise UnrecordableError(type(value).__name__, "value", rule)
        text = encode_value(value)
        if len(text) > LARGEST_VALUE:
            raise UnrecordableError(type(value).__name__, "value", f"{self!r} holds at most a megabyte")
        return text

    def load(self, text: str | None) -> T:
        """Return a fresh value from a stored text; None stands for an empty slot.

        Raises:
            KeyError: the slot is empty, and has no default.
            UnreadableRecordError: this program can't read the text, or the value has another type and no
                `upgrade` makes it fit.
        """
        text = self._default if text is None else text
        if text is None:
            raise KeyError(self.name)
        try:
            value = decode_value(text)
        except UnreadableRecordError as error:
            raise UnreadableRecordError(f"what {self!r} holds can't be read: {error.what}") from None
        if self._fits(value):
            return cast("T", value)
        holds = f"{self!r} holds a {type(value).__name__}"
        if self._upgrade is None:
            raise UnreadableRecordError(f"{holds}, and not a {self._kind}; give the key an upgrade=")
        try:
            upgraded = self._upgrade(value)
        except BaseException as raised:
            failure = contained(raised)
            what = f"{holds}, of which upgrade= makes no {self._kind}: {kind_of(failure)}"
            raise UnreadableRecordError(what) from failure
        if not self._fits(upgraded):
            made = type(upgraded).__name__
            raise UnreadableRecordError(f"{holds}, of which upgrade= makes a {made}, and no {self._kind}")
        return upgraded

    def load_of(self, place: ChatId, text: str | None) -> T:
        """Return the same value as `load`; an UnreadableRecordError also names the place."""
        try:
            return self.load(text)
        except UnreadableRecordError as error:
            raise UnreadableRecordError(f"in {place_name(place)}, {error.what}") from error.__cause__

    @property
    def _kind(self) -> str:
        # list[int].__name__ is only "list".
        return self._type.__name__ if isinstance(self._type, type) else repr(self._type)


# --- checking values against types


def _check_of(wanted: object) -> Check:
    """Return a function that checks a value against the type `wanted`.

    The function visits each element at most once for each component of the type. Some components can't be
    checked, and accept any value: type variables, protocols, and aliases made by a `type` statement.
    """
    origin, parts = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        return _check_of(parts[0])
    if origin is Literal:
        # True equals 1, but isn't the same choice.
        typed: list[tuple[type, object]] = [(type(choice), choice) for choice in parts]
        return lambda value: (type(value), value) in typed
    if origin in (Union, UnionType):
        checks = [_check_of(part) for part in parts]
        return lambda value: any(check(value) for check in checks)
    if isinstance(wanted, NewType):
        return _check_of(wanted.__supertype__)
    if is_typeddict(wanted):
        return _check_of_class(dict)
    whole = _check_of_class(NoneType if wanted is None else origin or wanted)
    if origin is tuple and hasattr(wanted, "__args__"):  # also tuple[()]
        inner = _check_of_members(parts)
    elif origin in _OF_ELEMENTS and parts:
        inner = _each(_check_of(parts[0]))
    elif origin in _OF_ENTRIES and parts:
        inner = _each_entry(*map(_check_of, parts))
    else:
        return whole
    return lambda value: whole(value) and inner(value)


def _check_of_class(wanted: object) -> Check:
    if not isinstance(wanted, type):
        return lambda _: True
    try:
        isinstance(None, wanted)
    except TypeError:  # Any, or a protocol that isn't runtime_checkable
        return lambda _: True
    if wanted is float:
        return lambda value: isinstance(value, float) or type(value) is int
    return lambda value: isinstance(value, wanted)


def _check_of_members(parts: Sequence[object]) -> Check:
    if len(parts) == 2 and parts[1] is ...:
        return _each(_check_of(parts[0]))
    if any(get_origin(part) is Unpack or getattr(part, "__unpacked__", False) for part in parts):
        return lambda _: True
    checks = [_check_of(part) for part in parts]

    def fits(value: object) -> bool:
        members = cast("tuple[object, ...]", value)
        return len(members) == len(checks) and all(
            check(member) for check, member in zip(checks, members, strict=True)
        )

    return fits


def _each(check: Check) -> Check:
    return lambda value: all(map(check, cast("Iterable[object]", value)))


def _each_entry(key: Check, value: Check) -> Check:
    def fits(entries: object) -> bool:
        found = cast("Mapping[object, object]", entries)
        return all(map(key, found)) and all(map(value, found.values()))

    return fits


# --- the values of one chat


def check_key(key: object) -> None:
    """Raise ConfigError unless `key` is a `Key`."""
    if not isinstance(key, Key):
        raise ConfigError("what a chat keeps has a Key, as in VISITS = Key('visits', int), not a name")


@final
class Data:
    """The values of one chat, for reading: the argument of a function given to `Bot` as ``texts=``."""

    def __init__(self, read: ReadText) -> None:
        self._read = read

    def __getitem__(self, key: ReadKey[T]) -> T:
        """Return a fresh copy of the value. Raises: as `ChatData`."""
        return key.load(self._read(key.name))

    def __contains__(self, key: Key[Any]) -> bool:
        """Return whether a value is stored; the key's default doesn't count."""
        return self._read(key.name) is not None


# --- the texts for a chat


Speech: TypeAlias = Texts | Callable[[Data], Texts]
"""Texts for all chats, or a function that chooses the texts for a chat."""


def words_for(speech: Speech, read: ReadText) -> Texts:
    """Return the texts for a chat with this data; the English texts if the author's function fails."""
    if isinstance(speech, Texts):
        return speech
    try:
        words = cast("object", speech(Data(read)))
    except BaseException as raised:
        # The caller is about to send something, and must not fail because of this function.
        error = contained(raised)
        wrong = f"failed with {kind_of(error)} at {failing_line(error.__traceback__)}"
    else:
        if isinstance(words, Texts):
            return words
        wrong = f"gave a {type(words).__name__}, and no Texts"
    log.error("the bot's texts= %s: its words are English", wrong)
    return Texts.english()


# --- values in memory


def of_authors(stored: Mapping[str, str]) -> dict[str, str]:
    """Return the stored values without the runtime's own values."""
    return {key: value for key, value in stored.items() if not key.startswith(OURS)}


@final
class Kept:
    """The values of one place, as text by key. All readers in this process share this object.

    Attributes:
        chat_id: number of the place.
        values: the values; None until they are read.
        writing: the writer of a conversation with changes that are not in the commit queue yet, or None.
        ahead: an event that a conversation of the place took before the event was stored, or None. The store
            may still refuse the event, and so undo the values.
    """

    __slots__ = ("__weakref__", "_keeping", "_put_early", "_texts", "ahead", "chat_id", "values", "writing")

    def __init__(self, keeping: Keeping, chat_id: ChatId, texts: Speech) -> None:
        self.values: dict[str, str] | None = None
        self.writing: UnitWriter | None = None
        self.ahead: EarlyEvent | None = None
        self._keeping = keeping
        self.chat_id = chat_id
        self._texts = texts
        self._put_early: dict[str, str | None] = {}

    @property
    def is_unread(self) -> bool:
        """Whether the values still have to be read; False if this program declares no key."""
        return self.values is None and any_declared()

    async def load(self) -> None:
        """Read the values from the store, if `is_unread`.

        Raises:
            StoreAwayError: the database is unreachable for a while.
        """
        if self.is_unread:
            self.begin_with(await self._keeping.stored(self.chat_id))

    def begin_with(self, stored: Mapping[str, str]) -> None:
        """Set the values from the store, then apply earlier calls of `put`. A second call does nothing."""
        if self.values is None:
            self.values = dict(stored)
            for key, value in self._put_early.items():
                self.put(key, value)

    def put(self, key: str, value: str | None, writer: object = None) -> None:
        """Set a value, or delete it with None. Conversations see the change in their next turn."""
        if self.writing is not None and self.writing is not writer:
            # The other writer's changes must come before this change in the commit queue.
            self.writing.flush()
        if self.values is None:
            self._put_early[key] = value
        elif value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value

    @property
    def texts(self) -> Texts:
        """The runtime's own texts, as chosen for this place."""
        return words_for(self._texts, (self.values or {}).get)


@final
class Keeping:
    """Reads and writes the values of any place, whether the place is in memory or not.

    Args:
        texts: the runtime's own texts, or a function that chooses them.

    Attributes:
        changes: callback, called with a place's number before code outside the place's conversations reads
            all values of the place or sets a value.
    """

    def __init__(self, store: Store, commits: CommitQueue, texts: Speech) -> None:
        self._store = store
        self._commits = commits
        self._texts = texts
        self.changes: Callable[[ChatId], None] = lambda place: None
        # All code shares one `Kept` of a place, as long as the place's `ChatActor` or an update refers to it.
        self._kept = WeakValueDictionary[ChatId, Kept]()

    def kept(self, place: ChatId) -> Kept:
        """Return a place's `Kept`, perhaps with values that aren't read yet; valid until `drop`."""
        kept = self._kept.get(place)
        if kept is None:
            kept = self._kept[place] = Kept(self, place, self._texts)
        return kept

    def drop(self, place: ChatId) -> None:
        """Remove a place's values from memory; the store still has them."""
        self._kept.pop(place, None)

    async def stored(self, place: ChatId) -> Mapping[str, str]:
        """Read a place's values from the store, once all pending writes are stored."""
        await self._commits.wait_written(place)
        return of_authors(await self._store.data(place))

    async def data(self, place: ChatId) -> Mapping[str, str]:
        """Return a place's values, as its conversations see them."""
        self.changes(place)
        kept = self._kept.get(place)
        if kept is not None and kept.values is not None:
            await trio.lowlevel.checkpoint()
            return dict(kept.values)
        return await self.stored(place)

    async def read(self, place: ChatId) -> Mapping[str, str]:
        """Return a place's values. No other task changes the values until the caller's next checkpoint.

        Before that checkpoint, the caller must write any value that it computes from these values.
        """
        await trio.lowlevel.checkpoint()
        while True:
            kept = self.kept(place)
            if kept.ahead is not None:
                await kept.ahead.known.wait()
            elif kept.values is None:
                await kept.load()
            else:
                return kept.values

    def put_now(self, place: ChatId, key: str, value: str | None, writer: object = None) -> PutData:
        """Set a value at once for the place's conversations. The caller must store the returned write now."""
        self.changes(place)
        self.kept(place).put(key, value, writer)
        return PutData(place, key, value)

    async def put(self, place: ChatId, key: str, value: str | None) -> None:
        """Set a value, or delete it with None; durable when this returns."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._commits.add([self.put_now(place, key, value)])
        await self._commits.wait_written()

    async def keyed(self, key: str, after: ChatId | None) -> Sequence[tuple[ChatId, str]]:
        """Read some of the chats that have a value under this key: the next chats after `after`."""
        await self._commits.wait_written()
        after = ChatId(-MOST_CHATS) if after is None else after
        page = await self._store.keyed(key, after=after, limit=PAGE)
        return [(place, value) for place, value in page if is_chat(place)]


def joined(chat_id: ChatId) -> PutData:
    """Return the write that records that a chat was joined; see `JOINED`."""
    return PutData(chat_id, JOINED, encode_value(True))
