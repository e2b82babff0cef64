"""Rows of the inbox that nobody here can read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ...errors import RecordError, UnreadableRecordError
from ...seams import Alarm, InboxRow
from ...values import decode_value
from ..doors.calls import CALL, Call, Halt
from ..doors.signals import SIGNAL

if TYPE_CHECKING:
    from ..house import House
    from ..services import Services

log: Final = logging.getLogger("triobot.conversations")


def unreadable(house: House, services: Services, row: InboxRow) -> None:
    """Deal with such a row."""
    if row.content_type in (SIGNAL, CALL):
        # It is what another version of the bot understands: it waits in the inbox for that.
        house.count("unknown_signal")
        what = "a call" if row.content_type == CALL else "a signal"
        try:
            asked = decode_value(row.body.decode())
            why = f"the bot has no route {asked.name!r}" if isinstance(asked, Call | Halt) else "it is none"
        except (RecordError, UnicodeDecodeError) as error:
            why = error.what if isinstance(error, UnreadableRecordError) else "it is no record"
        text = f"{what} in chat {row.chat_id} can't be read, and waits in the inbox ({row.seq}): {why}"
        log.warning("%s", text)
        services.raise_alarm(Alarm("signal_unreadable", what, text))
    else:
        house.count("unreadable")
        house.consumed([row.seq])
