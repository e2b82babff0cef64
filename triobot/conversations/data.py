"""What a chat remembers beyond its conversations: typed slots, kept in the store.

A chat's values are read once, before its first conversation runs, and stay in memory as text while anything
goes on there; so reading and writing need no waiting. They are written behind, in the commit that deletes the
events which the conversation had in hand: a crash takes back both or neither.

`Key` is what authors write to, `Kept` is what one chat keeps while it is in memory, `Keeping` the door to
that of all chats.
"""

from __future__ import annotations

import logging
from collections import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import reduce
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
from ..seams.rooms import MOST_CHATS, is_chat, told
from ..seams.values import decode_value, encode_value, expect
from ..seams.writes import LARGEST_VALUE, PutData
from ..wire.ids import ChatId
from ..wire.rules import check_text
from .running.lines import failing_line
from .texts import Texts
from .workload import CommitQueue, UnitWriter

if TYPE_CHECKING:
    from ..store import Store

PAGE: Final = 256
OURS: Final = "triobot."
"""What the runtime itself keeps for a chat has names that begin so."""
JOINED: Final = f"{OURS}joined"
"""Under this a chat keeps that it was joined, until it is left."""
_declared: Final[set[str]] = set()
_keys: Final[dict[str, Key[Any]]] = {}
# What these hold is checked; other classes that take parameters are checked as classes.
_OF_ELEMENTS: Final = frozenset(
    (list, set, frozenset, abc.Collection, abc.Sequence, abc.MutableSequence, abc.Set, abc.MutableSet)
)
_OF_ENTRIES: Final = frozenset((dict, abc.Mapping, abc.MutableMapping))

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
log: Final = logging.getLogger("triobot.conversations")


Check: TypeAlias = Callable[[object], bool]
ReadText: TypeAlias = Callable[[str], str | None]
"""Returns what is kept under a key, as text."""


class _Missing(Enum):
    MISSING = "missing"


MISSING: Final = _Missing.MISSING


def any_declared() -> bool:
    """Whether this program has a key at all: without one, nobody's data need be read."""
    return bool(_declared)


def declared_keys() -> Sequence[Key[Any]]:
    """The keys of this program; of several that have one name, the last."""
    return tuple(_keys.values())


class ReadKey(Protocol[T_co]):
    """What a read asks of a `Key`: it may give more than the line needs, as ``dict`` for ``Mapping``.

    A `Key` itself, which is written by, has exactly its type.
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
    """A typed slot of `Chat.data`. Declare it where the module is read, not inside a conversation.

    Args:
        name: under which the value is stored; keep it.
        type: the value's class, or a type such as ``list[int]`` or ``int | None``; frozen values, such as
            attrs classes and tuples, fit best. Each value is checked against it with its elements, but not
            the fields of an attrs class.
        default: what an empty slot holds; without one, reading it raises KeyError.
        upgrade: makes a `T` of a stored value of another type, after the bot has changed.

    Raises:
        ConfigError: the name can't be stored, or there is no class.
        UnrecordableError: the default can't be.

    Examples:
        >>> LANGUAGE = Key("language", str, default="en")
    """

    # Two, since type checkers that don't know TypeForm yet know classes.
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
        """The value as it is stored.

        Raises:
            UnrecordableError: it can't be, or is of another type.
        """
        if not self._fits(value):
            rule = f"{self!r} holds another class: {self._kind}"
            raise UnrecordableError(type(value).__name__, "value", rule)
        text = encode_value(value)
        if len(text) > LARGEST_VALUE:
            raise UnrecordableError(type(value).__name__, "value", f"{self!r} holds at most a megabyte")
        return text

    def load(self, text: str | None) -> T:
        """A fresh value of what is stored; None is an empty slot.

        Raises:
            KeyError: the slot is empty, and has no default.
            UnreadableRecordError: this program can't read what is stored, or it is of another type, and
                nothing upgrades it.
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
        """The same, for who has several places before him; raises as `load`, with the place."""
        try:
            return self.load(text)
        except UnreadableRecordError as error:
            raise UnreadableRecordError(f"in {told(place)}, {error.what}") from error.__cause__

    @property
    def _kind(self) -> str:
        # The name of list[int] is that of any list.
        return self._type.__name__ if isinstance(self._type, type) else repr(self._type)


# --- whether a value is of a type


def _anything(value: object) -> bool:
    return True


