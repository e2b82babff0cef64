"""Members of a group with conversations of their own: each sees only what is theirs."""

from __future__ import annotations

import pytest
import trio
from doubles import FakeStore
from town import ALI, CHAT, REZA, SARA, TEXTS, Town, open_town
from trio.testing import MockClock

from triobot.conversations.chat import Chat
from triobot.conversations.routes.filters import command, leave, text
from triobot.conversations.routes.router import Router
from triobot.conversations.routes.routing import Otherwise


async def a_group(town: Town) -> None:
    """Two different people have been seen."""
    await town.joins(sender=ALI)
    await town.joins(sender=SARA)


def orders(router: Router) -> None:
    """Everybody may order for themselves."""

    @router.conversation(command("order"), per="sender")
    async def order(chat: Chat) -> None:
        name = chat.sender.name if chat.sender else "?"
        what = await chat.ask(f"{name}: what?", otherwise=Otherwise.KEEP)
        size = await chat.choose(f"{name}: which size?", {"s": f"Small {name}", "l": f"Large {name}"})
        await chat.send(f"{name}: {what} {size}")


async def test_each_member_has_a_conversation_of_their_own() -> None:
    router = Router()
    orders(router)
    async with open_town(router) as town:
        await a_group(town)
        for sender in (ALI, SARA):
            await town.says("/order", sender=sender)
        await town.says("soup", sender=SARA)
        await town.says("hello", sender=REZA)
        await town.says("pizza", sender=ALI)
        await town.presses("Small Sara", sender=ALI)  # it isn't hers
        await town.presses("Large Ali", sender=ALI)
        await town.presses("Small Sara", sender=SARA)

        assert town.sent() == [
            "Ali: what?",
            "Sara: what?",
            "Sara: which size?",
            "Ali: which size?",
            "Ali: pizza l",
            "Sara: soup s",
        ]
        assert town.counts["not_asked"] == 1
        assert town.counts["nobody"] == 3  # two joins, and a hello
        assert not town.store.rows
        assert not town.left_over()


async def test_a_press_without_a_sender_is_the_questions() -> None:
    """The platform may leave out who it was; the button says whose it is. A text says nothing."""
    router = Router()
    orders(router)
    async with open_town(router) as town:
        await a_group(town)
        await town.says("/order")
        await town.says("anything", sender=None)
        await town.says("soup")
        await town.presses("Small Ali", sender=None)
        assert town.sent()[-1] == "Ali: soup s"


async def test_typed_ahead_waits_for_its_own_sender() -> None:
    router, seen = Router(), list[object]()

    @router.conversation(per="sender")
    async def talk(chat: Chat) -> None:
        await chat.send("busy")
        seen.append([getattr(event, "content", event) for event in chat.drain()])
        message = await chat.receive(text())
        seen.append((message.content, message.sender))

    async with open_town(router) as town:
        gate = town.outbox.hold()
        for words in ("hi", "one"):
            for sender in (ALI, SARA):
                await town.says(f"{words} {sender.name}", sender=sender)
        gate.release()
        await town.rest()
        assert seen == [["one Ali"], ["one Sara"]]
        await town.says("two Sara", sender=SARA)
        await town.says("two Ali", sender=ALI)
        assert seen[2:] == [("two Sara", SARA), ("two Ali", ALI)]
        assert not town.store.rows


async def test_an_interrupt_ends_its_senders_conversation_only() -> None:
    """What that member typed before is dropped; what others typed isn't."""
    router, seen = Router(), list[object]()

    @router.conversation(command("go"), per="sender")
    async def work(chat: Chat) -> None:
        await chat.send("working")
        seen.append((await chat.receive(text())).content)

    @router.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send(f"cancelled {chat.sender.name if chat.sender else None} {bool(chat.interrupted)}")

    async with open_town(router) as town:
        gate = town.outbox.hold()
        for sender in (ALI, SARA):
            await town.says("/go", sender=sender)
            await town.says(f"by {sender.name}", sender=sender)
        await town.says("/cancel", sender=ALI)
        gate.release()
        await town.rest()
        assert seen == ["by Sara"]
        assert town.counts["interrupted"] == 1
        await town.says("/cancel", sender=REZA)
        assert [words for words in town.sent() if "cancelled" in str(words)] == [
            "cancelled Ali True",
            "cancelled Reza False",
        ]
        assert not town.store.rows
        assert not town.left_over()


