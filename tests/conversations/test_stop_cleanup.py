"""A stop meets cleanup: nothing is taken for done by it, and nothing in it holds up the program."""

from __future__ import annotations

import pytest
import trio
from doubles import FakeOutbox, FakeStore
from test_charging import PRICE, Shop, verifies
from town import TEXTS, Town, open_town, start
from trio.testing import MockClock

from triobot.conversations.chat import Chat
from triobot.conversations.routes.filters import message, text
from triobot.conversations.routes.router import Router
from triobot.errors import StoreCorruptError
from triobot.seams.writes import Consume, Write
from triobot.wire.operations import SendMessage
from triobot.wire.results import PaymentState


@pytest.mark.parametrize("wait", ["sleep", "receive", "ask"])
async def test_a_wait_in_cleanup_takes_nothing_for_done(wait: str, autojump_clock: MockClock) -> None:
    """The event is being worked on when the program stops: the next run goes on with that work."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        try:
            await chat.step(trio.sleep, 1000)
        finally:
            match wait:
                case "sleep":
                    await chat.sleep(1)
                case "receive":
                    await chat.receive(message())
                case _:
                    await chat.ask("Why?")

    store = FakeStore()
    async with open_town(bot, store=store) as town:
        await town.rest()
        await town.says("hi")
    (row,) = store.rows.values()
    assert row.begun is not None
    assert await store.unfinished(after=0, limit=2) == []


async def test_a_stop_while_a_timeout_is_held_keeps_the_hint(autojump_clock: MockClock) -> None:
    """Money that is being looked at when the program stops is looked at by the next run."""
    shop = Shop()
    store = FakeStore()
    async with open_town(shop.bot, store=store) as town:
        await town.says("later")
        await trio.sleep(59)
        town.outbox.hold(verifies)
        await town.pays()
        await trio.sleep(3)
    assert (await store.payments.find(limit=1))[0].state == "verifying"
    async with open_town(shop.bot, store=store) as town:
        town.outbox.reply(PaymentState(True, PRICE), verifies)
        await trio.sleep(60)
        bought, late = shop.outcomes
        assert (bought, late) == (None, False)
        assert len(shop.given) == 1


async def test_a_shield_that_is_opened_in_cleanup_does_not_hold_up_the_program(
    autojump_clock: MockClock,
) -> None:
    """A stop is no ending: cleanup doesn't send then, shielded or not."""
    bot = Router()

    @bot.conversation
    async def book(chat: Chat) -> None:
        try:
            await chat.ask("Code?")
        finally:
            with chat.shield():
                await chat.send("Bye.")
                await chat.sleep(1000)

    with trio.fail_after(5):
        async with open_town(bot) as town:
            await town.says("hi")
            town.outbox.hold(lambda op: isinstance(op, SendMessage))
    assert town.sent() == ["Code?"]


class FailingStore(FakeStore):
    """Its disk fails in the middle of a commit, and from then on."""

    broken = False

    async def commit(self, *writes: Write) -> None:
        if self.broken or any(isinstance(write, Consume) and 2 in write.seqs for write in writes):
            self.broken = True
            await trio.lowlevel.checkpoint()
            raise StoreCorruptError("the disk failed")
        await super().commit(*writes)


async def test_a_store_that_breaks_ends_everything_at_once(autojump_clock: MockClock) -> None:
    """Shields and cleanup of other chats don't keep a program alive that can't remember anything."""
    bot = Router()
    ended: list[int] = []

    @bot.conversation(text("wait"))
    async def wait(chat: Chat) -> None:
        try:
            with chat.shield():
                await chat.ask("Code?")
        finally:
            ended.append(chat.id)
            await chat.sleep(1)

    @bot.conversation
    async def echo(chat: Chat) -> None:
        await chat.choose("Sure?", {"y": "Yes"})

    store = FailingStore()
    outbox = FakeOutbox()
    town = Town(bot, outbox, store, TEXTS, username=None)
    town.at_once = False
    with trio.fail_after(5), pytest.RaisesGroup(pytest.RaisesExc(StoreCorruptError), flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            await start(nursery, town)
            await town.says("wait", 6, wait=False)
            await town.says("hi", 5, wait=False)
            await trio.sleep(3)
            raise AssertionError("still running")
    assert ended == [6]
    # Nothing was tidied away: the conversations have not ended.
    assert town.edits() == []


async def test_a_wait_that_is_cancelled_already_leaves_the_mailbox_alone(autojump_clock: MockClock) -> None:
    """A block that is over asks nothing, so that what was typed before is the next question's."""
    bot = Router()
    answers: list[str] = []

    @bot.conversation
    async def order(chat: Chat) -> None:
        with chat.cancel_scope() as scope:
            await chat.sleep(10)
            scope.cancel()
            await chat.receive(text("never"))
        answers.append(await chat.ask("Name?"))

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("Sara")
        await trio.sleep(11)
        assert answers == ["Sara"]
        assert town.store.rows == {}


@pytest.mark.parametrize("where", ["conversation", "branch"])
async def test_code_that_swallows_everything_does_not_hold_a_stop(
    where: str, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named with its line, and waited for no more; it goes on where it was after the next start."""
    bot, heard = Router(), list[str]()

    async def swallow(chat: Chat) -> None:
        while True:
            try:  # noqa: SIM105
                heard.append((await chat.receive(text())).content)
            except BaseException:  # as bare as they come
                pass

    @bot.conversation
    async def bad(chat: Chat) -> None:
        if where == "conversation":
            await swallow(chat)
        async with chat.open_nursery() as nursery:
            nursery.start_soon(swallow, chat)

    store = FakeStore()
    with trio.fail_after(5):
        async with open_town(bot, store=store) as town:
            await town.says("hi")
            await town.says("one")
    assert "test_stop_cleanup.py" in caplog.text
    assert town.counts["swallowed_cancellation"] >= 1
    assert not town.dispatcher.tasks.running
    with trio.fail_after(5):
        async with open_town(bot, store=store) as town:
            await town.says("two")
    assert heard[-1] == "two"
