"""Broadcasts as rows: one row for each broadcast, and one for each receiver.

No message has been sent to the receivers at positions above `BroadcastJob.meant`. A receiver at position
`meant` or below may have a request in flight; after a crash, the outcome of such a request is unknown. A
receiver's final outcome adds one to a count of the broadcast, and deletes the receiver's row. Only the rows
of receivers who are gone stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, Literal, TypeAlias, final

import attrs

from ..base.frozen import frozen, guarded
from ..errors import LocalProtocolError, UnreadableRecordError
from ..wire import content, markup
from ..wire.content import Content
from ..wire.ids import ChatId
from ..wire.markup import InlineKeyboard
from ..wire.operations import SendMessage
from ..wire.rules import check_text
from .values import decode_value, encode_value, register

BroadcastState: TypeAlias = Literal["none", "capturing", "sending", "stopping", "stopped", "done"]

OnDoubt: TypeAlias = Literal["count", "resend"]
"""Treatment of a receiver who may have got the message: count the receiver as unknown, or send again."""

_RECORDED: Final = (
    content.Image,
    content.Video,
    content.Audio,
    content.Voice,
    content.File,
    content.Contact,
    content.Location,
    content.Descriptor,
    markup.InlineKeyboard,
    markup.CallbackButton,
    markup.LinkButton,
)

LONGEST_KEY: Final = 200
"""Maximum length of a broadcast's key, in characters."""


def check_key(key: object) -> str:
    """Check that `key` can be stored and printed on one line.

    Raises:
        LocalProtocolError: the key is empty, too long or not printable.
    """
    text = check_text("key", key)
    if len(text) > LONGEST_KEY or not text.isprintable():
        raise LocalProtocolError("key", f"must be at most {LONGEST_KEY} printable characters")
    return text


def _register() -> None:
    # A value of a class is stored under the class's registered name, which stays the same when a module is
    # moved.
    for cls in (*_RECORDED, Announcement):
        register(cls, name=f"triobot.{cls.__name__}")


@final
@guarded
class Announcement:
    """A broadcast's message.

    A medium must have a descriptor of the platform, because a local file may be deleted before the last send.
    """

    content: Content = attrs.field(repr=False)
    keyboard: InlineKeyboard | None = attrs.field(default=None, repr=False)
    on_unknown: OnDoubt = "count"

    def to(self, chat_id: ChatId) -> SendMessage:
        """Return the operation that sends the message to one receiver.

        Raises:
            LocalProtocolError: the content can't be sent to any receiver.
        """
        return SendMessage(chat_id, self.content, inline_keyboard=self.keyboard)

    def dump(self) -> str:
        """Encode the message as text, for the store."""
        _register()
        return encode_value(self)

    @classmethod
    def load(cls, text: str) -> Announcement:
        """Decode a text that `dump` returned.

        Raises:
            UnreadableRecordError: another version of the bot wrote the text.
        """
        _register()
        recorded = decode_value(text)
        if not isinstance(recorded, Announcement):
            raise UnreadableRecordError("this is no broadcast's content")
        return recorded


class Outcome(Enum):
    """Outcome of a broadcast for one receiver.

    AGAIN isn't final: no message was delivered, and the broadcast sends to this receiver again after all
    other receivers.
    """

    SENT = "sent"
    GONE = "gone"
    FAILED = "failed"
    UNKNOWN = "unknown"
    AGAIN = "again"


@final
@guarded
class BroadcastStatus:
    """Progress of a broadcast.

    Attributes:
        state: ``none`` if no broadcast has this key; ``capturing`` while the receivers are stored, before the
            first request; ``sending`` while requests are sent; ``stopping`` while no new request is sent and
            the bot waits for the requests in flight; ``stopped`` after a stop; ``done`` if every receiver has
            an outcome.
        total: number of receivers; each chat counts once.
        sent: receivers who got the message.
        gone: receivers who have left or blocked the bot.
        failed: receivers for whom the platform refused the message for another reason.
        unknown: receivers who may have got the message: the process died during the request, the answer was
            lost, or a restored backup had no outcome for the receiver. Another attempt might deliver the
            message twice. So only a broadcast with ``on_unknown="resend"`` makes another attempt.
    """

    state: BroadcastState
    total: int = 0
    sent: int = 0
    gone: int = 0
    failed: int = 0
    unknown: int = 0

    @property
    def left(self) -> int:
        """Number of receivers without an outcome yet."""
        return self.total - self.sent - self.gone - self.failed - self.unknown

    @property
    def over(self) -> bool:
        """Whether the broadcast is finished, so that its status can't change any more."""
        return self.state in ("stopped", "done")


@final
@frozen
class BroadcastJob:
    """A broadcast's row.

    Attributes:
        key: the author's name for the broadcast, unique in the store.
        at: start time in wall milliseconds.
        content: the message as stored text; empty once the broadcast is over.
        meant: highest position of a receiver to whom a request may have been sent.
        status: progress of the broadcast.
    """

    key: str
    at: int
    content: str = attrs.field(repr=False)
    meant: int
    status: BroadcastStatus


@final
@frozen
class Receiver:
    """A receiver's row. Positions count from 1, in the order of the audience."""

    position: int
    chat_id: ChatId


@final
@frozen
class OpenBroadcast:
    """Begin a new broadcast in the state ``capturing``, without receivers.

    A broadcast with this key that is still ``capturing`` is deleted first. If a broadcast with this key is in
    a later state, this write has no effect.
    """

    key: str
    at: int
    content: str = attrs.field(repr=False)


@final
@frozen
class AddReceivers:
    """Add chats to the receivers of a ``capturing`` broadcast, in order. Chats that are receivers already are
    left out.
    """

    key: str
    chats: tuple[ChatId, ...] = attrs.field(repr=False)


@final
@frozen
class AdvanceBroadcast:
    """Raise `BroadcastJob.meant`, before requests for the receivers up to `meant` are sent; store outcomes.

    Attributes:
        outcomes: outcomes by the receiver's position. An outcome that is written several times is counted
            once.
    """

    key: str
    meant: int
    outcomes: Mapping[int, Outcome]


@final
@frozen
class TurnBroadcast:
    """Move a broadcast to another state, unless it is over.

    The state ``stopping`` also deletes the receivers above `BroadcastJob.meant`. The states ``stopped`` and
    ``done`` also delete the content.
    """

    key: str
    state: Literal["sending", "stopping", "stopped", "done"]


@final
@frozen
class DropBroadcast:
    """Delete a broadcast that is still ``capturing``. No effect on other broadcasts."""

    key: str


BroadcastWrite: TypeAlias = OpenBroadcast | AddReceivers | AdvanceBroadcast | TurnBroadcast | DropBroadcast
