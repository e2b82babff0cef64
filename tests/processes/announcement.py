"""Kill a bot in the middle of telling everybody, again and again, while somebody talks to it.

python -m tests.processes.announcement [RECEIVERS] [KILLS]
"""

from __future__ import annotations

import os
import resource
import socket
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import attrs
import trio

from tests.loopback import Platform, Users, open_platform
from tests.processes.announcing import CHATTING, OVER
from tests.processes.process import SECRET, BotProcess, Stack, environment, listen, start_process
from triobot.seams.broadcasts import BroadcastStatus

BOT = Path(__file__).with_name("announcing.py")


@attrs.frozen
class Announced:
    """What happened.

    Attributes:
        told: how often each receiver was told.
        status: the broadcast's own words.
        between: how many receivers were told between an event of the chatting user and its answer.
    """

    told: Counter[int]
    status: BroadcastStatus
    between: list[int]
    seconds: float
    cpu: float


async def start(
    platform: Platform, store: Path, sock: socket.socket, many: int, log: Path, stack: Stack
) -> BotProcess:
    environ = environment(
        TRIOBOT_BASE_URL=platform.url,
        TRIOBOT_STORE=f"sqlite:{store}",
        BOT_FD=str(sock.fileno()),
        ANNOUNCED_TO=str(many),
        STACK=stack,
    )
    return await start_process([sys.executable, str(BOT)], sock=sock, environ=environ, log=log)


async def announce(folder: Path, many: int, kills: int, stack: Stack = "ours") -> Announced:
    """Tell `many`, with so many kills at even distances."""
    between: list[int] = []
    began, cpu = time.monotonic(), _cpu_of_children()
    async with open_platform() as platform:
        with listen() as sock:
            process = await start(platform, folder / "bot.db", sock, many, folder / "log", stack)
            users = Users(sock.getsockname()[1], f"/{SECRET}")

            def told() -> int:
                return platform.total - len(platform.texts[CHATTING])

            async def chat() -> None:
                for number in range(3):
                    before = told()
                    assert await users.calls(CHATTING, f"{len(between)} {number}") == 200
                    answer = f"echo {len(between)} {number}"
                    await platform.wait_until(
                        partial(lambda answer: answer in platform.texts[CHATTING], answer)
                    )
                    between.append(told() - before)

            for kill in range(1, kills + 1):
                enough = many * kill // (kills + 1)
                await platform.wait_until(lambda enough=enough: told() >= enough - many // (2 * kills + 2))
                await chat()
                await platform.wait_until(lambda enough=enough: told() >= enough)
                await process.kill()
                process = await start(platform, folder / "bot.db", sock, many, folder / "log", stack)
            # Whoever is unknown never comes: the bot itself says when it is over.
            await platform.wait_until(lambda: OVER in platform.texts[CHATTING])
            assert await process.stop() == 0
            words = process.output.split("\n")[-2].split()
    status = BroadcastStatus(words[0], *(int(word) for word in words[1:]))  # type: ignore[arg-type]
    counts = Counter({chat: len(texts) for chat, texts in platform.texts.items() if chat != CHATTING})
    return Announced(counts, status, between, time.monotonic() - began, _cpu_of_children() - cpu)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    many = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as folder:
        result = trio.run(announce, Path(folder), many, kills)
    print(f"{result.status}")
    print(f"told: {len(result.told)} of {many}, most often {max(result.told.values())} times")
    print(f"receivers told between an event and its answer: {sorted(result.between)}")
    print(
        f"{result.seconds:.1f} s with {kills} kills and starts;"
        f" {result.cpu / many * 1e6:.0f} us CPU a receiver, starts included; on {os.cpu_count()} cores"
    )


if __name__ == "__main__":
    main()
