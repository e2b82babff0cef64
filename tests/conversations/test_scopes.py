"""Blocks that end by time or by hand; shields; sleeping. All in virtual time."""

from __future__ import annotations

import trio
from doubles import FakeOutbox, FakeStore
from town import TEXTS, open_town
from trio.testing import MockClock

from triobot.conversations.chat import Chat
from triobot.conversations.routes.filters import command
from triobot.conversations.routes.router import Router


async def test_a_timeout_covers_several_questions(autojump_clock: MockClock) -> None:
    """And says that it ended the block."""
    bot = Router()
    got: list[str] = []

    @bot.conversation
    async def ask(chat: Chat) -> None:
        with chat.move_on_after(600) as limit:
            got.append(await chat.ask("One?"))
            got.append(await chat.choose("Two?", {"two": "Two"}))
        await chat.send(f"over: {limit.cancelled_caught}")

    async with open_town(bot) as town:
        await town.says("hi")
        await trio.sleep(300)
        await town.says("one")
        await trio.sleep(299)
        assert town.sent() == ["One?", "Two?"]
        assert town.edits() == []
        await trio.sleep(2)
        assert town.sent() == ["One?", "Two?", "over: True"]
        assert [edit.content for edit in town.edits()] == ["Two?"]
        await town.presses("Two")
        assert town.outbox.presses == [("refused", "press1", TEXTS.expired)]
    assert got == ["one"]


async def test_the_innermost_timeout_ends_first(autojump_clock: MockClock) -> None:
    """They nest, and the outer goes on."""
    bot = Router()

    @bot.conversation
    async def ask(chat: Chat) -> None:
        with chat.move_on_after(100) as outer:
            with chat.move_on_after(10) as inner:
                await chat.ask("One?")
            await chat.send(f"inner: {inner.cancelled_caught}")
            await chat.ask("Two?")
        await chat.send(f"outer: {outer.cancelled_caught}")

    async with open_town(bot) as town:
        await town.says("hi")
        await trio.sleep(99)
        assert town.sent() == ["One?", "inner: True", "Two?"]
        await trio.sleep(2)
        assert town.sent()[-1] == "outer: True"


async def test_fail_after_raises_and_binds(autojump_clock: MockClock) -> None:
    """In time it does nothing; in infinity neither."""
    bot = Router()

    @bot.conversation
    async def ask(chat: Chat) -> None:
        with chat.fail_after(float("inf")):
            name = await chat.ask("Name?")
        try:
            with chat.fail_after(10) as scope:
                await chat.ask("Age?")
        except trio.TooSlowError:
            await chat.send(f"{name} is too slow: {scope.cancelled_caught}")

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("Ali")
        await trio.sleep(11)
        assert town.sent() == ["Name?", "Age?", "Ali is too slow: True"]


async def test_a_block_can_be_ended_by_hand() -> None:
    """By another branch."""
    bot = Router()

    @bot.conversation
    async def ask(chat: Chat) -> None:
        with chat.cancel_scope() as scope:
            async with chat.open_nursery() as nursery:
                nursery.start_soon(stop, chat, scope)
                await chat.ask("Name?")
        await chat.send(f"ended: {scope.cancelled_caught}")

    async def stop(chat: Chat, scope: trio.CancelScope) -> None:
        await chat.receive(command("stop"))
        scope.cancel()

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("/stop")
        # The child waited later than the parent asked: the newest wait takes it.
        assert town.sent() == ["Name?", "ended: True"]


async def test_sleeping_keeps_what_is_said_meanwhile(autojump_clock: MockClock) -> None:
    """It waits in the mailbox."""
    bot = Router()

    @bot.conversation
    async def wait(chat: Chat) -> None:
        await chat.sleep(3600)
        await chat.send(f"You said {await chat.ask('What?')}")

    async with open_town(bot) as town:
        await town.says("hi")
        await trio.sleep(60)
        await town.says("wake up")
        assert town.sent() == []
        await trio.sleep(3600)
        assert town.sent() == ["What?", "You said wake up"]


async def test_a_shield_makes_timeouts_and_interrupts_wait(autojump_clock: MockClock) -> None:
    """And nothing else: the block's own timeout still holds, and its question is answered."""
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send(f"Cancelled {chat.interrupted is not None}.")

    @bot.conversation
    async def book(chat: Chat) -> None:
        with chat.move_on_after(10):
            with chat.shield(), chat.move_on_after(100):
                await chat.send(f"code {await chat.ask('Code?')}")
            await chat.send("never")
        await chat.send("never either")

    async with open_town(bot) as town:
        await town.says("hi")
        await trio.sleep(20)
        await town.says("/cancel")
        assert town.sent() == ["Code?"]
        await town.says("1234")
        assert town.sent() == ["Code?", "code 1234", "Cancelled True."]
        assert town.left_over() == {}


async def test_a_shield_does_not_hold_up_the_program(autojump_clock: MockClock) -> None:
    """What is shielded is cut like the rest when the program stops, and nothing of it is consumed."""
    bot = Router()

    @bot.conversation
    async def book(chat: Chat) -> None:
        with chat.shield():
            await chat.ask("Code?")

    store = FakeStore()
    with trio.fail_after(5):
        async with open_town(bot, store=store) as town:
            await town.says("hi")
    assert store.consumed == [1]


async def test_cleanup_after_a_cancellation_never_sends(autojump_clock: MockClock) -> None:
    """Neither an effect nor a step; shielded cleanup does both."""
    bot = Router()
    steps: list[str] = []

    async def release(word: str) -> None:
        steps.append(word)

    @bot.conversation
    async def book(chat: Chat) -> None:
        with chat.move_on_after(10):
            try:
                await chat.ask("Code?")
            finally:
                with chat.shield():
                    await chat.step(release, "shielded")
                    await chat.send("shielded")
                try:
                    await chat.step(release, "plain")
                finally:
                    await chat.send("plain")

    async with open_town(bot) as town:
        await town.says("hi")
        await trio.sleep(11)
        assert town.sent() == ["Code?", "shielded"]
        assert [op.content for op in town.outbox.called] == ["Code?", "shielded"]
        assert town.left_over() == {}
    assert steps == ["shielded"]


async def test_a_queued_message_is_withdrawn_with_its_block(autojump_clock: MockClock) -> None:
    """What has not left when the time is up doesn't leave."""
    bot = Router()

    async def tell(chat: Chat, words: str) -> None:
        await chat.send(words)

    @bot.conversation
    async def book(chat: Chat) -> None:
        with chat.move_on_after(10):
            async with chat.open_nursery() as nursery:
                for words in ("a", "a", "a"):
                    nursery.start_soon(tell, chat, words)
        await chat.send("after")

    outbox = FakeOutbox()
    held = outbox.hold(lambda op: op.content == "a")
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        await trio.sleep(11)
        held.release()
        await town.rest()
        assert town.sent() == ["a", "after"]
