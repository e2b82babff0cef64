"""A branch passes something to another one and ends its block in the same turn: what was passed stands."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio

from triobot import Bot, Chat
from triobot.filters import command
from triobot.testing import drive

WAYS = ["set", "send", "receive", "close"]
ENDS = ["scope", "nursery", "error"]


def make_bot(way: str, end: str, *, cut_first: bool) -> Bot:
    bot = Bot()

    @bot.conversation(command("go"))
    async def work(chat: Chat) -> None:
        told, channel = chat.open_event(), chat.open_channel(str)
        scopes = [chat.cancel_scope()]

        async def waits() -> None:
            with scopes[0]:
                match way:
                    case "set":
                        await told.wait()
                        found = "told"
                    case "receive":
                        await channel.send("a word")
                        found = "taken"
                    case _:
                        try:
                            found = await channel.receive()
                        except trio.EndOfChannel:
                            found = "closed"
                with chat.shield():
                    await chat.send(found)
                await chat.send("never")
            await chat.send("left")

        async def passes() -> None:
            match way:
                case "set":
                    told.set()
                case "send":
                    await channel.send("a word")
                case "receive":
                    await channel.receive()
                case _:
                    channel.close()

        def ends() -> None:
            match end:
                case "scope":
                    scopes[0].cancel()
                case "nursery":
                    nursery.cancel()
                case "error":
                    raise KeyError("an author's")

        async def child() -> None:
            await chat.ask("Ready?")
            if not cut_first:
                await passes()
            ends()
            if cut_first:
                await passes()
            await chat.send("ended")

        try:
            async with chat.open_nursery() as nursery:
                nursery.start_soon(waits)
                nursery.start_soon(child)
        except* KeyError:
            await chat.send("failed")
        await chat.send("over")

    return bot


async def lived(bot: Bot, how: str) -> Sequence[str]:
    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("/go")
        await sara.sees("Ready?")
        await world.waits(seconds=1)
        if how == "restarts":
            await world.restarts()
        await sara.says("yes")
        if how == "crashes":
            await world.crashes()
        await world.waits(seconds=5)
        assert bot.statistics().live == 0
        return [seen.text for seen in await sara.history() if seen.from_bot][1:]


@pytest.mark.parametrize("how", ["nothing", "restarts", "crashes"])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("way", WAYS)
async def test_what_was_passed_stands(autojump_clock: object, way: str, end: str, how: str) -> None:
    """And its branch feels the end of its block at its next operation."""
    said = await lived(make_bot(way, end, cut_first=False), how)

    found = {"set": "told", "send": "a word", "receive": "taken", "close": "closed"}[way]
    rest = {"scope": ["left", "ended"], "nursery": [], "error": ["failed"]}[end]
    assert sorted(said) == sorted([found, *rest, "over"])


@pytest.mark.parametrize("way", ["set", "close"])
async def test_a_branch_whose_block_ended_first_is_passed_nothing(autojump_clock: object, way: str) -> None:
    assert sorted(await lived(make_bot(way, "scope", cut_first=True), "nothing")) == ["ended", "left", "over"]