def _check_of(wanted: object) -> Check:
    """Make the check of a type, once; it looks at each element at most once for each part of the type.

    What a value doesn't tell takes anything: a type variable, a protocol, the alias of a `type` statement.
    """
    origin, parts = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        return _check_of(parts[0])
    if origin is Literal:
        return _check_of_literal(parts)
    if origin in (Union, UnionType):
        return reduce(_either, map(_check_of, parts))
    if isinstance(wanted, NewType):
        return _check_of(wanted.__supertype__)
    if is_typeddict(wanted):
        return _check_of_class(dict)
    whole = _check_of_class(NoneType if wanted is None else origin or wanted)
    if origin is tuple and hasattr(wanted, "__args__"):  # a tuple of none has it, too
        return _check_of_tuple(whole, parts)
    if origin in _OF_ELEMENTS:
        return _both(whole, _each(_check_of(parts[0]))) if parts else whole
    if origin in _OF_ENTRIES and parts:
        return _both(whole, _both(_each(_check_of(parts[0])), _each_value(_check_of(parts[1]))))
    return whole


def _check_of_class(wanted: object) -> Check:
    if not isinstance(wanted, type):
        return _anything
    try:
        isinstance(None, wanted)
    except TypeError:  # Any, or a protocol that isn't there at run time
        return _anything
    if wanted is float:
        return lambda value: isinstance(value, float) or type(value) is int
    return lambda value: isinstance(value, wanted)


def _check_of_literal(choices: Sequence[object]) -> Check:
    # True is equal to 1, and is another choice.
    typed = [(type(choice), choice) for choice in choices]
    return lambda value: (type(value), value) in typed


def _check_of_tuple(whole: Check, parts: Sequence[object]) -> Check:
    if len(parts) == 2 and parts[1] is ...:
        return _both(whole, _each(_check_of(parts[0])))
    if any(get_origin(part) is Unpack or getattr(part, "__unpacked__", False) for part in parts):
        return whole
    checks = [_check_of(part) for part in parts]

    def fits(value: object) -> bool:
        members = cast("tuple[object, ...]", value)
        return len(members) == len(checks) and all(
            check(member) for check, member in zip(checks, members, strict=True)
        )

    return _both(whole, fits)


def _either(first: Check, second: Check) -> Check:
    return _anything if _anything in (first, second) else lambda value: first(value) or second(value)


def _both(first: Check, second: Check) -> Check:
    return first if second is _anything else lambda value: first(value) and second(value)


def _each_value(check: Check) -> Check:
    each = _each(check)
    return each if each is _anything else lambda value: each(cast("Mapping[Any, object]", value).values())


def _each(check: Check) -> Check:
    return _anything if check is _anything else lambda value: all(map(check, cast("Iterable[object]", value)))


# --- the values of one chat


def check_key(key: object) -> None:
    """Refuse what is no `Key`.

    Raises:
        ConfigError: it isn't.
    """
    if not isinstance(key, Key):
        raise ConfigError("what a chat keeps has a Key, as in VISITS = Key('visits', int), not a name")


@final
class Data:
    """The values of one chat, to look at: what `Bot` hands to a function given as ``texts=``."""

    def __init__(self, read: ReadText) -> None:
        self._read = read

    def __getitem__(self, key: ReadKey[T]) -> T:
        """A fresh copy of the value; raises as `ChatData` does."""
        return key.load(self._read(key.name))

    def __contains__(self, key: Key[Any]) -> bool:
        """Whether the slot holds a value, its default aside."""
        return self._read(key.name) is not None


# --- the words that a chat hears


Speech: TypeAlias = Texts | Callable[[Data], Texts]
"""Words for everybody, or what chooses them for a chat."""


def words_for(speech: Speech, read: ReadText) -> Texts:
    """Choose the words for a chat by what it keeps; in English when the author's choice fails."""
    if isinstance(speech, Texts):
        return speech
    try:
        words = cast("object", speech(Data(read)))
    except BaseException as raised:
        # Whoever asks is about to say something else, which must not fail with it.
        error = contained(raised)
        wrong = f"failed with {kind_of(error)} at {failing_line(error.__traceback__)}"
    else:
        if isinstance(words, Texts):
            return words
        wrong = f"gave a {type(words).__name__}, and no Texts"
    log.error("the bot's texts= %s: its words are English", wrong)
    return Texts.english()


# --- how it is kept


def of_authors(stored: Mapping[str, str]) -> dict[str, str]:
    """Return what is kept, without what the runtime keeps for itself."""
    return {key: value for key, value in stored.items() if not key.startswith(OURS)}


