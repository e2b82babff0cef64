"""A conversation's access to the data of its chat: one value for each key, without waiting."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeVar, final

from ..errors import UnreadableRecordError
from .conversation import Conversation
from .data import Key, ReadKey, check_key
from .notices import added, copied

T = TypeVar("T")


@final
class ChatData:
    """The values of one chat, as one conversation sees them; `Chat.data`.

    Examples:
        >>> async def greet(chat: Chat) -> None:
        ...     chat.data[VISITS] = chat.data[VISITS] + 1
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def __getitem__(self, key: ReadKey[T]) -> T:
        """Return a fresh copy of the value: changing the copy doesn't change the chat's data.

        If the stored value can't be read or has another type, the conversation is parked here. Nothing of the
        conversation is lost, and other code can go on from here.

        Raises:
            KeyError: no value is stored, and the key has no default.
        """
        check_key(key)
        text = self._conversation.kept(key.name)
        with self._conversation.reading():
            value = key.load(text)
        if self._conversation.services.notice is not None:
            copy = copied(key.name, value)
            if copy is not None:
                self._conversation.copies = [*self._conversation.copies, copy]
        return value

    def __setitem__(self, key: Key[T], value: T) -> None:
        """Store a value. One commit makes the value durable and consumes the event that caused the change.

        If another writer changes the value during this turn, the other writer's value counts as newer, and is
        kept.

        Raises:
            UnrecordableError: the value can't be recorded; nothing was changed.
        """
        check_key(key)
        text = key.dump(value)
        self._changes(key, text, value)
        self._conversation.keep(key.name, text)

    def __delitem__(self, key: Key[Any]) -> None:
        """Delete the stored value, if there is one."""
        check_key(key)
        self._changes(key, None, None)
        self._conversation.keep(key.name, None)

    def _changes(self, key: Key[Any], text: str | None, value: object) -> None:
        """Report a change as a possible delivery of paid goods."""
        conversation = self._conversation
        if conversation.giving is None and not conversation.behind:
            return
        old, more = conversation.kept(key.name), None
        if conversation.services.notice is not None:
            with suppress(KeyError, UnreadableRecordError):
                more = added(key.load(old), value)
        if old != text or conversation.giving is not None:
            conversation.gives(f"a change of what {key.name!r} keeps", more or ())

    def __contains__(self, key: Key[Any]) -> bool:
        """Return whether a value is stored; the key's default doesn't count."""
        return self._conversation.kept(key.name) is not None
