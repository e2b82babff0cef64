"""A conversation as it is in the store: what it was started with, and its journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast, final

import attrs

from ...errors import NondeterminismError, UnreadableRecordError
from ...journal.records import Done, Interrupted, OperationId, Record, Row, Value, drawn, place_of
from ...journal.records import Start as StartRecord
from ...journals import ConversationRow, Journal
from ...values import decode_value
from ...wire.events import Event, Press, Submission
from ...wire.ids import MessageId
from ...wire.results import Sent
from ..doors.calls import Call, asked_of
from ..questions.keys import TOKEN_BYTES, question_token
from ..routes.declarations import Route, Table
from ..routes.routing import Start, token_of
from ..running.waits import Delivery
from .journaling import read_journal

RECEIVE: Final = "receive"
"""As what a wait is recorded."""


@final
@attrs.frozen
class Stored:
    """What a conversation is revived from."""

    row: ConversationRow
    records: Sequence[Record] = attrs.field(repr=False)
    rows: Sequence[Row] = attrs.field(repr=False)

    @property
    def interrupted_by(self) -> int | None:
        """Return the row of the interrupt that was ending it, if one was."""
        return next((one.event for one in self.records if isinstance(one, Interrupted)), None)

    def may_want(self, event: Press[object] | Submission) -> bool:
        """Return whether it may wait for this press or form: that of a message of its own, not answered yet.

        For a conversation whose code can't be asked. In doubt it may: what is kept in vain expires later.
        """
        if self.row.unfinished or not self.records or not isinstance(first := self.records[0], StartRecord):
            return True
        done = [record for record in self.records if isinstance(record, Done)]
        token = token_of(event)
        if token is not None:
            sent = _drawn_for(first.seed, token, done)
        else:
            sent = next((one.id for one in done if _made(one, event.message_id)), None)
        if sent is None:
            return False
        lasts = token is None and isinstance(event, Press)
        return lasts or not _answered(sent, done)


@final
@attrs.frozen
class Opening:
    """What a conversation was started with."""

    start: Start
    delivery: Delivery
    interrupted: str | None


def _drawn_for(seed: str, token: str, done: Sequence[Done]) -> OperationId | None:
    """Return the question of this token: the operation after the one that drew it."""
    last: dict[str, int] = {}
    for record in done:
        branch, n = place_of(record.id)
        last[branch] = max(last.get(branch, 0), n)
    for branch, n in last.items():
        # It may be the very last, whose sending is not in the journal yet.
        for by in range(1, n + 3):
            if question_token(drawn(seed, OperationId(f"{branch}{by}"), TOKEN_BYTES)) == token:
                return OperationId(f"{branch}{by + 1}")
    return None


def _made(record: Done, message_id: MessageId) -> bool:
    """Return whether an operation sent this message."""
    if not record.kind.startswith("send ") or not isinstance(record.outcome, Value):
        return False
    try:
        sent = decode_value(record.outcome.text)
    except UnreadableRecordError:
        return False
    return isinstance(sent, Sent) and sent.id == message_id


def _answered(question: OperationId, done: Sequence[Done]) -> bool:
    """Return whether a question is over: its branch has received what fits, or has gone on."""
    branch, asked = place_of(question)
    for record in done:
        where, n = place_of(record.id)
        if where != branch or n <= asked:
            continue
        if record.kind == RECEIVE:
            if not isinstance(record.outcome, Value):
                return True
            try:
                taken = decode_value(record.outcome.text)
            except UnreadableRecordError:
                return True
            if not isinstance(taken, tuple) or cast("tuple[object, ...]", taken)[-1] is not None:
                return True
        elif not record.kind.startswith("send "):
            return True
    return False


def why_unfit(row: ConversationRow, table: Table) -> str | None:
    """Say why a conversation can't be revived with this code, by its row; None if its journal decides."""
    route = table.named(row.route)
    if route is None:
        return f"the bot has no route {row.route!r}; if it has a new name, give it formerly=({row.route!r},)"
    if row.version != str(route.version):
        return f"{row.route} is version {route.version}, its journal {row.version}"
    return None


def fitting(stored: Stored, table: Table) -> tuple[Route, Opening]:
    """Return the route of a stored conversation, and what it was started with.

    Raises:
        NondeterminismError: it would be parked.
        UnreadableRecordError: this program can't read it.
    """
    route = table.named(stored.row.route)
    because = why_unfit(stored.row, table)
    if route is None or because is not None:
        raise NondeterminismError("0", because or "")
    opening = opening_of(stored, route)
    if opening is None:
        raise NondeterminismError("0", "what it was started with could not be written down")
    return route, opening


def survives(stored: Stored, table: Table) -> bool:
    """Return whether a conversation goes on after a start, or is parked; else it ends then, with a word."""
    route = table.named(stored.row.route)
    if route is None or why_unfit(stored.row, table) is not None:
        return True
    return route.durable and opening_of(stored, route) is not None


def read_stored(journal: Journal) -> Stored:
    """Read a journal.

    Raises:
        UnreadableRecordError: this program can't.
    """
    records, rows = read_journal(journal)
    return Stored(journal.row, records, rows)


def opening_of(stored: Stored, route: Route) -> Opening | None:
    """Return what it was started with; None if that could not be recorded.

    Raises:
        UnreadableRecordError: this program can't read it.
    """
    if not stored.records or not isinstance(first := stored.records[0], StartRecord):
        return None
    told = decode_value(first.event)
    if told is None:
        return None
    told = cast("dict[str, object]", told) if isinstance(told, dict) else {}
    at = told.get("at")
    if not isinstance(at, int) or "event" not in told:
        raise UnreadableRecordError("this is no beginning of a conversation")
    event = cast("Event", told["event"])
    call = asked_of(event)
    # An event that was taken as it is isn't written twice.
    value = told.get("value", event)
    start = Start(route, value, call if isinstance(call, Call) else None)
    return Opening(start, Delivery(stored.row.id, event, at), cast("str | None", told.get("interrupted")))
