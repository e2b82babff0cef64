"""A process that begins conversations, appends to their journals and ends them until it is killed, and says
line by line, after each commit, where each stands."""

from __future__ import annotations

import os
import sys
import time

import trio

from triobot.seams.inbox import Arrival, InboxRow, Quota
from triobot.seams.journals import (
    AppendRecords,
    BeginConversation,
    ContinueConversation,
    ConversationId,
    EndConversation,
    KeepResult,
    PutStanding,
)
from triobot.seams.writes import Accept, Consume, Write
from triobot.store import Stamp, Store, open_sqlite
from triobot.wire.ids import ChatId

STAMP = Stamp("https://platform.test/api", "token-one")


class _Now:
    def now(self) -> int:
        return time.time_ns() // 1_000_000


def say(conversation: int, records: int) -> None:
    os.write(1, f"{conversation} {records}\n".encode())


def begin(row: InboxRow) -> list[Write]:
    id_ = ConversationId(row.seq)
    return [
        BeginConversation(id_, row.chat_id, "pizza", "v1", 0),
        AppendRecords(id_, 0, ("0",)),
        Consume((row.seq,)),
    ]


def take(id_: ConversationId, n: int, chat: ChatId) -> list[Write]:
    return [
        Accept(arrival_of(chat)),
        AppendRecords(id_, n, (str(n),)),
        PutStanding(id_, 0, unfinished=bool(n % 2), wake_at=n),
        KeepResult(id_, 1, str(n), 0, "done"),
    ]


def arrival_of(chat: ChatId) -> Arrival:
    return Arrival(chat, None, _Now().now(), "text/plain", b"x")


async def converse(store: Store, chat: ChatId) -> None:
    for round_ in range(1_000_000):
        row = await store.accept(arrival_of(chat), quota=Quota(events_per_chat=10**9))
        assert isinstance(row, InboxRow)
        id_ = ConversationId(row.seq)
        await store.commit(*begin(row))
        say(id_, 1)
        for n in range(1, 12):
            if round_ % 3 == 0 and n == 6:
                # Position 12 at the end as well, but the first six records are gone.
                await store.commit(ContinueConversation(id_, n, (str(n),), "pizza", "v1", 0))
            else:
                await store.commit(*take(id_, n, chat))
            say(id_, n + 1)
        if round_ % 2:
            await store.commit(EndConversation(id_, 0))
            say(id_, -1)


async def main(path: str) -> None:
    async with open_sqlite(path, stamp=STAMP, clock=_Now()) as store, trio.open_nursery() as nursery:
        for chat in range(8):
            nursery.start_soon(converse, store, ChatId(chat))


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
