"""What is stored and can't be read by this code parks whoever reads it: nothing is lost, nothing crashes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import CHAT, TEXTS, Town, start
from trio.testing import MockClock

from triobot.conversations.chat import Chat
from triobot.conversations.data import Key
from triobot.conversations.routes.filters import Filter, command, message, text
from triobot.conversations.routes.router import Router
from triobot.seams.values import encode_value, recorded, register
from triobot.wire.ids import ChatId

AS_INT = Key("unreadable visits", int, default=0)
AS_TEXT = Key("unreadable visits", str, default="")
UPGRADED = Key("unreadable visits", str, upgrade=lambda old: f"{old} visits")
BROKEN = Key("unreadable visits", str, upgrade=lambda old: str(1 / 0))
STORED = encode_value(3)


def telling(key: Key[Any], *, at_once: bool) -> Router:
    """Says what is kept: with its first line, or after a question."""
    bot = Router()

    @bot.conversation(message(), name="tell")
    async def tell(chat: Chat) -> None:
        if not at_once:
            await chat.ask("Shall I?")
        await chat.send(f"It is {chat.data[key]}.")

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    return bot


class Story:
    """One store, and one bot after the other over it."""

    def __init__(self) -> None:
        self.outbox, self.store = FakeOutbox(), FakeStore()
        self.store.kept[CHAT, AS_INT.name] = STORED

    @asynccontextmanager
    async def runs(self, bot: Router) -> Any:
        """This bot, while the block runs."""
        async with trio.open_nursery() as nursery:
            town = Town(bot, self.outbox, self.store, TEXTS, username="pizzabot")
            run = await start(nursery, town)
            await town.rest()
            yield town
            await town.rest()
            await run.cut()
            nursery.cancel_scope.cancel()

    @property
    def parked(self) -> list[str]:
        """Why what is stored is parked."""
        rows = self.store.journals.conversations(CHAT)
        return [row.parked_because for row in rows if row.parked_because is not None]


async def test_a_key_whose_elements_type_changed(autojump_clock: MockClock) -> None:
    """Parked where it is read, and not crashed where an element is used."""
    story = Story()
    story.store.kept[CHAT, AS_INT.name] = encode_value([1, 2])
    key = Key(AS_INT.name, list[str])
    bot = Router()

    @bot.conversation(message(), name="tell")
    async def tell(chat: Chat) -> None:
        await chat.send(", ".join(chat.data[key]))

    async with story.runs(bot) as town:
        await town.says("hi")
        assert "crashed" not in town.counts
        (alarm,) = town.alarms
        assert alarm.kind == "conversation_parked"
    (why,) = story.parked
    assert "Key('unreadable visits') holds a list, and not a list[str]; give the key an upgrade=" in why


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("key", "why"),
    [
        (AS_TEXT, "Key('unreadable visits') holds a int, and not a str"),
        (BROKEN, "of which upgrade= makes no str: ZeroDivisionError"),
    ],
)
async def test_a_key_whose_type_changed(
    key: Key[str], why: str, at_once: bool, autojump_clock: MockClock
) -> None:
    """Parked once, with the line; told once; tried at each start; and other code goes on from there."""
    story = Story()
    async with story.runs(telling(key, at_once=at_once)) as town:
        for words in ("hi",) if at_once else ("hi", "yes"):
            await town.says(words)
        assert "crashed" not in town.counts
        (alarm,) = town.alarms
        assert alarm.kind == "conversation_parked"
        assert why in alarm.text
        assert "test_unreadable.py:" in alarm.text
    assert len(story.parked) == 1
    assert why in story.parked[0]
    await trio.sleep(61)  # it is said once a minute, whichever process says it
    async with story.runs(telling(key, at_once=at_once)) as town:
        await town.says("hello?")
        assert len(town.alarms) == 1
        assert len(story.parked) == 1
    async with story.runs(telling(UPGRADED, at_once=at_once)) as town:
        assert not town.alarms
        # And what was said meanwhile is heard.
        asked, told = ["Shall I?"], "It is 3 visits."
        regrets = [TEXTS.parked, TEXTS.parked]  # the second in answer to what was said meanwhile
        expected = [*regrets, told, told] if at_once else [*asked, *regrets, told, *asked]
        assert town.sent() == expected
    assert not story.store.rows
    assert not story.parked
    assert story.store.kept[CHAT, AS_INT.name] == STORED


async def test_the_user_has_a_way_out(autojump_clock: MockClock) -> None:
    """An interrupt ends what can't go on, whether it was stored before or not."""
    for at_once in (True, False):
        story = Story()
        async with story.runs(telling(AS_TEXT, at_once=at_once)) as town:
            for words in ("hi", "yes", "/cancel"):
                await town.says(words)
            assert town.sent()[-1] == "Cancelled."
        assert not story.store.journals.conversations(CHAT)


