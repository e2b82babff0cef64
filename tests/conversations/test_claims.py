"""An event that finds its chat at rest begins its conversation in the transaction that accepts it."""

from __future__ import annotations

import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import ALI, CHAT, SARA, TEXTS, Town, open_town, start
from trio.testing import MockClock, wait_all_tasks_blocked

from triobot import Chat, Key, Router
from triobot.conversations.data import slots as data
from triobot.filters import flooding
from triobot.journals import BeginConversation
from triobot.seams import Arrival, Quota, Write
from triobot.wire.events import Message


class Commits(FakeStore):
    """Remembers what was committed by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.alone: list[Write] = []

    async def commit(self, *writes: Write) -> None:
        self.alone += writes
        await super().commit(*writes)


def echo_bot() -> Router:
    bot = Router()

    @bot.conversation
    async def echo(chat: Chat) -> None:
        await chat.send("heard")
        await chat.sleep(60)
        await chat.send("later")

    return bot


async def test_event_and_beginning_are_one_commit(autojump_clock: MockClock) -> None:
    """Nothing else is written before the first send leaves; then it goes on as any other."""
    store = Commits()
    async with open_town(echo_bot(), store=store) as town:
        await town.rest()
        await town.says("hi")
        assert town.counts["taken_at_once"] == 1
        assert town.sent() == ["heard"]
        assert store.rows == {}
        await trio.sleep(100)
        assert town.sent() == ["heard", "later"]
    assert not [write for write in store.alone if isinstance(write, BeginConversation)]
    assert await store.conversations(CHAT) == []


async def test_what_waits_first_keeps_its_time(autojump_clock: MockClock) -> None:
    """A beginning that rests at once, with a deadline, is woken for it after a crash."""
    bot = Router()

    @bot.conversation
    async def remind(chat: Chat) -> None:
        await chat.sleep(60)
        await chat.send("now")

    store = FakeStore()
    async with trio.open_nursery() as nursery:
        town = Town(bot, FakeOutbox(), store, TEXTS, username=None)
        run = await start(nursery, town)
        await town.rest()
        await town.says("hi")
        assert town.counts["taken_at_once"] == 1
        (row,) = await store.conversations(CHAT)
        assert not row.unfinished
        assert row.wake_at is not None
        await run.cut()
        town.new_dispatcher()
        run = await start(nursery, town)
        await trio.sleep(100)
        assert town.sent() == ["now"]
        await run.cut()


async def test_a_beginning_that_nobody_ran_is_revived(autojump_clock: MockClock) -> None:
    """As by a crash between the commit and the first step."""
    store = FakeStore()
    async with trio.open_nursery() as nursery:
        town = Town(echo_bot(), FakeOutbox(), store, TEXTS, username=None)
        run = await start(nursery, town)
        await wait_all_tasks_blocked()
        claim = town.dispatcher.claims.claim(Message(CHAT, "hi", ALI), town.services.clock.now())
        assert claim is not None
        town.at_once = False
        store.commit_lag = 1
        nursery.start_soon(accept_without_word, town, claim.taking)
        await trio.sleep(2)
        await run.cut()
        assert store.rows == {}
        town.new_dispatcher()
        run = await start(nursery, town)
        await trio.sleep(1)
        assert town.sent() == ["heard"]
        await run.cut()


async def accept_without_word(town: Town, taking: object) -> None:
    """The process dies before anybody is told that it is stored."""
    arrival = Arrival(CHAT, ALI.id, town.services.clock.now(), "text/plain", b"hi")
    await town.store.accept(arrival, quota=Quota(), taking=taking)  # type: ignore[arg-type]


@pytest.mark.parametrize("known", [True, False])
async def test_who_gives_up_first_takes_the_beginning_along(known: bool, autojump_clock: MockClock) -> None:
    """Then the event is accepted like every other, and the chat may be claimed anew."""
    async with open_town(echo_bot()) as town:
        await town.rest()
        now = town.services.clock.now()
        claim = town.dispatcher.claims.claim(Message(CHAT, "hi", ALI), now)
        assert claim is not None
        assert town.dispatcher.claims.claim(Message(CHAT, "hi", ALI), now) is None
        claim.over(known=known)
        await town.says("hi")
        assert town.counts["taken_at_once"] == 1


async def test_a_chat_that_is_not_at_rest_is_not_taken_at_once(autojump_clock: MockClock) -> None:
    """One that runs, a group, and two events at a time: the second goes its way behind the first."""
    store = FakeStore(commit_lag=0.1)
    async with open_town(echo_bot(), store=store) as town:
        await town.rest()
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(town.says, "hi")
        assert town.counts["taken_at_once"] == 1
        await trio.sleep(500)
        assert town.counts["started"] >= 2
        assert store.rows == {}
        before = town.counts["taken_at_once"]
        await town.says("hi", sender=SARA)
        assert town.counts["taken_at_once"] == before


async def test_filters_that_count_and_kept_values_need_the_common_way(autojump_clock: MockClock) -> None:
    """A filter that counts must know the event's number, and a beginning holds what the chat keeps."""
    bot = echo_bot()
    bot.ignore(flooding(per_minute=1))
    async with open_town(bot) as town:
        await town.rest()
        await town.says("hi")
        assert "taken_at_once" not in town.counts
        assert town.sent() == ["heard"]
    Key("claims_kept", int, default=0)
    assert data.any_declared()
    async with open_town(echo_bot()) as town:
        await town.rest()
        await town.says("hi")
        assert "taken_at_once" not in town.counts
        assert town.sent() == ["heard"]
