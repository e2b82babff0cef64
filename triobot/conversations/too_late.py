"""What came before the end of what it was for: an interrupt, a leave or a stop that went ahead of it."""

from __future__ import annotations

from typing import final

from ..wire.ids import SenderId
from .doors.calls import Halt
from .doors.signals import is_signal
from .places import ends
from .running.waits import Delivery


@final
class TooLate:
    """Remembers, for one chat, up to where in the inbox events are of no use any more."""

    def __init__(self) -> None:
        self._ended_by: dict[SenderId | None, int] = {}
        self._left_by = 0
        self._halts: list[tuple[int, Halt]] = []

    def ended(self, owner: SenderId | None, seq: int) -> None:
        """Remember that what came for this owner's conversation before this is of no use."""
        self._ended_by[owner] = max(self._ended_by.get(owner, 0), seq)

    def left(self, seq: int) -> None:
        """Remember that the chat was left: nothing before this is of use."""
        self._left_by = max(self._left_by, seq)

    def halted(self, seq: int, halt: Halt) -> None:
        """Remember to stop what was to start before this, also where it still waits in the inbox."""
        self._halts.append((seq, halt))

    def overtaken(self, delivery: Delivery, owner: SenderId | None) -> bool:
        """Return whether an interrupt or a leave has made an event useless; signals stay of use."""
        sender = delivery.event.sender
        ended_by = max(self._left_by, self._ended_by.get(owner, 0))
        if sender is not None:
            ended_by = max(ended_by, self._ended_by.get(sender.id, 0))
        return delivery.seq < ended_by and not is_signal(delivery.event)

    def stopped(self, delivery: Delivery) -> bool:
        """Return whether code has stopped what this is to start."""
        return any(delivery.seq < seq and ends(halt, delivery) for seq, halt in self._halts)
