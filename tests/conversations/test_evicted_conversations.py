"""An evicted conversation acts on the actor that had it, never on the chat's next actor."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import trio
from town import CHAT, open_town

from triobot import Bot, Chat


async def test_who_does_not_end_parks_nothing_in_the_next_actor(autojump_clock: object) -> None:
    """Its code swallows the eviction's cancellation: it is given up, and the chat goes on from the store."""
    bot, handles = Bot(), list[Any]()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        handles.append(chat)
        swallowed = (BaseException,) if len(handles) == 1 else ()
        while True:
            with suppress(*swallowed):
                await chat.send(f"Hello {await chat.ask('Name?')}.")

    async with open_town(bot) as town:
        await town.says("hi")
        chats = town.dispatcher.chats
        before = chats.actors[CHAT]
        (evicted,) = before.running.all()
        chats.retry(CHAT)
        await trio.sleep(60)
        after = chats.actors[CHAT]
        (live,) = after.running.all()
        assert town.counts["swallowed_cancellation"] == 1
        assert [handle._operations.actor for handle in handles] == [before, after]
        assert [before is after, evicted is live, evicted.seat.parked, live.seat.parked] == [False] * 4
        assert "parked" not in town.counts
        await town.says("Sara")
        assert town.sent()[-2:] == ["Hello Sara.", "Name?"]
