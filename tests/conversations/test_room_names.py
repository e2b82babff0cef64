"""Rooms of which this program knows nothing, or nothing any more."""

from __future__ import annotations

import attrs
import trio
from doubles import FakeStore
from town import Town, open_town

from triobot.conversations.chat import Chat, Room
from triobot.conversations.routes.filters import nothing, signal
from triobot.conversations.routes.router import Router
from triobot.seams.rooms import room_place


@attrs.frozen
class Go:
    n: int


def with_a_room(name: str, heard: list[int], *formerly: str) -> Router:
    router = Router()

    @router.room(signal(Go), name=name, formerly=formerly)
    async def counts(room: Room[Go]) -> None:
        heard.append(room.event.n)

    return router


async def tell(town: Town, name: str, n: int) -> None:
    await town.dispatcher.chat_calls.signal(room_place(name, "k"), Go(n), None, (name, "k"))
    await town.rest()


async def test_what_is_told_to_a_room_that_no_code_knows_waits_for_that(autojump_clock: object) -> None:
    store, heard = FakeStore(), list[int]()
    async with open_town(with_a_room("another", heard), store=store) as town:
        await tell(town, "old", 1)
        assert [alarm.kind for alarm in town.alarms] == ["signal_unreadable"]
        assert "the bot has no room 'old'" in town.alarms[0].text
    assert heard == []
    async with open_town(with_a_room("new", heard, "old"), store=store) as town:
        await town.rest()
        assert heard == [1]
        await tell(town, "old", 2)
    assert heard == [1, 2]


async def test_a_router_may_have_rooms_only_and_its_own_filter_is_not_asked(autojump_clock: object) -> None:
    heard, router, inner = list[int](), Router(when=nothing()), Router(when=nothing())

    @inner.room(signal(Go), name="r")
    async def counts(room: Room[Go]) -> None:
        heard.append(room.event.n)

    router.include(inner)
    async with open_town(router) as town:
        await tell(town, "r", 3)
    assert heard == [3]


async def test_a_run_of_a_room_that_the_bot_has_no_more_is_parked(autojump_clock: object) -> None:
    """Others are served meanwhile; with the code that has the room again, its next signal brings it back."""
    store, done = FakeStore(), list[int]()

    def bot(*, has_it: bool) -> Router:
        router = Router()

        @router.conversation
        async def talk(chat: Chat) -> None:
            await chat.send("hi")

        if has_it:

            @router.room(signal(Go), name="old")
            async def sleeps(room: Room[Go]) -> None:
                await room.sleep(100)
                done.append(room.event.n)

        return router

    async with open_town(bot(has_it=True), store=store) as town:
        await tell(town, "old", 1)
    async with open_town(bot(has_it=False), store=store) as town:
        await trio.sleep(200)
        await town.says("hello")
        assert town.sent() == ["hi"]
        [row] = await store.conversations(room_place("old", "k"))
        assert row.parked_because is not None
    assert done == []
    async with open_town(bot(has_it=True), store=store) as town:
        await tell(town, "old", 2)
        await trio.sleep(300)
    assert done == [1, 2]
