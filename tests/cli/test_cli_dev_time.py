"""Skipped hours pass on the platform and in the bot's process alike; tried with the real command."""

from __future__ import annotations

import random
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
import trio
import trio.testing
from test_cli_dev import Dev, developing

from tests.loopback import PATIENCE
from triobot.emulator.control import SHORTEST, STRIDES, strides
from triobot.emulator.person import Person
from triobot.studio.commands.dev_bot import HurriedClock
from triobot.wire.content import Image
from triobot.wire.ids import ChatId
from triobot.wire.rules import JsonValue

HOUR = 3_600
BOT = """\
import attrs
from triobot import Bot, Chat
from triobot.filters import command, paid, text

bot = Bot()


@attrs.frozen
class Tea:
    pass


@bot.conversation(command("tea"))
async def tea(chat: Chat) -> None:
    with chat.move_on_after(45 * 60) as limit:
        await chat.ask("Milk?")
    await chat.send("Too slow." if limit.cancelled_caught else "With milk.")


@bot.aside(text("remind me"))
async def remind(chat: Chat) -> None:
    async with chat.open_nursery() as nursery:
        nursery.start_soon(chat.sleep, 24 * 3600)
        await chat.send("I will.")  # so whoever sees this knows that the day has begun
    await chat.send("A day has passed.")


@bot.conversation(command("buy"))
async def buy(chat: Chat) -> None:
    with chat.move_on_after(30 * 60) as limit:
        await chat.charge(1_000, "Tea", item=Tea(), late="refund")
    if limit.cancelled_caught:
        await chat.send("Not paid in time.")


@bot.aside(paid(Tea))
async def deliver(chat: Chat) -> None:
    await chat.send("Paid.")
"""


CHOOSE = """\
from triobot import Bot, Chat

bot = Bot()


@bot.conversation
async def choose(chat: Chat) -> None:
    drink = await chat.choose("Which?", {"Tea": "Tea", "Coffee": "Coffee"})
    await chat.send(f"{drink} it is.")
"""


def two_ports() -> int:
    """A free port with another one behind it: the store belongs to one address, so every run needs them.

    None that the system gives to whoever connects: such a one may be taken by the time that it is needed.
    """
    for port in random.SystemRandom().sample(range(20_000, 30_000, 2), 100):
        with (
            suppress(OSError),
            socket.create_server(("127.0.0.1", port)),
            socket.create_server(("127.0.0.1", port + 1)),
        ):
            return port
    raise AssertionError("no two ports are free")


async def skip(dev: Dev, seconds: float) -> None:
    await dev.app.post("clock", {"seconds": seconds})


async def known(dev: Dev, name: str) -> Person:
    """Somebody of the run before, who has seen all that came until now."""
    users = cast("list[dict[str, JsonValue]]", await dev.app.get("users"))
    [user] = [one for one in users if one["name"] == name]
    told = cast("dict[str, JsonValue]", await dev.app.get(f"users/{user['id']}/chat"))
    return Person(dev.app, user, ChatId(cast("int", user["chat_id"])), cast("int", told["seq"]))


@pytest.mark.slow
@pytest.mark.processes
async def test_the_bot_and_its_platform_agree_on_the_hour(tmp_path: Path) -> None:
    """A timeout, a reminder, and money that goes back; a process that starts later is as far ahead."""
    (tmp_path / "bot.py").write_text(BOT)
    async with developing(tmp_path, "--no-reload") as dev:
        lena = await dev.app.user("Lena", irr=5_000)
        await lena.joins()
        await lena.says("/tea")
        await lena.sees("Milk?", within=PATIENCE)
        await skip(dev, 44 * 60)
        await lena.sees_nothing(within=0.5)
        await skip(dev, 90)
        await lena.sees("Too slow.", within=PATIENCE)

        await lena.says("remind me")
        await lena.sees("I will.", within=PATIENCE)
        await skip(dev, 23 * HOUR)
        await dev.app.post("bot/kill", {})
        await dev.wait_phase("killed")
        # While nobody is there, time passes all the same.
        await skip(dev, 2 * HOUR)
        await dev.app.post("bot/restart", {})
        await lena.sees("A day has passed.", within=PATIENCE)

        await lena.says("/buy")
        await lena.sees("Tea", within=PATIENCE)
        await skip(dev, 31 * 60)
        await lena.sees("Not paid in time.", within=PATIENCE)

        said = await dev.app.get("faults")
        assert said == []
        await lena.says("/buy")
        await lena.sees("Tea", within=PATIENCE)
        # Nobody can verify what nobody can reach: the money goes back when the platform's hour is over.
        await dev.app.post("faults", {"operation": "payment/verify", "status": 500, "times": 1_000})
        await lena.pays()
        await skip(dev, HOUR)
        payments = cast("list[dict[str, object]]", await dev.app.get("payments"))
        assert [bill["state"] for bill in payments][-1] == "refunded"
        await lena.sees("Not paid in time.", within=PATIENCE)


