"""Events on their way into the store, and what becomes of them there: what `Store.accept` takes and gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias, final

import attrs

from ..base.frozen import frozen
from ..errors import StoreError
from ..wire.events import Event
from ..wire.ids import ChatId, SenderId


@final
@frozen
class Arrival:
    """An event on its way into the inbox.

    Attributes:
        chat_id: the chat it belongs to.
        sender_id: who sent it, if told; makes a chat a group once two were seen.
        at: when it arrived, in wall milliseconds.
        content_type, body: the request as it came.
        key: what makes two deliveries the same one, or None: a callback's id, or a digest of the event. It
            begins with a word and the chat, as in ``press:7:...``, by which it is found to be forgotten.
        once: the key is unique in itself: a second arrival is dropped, acknowledged or not, for seven days,
            or as long as the store is told where code has given the key.
            Without it, an equal key is a redelivery only within a minute of one that wasn't acknowledged.
        came: when its request was read, by the steady clock; what may be taken in for a time only needs it.
    """

    chat_id: ChatId
    sender_id: SenderId | None
    at: int
    content_type: str
    body: bytes = attrs.field(repr=False)
    key: str | None = attrs.field(default=None, repr=False)
    once: bool = False
    came: int | None = attrs.field(default=None, repr=False, eq=False)


@final
@frozen
class InboxRow:
    """An event in the inbox: accepted, durable, not consumed yet.

    Attributes:
        group: two different senders have been seen in this chat.
        parked: this chat has conversations, in memory or not, as of when the row was read.
        begun: what has begun with it, in the words of the code that began it; it is to be done at the next
            start, if the row is still there then.
    """

    seq: int
    chat_id: ChatId
    at: int
    content_type: str
    body: bytes = attrs.field(repr=False)
    group: bool = False
    parked: bool = False
    begun: str | None = attrs.field(default=None, repr=False)


@final
@frozen
class Redelivered:
    """It is here already; answer 200, dispatch nothing."""


@final
@frozen
class OverQuota:
    """Not stored: too much is waiting, in this chat or altogether; answer 503."""

    whole: bool


Acceptance: TypeAlias = InboxRow | Redelivered | OverQuota
"""The event's row, which is durable, or why there is none."""
HandOn: TypeAlias = Callable[[Callable[[InboxRow], bool] | None, InboxRow], None]
"""Hands a durable event on, unless what it is given says that it is handled. Never raises."""
StoreEarly: TypeAlias = Callable[["Event", "Arrival", "Quota", HandOn], Awaitable[Acceptance | None]]
"""Stores an event as `Store.accept` does, together with what it leads to; None: that has happened already."""


@final
@frozen
class Quota:
    """How much may wait in the inbox before events are refused."""

    events_per_chat: int = 1_000
    bytes_in_all: int = 256 * 1024 * 1024


Beginning: TypeAlias = Callable[[Callable[[], Mapping[str, str]]], str | None]
"""See `triobot.store.Store.accept`."""


@final
class RedeliveredError(StoreError):
    """An event that was to be stored is there already: it has been delivered twice. Nothing was stored."""
