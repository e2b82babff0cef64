"""Choices that take more than their buttons, and choices in place of a message."""

from __future__ import annotations

import pytest
import trio
from doubles import FakeOutbox
from town import ALI, CHAT, SARA, open_town
from trio.testing import MockClock

from triobot.conversations.chat import Chat
from triobot.conversations.questions.buttons import Buttons
from triobot.conversations.routes.filters import command, message, text
from triobot.conversations.routes.router import Router
from triobot.conversations.routes.routing import Otherwise
from triobot.errors import BadRequestError, ConfigError, LocalProtocolError
from triobot.wire.events import Message
from triobot.wire.operations import EditMessage
from triobot.wire.results import Sent

# --- also


async def test_a_choice_may_be_answered_by_something_else() -> None:
    """As the filter takes it; what neither takes gets the hint."""
    bot = Router()

    @bot.conversation
    async def shop(chat: Chat) -> None:
        while True:
            match await chat.choose("Which?", {0: "Zero", 1: "One"}, also=text()):
                case Message(content=words):
                    await chat.send(f"search {words}")
                case key:
                    await chat.send(f"key {key}")

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("tea")
        assert town.sent() == ["Which?", "search tea", "Which?"]
        await town.presses("Zero")
        assert town.sent()[3:] == ["key 0", "Which?"]
        await town.joins()
        assert len(town.sent()) == 5
        assert [edit.content for edit in town.edits()] == ["Which?"] * 2


async def test_what_was_said_before_the_choice_may_answer_it() -> None:
    bot = Router()

    @bot.conversation
    async def shop(chat: Chat) -> None:
        await chat.send("Thinking.")
        answer = await chat.choose("Which?", {1: "One"}, also=text("back"))
        await chat.send(f"back {answer != 1}")

    outbox = FakeOutbox()
    held = outbox.hold(lambda op: op.content == "Thinking.")
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        await town.says("back")
        held.release()
        await town.rest()
        assert town.sent() == ["Thinking.", "Which?", "back True"]


