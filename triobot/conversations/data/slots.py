"""What a chat remembers beyond its conversations: typed slots, kept in the store.

A chat's values are read once, before its first conversation runs, and stay in memory as text while anything
goes on there; so reading and writing need no waiting. They are written behind, in the commit that deletes the
events which the conversation had in hand: a crash takes back both or neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast, final, get_origin

from ...errors import ConfigError, LocalProtocolError, UnreadableRecordError, UnrecordableError
from ...seams import LARGEST_VALUE
from ...values import decode_value, encode_value, expect
from ...wire.ids import ChatId
from ...wire.rules import check_text
from ..advice import copied
from .recorded import register_wire_values

if TYPE_CHECKING:
    from ..conversation import Conversation

T = TypeVar("T")


class _Missing(Enum):
    MISSING = "missing"


MISSING: Final = _Missing.MISSING

OURS: Final = "triobot."
"""What the runtime itself keeps for a chat has names that begin so."""

_declared: Final[set[str]] = set()
_keys: Final[dict[str, Key[Any]]] = {}

register_wire_values()


def any_declared() -> bool:
    """Whether this program has a key at all: without one, nobody's data need be read."""
    return bool(_declared)


def declared_keys() -> Sequence[Key[Any]]:
    """The keys of this program; of several that have one name, the last."""
    return tuple(_keys.values())


@final
class Key(Generic[T]):
    """A typed slot of `Chat.data`. Declare it where the module is read, not inside a conversation.

    Args:
        name: under which the value is stored; keep it.
        type: the value's class; frozen values, such as attrs classes and tuples, fit best.
        default: what an empty slot holds; without one, reading it raises KeyError.
        upgrade: makes a `T` of a stored value of another class, after the bot has changed.

    Raises:
        ConfigError: the name can't be stored, or there is no class.
        UnrecordableError: the default can't be.

    Example:
        >>> LANGUAGE = Key("language", str, default="en")
    """

    def __init__(
        self,
        name: str,
        type: type[T],
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
        if isinstance(cast("object", type), str):
            raise ConfigError(f"Key({name!r}) takes the class of its value, not its name")
        self.name = name
        self._type = type
        self._upgrade = upgrade
        expect(type)
        self._default = None if default is MISSING else self.dump(default)
        _declared.add(name)
        _keys[name] = self

    def __repr__(self) -> str:
        return f"Key({self.name!r})"

    def dump(self, value: T) -> str:
        """The value as it is stored.

        Raises:
            UnrecordableError: it can't be, or is of another class.
        """
        if not self._fits(value):
            raise UnrecordableError(type(value).__name__, "value", f"{self!r} holds another class")
        text = encode_value(value)
        if len(text) > LARGEST_VALUE:
            raise UnrecordableError(type(value).__name__, "value", f"{self!r} holds at most a megabyte")
        return text

    def load(self, text: str | None) -> T:
        """A fresh value of what is stored; None is an empty slot.

        Raises:
            KeyError: the slot is empty, and has no default.
            UnreadableRecordError: this program can't read what is stored, or it is of another class, and
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
        except Exception as error:
            what = f"{holds}, of which upgrade= makes no {self._kind}: {type(error).__name__}"
            raise UnreadableRecordError(what) from error
        if not self._fits(upgraded):
            made = type(upgraded).__name__
            raise UnreadableRecordError(f"{holds}, of which upgrade= makes a {made}, and no {self._kind}")
        return upgraded

    def load_of(self, chat_id: ChatId, text: str | None) -> T:
        """The same, for who has several chats before him; raises as `load`, with the chat."""
        try:
            return self.load(text)
        except UnreadableRecordError as error:
            raise UnreadableRecordError(f"in chat {chat_id}, {error.what}") from error.__cause__

    @property
    def _kind(self) -> str:
        return getattr(self._type, "__name__", repr(self._type))

    def _fits(self, value: object) -> bool:
        wanted: object = get_origin(self._type) or self._type
        if wanted is float and type(value) is int:
            return True
        return not isinstance(wanted, type) or isinstance(value, wanted)


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

    def __init__(self, stored: Mapping[str, str]) -> None:
        self._stored = stored

    def __getitem__(self, key: Key[T]) -> T:
        """A fresh copy of the value; raises as `ChatData` does."""
        return key.load(self._stored.get(key.name))

    def __contains__(self, key: Key[T]) -> bool:
        """Whether the slot holds a value, its default aside."""
        return key.name in self._stored


@final
class ChatData:
    """The values of one chat, as one conversation sees them; `Chat.data`.

    Example:
        >>> async def greet(chat: Chat) -> None:
        ...     chat.data[VISITS] = chat.data[VISITS] + 1
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def __getitem__(self, key: Key[T]) -> T:
        """A fresh copy of the value: changing it changes nothing here.

        What is stored and can't be read, or is of another class, parks the conversation here: nothing of it
        is lost, and other code goes on from here.

        Raises:
            KeyError: the slot is empty, and the key has no default.
        """
        check_key(key)
        text = self._conversation.data.all().get(key.name)
        with self._conversation.reading():
            value = key.load(text)
        if self._conversation.services.advice is not None:
            copy = copied(key.name, key.dump(value), value)
            if copy is not None:
                self._conversation.data.lent(copy)
        return value

    def __setitem__(self, key: Key[T], value: T) -> None:
        """Keep a value; it is durable together with the consumption of the event that caused it.

        What others write under the key while this turn lasts comes after it, and stays.

        Raises:
            UnrecordableError: it can't be recorded; nothing was changed.
        """
        check_key(key)
        self._conversation.data.put(key.name, key.dump(value))

    def __delitem__(self, key: Key[T]) -> None:
        """Empty the slot; an empty one stays so."""
        check_key(key)
        self._conversation.data.put(key.name, None)

    def __contains__(self, key: Key[T]) -> bool:
        """Whether the slot holds a value, its default aside."""
        return key.name in self._conversation.data.all()
