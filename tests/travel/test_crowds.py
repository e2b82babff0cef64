"""The crowd's process, from its parent's side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.testing
from test_travel_twins import ENVIRON

from triobot.emulator.views import JsonObject
from triobot.studio.errors import TravelError
from triobot.studio.travel.crowds import CrowdProcess

COMMAND = [sys.executable, "-m", "triobot.studio.commands.dev_crowd"]

FRAGILE = """\
from triobot import Bot, Chat

bot = Bot()


@bot.conversation
async def fragile(chat: Chat) -> None:
    if await chat.ask("Yes or no?") == "yes":
        raise ZeroDivisionError
    if await chat.ask("Really?") == "no":
        never = 1
"""


KNOCKS = """\
from triobot import Bot, Chat, Room
from triobot.filters import signal, text

bot = Bot()


@bot.aside(text())
async def knocks(chat: Chat) -> None:
    await chat.to(door).signal(chat.sender.name)


@bot.room(signal(str))
async def door(room: Room[str]) -> None:
    await room.receive(signal(str))
    raise ZeroDivisionError
"""


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.virtual_time(False)
async def test_who_wrote_before_a_room_failed_is_told(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(KNOCKS)
    done = trio.Event()

    def tell() -> None:
        if process.crowd()["state"] != "runs":
            done.set()

    process = CrowdProcess(COMMAND, ENVIRON, f"{tmp_path / 'bot.py'}:bot", tell, lambda: nursery)
    async with trio.open_nursery() as nursery:
        process.let_in({"seed": 1, "chats": 4, "groups": 0, "hours": 12, "crashes": 0, "faults": 0})
        await done.wait()
        [[_, *records], *_], _ = process.failing()
        told = [str(record["record"]) for record in records]
        wrote = cast("dict[str, Any]", process.crowd()["first"])["wrote"]
        for at, place in ((0, 0), (1, next(n for n, one in enumerate(told) if n and "Person" in one))):
            [who] = wrote[at]
            assert who in told[place]
        nursery.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.virtual_time(False)
async def test_a_crowd_ends_where_a_promise_breaks(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(FRAGILE)
    told, news = list[JsonObject](), trio.Event()

    def tell() -> None:
        told.append(process.crowd())
        if told[-1]["state"] != "runs":
            news.set()

    process = CrowdProcess(COMMAND, ENVIRON, f"{tmp_path / 'bot.py'}:bot", tell, lambda: nursery)
    with pytest.raises(TravelError, match="nothing is kept"):
        process.failing()
    async with trio.open_nursery() as nursery:
        # What a seed does is no promise: the first that breaks one will do.
        for seed in range(1, 100):
            plan: JsonObject = {"seed": seed, "chats": 3, "hours": 24, "crashes": 2, "faults": 2}
            news = trio.Event()
            told.clear()
            process.let_in(plan)
            with pytest.raises(TravelError, match="send it home"):
                process.let_in(plan)
            await news.wait()
            crowd = cast("dict[str, Any]", process.crowd())
            if crowd["state"] == "broke":
                break
        assert crowd["first"]["text"] in crowd["broken"]
        assert crowd["again"].endswith(
            f"bot.py:bot --seed {seed} --chats 3 --hours 24 --crashes 2 --faults 2"
        )
        parts = [cast("float", one["part"]) for one in told if one["state"] == "runs"]
        assert parts == sorted(parts)
        assert parts[-1] < 0.99  # it didn't run to its end
        [journal, *_], marks = process.failing()
        assert (journal[0]["route"], journal[0]["ended_at"] is None) == ("bot.fragile", False)
        assert len(marks) == 2 * len(crowd["first"]["kills"])
        news = trio.Event()
        process.let_in({**plan, "hours": 10_000})
        process.send_home()
        await news.wait()
        assert process.crowd()["state"] == "stopped"
        nursery.cancel_scope.cancel()