@final
class Kept:
    """What one place keeps, by key, as text: the same for all that look at it in this process.

    Attributes:
        values: None until they are read.
        writers: returns those of what goes on there, which put something.
    """

    __slots__ = ("__weakref__", "_chat_id", "_keeping", "_put_early", "_texts", "values", "writers")

    def __init__(self, keeping: Keeping, chat_id: ChatId, texts: Speech) -> None:
        self.values: dict[str, str] | None = None
        self.writers: Callable[[], Sequence[UnitWriter]] = tuple
        self._keeping = keeping
        self._chat_id = chat_id
        self._texts = texts
        self._put_early: dict[str, str | None] = {}

    @property
    def is_unread(self) -> bool:
        """Return whether what the chat keeps is to be read: some key was declared."""
        return self.values is None and any_declared()

    async def load(self) -> None:
        """Read what the chat keeps, if that `is_unread`.

        Raises:
            StoreAwayError: the database is away for a while.
        """
        if self.is_unread:
            self.begin_with(await self._keeping.stored(self._chat_id))

    def begin_with(self, stored: Mapping[str, str]) -> None:
        """Begin with what the store has, and put on it what was put here before; once."""
        if self.values is None:
            self.values = dict(stored)
            for key, value in self._put_early.items():
                self.put(key, value)

    def put(self, key: str, value: str | None, writer: object = None) -> None:
        """Keep this, or with None nothing, under a key; conversations see it in their next turn."""
        # What others have put and not handed to the commit queue comes before it.
        for other in self.writers():
            if other is not writer:
                other.flush()
        if self.values is None:
            self._put_early[key] = value
        elif value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value

    @property
    def texts(self) -> Texts:
        """Return the runtime's own words, as this chat is to hear them."""
        return words_for(self._texts, (self.values or {}).get)


@final
class Keeping:
    """What any place keeps, in memory or not.

    Args:
        texts: the runtime's own words, or what chooses them.

    Attributes:
        changes: told of a place of which something is about to be put.
    """

    def __init__(self, store: Store, commits: CommitQueue, texts: Speech) -> None:
        self._store = store
        self._commits = commits
        self._texts = texts
        self.changes: Callable[[ChatId], None] = lambda place: None
        # Of lives, and of who updates something meanwhile: a place is in one of the two, so that no two see
        # different values of it.
        self._of_lives: dict[ChatId, Kept] = {}
        self._others = WeakValueDictionary[ChatId, Kept]()

    def begin_life(self, place: ChatId) -> Kept:
        """Return what a place keeps, read or not, to its only life, which begins; `drop` is to follow."""
        if (kept := self._others.get(place)) is not None:
            del self._others[place]
        else:
            kept = Kept(self, place, self._texts)
        self._of_lives[place] = kept
        return kept

    def _known(self, place: ChatId) -> Kept | None:
        return self._of_lives.get(place) or self._others.get(place)

    def kept(self, place: ChatId) -> Kept:
        """Return what a place keeps, read or not."""
        kept = self._known(place)
        if kept is None:
            kept = self._others[place] = Kept(self, place, self._texts)
        return kept

    def drop(self, place: ChatId) -> None:
        """Forget what is in memory of a place: what is stored counts."""
        if self._of_lives.pop(place, None) is None:
            self._others.pop(place, None)

    async def stored(self, place: ChatId) -> Mapping[str, str]:
        """Read what a place keeps from the store, once all of it is written there."""
        await self._commits.wait_written(place)
        return of_authors(await self._store.data(place))

    async def data(self, place: ChatId) -> Mapping[str, str]:
        """Return what a place keeps, as its conversations see it."""
        self.changes(place)
        kept = self._known(place)
        if kept is not None and kept.values is not None:
            await trio.lowlevel.checkpoint()
            return dict(kept.values)
        return await self.stored(place)

    async def read(self, place: ChatId) -> Mapping[str, str]:
        """Return what a place keeps; until the caller waits for something, nobody changes that.

        What it makes of it is to be put in the same step.
        """
        await trio.lowlevel.checkpoint()
        while True:
            kept = self.kept(place)
            if early := next((writer.ahead for writer in kept.writers() if writer.ahead), None):
                await early.known.wait()  # nothing may be built on what is taken back
            elif kept.values is None:
                await kept.load()
            else:
                return kept.values

    def put_now(self, place: ChatId, key: str, value: str | None, writer: object = None) -> PutData:
        """Keep a value: the place's conversations see it at once; return what is to be written now."""
        self.changes(place)
        self.kept(place).put(key, value, writer)
        return PutData(place, key, value)

    async def put(self, place: ChatId, key: str, value: str | None) -> None:
        """Keep a value; it is durable when this returns."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._commits.add([self.put_now(place, key, value)])
        await self._commits.wait_written()

    async def update(self, place: ChatId, key: str, change: Callable[[str | None], str]) -> str:
        """Put what this makes of the old value in its place, and return it; it is durable then."""
        text = change((await self.read(place)).get(key))
        await self.put(place, key, text)
        return text

    async def keyed(self, key: str, after: ChatId | None) -> Sequence[tuple[ChatId, str]]:
        """Read a page of the chats that keep a value under this key."""
        await self._commits.wait_written()
        after = ChatId(-MOST_CHATS) if after is None else after
        page = await self._store.keyed(key, after=after, limit=PAGE)
        return [(place, value) for place, value in page if is_chat(place)]


def joined(chat_id: ChatId) -> PutData:
    """Return what notes that a chat was joined; see `JOINED`."""
    return PutData(chat_id, JOINED, encode_value(True))
