"""The rows of broadcasts in dictionaries: what `broadcasts` does in SQL, for the engine that forgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import assert_never, final

import attrs

from ..jobs import (
    AddReceivers,
    AdvanceBroadcast,
    BroadcastJob,
    BroadcastStatus,
    BroadcastWrite,
    DropBroadcast,
    OpenBroadcast,
    Outcome,
    Receiver,
    TurnBroadcast,
)
from ..wire.ids import ChatId


@attrs.define
class _Kept:
    job: BroadcastJob
    last: int = 0
    # In the order of positions: new ones and those that are put back take the highest.
    waiting: dict[int, ChatId] = attrs.field(factory=dict[int, ChatId])
    gone: dict[int, ChatId] = attrs.field(factory=dict[int, ChatId])
    chats: set[ChatId] = attrs.field(factory=set[ChatId])


@final
class BroadcastMemory:
    """The rows of broadcasts in dictionaries."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def apply(self, write: BroadcastWrite) -> None:
        """Do one write."""
        kept = self._kept.get(write.key)
        state = "none" if kept is None else kept.job.status.state
        match write:
            case OpenBroadcast(key, at, content):
                if state in ("none", "capturing"):
                    self._kept.pop(key, None)
                    self._kept[key] = _Kept(BroadcastJob(key, at, content, 0, BroadcastStatus("capturing")))
            case DropBroadcast(key):
                if state == "capturing":
                    del self._kept[key]
            case AddReceivers(chats=chats):
                if kept is not None and state == "capturing":
                    self._add(kept, chats)
            case AdvanceBroadcast():
                if kept is not None and state in ("sending", "stopping"):
                    self._advance(kept, write)
            case TurnBroadcast():
                if kept is not None and not kept.job.status.over:
                    self._turn(kept, write)
            case _:
                assert_never(write)

    def _add(self, kept: _Kept, chats: Sequence[ChatId]) -> None:
        for chat_id in chats:
            if chat_id not in kept.chats:
                kept.chats.add(chat_id)
                kept.last += 1
                kept.waiting[kept.last] = chat_id
        kept.job = attrs.evolve(kept.job, status=attrs.evolve(kept.job.status, total=kept.last))

    def _advance(self, kept: _Kept, write: AdvanceBroadcast) -> None:
        kept.job = attrs.evolve(kept.job, meant=max(kept.job.meant, write.meant))
        status = kept.job.status
        for position, outcome in write.outcomes.items():
            chat_id = kept.waiting.pop(position, None)
            if chat_id is None:
                continue
            if outcome is Outcome.AGAIN:
                kept.last += 1
                kept.waiting[kept.last] = chat_id
                continue
            if outcome is Outcome.GONE:
                kept.gone[position] = chat_id
            status = attrs.evolve(status, **{outcome.value: getattr(status, outcome.value) + 1})
        kept.job = attrs.evolve(kept.job, status=status)

    def _turn(self, kept: _Kept, write: TurnBroadcast) -> None:
        kept.job = attrs.evolve(kept.job, status=attrs.evolve(kept.job.status, state=write.state))
        if write.state == "stopping":
            kept.waiting = {
                position: chat for position, chat in kept.waiting.items() if position <= kept.job.meant
            }
        elif write.state != "sending":
            kept.waiting, kept.chats = {}, set()
            kept.job = attrs.evolve(kept.job, content="")

    def forget(self, chat_id: ChatId) -> int:
        """Delete a chat's rows: who has no outcome yet was never a receiver."""
        count = 0
        for kept in self._kept.values():
            kept.chats.discard(chat_id)
            for rows in (kept.waiting, kept.gone):
                for position in [position for position, chat in rows.items() if chat == chat_id]:
                    del rows[position]
                    count += 1
                    if rows is kept.waiting:
                        status = attrs.evolve(kept.job.status, total=kept.job.status.total - 1)
                        kept.job = attrs.evolve(kept.job, status=status)
        return count

    # --- reading

    def jobs(self) -> list[BroadcastJob]:
        """All broadcasts, in the order in which they were started."""
        return [kept.job for kept in self._kept.values()]

    def job(self, key: str) -> BroadcastJob | None:
        """One broadcast."""
        kept = self._kept.get(key)
        return None if kept is None else kept.job

    def receivers(self, key: str, after: int, limit: int, *, gone: bool) -> list[Receiver]:
        """A broadcast's receivers behind a position: those without an outcome, or those who are gone."""
        kept = self._kept.get(key)
        if kept is None:
            return []
        return list(islice(_behind(kept.gone if gone else kept.waiting, after, ordered=not gone), limit))


def _behind(rows: dict[int, ChatId], after: int, *, ordered: bool) -> Iterator[Receiver]:
    for position in rows if ordered else sorted(rows):
        if position > after:
            yield Receiver(position, rows[position])
