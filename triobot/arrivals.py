"""Events on their way into the store, and what becomes of them there: `triobot.seams.Store.accept`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, final

import attrs

from .journals import ConversationId
from .wire.ids import ChatId, SenderId


@final
@attrs.frozen
class Arrival:
    """An event on its way into the inbox.

    Attributes:
        chat_id: the chat it belongs to.
        sender_id: who sent it, if told; makes a chat a group once two were seen.
        at: when it arrived, in wall milliseconds.
        content_type, body: the request as it came.
        key: what makes two deliveries the same one, or None: a callback's id, or a digest of the event. It
            begins with a word and the chat, as in ``press:7:...``, by which it is found to be forgotten.
        once: the key is unique in itself: a second arrival is dropped for seven days, acknowledged or not.
            Without it, an equal key is a redelivery only within a minute of one that wasn't acknowledged.
    """

    chat_id: ChatId
    sender_id: SenderId | None
    at: int
    content_type: str
    body: bytes = attrs.field(repr=False)
    key: str | None = attrs.field(default=None, repr=False)
    once: bool = False


@final
@attrs.frozen
class InboxRow:
    """An event in the inbox: accepted, durable, not consumed yet.

    Attributes:
        group: two different senders have been seen in this chat.
        parked: this chat has conversations, in memory or not, as of when the row was read.
        begun: what has begun with it, a conversation or a turn of one, in the words of the code that began
            for; it is to be done at the next start, if the row is still there then.
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
@attrs.frozen
class Accepted:
    """It is stored; `row` is durable."""

    row: InboxRow


@final
@attrs.frozen
class Redelivered:
    """It is here already; answer 200, dispatch nothing."""


@final
@attrs.frozen
class OverQuota:
    """Not stored: too much is waiting, in this chat or altogether; answer 503."""

    whole: bool


Acceptance: TypeAlias = Accepted | Redelivered | OverQuota


@final
@attrs.frozen
class Quota:
    """How much may wait in the inbox before events are refused."""

    events_per_chat: int = 1_000
    bytes_in_all: int = 256 * 1024 * 1024


@final
@attrs.frozen
class ChatAtArrival:
    """What a store has of a chat in the transaction that accepts an event of it; of no use after that.

    Attributes:
        waiting: how many other events of it wait.
        parked: it has conversations.
        group: two different senders have been seen in it, that of the event included.
        data: reads what it keeps, by key.
        position: where the next record of a conversation goes that has not ended; None if there is none.
    """

    waiting: int
    parked: bool
    group: bool
    data: Callable[[], Mapping[str, str]] = attrs.field(repr=False)
    position: Callable[[ConversationId], int | None] = attrs.field(repr=False)

    @property
    def at_rest(self) -> bool:
        """Tell whether nothing waits there, and nothing goes on."""
        return not (self.waiting or self.parked or self.group)


Beginning: TypeAlias = Callable[[ChatAtArrival], str | None]
"""See `triobot.seams.Store.accept`."""
