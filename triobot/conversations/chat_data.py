"""A conversation's access to the data of its chat: one value for each key, without waiting."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeVar, cast, final

from ..engine import ABSENT, Run
from ..errors import ConfigError, UnreadableRecordError
from .data import Key, ReadKey, check_key
from .notices import added, copied
from .operations import Operations

T = TypeVar("T")


@final
class ChatData:
    """The values of one chat, as one conversation sees them; `Chat.data`.

    Examples:
        >>> async def greet(chat: Chat) -> None:
        ...     chat.data[VISITS] = chat.data[VISITS] + 1
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def __getitem__(self, key: ReadKey[T]) -> T:
        """Return a fresh copy of the value: changing the copy doesn't change the chat's data.

        If the stored value can't be read or has another type, the conversation is parked here. Nothing of the
        conversation is lost, and corrected code can continue from here.

        Raises:
            KeyError: no value is stored, and the key has no default.
        """
        check_key(key)
        operations, text = self._operations, self._read(key)
        with operations.reading():
            value = key.load(text)
        if operations.services.notice is not None and (copy := copied(key.name, value)) is not None:
            operations.copies = [*operations.copies, copy]
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
        self._put(key, text, value)

    def __delitem__(self, key: Key[Any]) -> None:
        """Delete the stored value, if there is one."""
        check_key(key)
        self._put(key, None, None)

    def __contains__(self, key: Key[Any]) -> bool:
        """Return whether a value is stored; the key's default doesn't count."""
        return self._read(key) is not None

    def _read(self, key: ReadKey[Any]) -> str | None:
        """Return a key's stored text. The key's first read in each turn is recorded."""
        return cast("str | None", self._checked_run().read(key.name))

    def _put(self, key: Key[Any], text: str | None, value: object) -> None:
        operations = self._operations
        if operations.conversation.giving is not None or operations.behind:
            self._report_change(key, text, value)
        run = self._checked_run()
        operations.copies = [copy for copy in operations.copies if copy.key != key.name]
        run.write(key.name, ABSENT if text is None else text)

    def _report_change(self, key: Key[Any], text: str | None, value: object) -> None:
        """Report a change as an action that may give paid goods."""
        operations, old, more = self._operations, self._read(key), None
        if operations.services.notice is not None:
            with suppress(KeyError, UnreadableRecordError):
                more = added(key.load(old), value)
        if old != text or operations.conversation.giving is not None:
            operations.gives(f"a change of what {key.name!r} keeps", more or ())

    def _checked_run(self) -> Run:
        run = self._operations.checked_run()
        if self._operations.kept.values is None:
            raise ConfigError("a Key was declared too late: declare it at the top of its module")
        return run
