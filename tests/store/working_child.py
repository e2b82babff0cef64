"""A process that has a conversation's code at work in a store on a server, and is killed: ADDRESS NUMBER."""

from __future__ import annotations

import os
import sys
import time

import trio

from triobot.store import Stamp, open_store

STAMP = Stamp("https://platform.test", "t")


class _Now:
    def now(self) -> int:
        return time.time_ns() // 1_000_000


async def main(address: str, number: int) -> None:
    async with open_store(address, stamp=STAMP, clock=_Now()) as store:
        store.at_work[0] = number
        os.write(1, b"at work\n")
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], int(sys.argv[2]))