async def test_the_chats_own_conversation_is_for_those_who_have_none() -> None:
    """And an interrupt by one of them ends it."""
    router, seen = Router(), list[object]()

    @router.conversation(command("mine"), per="sender")
    async def mine(chat: Chat) -> None:
        seen.append(("mine", (await chat.receive(text())).content))

    @router.conversation(command("quiz"))
    async def quiz(chat: Chat) -> None:
        while True:
            seen.append(("quiz", (await chat.receive(text())).content))

    @router.interrupt(command("stop"))
    async def stop(chat: Chat) -> None:
        seen.append(("stop", str(chat.interrupted).rpartition(".")[2]))

    async with open_town(router) as town:
        await a_group(town)
        await town.says("/mine", sender=ALI)
        await town.says("/quiz", sender=SARA)
        await town.says("for me", sender=ALI)
        await town.says("for all", sender=ALI)
        await town.says("/mine", sender=REZA)  # the quiz is the live one
        await town.says("/stop", sender=REZA)
        assert seen == [
            ("mine", "for me"),
            ("quiz", "for all"),
            ("quiz", "/mine"),
            ("stop", "quiz"),
        ]


async def test_a_members_leave_ends_that_members_conversation_only() -> None:
    """It says no more, its buttons go, and the others go on."""
    router, seen = Router(), list[object]()
    orders(router)

    @router.aside(leave())
    async def goodbye(chat: Chat) -> None:
        seen.append(chat.sender)

    async with open_town(router) as town:
        await a_group(town)
        for sender in (ALI, SARA):
            await town.says("/order", sender=sender)
            await town.says("soup", sender=sender)
        await town.leaves(sender=ALI)
        assert seen == [ALI]
        assert town.outbox.dropped == []
        assert [edit.content for edit in town.edits()] == ["Ali: which size?"]
        await town.presses("Small Sara", sender=SARA)
        assert town.sent()[-1] == "Sara: soup s"
        assert TEXTS.apology not in town.sent()
        assert not town.store.rows
        assert not town.left_over()


async def test_a_private_leave_ends_everything() -> None:
    router = Router()
    orders(router)
    async with open_town(router) as town:
        await town.says("/order")
        await town.leaves()
        assert town.outbox.dropped == [CHAT]
        assert not town.left_over()


async def test_a_block_of_one_member_is_ended_by_nobody_else() -> None:
    router, seen = Router(), list[object]()

    @router.conversation(command("go"), per="sender")
    async def work(chat: Chat) -> None:
        with chat.move_on_when(text("stop")) as stop:
            await chat.receive(text("never"))
        seen.append((chat.sender, stop.cancelled_caught))

    async with open_town(router) as town:
        for sender in (ALI, SARA):
            await town.says("/go", sender=sender)
        await town.says("stop", sender=SARA)
        assert seen == [(SARA, True)]
        await town.says("stop", sender=ALI)
        assert seen == [(SARA, True), (ALI, True)]


async def test_one_who_floods_is_behind_and_the_others_order_is_kept(autojump_clock: MockClock) -> None:
    """A busy member's mailbox is bounded; what comes behind it is read again, in order."""
    router, seen = Router(), list[object]()

    @router.conversation(per="sender")
    async def talk(chat: Chat) -> None:
        await chat.sleep(10 if chat.sender == ALI else 0)
        while True:
            seen.append((await chat.receive(text())).content)

    async with open_town(router, store=FakeStore(latency=0.01)) as town:
        for sender in (ALI, SARA):
            await town.says("hi", sender=sender)
        for number in range(40):
            await town.says(f"ali {number}", sender=ALI)
        await town.says("sara", sender=SARA)
        await trio.sleep(20)
        assert [words for words in seen if words != "sara"] == [f"ali {number}" for number in range(40)]
        assert "sara" in seen
        assert not town.store.rows


@pytest.mark.parametrize("private", [True, False])
async def test_one_person_alone_is_one_person(private: bool) -> None:
    """In a private chat a member's conversation is the chat's only one."""
    router = Router()
    orders(router)
    async with open_town(router) as town:
        if not private:
            await a_group(town)
        for words in ("/order", "soup"):
            await town.says(words)
        await town.says("what?")
        expected = ["Ali: what?", "Ali: which size?"]
        assert town.sent() == ([*expected, TEXTS.want_choice] if private else expected)
