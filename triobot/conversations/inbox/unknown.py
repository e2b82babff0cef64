"""Rows of the inbox that nobody here can read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ...seams import InboxRow
from ..doors.calls import CALL
from ..doors.signals import SIGNAL

if TYPE_CHECKING:
    from ..house import House

log: Final = logging.getLogger("triobot.conversations")


def unreadable(house: House, row: InboxRow) -> None:
    """Deal with such a row."""
    if row.content_type in (SIGNAL, CALL):
        # It is what another version of the bot understands: it waits in the inbox for that.
        house.count("unknown_signal")
        what = "a class" if row.content_type == SIGNAL else "a class or a route"
        log.warning("signal %d of chat %s has %s that this bot doesn't know", row.seq, row.chat_id, what)
    else:
        house.count("unreadable")
        house.consumed([row.seq])