async def test_a_newer_wait_comes_before_what_a_choice_takes_besides() -> None:
    """Only its own buttons come first."""
    bot = Router()

    async def listen(chat: Chat) -> None:
        await chat.send(f"listener {(await chat.receive(message())).content}")

    @bot.conversation
    async def shop(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(listen, chat)
            await chat.choose("Which?", {1: "One"}, also=text())
            await chat.send("chosen")

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("x")
        assert town.sent() == ["Which?", "listener x"]
        await town.says("y")
        assert town.sent() == ["Which?", "listener x", "chosen"]


async def test_what_is_no_filter_is_refused() -> None:
    """At once, with a word on what is wanted; nothing is sent."""
    bot = Router()
    refused: list[str] = []

    @bot.conversation
    async def shop(chat: Chat) -> None:
        with pytest.raises(ConfigError) as error:
            await chat.choose("Which?", {1: "One"}, also=text)  # type: ignore[call-overload]
        refused.append(str(error.value))
        with pytest.raises(ConfigError) as error:
            chat.move_on_when("stop")  # type: ignore[arg-type]
        refused.append(str(error.value))

    async with open_town(bot) as town:
        await town.says("hi")
        assert [words.partition(" ")[0] for words in refused] == ["choose(also=)", "move_on_when()"]
        assert town.sent() == []


async def test_by_counts_for_what_a_choice_takes_besides() -> None:
    bot = Router()

    @bot.conversation
    async def shop(chat: Chat) -> None:
        await chat.choose("Which?", {1: "One"}, also=text(), by=ALI.id, otherwise=Otherwise.DROP)
        await chat.send("chosen")

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("x", sender=SARA)
        assert town.sent() == ["Which?"]
        await town.says("x")
        assert town.sent() == ["Which?", "chosen"]


# --- into


def paging_bot(pages: int = 9) -> Router:
    """Shows pages in one message, until somebody presses "End"."""
    bot = Router()

    @bot.conversation
    async def shop(chat: Chat) -> None:
        page, shown = 0, await chat.send("One moment.")
        while True:
            more = Buttons({page + 1: "»"}) + Buttons({"end": "End"})
            answer = await chat.choose(f"Page {page}", more, into=shown, also=text())
            match answer:
                case int():
                    page = answer % pages
                case Message():
                    page = 100
                case _:
                    break
        await chat.edit(shown, "Bye.")

    return bot


async def test_a_choice_may_be_shown_in_place_of_a_message() -> None:
    """Each page replaces the last one, and nothing comes after what the author writes in the end."""
    async with open_town(paging_bot()) as town:
        await town.says("hi")
        for _ in range(3):
            await presses(town, "»")
        await town.says("search")
        await presses(town, "End")
        assert town.sent() == ["One moment."]
        assert [edit.content for edit in town.edits()] == [
            *("Page 0", "Page 1", "Page 2", "Page 3", "Page 100", "Bye.")
        ]
        assert {edit.message_id for edit in town.edits()} == {town.messages()[0][0]}
        assert town.edits()[-1].inline_keyboard is None
        assert town.left_over() == {}


async def presses(town: object, label: str, *, times: int = 1) -> None:
    """Press a button of the newest edit."""
    edit = town.edits()[-1]  # type: ignore[attr-defined]
    [data] = [b.data for row in edit.inline_keyboard.rows for b in row if b.text == label]
    for _ in range(times):
        await town.presses_data(data, edit.message_id)  # type: ignore[attr-defined]
    await town.rest()  # type: ignore[attr-defined]


async def test_a_double_click_skips_no_page() -> None:
    """The second click belongs to a question that has been answered, and needs no word."""
    async with open_town(paging_bot()) as town:
        await town.says("hi")
        await presses(town, "»", times=3)
        assert [edit.content for edit in town.edits()] == ["Page 0", "Page 1"]
        assert [p for p in town.outbox.presses if p[0] == "refused"] == [
            ("refused", "data2", ""),
            ("refused", "data3", ""),
        ]


async def test_buttons_go_when_a_choice_in_place_ends_otherwise(autojump_clock: MockClock) -> None:
    """By a timeout, or by an interrupt."""
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    @bot.conversation
    async def shop(chat: Chat) -> None:
        shown = await chat.send("One moment.")
        with chat.move_on_after(10):
            await chat.choose("One?", {1: "One"}, into=shown)
        await chat.send("Too slow.")
        await chat.choose("Two?", {2: "Two"}, into=shown)

    async with open_town(bot) as town:
        await town.says("hi")
        await trio.sleep(11)
        await town.says("/cancel")
        assert [(edit.content, edit.inline_keyboard is None) for edit in town.edits()] == [
            ("One?", False),
            ("One?", True),
            ("Two?", False),
            ("Two?", True),
        ]


async def test_buttons_go_when_the_next_page_can_not_be_shown() -> None:
    """They were the last page's, which is over."""
    bot = Router()

    @bot.conversation
    async def shop(chat: Chat) -> None:
        shown = await chat.send("One moment.")
        await chat.choose("One?", {1: "One"}, into=shown)
        try:
            await chat.choose("Two?", {2: "Two"}, into=shown)
        except BadRequestError:
            await chat.send("failed")

    outbox = FakeOutbox()
    outbox.fail(
        BadRequestError("editMessage", 400),
        lambda op: isinstance(op, EditMessage) and op.content == "Two?" and op.inline_keyboard is not None,
    )
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        await presses(town, "One")
        assert town.sent() == ["One moment.", "failed"]
        assert town.edits()[-1].inline_keyboard is None


async def test_a_message_that_is_deleted_needs_no_tidying() -> None:
    bot = Router()

    @bot.conversation
    async def shop(chat: Chat) -> None:
        shown = await chat.send("One moment.")
        await chat.choose("One?", {1: "One"}, into=shown)
        await chat.delete(shown)

    async with open_town(bot) as town:
        await town.says("hi")
        await presses(town, "One")
        assert [type(op).__name__ for op in town.operations()] == [
            *("SendMessage", "EditMessage", "DeleteMessage")
        ]


async def test_a_choice_is_not_shown_in_another_chat() -> None:
    """Nobody here could answer it."""
    bot = Router()
    errors: list[str] = []

    @bot.conversation
    async def shop(chat: Chat) -> None:
        with pytest.raises(LocalProtocolError) as error:
            await chat.choose("One?", {1: "One"}, into=Sent(CHAT + 1, 7))
        errors.append(error.value.field)

    async with open_town(bot) as town:
        await town.says("hi")
        assert errors == ["into"]
        assert town.sent() == []
