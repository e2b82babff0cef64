"""People order from a bot that is killed again and again: ``python -m tests.processes.ordering 300 40``.

Arguments: how many chats, how many kills, and how many orders a chat.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import attrs
import trio

from tests.loopback import Platform, Users, open_platform, press_event, text_event
from tests.processes.process import SECRET, Stack, listen, start_bot

_TEXTS: Final = 4
"""What the bot says in an order."""


@attrs.frozen
class Ordered:
    """What happened.

    Attributes:
        texts: what reached each chat, in order, as often as it did.
        output: what the bot wrote.
        seconds: of which most go into starting it.
    """

    texts: Mapping[int, Sequence[str]]
    output: str
    seconds: float

    @property
    def repeats(self) -> int:
        """Texts that came once more."""
        return sum(len(texts) - len(set(texts)) for texts in self.texts.values())

    def check(self, chats: int, orders: int) -> None:
        """Every conversation ended as it should, in its order; what came twice may not have come."""
        assert len(self.texts) == chats
        for chat, texts in self.texts.items():
            check_heard(texts, chat, orders)
        # Each chat has at most one text on its way when the process dies, and most have none.
        assert self.repeats <= chats * orders * _TEXTS // 4
        errors = [line for line in self.output.splitlines() if "ERROR" in line]
        # To die several times soon after the start is what that alarm is for; and a machine may stand still.
        told = ("ALARM crash_loop: ", "triobot.watchdog: every chat has waited")
        assert [line for line in errors if not any(words in line for words in told)] == []


@attrs.frozen
class Customer:
    """Somebody who orders; every second one leaves a question unanswered."""

    platform: Platform
    users: Users
    chat: int

    async def order(self, number: int) -> None:
        """One order, from the first word to the bot's last."""
        name = f"{'silent' if self.chat % 2 else 'quick'} {self.chat}.{number}"
        await self.post(text_event(self.chat, f"{number}"))
        await self.sees(f"{number}: Name?")
        await self.post(text_event(self.chat, name))
        if not self.chat % 2:
            await self.sees(f"{number}: Hurry?")
            await self.post(text_event(self.chat, f"yes {number}"))
        await self.sees(f"{number}: Size")
        button = self.platform.buttons[self.chat]["Large"]
        await self.post(press_event(self.chat, button, f"press{self.chat}x{number}"))
        await self.sees(f"{number}: {name}")

    async def sees(self, beginning: str) -> None:
        """Wait for a text that begins so."""
        texts = self.platform.texts[self.chat]
        await self.platform.wait_until(lambda: bool(texts) and texts[-1].startswith(beginning))

    async def post(self, body: bytes) -> None:
        """Send an event as the platform does: again and again, until it is answered."""
        while True:
            try:
                async with self.users.connect() as line:
                    if await self.users.post(line, body, close=True) == 200:
                        return
            except (OSError, trio.BrokenResourceError):
                pass
            await trio.sleep(0.1)


def check_heard(texts: Sequence[str], chat: int, orders: int) -> None:
    """A chat has heard everything in order, with its own answers; only the last of a process came twice."""
    heard = [text for text, _ in groupby(texts)]
    assert len(heard) == len(set(heard)), heard
    wanted: list[str] = []
    for number in range(orders):
        sizes = [text for text in heard if text.startswith(f"{number}: Size of ")]
        code = sizes[0].split()[-1].removesuffix("?")
        hurry, (who, said) = f"{number}: Hurry?", ("quick", f"yes {number}")
        if chat % 2:
            who, said = "silent", "no answer"
        # On a slow machine its short time may be over before the question has left.
        wanted += [f"{number}: Name?", *([hurry] if hurry in heard or not chat % 2 else [])]
        wanted += [f"{number}: Size of {code}?", f"{number}: {who} {chat}.{number}, {said}, L, {code}."]
    assert heard == wanted


async def order_all(
    folder: Path,
    chats: int,
    kills: int,
    orders: int,
    seed: int = 1,
    stack: Stack = "ours",
    store: Path | str | None = None,
) -> Ordered:
    """Let everybody order, with kills at moments that only the seed knows, counted in texts."""
    chance, began, output = random.Random(seed), time.monotonic(), ""
    # A slow machine may leave "Hurry?" out: a moment that is counted with it might never come.
    moments = sorted(chance.randrange(1, chats * orders * (_TEXTS - 1)) for _ in range(kills))
    store = store or folder / "bot.db"
    async with open_platform() as platform:
        with listen() as sock:

            async def live(chat: int) -> None:
                for number in range(orders):
                    await Customer(platform, users, chat).order(number)

            users = Users(sock.getsockname()[1], f"/{SECRET}")
            log = folder / "log"
            process = await start_bot(
                "orders", stack=stack, platform=platform.url, store=store, sock=sock, log=log
            )
            try:
                async with trio.open_nursery() as nursery:
                    for chat in range(1000, 1000 + chats):
                        nursery.start_soon(live, chat)
                    for moment in moments:
                        await platform.wait_until(
                            lambda moment=moment: platform.total >= moment,
                        )
                        await process.kill()
                        output += process.output
                        process = await start_bot(
                            "orders", stack=stack, platform=platform.url, store=store, sock=sock, log=log
                        )
                assert await process.stop() == 0
                output += process.output
            finally:
                process.kill_now()
                process.popen.wait()
    return Ordered(dict(platform.texts), output, time.monotonic() - began)


def main() -> None:
    chats, kills, orders = (int(word) for word in (*sys.argv[1:], *("300", "40", "5")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as folder:
        result = trio.run(order_all, Path(folder), chats, kills, orders)
    result.check(chats, orders)
    print(
        f"{chats} chats, {chats * orders} conversations, {kills} kills in {result.seconds:.0f} s: "
        f"all ended as they should; {chats * orders * _TEXTS} texts, {result.repeats} of them twice"
    )


if __name__ == "__main__":
    main()
