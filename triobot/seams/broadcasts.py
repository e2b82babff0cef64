"""Broadcasts as rows: one a broadcast and one a receiver.

A receiver is in one of three places: behind the job's `meant` (not tried yet), at or before it without an
outcome (after a crash it isn't known whether a request left), or counted. Only those who are `gone` keep
their row; of the others the count remains.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, Literal, TypeAlias, final

import attrs

from ..base.frozen import frozen, guarded
from ..errors import LocalProtocolError
from ..wire.ids import ChatId
from ..wire.rules import check_text

BroadcastState: TypeAlias = Literal["none", "capturing", "sending", "stopping", "stopped", "done"]

LONGEST_KEY: Final = 200
"""Characters of a broadcast's key."""


def check_key(key: object) -> str:
    """Refuse a key that can't be stored, or shown in a line.

    Raises:
        LocalProtocolError: it is empty, too long or not printable.
    """
    text = check_text("key", key)
    if len(text) > LONGEST_KEY or not text.isprintable():
        raise LocalProtocolError("key", f"must be at most {LONGEST_KEY} printable characters")
    return text


class Outcome(Enum):
    """What became of one receiver.

    AGAIN is none: it is certain that nothing was delivered, and the receiver goes to the end of the queue.
    """

    SENT = "sent"
    GONE = "gone"
    FAILED = "failed"
    UNKNOWN = "unknown"
    AGAIN = "again"


@final
@guarded
class BroadcastStatus:
    """How far a broadcast is.

    Attributes:
        state: ``none`` was never started; ``capturing`` writes its receivers down and has sent nothing;
            ``sending``; ``stopping`` starts nothing more and waits for what is on its way; ``stopped``;
            ``done``.
        total: receivers, each counted once.
        sent: reached.
        gone: left, or blocked the bot.
        failed: refused by the platform for another reason.
        unknown: a request was on its way when the process died or the answer was lost, or a backup from
            before they were told was restored. They are not tried again, so that nobody is told twice, unless
            the broadcast was started with ``on_unknown="resend"``.
    """

    state: BroadcastState
    total: int = 0
    sent: int = 0
    gone: int = 0
    failed: int = 0
    unknown: int = 0

    @property
    def left(self) -> int:
        """Return how many receivers have no outcome yet."""
        return self.total - self.sent - self.gone - self.failed - self.unknown

    @property
    def over(self) -> bool:
        """Tell whether nothing will change any more."""
        return self.state in ("stopped", "done")


@final
@frozen
class BroadcastJob:
    """A broadcast's row.

    Attributes:
        key: the author's name for it, unique in the store.
        at: when it was started, in wall milliseconds.
        content: what is said, recorded; empty once it is over.
        meant: no receiver behind this position has been tried.
        status: how far it is.
    """

    key: str
    at: int
    content: str = attrs.field(repr=False)
    meant: int
    status: BroadcastStatus


@final
@frozen
class Receiver:
    """A receiver's row. Positions grow in the order of the audience, from 1."""

    position: int
    chat_id: ChatId


@final
@frozen
class OpenBroadcast:
    """Begin to capture: a new row, or an unfinished capture's own, without its receivers.

    Nothing happens when the key's broadcast has been captured.
    """

    key: str
    at: int
    content: str = attrs.field(repr=False)


@final
@frozen
class AddReceivers:
    """Add these receivers to a capture, in this order, but for those that it has."""

    key: str
    chats: tuple[ChatId, ...] = attrs.field(repr=False)


@final
@frozen
class AdvanceBroadcast:
    """Receivers up to `meant` are about to be tried, and these outcomes are known, by position.

    An outcome counts once, however often it is written.
    """

    key: str
    meant: int
    outcomes: Mapping[int, Outcome]


@final
@frozen
class TurnBroadcast:
    """Bring a broadcast to another state, unless it is over.

    ``stopping`` takes away the receivers that were not tried; ``stopped`` and ``done`` the content.
    """

    key: str
    state: Literal["sending", "stopping", "stopped", "done"]


@final
@frozen
class DropBroadcast:
    """Forget a capture that was never finished. Nothing happens to any other broadcast."""

    key: str


BroadcastWrite: TypeAlias = OpenBroadcast | AddReceivers | AdvanceBroadcast | TurnBroadcast | DropBroadcast