async def test_what_another_chat_keeps(autojump_clock: MockClock) -> None:
    """The conversation that reads it is parked, and says which chat it is."""
    story, bot = Story(), Router()
    story.store.kept[ChatId(6), AS_INT.name] = STORED

    @bot.conversation(message())
    async def tell(chat: Chat) -> None:
        await chat.send(await chat.to(6).get(AS_TEXT))

    async with story.runs(bot) as town:
        await town.says("hi")
        assert "in chat 6, Key('unreadable visits') holds a int" in town.alarms[0].text
    assert len(story.parked) == 1


def order_of(**fields: Any) -> type[Any]:
    """A class of the same name, as the next version of the code has it."""
    return register(attrs.make_class("Order", fields, frozen=True), name="unreadable.Order")


@pytest.mark.parametrize(
    ("declare", "parks"),
    [
        (lambda cls: cls, True),
        (recorded(name="unreadable.Order", gone=("floor",)), False),
    ],
)
async def test_a_field_that_is_no_longer_there(
    declare: Callable[[type[Any]], type[Any]], parks: bool, autojump_clock: MockClock
) -> None:
    """In what a key holds, and in what a step has returned."""
    was = order_of(street=attrs.field(), floor=attrs.field(default=7))

    def bot_of(cls: type[Any]) -> Router:
        bot, key = Router(), Key("unreadable order", cls, default=cls("Valiasr"))

        async def find() -> object:
            await trio.lowlevel.checkpoint()
            return cls("Enghelab")

        @bot.conversation(message(), name="order")
        async def order(chat: Chat) -> None:
            found: Any = await chat.step(find)
            await chat.ask("Shall I?")
            await chat.send(f"{found.street}, {chat.data[key].street}")

        return bot

    story = Story()
    story.store.kept[CHAT, "unreadable order"] = encode_value(was("Azadi"))
    async with story.runs(bot_of(was)) as town:
        await town.says("hi")
    is_now = declare(attrs.make_class("Order", {"street": attrs.field()}, frozen=True))
    register(is_now, name="unreadable.Order")
    async with story.runs(bot_of(is_now)) as town:
        await town.says("yes")
        assert bool(town.alarms) is parks
        assert (
            ("has no field 'floor'" in town.alarms[0].text)
            if parks
            else (town.sent()[-1] == "Enghelab, Azadi")
        )
    assert bool(story.parked) is parks


async def test_an_answer_whose_class_has_changed(autojump_clock: MockClock) -> None:
    """What an older version made of what its user said: what came of it has been seen."""

    def bot_of(cls: type[Any]) -> Router:
        bot = Router()

        @bot.interrupt(command("cancel"))
        async def cancel(chat: Chat) -> None:
            await chat.send("Cancelled.")

        @bot.conversation(text("hi"), name="sizes")
        async def order(chat: Chat) -> None:
            await chat.send("Size?")
            await chat.receive(Filter(lambda event, _: cls(getattr(event, "content", None)), "size"))
            await chat.send("Ordered.")
            await chat.receive(text())
            await chat.send("More.")

        return bot

    was = attrs.make_class("Size", {"said": attrs.field()}, frozen=True)
    is_now = attrs.make_class("Size", {"number": attrs.field()}, frozen=True)
    story = Story()
    register(was, name="unreadable.Size")
    async with story.runs(bot_of(was)) as town:
        await town.says("hi")
        await town.says("large")
        assert town.sent() == ["Size?", "Ordered."]
    register(is_now, name="unreadable.Size")
    async with story.runs(bot_of(is_now)) as town:
        await town.says("more")
        (alarm,) = town.alarms
        assert alarm.kind == "conversation_parked"
        assert "has no field 'said'" in alarm.text
        assert story.parked
        assert town.sent()[2:] == [TEXTS.parked]
    register(was, name="unreadable.Size")
    async with story.runs(bot_of(was)) as town:
        await town.says("even more")
        assert town.sent()[-1] == "More."
        assert story.parked == []
