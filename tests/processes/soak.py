"""A bot works while all around it fails a little: ``python -m tests.processes.soak --minutes 10``.

Chats post 20 events a second in all. One post in ten comes from a broken sender; of the platform's answers
nine in a hundred are faults of every kind. The bot must say everything in order, and at the end nothing may
wait, memory and descriptors must be where they were, and the alarms must be those that the faults call for.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from tests.loopback import Platform, Users, open_platform
from tests.processes.process import ROOT, SECRET, BotProcess, Stack, environment, listen, start_bot

BOT: Final = Path(__file__).parent / "soaking.py"
CHATS: Final = range(1000, 1200)
RATE: Final = 20
"""Events a second, over all chats."""

BROKEN: Final = 0.10
FAULTS: Final[Mapping[bytes, float]] = {
    b"500 Told To": 0.03,
    b"502 Told To": 0.01,
    b"503 Told To": 0.01,
    b"429 Told To": 0.01,
    b"slow": 0.01,
    b"taken": 0.01,
    b"": 0.01,
}
"""What becomes of an operation instead of an answer: the share of each kind."""

WAITING: Final = ("queued", "in_flight", "lanes", "suspended", "held")
"""What the outbox says of itself that must be nothing at the end."""

IDLE: Final = 20
"""Connections to the platform that may be kept for later: those alone may be more than there were."""

QUIET: Final = 2.0
"""Seconds without traffic before descriptors are counted."""

GROWTH: Final = 4_000_000
"""Bytes of memory that caches may fill yet after the first fifth: in ten minutes, 400 for each event."""


@attrs.define
class FaultyPlatform:
    """Draws the faults from a seed, so that a run can be repeated."""

    chance: random.Random
    drawn: dict[bytes, int] = attrs.Factory(dict[bytes, int])

    def draw(self, chat: int) -> bytes | None:
        """The fault of the next operation, if it has one."""
        left = self.chance.random()
        for fault, share in FAULTS.items():
            left -= share
            if left < 0:
                self.drawn[fault] = self.drawn.get(fault, 0) + 1
                return fault
        return None


@attrs.frozen
class Broken:
    """A sender that breaks off, babbles or knows no secret."""

    port: int
    chance: random.Random

    async def post(self) -> None:
        """Post something that no event comes of."""
        head = b"POST /%s HTTP/1.1\r\nHost: x\r\n"
        mine = head % SECRET.encode()
        posts = (
            mine[:30],
            mine + b"Content-Length: 99\r\n\r\nchat_id=7",
            mine + b"Content-Length: 9\r\n\r\nchat_id=7",  # an event without a type
            mine + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
            head % (b"wrong" * 5) + b"Content-Length: 9\r\n\r\nchat_id=7",
            b"\x16\x03\x01\x02\x00\x01",  # TLS, where none is spoken
        )
        try:
            async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
                await stream.send_all(self.chance.choice(posts))
                with trio.move_on_after(0.2):
                    await stream.receive_some(4096)
        except (OSError, trio.BrokenResourceError):
            pass  # it was told off before it had said all


@attrs.frozen
class Sample:
    """What the process held at one moment."""

    resident: int
    descriptors: int


def sample(process: BotProcess) -> Sample:
    """Look at a process."""
    descriptors = len(list(Path(f"/proc/{process.popen.pid}/fd").iterdir()))
    return Sample(process.resident, descriptors)


def status_of(store: Path) -> dict[str, Any]:
    """What `triobot status` says of the running bot."""
    command = [sys.executable, "-m", "triobot", "status", "--json"]
    told = subprocess.run(
        command,
        env=environment(TRIOBOT_STORE=f"sqlite:{store}"),
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    status: dict[str, Any] = json.loads(told.stdout)
    return status


@attrs.frozen
class Soaked:
    """What a run came to.

    Attributes:
        said: by chat, the texts that were answered 200.
        heard: by chat, the texts that reached it.
        drain: seconds until the last text was there, after the last event.
        early, late: samples after a fifth of the time, and at the end.
        status: what the bot said of itself at the end.
        faults: how often the platform failed, by kind.
    """

    said: Mapping[int, Sequence[str]]
    heard: Mapping[int, Sequence[str]]
    drain: float
    early: Sample
    late: Sample
    status: Mapping[str, Any]
    faults: Mapping[bytes, int]

    def __str__(self) -> str:
        texts, told = sum(map(len, self.heard.values())), self.status
        return (
            f"{sum(map(len, self.said.values()))} events, {texts} texts, "
            f"{sum(map(repeats, self.heard.values()))} of them once more; "
            f"{sum(self.faults.values())} faults; "
            f"all said {self.drain:.1f} s after the last event; "
            f"memory {self.early.resident >> 20} to {self.late.resident >> 20} MB, "
            f"descriptors {self.early.descriptors} to {self.late.descriptors}; "
            f"inbox {told['inbox']}, outbox {told['outbox']}, "
            f"alarms {[alarm['kind'] for alarm in told['alarms']]}"
        )


def repeats(texts: Sequence[str]) -> int:
    """Count the texts that came once more."""
    return len(texts) - len([text for text, _ in groupby(texts)])


def check(soaked: Soaked) -> None:
    """Nothing waits, nothing grew, and only the requests that cannot be read have an alarm."""
    status = soaked.status
    for chat, said in soaked.said.items():
        assert [text for text, _ in groupby(soaked.heard[chat])] == wanted(said)
    assert status["working"]
    assert status["inbox"] == 0, status
    assert not any(status["outbox"][waits] for waits in WAITING), status["outbox"]
    assert [alarm["kind"] for alarm in status["alarms"]] == ["request_unreadable"], status["alarms"]
    assert soaked.late.descriptors <= soaked.early.descriptors + IDLE, soaked
    assert soaked.late.resident <= soaked.early.resident + GROWTH, soaked


def wanted(said: Sequence[str]) -> list[str]:
    """Say what a chat must hear."""
    pairs = zip(said[::2], said[1::2], strict=False)
    texts = [text for first, second in pairs for text in (f"{first}, and?", f"{first} and {second}")]
    return texts + ([f"{said[-1]}, and?"] if len(said) % 2 else [])


async def soak(folder: Path, seconds: float, seed: int, stack: Stack = "ours") -> Soaked:
    """Let everybody talk for some time, then wait until all is said."""
    chance = random.Random(seed)
    store = folder / "bot.db"
    async with open_platform() as platform:
        faulty = FaultyPlatform(random.Random(seed + 1))
        platform.fault = faulty.draw
        with listen() as sock:
            users = Users(sock.getsockname()[1], f"/{SECRET}")
            process = await start_bot(
                "bot",
                module=BOT,
                stack=stack,
                platform=platform.url,
                store=store,
                sock=sock,
                log=folder / "log",
            )
            try:
                await _talk(users, chance, seconds * 0.2)
                await trio.sleep(QUIET)
                early = sample(process)
                await _talk(users, chance, seconds * 0.8)
                said = dict(users.accepted)
                ended = time.monotonic()
                with contextlib.suppress(trio.TooSlowError):
                    await platform.wait_until(partial(_all_said, platform, said))
                drain = time.monotonic() - ended
                await trio.sleep(QUIET)
                late = sample(process)
                status = await trio.to_thread.run_sync(status_of, store)
                assert await process.stop() == 0
            finally:
                process.kill_now()
                process.popen.wait()
    texts = {chat: platform.texts[chat] for chat in said}
    return Soaked(said, texts, drain, early, late, status, faulty.drawn)


def _all_said(platform: Platform, said: Mapping[int, Sequence[str]]) -> bool:
    return all(len(set(platform.texts[chat])) >= len(texts) for chat, texts in said.items())


async def _talk(users: Users, chance: random.Random, seconds: float) -> None:
    """Post at the rate, each chat one event after the other."""
    broken = Broken(users.port, chance)
    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in range(int(seconds * RATE)):
            await trio.sleep_until(begun + number / RATE)
            if chance.random() < BROKEN:
                nursery.start_soon(broken.post)
            chat = CHATS[number % len(CHATS)]
            nursery.start_soon(_say, users, chat, f"{len(users.accepted[chat])}")


async def _say(users: Users, chat: int, text: str) -> None:
    async with users.connect() as line:
        assert await users.say(line, chat, text, close=True) == 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soaked = trio.run(soak, Path(folder), arguments.minutes * 60, arguments.seed)
    print(soaked)
    check(soaked)


if __name__ == "__main__":
    main()
