"""A conversation as it is in the store: what it was started with, and its journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, final

import attrs

from ..errors import UnreadableRecordError
from ..journal.records import Record, Row
from ..journal.records import Start as StartRecord
from ..journals import ConversationRow, Journal
from ..values import decode_value
from ..wire.events import Event
from .calls import asked_of
from .declarations import Route
from .journaling import read_journal
from .routing import Start
from .waits import Delivery


@final
@attrs.frozen
class Stored:
    """What a conversation is revived from."""

    row: ConversationRow
    records: Sequence[Record] = attrs.field(repr=False)
    rows: Sequence[Row] = attrs.field(repr=False)


@final
@attrs.frozen
class Opening:
    """What a conversation was started with."""

    start: Start
    delivery: Delivery
    interrupted: str | None


def read_stored(journal: Journal) -> Stored:
    """Read a journal.

    Raises:
        UnreadableRecordError: this program can't.
    """
    records, rows = read_journal(journal)
    return Stored(journal.row, records, rows)


def opening_of(stored: Stored, route: Route) -> Opening | None:
    """What it was started with; None if that could not be recorded.

    Raises:
        UnreadableRecordError: this program can't read it.
    """
    if not stored.records or not isinstance(first := stored.records[0], StartRecord):
        return None
    told = decode_value(first.event)
    if told is None:
        return None
    match told:
        case {"event": event, "interrupted": interrupted, "at": int() as at, "value": value}:
            delivery = Delivery(stored.row.id, cast("Event", event), at)
            call = asked_of(event)
            start = Start(route, value, call if call is not None and hasattr(call, "args") else None)  # type: ignore[arg-type]
            return Opening(start, delivery, cast("str | None", interrupted))
        case _:
            raise UnreadableRecordError("this is no beginning of a conversation")
