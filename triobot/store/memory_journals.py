"""The conversations of the engine that forgets. As `journal_tables`, in dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import assert_never, final

import attrs

from ..errors import JournalConflictError, LeaseLostError
from ..journals import (
    AppendRecords,
    BeginConversation,
    ContinueConversation,
    ConversationId,
    ConversationRow,
    DropEffects,
    Effect,
    EndConversation,
    Journal,
    JournalWrite,
    KeepIntent,
    KeepResult,
    Lease,
    ParkConversation,
    PutStanding,
    TakeInHand,
    WakeEarlier,
)
from ..wire.ids import ChatId
from .tally import Tally


@final
@attrs.frozen
class _Kept:
    """One conversation, as it is between two writes.

    Attributes:
        records: shared with the states before and after; the first `size` of them count.
    """

    row: ConversationRow
    first: int = 0
    size: int = 0
    records: list[str] = attrs.field(factory=list[str])
    effects: dict[str, Effect] = attrs.field(factory=dict[str, Effect])

    def with_records(self, position: int, records: tuple[str, ...]) -> _Kept:
        """With these appended."""
        if position != self.first + self.size:
            raise JournalConflictError(
                self.row.id,
                f"its next record is number {self.first + self.size}, and its writer believes {position}",
            )
        shared = self.records
        if len(shared) != self.size:  # an append was taken back
            shared = shared[: self.size]
        shared.extend(records)
        return attrs.evolve(self, size=self.size + len(records), records=shared)

    def as_read(self, lease: Lease) -> ConversationRow:
        """The row, as of now."""
        return attrs.evolve(self.row, lease=lease, position=self.first + self.size)


@final
class MemoryJournals:
    """The conversations of one memory store; writes can be taken back until they are settled."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._kept: dict[ConversationId, _Kept] = {}
        self._live: dict[ChatId, dict[ConversationId, None]] = {}
        self._before: list[tuple[ConversationId, _Kept | None]] = []
        self.lease = Lease(0, 0)

    def undo(self) -> None:
        """Take back every write since `settle`."""
        for id_, kept in reversed(self._before):
            self._put(id_, kept)
        self._before.clear()

    def settle(self) -> None:
        """Everything so far stays."""
        self._before.clear()

    def apply(self, write: JournalWrite) -> None:
        """Do one write."""
        if write.lease != self.lease:
            raise LeaseLostError("a conversation was read by an earlier run of this program, and is stale")
        match write:
            case BeginConversation():
                self._begin(write)
            case AppendRecords():
                self._change(
                    write.conversation,
                    self._alive(write.conversation).with_records(write.position, write.records),
                )
            case PutStanding():
                self._put_standing(write)
            case KeepIntent():
                self._keep_intent(write)
            case KeepResult():
                self._keep_result(write)
            case DropEffects():
                self._drop_effects(write)
            case ContinueConversation():
                self._continue(write)
            case ParkConversation():
                self._park(write)
            case TakeInHand():
                kept = self._alive(write.conversation)
                row = attrs.evolve(kept.row, in_hand=kept.row.in_hand + 1, updated_at=write.at)
                self._change(write.conversation, attrs.evolve(kept, row=row))
            case WakeEarlier():
                self._wake_earlier(write)
            case EndConversation():
                self._end(write)
            case _:
                assert_never(write)

    def _begin(self, write: BeginConversation) -> None:
        if write.id in self._kept:
            raise JournalConflictError(write.id, "has begun already")
        row = ConversationRow(
            id=write.id,
            lease=write.lease,
            chat_id=write.chat_id,
            route=write.route,
            kind=write.kind,
            version=write.version,
            sender_id=write.sender_id,
            key=write.key,
            run=1,
            unfinished=True,
            wake_at=write.wake_at,
            parked_because=None,
            error=None,
            in_hand=0,
            position=0,
            epoch=0,
            started_at=write.at,
            updated_at=write.at,
        )
        self._change(write.id, _Kept(row))
        self._tally.add("conversations", 1)

    def _put_standing(self, write: PutStanding) -> None:
        kept = self._alive(write.conversation)
        row = attrs.evolve(
            kept.row,
            unfinished=write.unfinished,
            wake_at=write.wake_at,
            in_hand=kept.row.in_hand if write.unfinished else 0,
            updated_at=write.at,
        )
        self._change(write.conversation, attrs.evolve(kept, row=row))

    def _wake_earlier(self, write: WakeEarlier) -> None:
        for id_, kept in list(self._kept.items()):
            if kept.row.wake_at is not None:
                row = attrs.evolve(kept.row, wake_at=max(kept.row.wake_at - write.by, 0))
                self._change(id_, attrs.evolve(kept, row=row))

    def _keep_intent(self, write: KeepIntent) -> None:
        kept = self._alive(write.conversation)
        if kept.row.run != write.run:
            raise JournalConflictError(write.conversation, "this run of it is over")
        effect = kept.effects.get(write.operation, Effect())
        effect = attrs.evolve(effect, intended_at=write.at, intent=write.text)
        self._change(write.conversation, attrs.evolve(kept, effects=kept.effects | {write.operation: effect}))

    def _keep_result(self, write: KeepResult) -> None:
        kept = self._running(write.conversation, write.run)
        if kept is None:
            return
        effect = kept.effects.get(write.operation, Effect())
        if effect.result is None:
            effect = attrs.evolve(effect, resulted_at=write.at, result=write.text)
            self._change(
                write.conversation, attrs.evolve(kept, effects=kept.effects | {write.operation: effect})
            )

    def _drop_effects(self, write: DropEffects) -> None:
        kept = self._running(write.conversation, write.run)
        if kept is not None:
            left = {key: effect for key, effect in kept.effects.items() if key not in write.operations}
            self._change(write.conversation, attrs.evolve(kept, effects=left))

    def _continue(self, write: ContinueConversation) -> None:
        kept = self._alive(write.conversation).with_records(write.position, write.records)
        row = attrs.evolve(
            kept.row,
            route=write.route,
            kind=write.kind,
            version=write.version,
            run=kept.row.run + 1,
            unfinished=True,
            wake_at=None,
            updated_at=write.at,
        )
        self._change(
            write.conversation,
            _Kept(row, first=write.position, size=len(write.records), records=list(write.records)),
        )

    def _park(self, write: ParkConversation) -> None:
        kept = self._alive(write.conversation)
        self._tally.add("parked", int(write.because is not None) - int(kept.row.parked_because is not None))
        row = attrs.evolve(
            kept.row,
            parked_because=write.because,
            error=write.error,
            in_hand=0 if write.because is None else kept.row.in_hand,
            updated_at=write.at,
        )
        self._change(write.conversation, attrs.evolve(kept, row=row))

    def _end(self, write: EndConversation) -> None:
        kept = self._kept.get(write.conversation)
        if kept is None or kept.row.ended_at is not None:
            return
        self._tally.add("conversations", -1)
        self._tally.add("parked", -int(kept.row.parked_because is not None))
        if write.error is None:
            self._change(write.conversation, None)
            return
        row = attrs.evolve(
            kept.row,
            unfinished=False,
            wake_at=None,
            error=write.error,
            updated_at=write.at,
            ended_at=write.at,
        )
        self._change(write.conversation, attrs.evolve(kept, row=row))

    def drop_ended(self, before: int) -> None:
        """Forget crashed conversations that were kept since before this time."""
        for id_, kept in list(self._kept.items()):
            if kept.row.ended_at is not None and kept.row.ended_at < before:
                del self._kept[id_]

    def forget(self, chat_id: ChatId) -> tuple[int, int]:
        """Forget the conversations of a chat; how many, and how many records they had."""
        found = [kept for kept in self._kept.values() if kept.row.chat_id == chat_id]
        for kept in found:
            if kept.row.ended_at is None:
                self._tally.add("conversations", -1)
                self._tally.add("parked", -int(kept.row.parked_because is not None))
            self._put(kept.row.id, None)
        return len(found), sum(kept.size for kept in found)

    def position(self, conversation: ConversationId) -> int | None:
        """Where the next record of a conversation goes that has not ended; None if there is none."""
        kept = self._kept.get(conversation)
        return None if kept is None or kept.row.ended_at is not None else kept.first + kept.size

    def _alive(self, conversation: ConversationId) -> _Kept:
        kept = self._kept.get(conversation)
        if kept is None or kept.row.ended_at is not None:
            raise JournalConflictError(conversation, "is over")
        return kept

    def _running(self, conversation: ConversationId, run: int) -> _Kept | None:
        kept = self._kept.get(conversation)
        return kept if kept is not None and kept.row.ended_at is None and kept.row.run == run else None

    def _change(self, conversation: ConversationId, kept: _Kept | None) -> None:
        self._before.append((conversation, self._kept.get(conversation)))
        self._put(conversation, kept)

    def _put(self, conversation: ConversationId, kept: _Kept | None) -> None:
        before = self._kept.pop(conversation, None)
        if before is not None and (live := self._live.get(before.row.chat_id)) is not None:
            live.pop(conversation, None)
            if not live:
                del self._live[before.row.chat_id]
        if kept is not None:
            self._kept[conversation] = kept
            if kept.row.ended_at is None:
                self._live.setdefault(kept.row.chat_id, {})[conversation] = None

    # --- reading

    def has(self, chat_id: ChatId) -> bool:
        """Whether a chat has conversations."""
        return chat_id in self._live

    def conversations(self, chat_id: ChatId) -> list[ConversationRow]:
        """Those of a chat that have not ended."""
        return [self._kept[id_].as_read(self.lease) for id_ in sorted(self._live.get(chat_id, ()))]

    def journal(self, conversation: ConversationId) -> Journal | None:
        """Everything of one conversation."""
        kept = self._kept.get(conversation)
        if kept is None:
            return None
        records = tuple(kept.records[: kept.size])
        return Journal(kept.as_read(self.lease), kept.first, records, dict(kept.effects))

    def unfinished(self, after: int, limit: int) -> list[ConversationRow]:
        """Those that had something under way."""
        return self._page(self._ready(lambda row: row.unfinished and row.id > after), limit)

    def due(self, now: int, after: tuple[int, int], limit: int) -> list[ConversationRow]:
        """Those to be woken."""

        def is_due(row: ConversationRow) -> bool:
            return row.wake_at is not None and row.wake_at <= now and (row.wake_at, row.id) > after

        found = sorted(self._ready(is_due), key=lambda kept: (kept.row.wake_at or 0, kept.row.id))
        return [kept.as_read(self.lease) for kept in found[:limit]]

    def next_wake(self, after: int) -> int | None:
        """When the next one is to be woken."""
        found = self._ready(lambda row: row.wake_at is not None and row.wake_at > after)
        return min((kept.row.wake_at for kept in found if kept.row.wake_at is not None), default=None)

    def parked(self, after: int, limit: int) -> list[ConversationRow]:
        """Those that this code can't revive."""
        found = (
            kept
            for kept in self._kept.values()
            if kept.row.parked_because is not None and kept.row.ended_at is None and kept.row.id > after
        )
        return self._page(found, limit)

    def every(self, after: int, limit: int) -> list[ConversationRow]:
        """All of them."""
        return self._page((kept for kept in self._kept.values() if kept.row.id > after), limit)

    def unknown_effects(self) -> int:
        """How many effects have an intent and no result."""
        return sum(effect.result is None for kept in self._kept.values() for effect in kept.effects.values())

    def _ready(self, wanted: Callable[[ConversationRow], bool]) -> list[_Kept]:
        return [
            kept
            for kept in self._kept.values()
            if kept.row.parked_because is None and kept.row.ended_at is None and wanted(kept.row)
        ]

    def _page(self, found: Iterable[_Kept], limit: int) -> list[ConversationRow]:
        in_order: Sequence[_Kept] = sorted(found, key=lambda kept: kept.row.id)
        return [kept.as_read(self.lease) for kept in islice(in_order, limit)]
