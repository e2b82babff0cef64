"""A conversation as it is in the store: what it was started with, and its journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, final

import attrs

from ...engine import Record, decode_record
from ...engine.records import DONE, FAILED, INTERRUPTED, KNOWN, OUTCOMES, Id, drawn
from ...errors import NondeterminismError, UnreadableRecordError
from ...journals import ConversationRow, Journal
from ...wire.events import Press, Submission
from ...wire.ids import MessageId
from ...wire.results import Sent
from ..codec import CODEC
from ..doors.calls import Call, Place, asked_of
from ..questions.keys import TOKEN_BYTES, question_token
from ..routes.declarations import Route, Table
from ..routes.routing import KIND, Delivery, Start, token_of
from ..starting import opening_of as read_opening


@final
@attrs.frozen
class Stored:
    """What a conversation is revived from."""

    row: ConversationRow
    records: Sequence[Record] = attrs.field(repr=False)

    @property
    def interrupted_by(self) -> int | None:
        """The row of the interrupt that was ending it."""
        return next((one[2] for one in self.records if one[0] == INTERRUPTED), None)

    def may_want(self, event: Press[object] | Submission) -> bool:
        """Return whether it may wait for this press or form: that of a message of its own, not answered yet.

        For a conversation whose code can't be asked. In doubt it may: what is kept in vain expires later.
        """
        if self.row.unfinished or not self.records:
            return True
        done = [record for record in self.records if record[0] in OUTCOMES or record[0] == KNOWN]
        token = token_of(event)
        if token is not None:
            sent = _drawn_for(self.records[0][4], token, done)
        else:
            sent = next((one[2] for one in done if _made(one, event.message_id)), None)
        if sent is None:
            return False
        lasts = token is None and isinstance(event, Press)
        return lasts or not _answered(sent, done)


def place_of(id: Id) -> tuple[str, int]:
    """Return the branch of an operation, and its number there."""
    branch, dot, n = str(id).rpartition(".")
    return branch + dot, int(n)


@final
@attrs.frozen
class Revival:
    """What a conversation was started with."""

    start: Start
    delivery: Delivery
    interrupted: str | None


def _drawn_for(seed: str, token: str, done: Sequence[Record]) -> Id | None:
    """Return the question of this token: the operation after the one that drew it."""
    last: dict[str, int] = {"": 0}
    for record in done:
        branch, n = place_of(record[2])
        last[branch] = max(last.get(branch, 0), n)
    for branch, n in last.items():
        # It may be the very last, whose sending is not in the journal yet.
        for by in range(1, n + 3):
            if question_token(drawn(seed, _id(branch, by), TOKEN_BYTES)) == token:
                return _id(branch, by + 1)
    return None


def _id(branch: str, n: int) -> Id:
    return f"{branch}{n}" if branch else n


def _made(record: Record, message_id: MessageId) -> bool:
    """Return whether an operation sent this message."""
    if record[0] != DONE or not record[3].startswith("send "):
        return False
    try:
        sent = CODEC.value_of(record[5])
    except UnreadableRecordError:
        return False
    return isinstance(sent, Sent) and sent.id == message_id


def _answered(question: Id, done: Sequence[Record]) -> bool:
    """Return whether a question is over: its branch has received what fits, or does something else now."""
    branch, asked = place_of(question)
    for record in done:
        where, n = place_of(record[2])
        if where != branch or n <= asked:
            continue
        if record[3] == KIND:
            if record[0] == FAILED:
                return True
            try:
                taken = CODEC.value_of(record[5])
            except UnreadableRecordError:
                return True
            if not isinstance(taken, tuple) or cast("tuple[object, ...]", taken)[3] is not None:
                return True
        elif not record[3].startswith("send "):
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


def fitting(stored: Stored, table: Table) -> tuple[Route, Revival]:
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


def read_journal(journal: Journal) -> list[Record]:
    """Return the records of a stored conversation, with those that were kept beside them.

    Raises:
        UnreadableRecordError: another version of the program wrote them.
    """
    records = [decode_record(line) for line in journal.records]
    done = {record[2] for record in records if record[0] in OUTCOMES}
    for effect in journal.effects.values():
        line = effect.intent if effect.result is None else effect.result
        if line is not None and (known := decode_record(line))[2] not in done:
            records.append(known)
    return records


def read_stored(journal: Journal) -> Stored:
    """Read a journal.

    Raises:
        UnreadableRecordError: this program can't.
    """
    return Stored(journal.row, read_journal(journal))


def opening_of(stored: Stored, route: Route) -> Revival | None:
    """Return what it was started with; None if that could not be recorded.

    Raises:
        UnreadableRecordError: this program can't read it.
    """
    if not stored.records:
        return None
    told = read_opening(stored.records[0])
    if told is None:
        return None
    call = asked_of(told.event)
    row = stored.row
    if row.run > 1:  # it goes on in the place of another function
        place = Place.LIVE if row.sender_id is None else Place.SENDER
        place = Place.BESIDE if row.kind == "aside" else place
        call = Call(row.chat_id, route.name, told.args, told.value, told.event.sender, row.key, place)
    start = Start(route, told.value, call if isinstance(call, Call) else None)
    return Revival(start, Delivery(stored.row.id, told.event, told.at), told.interrupted)