@pytest.mark.slow
@pytest.mark.processes
async def test_a_lasting_store_keeps_the_skipped_time(tmp_path: Path) -> None:
    """What was due within a day is due within what is left of it, for the next run as well."""
    (tmp_path / "bot.py").write_text(BOT)
    port = two_ports()
    again = ("--no-reload", "--store", f"sqlite:{tmp_path}/dev.db")
    async with developing(tmp_path, *again, port=port) as dev:
        lena = await dev.app.user("Lena")
        await lena.joins()
        await lena.says("remind me")
        await lena.sees("I will.", within=PATIENCE)
        await skip(dev, 23 * HOUR)
        await dev.ends()

    async with developing(tmp_path, *again, port=port) as dev:
        lena = await known(dev, "Lena")
        await dev.wait_phase("running")
        await skip(dev, 2 * HOUR)
        await lena.sees("A day has passed.", within=PATIENCE)


@pytest.mark.slow
@pytest.mark.processes
async def test_a_lasting_store_keeps_its_platform(tmp_path: Path) -> None:
    """Who has joined, what was said, which button waits, and what was said while no bot was there."""
    (tmp_path / "bot.py").write_text(CHOOSE)
    port = two_ports()
    again = ("--no-reload", "--store", f"sqlite:{tmp_path}/dev.db")
    async with developing(tmp_path, *again, port=port) as dev:
        lena, mona = await dev.app.user("Lena", irr=5_000), await dev.app.user("Mona")
        for one in (lena, mona):
            await one.joins()
            await one.sees("Which?", within=PATIENCE)
        await lena.says(Image.from_bytes(b"\x89PNG\r\n\x1a\n", "a.png", "look"))
        await dev.app.post("bot/kill", {})
        await dev.wait_phase("killed")
        await mona.presses("Tea")
        await dev.ends()

    assert (tmp_path / "dev.db.platform").stat().st_mode & 0o077 == 0
    (tmp_path / "bot.py").write_text(f"{CHOOSE}(")
    async with developing(tmp_path, *again, port=port) as dev:
        lena, mona = await known(dev, "Lena"), await known(dev, "Mona")
        # They see what comes from now on, so the bot must not be faster.
        await dev.wait_phase("failed")
        (tmp_path / "bot.py").write_text(CHOOSE)
        await dev.app.post("bot/restart", {})
        await mona.sees("Tea it is.", within=PATIENCE)
        question, picture, *_ = await lena.history()
        assert (question.text, picture.text, (await lena.wallet())["IRR"]) == ("Which?", "look", 5_000)
        assert await lena.opens(picture) == b"\x89PNG\r\n\x1a\n"
        await lena.presses("Coffee")
        await lena.sees("Coffee it is.", within=PATIENCE)
        await dev.ends()

    # Without its store it is another world, which nobody has joined.
    (tmp_path / "dev.db").unlink()
    async with developing(tmp_path, *again, port=port) as dev:
        users = cast("list[dict[str, JsonValue]]", await dev.app.get("users"))
        assert "Lena" not in [user["name"] for user in users]


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.usefixtures("hangup")
async def test_what_is_done_right_before_an_end_is_kept(tmp_path: Path) -> None:
    """A bot that fails has no store yet, but its users have spoken; and windows are closed, too."""
    (tmp_path / "bot.py").write_text(f"{CHOOSE}(")
    port = two_ports()
    again = ("--no-reload", "--store", f"sqlite:{tmp_path}/dev.db")
    async with developing(tmp_path, *again, port=port) as dev:
        await dev.wait_phase("failed")
        lena = await dev.app.user("Lena")
        await lena.joins()
        await dev.ends()

    async with developing(tmp_path, *again, port=port) as dev:
        lena = await known(dev, "Lena")
        await dev.wait_phase("failed")
        (tmp_path / "bot.py").write_text(CHOOSE)
        await dev.app.post("bot/restart", {})
        await lena.sees("Which?", within=PATIENCE)
        await dev.app.user("Mona")
        await dev.ends(by=signal.SIGHUP)

    async with developing(tmp_path, *again, port=port) as dev:
        await known(dev, "Mona")
        await dev.app.user("Nina")
        await dev.ends(by=signal.SIGTERM)

    assert "Nina" in (tmp_path / "dev.db.platform").read_text()


def test_time_passes_in_strides() -> None:
    for milliseconds in (0, 1, SHORTEST, 59_999, 3_600_000, 86_400_000 + 1):
        parts = strides(milliseconds)
        assert sum(parts) == milliseconds
        assert len(parts) <= STRIDES
        assert all(part > 0 for part in parts)


def test_a_hurried_clock_wakes_who_sleeps() -> None:
    clock = HurriedClock(ahead=5_000)

    async def sleep_for_a_day() -> None:
        wall = clock
        began, woken = wall.now(), trio.Event()
        async with trio.open_nursery() as nursery:

            async def sleep() -> None:
                await trio.sleep(24 * HOUR)
                woken.set()

            nursery.start_soon(sleep)
            await trio.testing.wait_all_tasks_blocked()
            clock.hurry(24 * HOUR * 1_000)
            with trio.fail_after(PATIENCE):
                await woken.wait()
        assert wall.now() - began >= 24 * HOUR * 1_000

    trio.run(sleep_for_a_day, clock=clock)
