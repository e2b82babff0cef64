"""A conversation's journal in the store: what its turns leave behind as writes, and what wakes it.

Records, the end of the events that they took, the chat's data and where the conversation stands go into one
unit of the house's writer: durable together, or not at all, and never before an earlier unit.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

from ...errors import LocalProtocolError
from ...journal.records import (
    Continued,
    Done,
    Ended,
    Intended,
    OperationId,
    Outcome,
    Record,
    Result,
    Row,
    decode_record,
    encode_record,
)
from ...journal.world import Entry, Waiting
from ...journals import (
    AppendRecords,
    BeginConversation,
    ConversationId,
    ConversationRow,
    DropEffects,
    EndConversation,
    Journal,
    KeepIntent,
    KeepResult,
    ParkConversation,
    PutStanding,
    TakeInHand,
)
from ...seams import Consume, PutData, Write
from ..running import taking
from ..running.leash import line_in, parting_line
from ..running.lines import calling_line
from ..running.waits import Wait
from .opening import Opened

if TYPE_CHECKING:
    from ..conversation import Conversation
    from ..inspection.checking import Watched

log: Final = logging.getLogger("triobot.conversations")


@final
class ConversationWorld:
    """The world of one conversation; `triobot.journal.world.World`.

    Attributes:
        durable: its records are kept; otherwise only that it exists.
        over: nothing is written for it any more.
        lost: the store refused something that it wrote.

    Args:
        opened: how it began, if the row of its event says so: that row stands for the first record, and is
            consumed with the first thing that is written.
        first: how it began otherwise, unless that is stored.

    An event's row may stand for the record of its being taken, too (`answers`): then nobody waits for that
    record, which is written with whatever is written next.
    """

    def __init__(
        self,
        conversation: Conversation,
        row: ConversationRow | None,
        *,
        durable: bool,
        opened: Opened | None = None,
        first: Sequence[Record] = (),
    ) -> None:
        self.durable = durable
        self.over = self.lost = False
        self._there = conversation
        self._house = conversation.house
        lease = conversation.services.store.lease(conversation.life.chat_id)
        if lease is None:
            raise LocalProtocolError("chat_id", "is another process's")
        self._lease = lease if row is None else row.lease
        self._id = ConversationId(conversation.seq)
        self._run = 1 if row is None else row.run
        self._opened = opened
        self._first = first
        self._position = (0 if opened is None else opened.length) if row is None else row.position
        self._begun = row is not None
        self._in_row: tuple[int, OperationId, int] | None = None
        self._held: Entry | None = None
        self._written = 0
        self._wakes = row is not None
        replays, stored = conversation.services.replays, conversation.stored
        rows = () if stored is None else stored.rows
        self._intended = {known.id for known in rows if isinstance(known, Intended)}
        self._watched: Watched | None = None
        if replays and durable:
            known = stored.records if stored is not None else () if opened is None else opened.records()
            self._watched = replays.watch(conversation, self._lease, known)

    # --- what is recorded

    def now(self) -> int:
        return self._there.services.clock.now()

    def jumped(self) -> int:
        return self._there.services.clock.jumped()

    def moved(self, by: int) -> None:
        for wait in self._there.waits:
            wait.since += by
        for watch in self._there.watches:
            watch.since += by

    def append(self, entry: Entry) -> None:
        if self.over:
            return
        in_row = self._stands_in_row(entry)
        if self._watched is not None:
            self._watched.add(entry.records)
        if in_row and entry.unfinished:
            self._held = entry
            return
        entry, chat_id = self._with_held(entry), self._there.life.chat_id
        ended = bool(entry.records) and isinstance(entry.records[-1], Ended | Continued)
        failure = _failure(entry.records) if ended else None
        # What ends well leaves nothing, so that its last records need not be written to be deleted.
        gone = ended and failure is None
        writes: list[Write] = []
        if not self._begun:
            writes += self._consume() if gone else self._begin()
        if not gone:
            writes += self._records(entry.records)
        writes += self._house.tidying.going(entry.moves)
        writes += [PutData(chat_id, key, value) for key, value in entry.data.items()]
        writes += [self._beside(row) for row in entry.rows if self.durable]
        if self._intended and not gone:
            writes += self._outlived(entry.records)
        if ended:
            if self._begun or not gone:
                writes.append(EndConversation(self._lease, self._id, self.now(), failure))
            self.over = True
        elif entry.records or entry.standing:
            writes.append(PutStanding(self._lease, self._id, self.now(), entry.unfinished, entry.wake))
        self._begun = self._begun or not gone
        if ended:
            written = self._there.life.write_end(self._there, writes, self)
        else:
            written = self._house.write(writes, self)
        if not in_row:
            self._written = written

    # --- what stands in an event's row

    @property
    def position(self) -> int:
        """Return where the next record goes."""
        return self._position

    def is_held_in(self, seq: int) -> bool:
        """Return whether the row of this event stands for a record that is written nowhere else."""
        held = self._held
        return held is not None and Consume((seq,)) in held.moves

    def stands_in(self, seq: int, operation: OperationId, time: int) -> None:
        """Let the event's row stand for the record that this operation takes it in a turn of this time."""
        self._in_row = seq, operation, time

    def _stands_in_row(self, entry: Entry) -> bool:
        """Return whether all that this says is durable, or comes about again when its turn is run again."""
        if self._in_row is None or not entry.records:
            return False
        in_row, self._in_row = self._in_row, None
        done, owed = entry.records[0], entry.moves[1:]
        return (
            isinstance(done, Done)
            and (done.event, done.id, done.time) == in_row
            and len(entry.records) == 1
            and not entry.data
            and entry.moves[:1] == (Consume((in_row[0],)),)
            and all(isinstance(write, PutData) for write in owed)
        )

    def _with_held(self, entry: Entry) -> Entry:
        """Return what is to be written now, and before it what was held back."""
        if (held := self._held) is None:
            return entry
        self._held = None
        stands = entry if entry.records or entry.standing else held
        return attrs.evolve(
            entry,
            records=(*held.records, *entry.records),
            moves=(*held.moves, *entry.moves),
            unfinished=stands.unfinished,
            wake=stands.wake,
        )

    def let_out(self) -> None:
        """Write what was held back, so that the event's row need not stand for it any more."""
        if self._held is not None:
            self.append(Entry())

    def refused(self, error: Exception) -> None:
        """Give the conversation up, as its unit can't be stored; the next start goes on before that unit."""
        if not self.over:
            self.over = True
            self._there.journal.give_up(f"what it did here can't be stored: {type(error).__name__}")

    def begin_within(self, write: Callable[[Sequence[Write]], int]) -> int:
        """Let this write the first record, together with whatever else."""
        self._begun = True
        self._written = write(self._begin())
        return self._written

    def _begin(self) -> list[Write]:
        there, route, opened = self._there, self._there.route, self._opened
        begin = BeginConversation(
            self._lease,
            self._id,
            there.life.chat_id,
            route.name,
            str(route.version),
            self.now() if opened is None else opened.first.time,
            "aside" if there.beside else route.kind.value,
            there.owner,
            there.key,
        )
        if opened is None:
            return [begin]
        first = AppendRecords(self._lease, self._id, 0, tuple(map(encode_record, opened.records())))
        return [begin, first, *self._consume()]

    def _consume(self) -> list[Write]:
        """Return the write that ends the row which stands for the first record, if one does."""
        return [] if self._opened is None else [Consume((self._there.seq,), spoken=True)]

    def _records(self, records: Sequence[Record]) -> list[Write]:
        kept = records if self.durable else records[:1] if self._position == 0 else ()
        if not kept:
            return []
        position, self._position = self._position, self._position + len(kept)
        return [AppendRecords(self._lease, self._id, position, tuple(map(encode_record, kept)))]

    def _outlived(self, records: Sequence[Record]) -> list[Write]:
        """Return the write that drops the intents whose outcome is recorded here: what stays is in doubt."""
        done = {record.id for record in records if isinstance(record, Done)} & self._intended
        self._intended -= done
        return [DropEffects(self._lease, self._id, self._run, tuple(sorted(done)))] if done else []

    def _beside(self, row: Result | Intended) -> Write:
        text, now = encode_record(row), self.now()
        if isinstance(row, Intended):
            self._intended.add(row.id)
            return KeepIntent(self._lease, self._id, self._run, row.id, now, text)
        return KeepResult(self._lease, self._id, self._run, row.id, now, text)

    def result_of(self, operation: OperationId) -> Callable[[Outcome], Sequence[KeepResult]]:
        """Return what keeps an operation's outcome in another transaction, once that is known.

        What it gives may be called in another thread.
        """
        lease, id_, run, now, durable = self._lease, self._id, self._run, self.now(), self.durable

        def keep(outcome: Outcome) -> Sequence[KeepResult]:
            text = encode_record(Result(operation, now, outcome))
            return [KeepResult(lease, id_, run, operation, now, text)] if durable else []

        return keep

    def write(self, writes: Sequence[Write]) -> int:
        """Make this durable behind what was appended, and before what will be; see `House.write`."""
        self.let_out()
        self._written = self._house.write(writes, self)
        return self._written

    def end_with(self) -> Sequence[Write]:
        """Return the writes that end it in another transaction; nothing more is written for it then."""
        self.over = True
        if not self._begun:
            return self._consume()
        held = () if self._held is None else self._house.tidying.going(self._held.moves)
        return [*held, EndConversation(self._lease, self._id, self.now())]

    def park(self, because: str, error: str | None) -> bool:
        """Write down that it can't go on, and that it began; False if nothing more is to be written for it.

        Its present turn leaves nothing behind: that is run again.
        """
        if self.over or self.lost or not self.durable:
            return False
        writes: list[Write] = []
        if not self._begun:
            writes += self._begin()
            if self._opened is None:
                writes += [*self._records(self._first), Consume((self._there.seq,))]
            self._begun = True
        self.write([*writes, ParkConversation(self._lease, self._id, self.now(), because, error)])
        return True

    def counted(self, kills: int) -> Sequence[Write]:
        """Return the writes that count so many kills at which its code was at work."""
        if self.over or not (self._begun or self._opened):
            return []
        begin = [] if self._begun else self._begin()
        self._begun = True
        return [*begin, *(self._in_hand() for _ in range(kills))]

    def freed(self, kills: int) -> Sequence[Write]:
        """Return the writes that unpark it; its count of kills stays, until it comes to rest."""
        free = ParkConversation(self._lease, self._id, self.now(), None)
        return [] if self.over or not self._begun else [free, *(self._in_hand() for _ in range(kills))]

    def _in_hand(self) -> TakeInHand:
        return TakeInHand(self._lease, self._id, self.now())

    def before_writing(self, look: Callable[[], None]) -> None:
        self._house.before_writing(look)

    async def commit(self) -> None:
        # Not for what others have written since: they would wait for one another's company.
        await self._house.wait_written(self._written)

    # --- what happens

    def live(self) -> None:
        self._there.revived()

    def arm(self, waiting: Waiting) -> None:
        if isinstance(waiting.subject, Wait):
            taking.park_wait(self._there, waiting.subject, waiting.id)

    def disarm(self, waiting: Waiting) -> None:
        if isinstance(waiting.subject, Wait):
            waiting.subject.parked_as = None

    def wake_at(self, when: int | None) -> None:
        if when is not None or self._wakes:
            self._wakes = when is not None
            self._house.wake_at(self._there, when)
        self._there.rested()
        if self._watched is not None:
            self._watched.rests()

    def all_came(self, before: int) -> bool:
        return self._house.all_came(self._there, before)

    def comes_to(self, turn: int) -> None:
        self._there.life.comes_to(self._there, turn)

    def start_soon(self, work: Callable[[], Awaitable[None]]) -> None:
        self._house.start_task(work)

    def repeated(self, kind: str) -> None:
        self._house.count("possible_repeat")

    def reworded(self, id: OperationId, kind: str) -> None:
        self._house.count("reworded")
        log.warning(
            "%s: conversation %s of chat %s: %s %s has other arguments than when it was recorded; "
            "what was recorded counts. Either its words were changed since, or they depend on something that "
            "differs between two runs, such as the order of a set",
            line_in(self._there.journal.task_in(id)),
            self._there.route.name,
            self._there.life.chat_id,
            kind,
            id,
        )

    def stuck(self, id: OperationId, task: trio.lowlevel.Task | None) -> None:
        self._there.stuck_at = parting_line(id, task)

    def swallowed(self, id: OperationId) -> None:
        self._house.count("swallowed_cancellation")
        log.error(
            "conversation %s of chat %s catches every cancellation (BaseException) near operation %s, "
            "and can't be put to rest: it is given up at %s",
            self._there.route.name,
            self._there.life.chat_id,
            id,
            calling_line(),
        )
        self._house.let_go(self._there)


def _failure(records: Sequence[Record]) -> str | None:
    last = records[-1]
    return "failed" if isinstance(last, Ended) and last.failure is not None else None


def read_journal(journal: Journal) -> tuple[list[Record], list[Row]]:
    """Decode the records and rows of a stored conversation.

    Raises:
        UnreadableRecordError: another version of the program wrote them.
    """
    records = [_as_record(decode_record(line)) for line in journal.records]
    texts = [text for effect in journal.effects.values() for text in (effect.intent, effect.result) if text]
    return records, list(_rows(texts))


def _as_record(record: Record | Row) -> Record:
    assert not isinstance(record, Result | Intended)
    return record


def _rows(texts: Iterable[str]) -> Iterable[Row]:
    for text in texts:
        row = decode_record(text)
        if isinstance(row, Result | Intended):
            yield row
