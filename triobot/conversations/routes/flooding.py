"""Who writes more than a person can: how many events of each are let through.

Pure: time is that of the events' arrival. So what had waited in the inbox while the bot was down is no flood
when it is handled all at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, cast, final

import attrs

from ...errors import ConfigError
from ...wire.events import Event
from ..running.waits import is_payment
from .filters import Filter, Setting

REMEMBERED: Final = 10_000
"""Senders that are remembered; the one that was silent for longest is forgotten first."""


@final
@attrs.define
class _Sender:
    left: float
    at: int
    seq: int


@final
class Flood:
    """Counts by sender: `per_minute` at once, and as many each minute after that."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._senders: OrderedDict[Hashable, _Sender] = OrderedDict()

    def __len__(self) -> int:
        return len(self._senders)

    def is_over(self, key: Hashable, seq: int, at: int) -> bool:
        """Count this event, and return whether it is one too many.

        Args:
            key: who sent it.
            seq: grows with each event; one that was let through is not counted again.
            at: when it arrived, in milliseconds; a clock that is set back counts as standing still.
        """
        sender = self._senders.get(key)
        if sender is None:
            sender = self._senders[key] = _Sender(self._per_minute, at, -1)
            if len(self._senders) > REMEMBERED:
                self._senders.popitem(last=False)
        elif seq <= sender.seq:
            return False
        self._senders.move_to_end(key)
        refilled = max(0, at - sender.at) * self._per_minute / 60_000
        sender.left = min(self._per_minute, sender.left + refilled)
        sender.at, sender.seq = at, seq
        if sender.left < 1:
            return True
        sender.left -= 1
        return False


def flooding(*, per_minute: int) -> Filter[Event]:
    """Take what somebody sends beyond `per_minute` events a minute; for `Router.ignore`.

    Each person counts alone, in each chat; what comes without a sender counts for its chat. After a burst of
    `per_minute` as many a minute get through. Time is that of arrival: what waited while the bot was down is
    no flood. Each run of the bot counts from the beginning; payments and signals don't count.

    Raises:
        ConfigError: `per_minute` is no whole number of at least 1.

    Example:
        >>> bot.ignore(flooding(per_minute=30))
    """
    if isinstance(per_minute, bool) or not isinstance(cast("object", per_minute), int) or per_minute < 1:
        raise ConfigError("flooding(per_minute=) takes a whole number of at least 1")
    own = object()

    def see(event: Event, setting: Setting) -> Event | None:
        if is_payment(event):
            return None
        flood = cast("Flood", setting.memory.setdefault(own, Flood(per_minute)))
        key = (event.chat_id, None if event.sender is None else event.sender.id)
        return event if flood.is_over(key, setting.seq, setting.at) else None

    return Filter(see, f"flooding({per_minute})")
