"""Events on their way into the store: the arguments and results of `Store.accept`."""

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
        chat_id: the event's chat.
        sender_id: the sender, if the platform names one. A chat with two different senders is a group.
        at: arrival time in wall milliseconds.
        content_type, body: the request as it arrived.
        key: identity of the event: a callback's id, or a digest of the event. Two deliveries with an equal
            key may be the same event. With None, each delivery is a new event. A key begins with a word and
            the chat, as in ``press:7:...``, so that the chat's keys can be found and deleted.
        once: whether no other event can have this key. If True, the store drops each further arrival with the
            key for seven days, or for `Retention.keys` if the author's code made the key. If False, the store
            drops an arrival only within a minute of an unacknowledged delivery with an equal key.
        came: time of the steady clock at which the request was read. Only a store that must accept the event
            within a time limit needs this time.
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
    """A row of the inbox: an event that is accepted and durable, and not consumed yet.

    Attributes:
        group: whether two different senders have been seen in this chat.
        occupied: whether the chat had conversations, in memory or not, when the row was read.
        begun: data about the conversation that the event started; None if there is none. If the row is still
            stored at the bot's next start, the bot starts the same conversation again from this data.
    """

    seq: int
    chat_id: ChatId
    at: int
    content_type: str
    body: bytes = attrs.field(repr=False)
    group: bool = False
    occupied: bool = False
    begun: str | None = attrs.field(default=None, repr=False)


@final
@frozen
class Redelivered:
    """Result for an event that is in the store already: answer 200, and don't dispatch the event."""


@final
@frozen
class OverQuota:
    """Result for an event that was not stored, because the inbox is full: answer 503.

    Attributes:
        whole: whether the whole inbox is full, and not only the chat's share.
    """

    whole: bool


Acceptance: TypeAlias = InboxRow | Redelivered | OverQuota
"""Result of `Store.accept`: the event's durable row, or why there is none."""
HandOn: TypeAlias = Callable[[Callable[[InboxRow], bool] | None, InboxRow], None]
"""Passes a durable event to the dispatcher. The first argument, if not None, is called first; if the call
returns True, the event is handled already and isn't passed on. Never raises."""
StoreEarly: TypeAlias = Callable[["Event", "Arrival", "Quota", HandOn], Awaitable[Acceptance | None]]
"""Stores an event as `Store.accept` does, in one transaction with the writes that the event causes. Returns
None if a waiting conversation got the event, and the transaction is durable."""


@final
@frozen
class Quota:
    """Limits of the inbox; an event that would exceed a limit is refused."""

    events_per_chat: int = 1_000
    bytes_in_all: int = 256 * 1024 * 1024


Beginning: TypeAlias = Callable[[Callable[[], Mapping[str, str]]], str | None]
"""Type of `beginning` in `triobot.store.Store.accept`."""


@final
class RedeliveredError(StoreError):
    """The event of an `Accept` is in the store already, and nothing of this commit was stored."""
