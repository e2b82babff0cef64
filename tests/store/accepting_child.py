"""A process that accepts events until it is killed, and says so line by line, after each accept."""

from __future__ import annotations

import os
import sys
import time

import trio

from triobot.seams.inbox import Arrival, InboxRow, Quota
from triobot.seams.writes import PutSetting
from triobot.store import Stamp, Store, open_sqlite
from triobot.wire.ids import ChatId

STAMP = Stamp("https://platform.test/api", "token-one")


class _Now:
    def now(self) -> int:
        return time.time_ns() // 1_000_000


async def produce(store: Store, chat: int) -> None:
    clock = _Now()
    while True:
        mark = str(time.monotonic_ns())
        answer = await store.accept(
            Arrival(ChatId(chat), None, clock.now(), "text/plain", mark.encode()),
            quota=Quota(events_per_chat=10**9),
            also=[PutSetting(f"last of {chat}", mark)],
        )
        assert isinstance(answer, InboxRow)
        os.write(1, f"{answer.seq}\n".encode())


async def main(path: str) -> None:
    async with open_sqlite(path, stamp=STAMP, clock=_Now()) as store, trio.open_nursery() as nursery:
        for chat in range(8):
            nursery.start_soon(produce, store, chat)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
