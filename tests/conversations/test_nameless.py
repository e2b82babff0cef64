"""The platform takes messages and names no id for them: what needs the id says so, the rest goes on."""

from __future__ import annotations

import attrs
import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import CHAT, open_town
from trio.testing import MockClock

from triobot.conversations.charges.paid import Paid, paid
from triobot.conversations.chat import Chat
from triobot.conversations.data import Key
from triobot.conversations.questions.buttons import Buttons
from triobot.conversations.routes.filters import text
from triobot.conversations.routes.router import Router
from triobot.errors import RemoteProtocolError
from triobot.wire.operations import EditMessage, Operation, SendMessage, VerifyPayment
from triobot.wire.results import PaymentState, Sent

SOLD = Key("sold", int, default=0)


class Nameless(FakeOutbox):
    """Takes each message, and keeps its id for itself."""

    def _usual(self, operation: Operation[object]) -> object:
        result = super()._usual(operation)
        return Sent(operation.chat_id) if isinstance(operation, SendMessage) else result


@pytest.mark.parametrize("how", ["edit", "delete", "to"])
async def test_what_has_no_id_can_not_be_changed(autojump_clock: MockClock, how: str) -> None:
    bot, caught = Router(), list[RemoteProtocolError]()

    @bot.conversation
    async def changes(chat: Chat) -> None:
        sent = await chat.send("One.")
        try:
            if how == "edit":
                await chat.edit(sent, "Two.")
            elif how == "delete":
                await chat.delete(sent)
            else:
                await chat.to(CHAT).edit(sent, "Two.")
        except RemoteProtocolError as error:
            caught.append(error)
        await chat.send("Three.")

    async with open_town(bot, outbox=Nameless()) as town:
        await town.says("hi")
    assert town.sent() == ["One.", "Three."]
    assert "can't be edited or deleted" in str(caught[0])


async def test_it_has_none_after_a_restart_either(autojump_clock: MockClock) -> None:
    bot, seen, store = Router(), list[Sent](), FakeStore()

    @bot.conversation
    async def remembers(chat: Chat) -> None:
        sent = await chat.send("One.")
        await chat.receive(text())
        seen.append(sent)

    async with open_town(bot, outbox=Nameless(), store=store) as town:
        await town.says("hi")
    async with open_town(bot, store=store) as town:
        await town.says("go on")
    assert seen == [Sent(CHAT)]


async def test_questions_are_answered_all_the_same(autojump_clock: MockClock) -> None:
    """Their buttons stay on the screen: nobody knows of which message."""
    bot = Router()

    @attrs.frozen
    class Order:
        size: int

    @bot.conversation
    async def asks(chat: Chat) -> None:
        letter = await chat.choose("Which?", {"a": "A", "b": "B"})
        shown = await chat.send("Menu")
        number = await chat.choose("How many?", {1: "One", 2: "Two"}, into=shown)
        votes = Buttons({True: "Yes", False: "No"})
        vote = await chat.receive(votes.pressed(await chat.send("Sure?", buttons=votes)))
        order = await chat.fill(Order, "Size")
        await chat.send(f"{letter} {number} {vote.value} {order.size}")

    async with open_town(bot, outbox=Nameless()) as town:
        await town.says("hi")
        await town.presses("B")
        await town.presses("Two")
        await town.presses("Yes")
        await town.submits({"size": "7"})
        assert town.sent() == ["Which?", "Menu", "How many?", "Sure?", "Size", "b 2 True 7"]
        assert town.counts["left_untidy"] == 2
    assert not [one for one in town.operations() if isinstance(one, EditMessage)]


async def test_progress_is_counted_as_not_shown(autojump_clock: MockClock) -> None:
    bot = Router()

    @bot.conversation
    async def works(chat: Chat) -> None:
        async with chat.live("0 %") as progress:
            progress.show("50 %")
            await trio.sleep(10)
            progress.show("100 %")
        await chat.send("Done.")

    async with open_town(bot, outbox=Nameless()) as town:
        await town.says("hi")
        await trio.sleep(60)
        assert town.sent() == ["0 %", "Done."]
        assert town.counts["live_failed"] == 2


async def test_a_payment_button_is_sold_once(autojump_clock: MockClock) -> None:
    bot, outcomes = Router(), list[object]()

    @attrs.frozen
    class Pizza:
        size: int = 1

    @bot.aside(paid(Pizza))
    async def deliver(chat: Chat[Paid[Pizza]]) -> None:
        outcomes.append(chat.event)
        chat.data[SOLD] += 1
        await chat.send("Here it is.")

    @bot.conversation
    async def buys(chat: Chat) -> None:
        outcomes.append(await chat.charge(1000, "Pizza", item=Pizza()))
        await chat.send("Thank you.")

    outbox = Nameless()
    outbox.reply(PaymentState(True, 1000), lambda operation: isinstance(operation, VerifyPayment))
    async with open_town(bot, outbox=outbox) as town:
        await town.says("buy")
        await town.pays()
        await trio.sleep(60)
    assert town.sent() == ["Pizza", "Here it is.", "Thank you."]
    assert [type(outcome).__name__ for outcome in outcomes] == ["Paid", "NoneType"]
    assert town.alarms == []
