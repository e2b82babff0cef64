"""Messages that show how something goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from doubles import FakeOutbox
from town import TEXTS, Town, open_town
from trio.testing import MockClock

from triobot.conversations.chat import Chat
from triobot.conversations.questions.buttons import Buttons
from triobot.conversations.questions.live import Live
from triobot.conversations.routes.filters import command, text
from triobot.conversations.routes.router import Router
from triobot.errors import BadRequestError, LocalProtocolError
from triobot.seams.outbox import Urgency
from triobot.wire.operations import EditMessage


def live_bot(work: Callable[[Chat, Live], Awaitable[None]], *, buttons: bool = False) -> Router:
    bot = Router()

    @bot.conversation(text("go"))
    async def run(chat: Chat) -> None:
        async with chat.live("0", buttons=Buttons({"stop": "Stop"}) if buttons else None) as live:
            await work(chat, live)
        await chat.send("done")

    return bot


def shown(town: Town) -> list[object]:
    return [edit.content for edit in town.edits()]


async def test_only_the_newest_text_is_shown_once_a_second(autojump_clock: MockClock) -> None:
    """From inside a step, too; the last one when the block ends."""

    async def count(live: Live) -> None:
        for n in range(1, 36):
            live.show(str(n))
            await trio.sleep(0.1)

    async def work(chat: Chat, live: Live) -> None:
        await chat.step(count, live)

    outbox = FakeOutbox()
    async with open_town(live_bot(work), outbox=outbox) as town:
        await town.says("go")
        await trio.sleep(10)
        assert town.sent() == ["0", "done"]
        assert pytest.approx([int(str(n)) for n in shown(town)[:-1]], abs=1) == [10, 20, 30]
        assert shown(town)[-1] == "35"
        edits = [
            u for u, op in zip(outbox.urgencies, outbox.left, strict=True) if isinstance(op, EditMessage)
        ]
        assert edits == [*[Urgency.BESIDE] * 3, Urgency.REPLY]
        assert town.left_over() == {}


async def test_no_edit_is_queued_behind_another(autojump_clock: MockClock) -> None:
    """A slow platform gets fewer of them, and none twice."""
    outbox = FakeOutbox(latency=5)

    async def work(chat: Chat, live: Live) -> None:
        for n in range(1, 24):
            live.show(str(n))
            await chat.sleep(1)

    async with open_town(live_bot(work), outbox=outbox) as town:
        await town.says("go")
        await trio.sleep(60)
        numbers = [int(str(n)) for n in shown(town)]
        assert 5 <= len(numbers) <= 7
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == 23


async def test_the_same_text_is_not_shown_twice(autojump_clock: MockClock) -> None:
    async def work(chat: Chat, live: Live) -> None:
        for _ in range(5):
            live.show("half")
            await chat.sleep(2)
        live.show("half")

    async with open_town(live_bot(work)) as town:
        await town.says("go")
        await trio.sleep(20)
        assert shown(town) == ["half"]


async def test_an_edit_that_fails_fails_nothing(autojump_clock: MockClock) -> None:
    """The next one is tried."""
    outbox = FakeOutbox()
    outbox.fail(BadRequestError("editMessage", 400), lambda op: getattr(op, "content", "") in ("1", "9"))

    async def work(chat: Chat, live: Live) -> None:
        for n in (1, 2, 9):
            live.show(str(n))
            await chat.sleep(3)
        live.show("last")

    async with open_town(live_bot(work), outbox=outbox) as town:
        await town.says("go")
        await trio.sleep(20)
        assert shown(town) == ["1", "2", "9", "last"]
        assert town.counts["live_failed"] == 2
        assert town.sent() == ["0", "done"]


@pytest.mark.parametrize("end", ["cancel", "timeout", "error"])
async def test_the_last_text_is_shown_however_the_block_ends(autojump_clock: MockClock, end: str) -> None:
    """And the buttons go; an error is raised as itself."""
    caught: list[Exception] = []
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    @bot.conversation(text("go"))
    async def run(chat: Chat) -> None:
        with chat.move_on_after(3):
            try:
                async with chat.live("0", buttons=Buttons({"stop": "Stop"})) as live:
                    await chat.sleep(1.5)
                    live.show("1")
                    live.show("2")
                    await chat.sleep(0.5)
                    live.show("3")
                    if end == "error":
                        raise KeyError(end)
                    await chat.sleep(60)
            except Exception as error:
                caught.append(error)

    async with open_town(bot) as town:
        await town.says("go")
        await trio.sleep(2.1)
        if end == "cancel":
            await town.says("/cancel")
        await trio.sleep(5)
        assert shown(town)[-1] == "3"
        assert town.edits()[0].inline_keyboard is not None
        assert [edit.inline_keyboard for edit in town.edits()][-1] is None
        assert [type(error) for error in caught] == ([KeyError] if end == "error" else [])
        assert town.left_over() == {}


async def test_an_edit_of_the_authors_stays(autojump_clock: MockClock) -> None:
    """The last text has come before it."""
    bot = Router()

    @bot.conversation
    async def run(chat: Chat) -> None:
        async with chat.live("0", buttons=Buttons({"stop": "Stop"})) as live:
            live.show("1")
        await chat.edit(live.sent, "Done.")

    async with open_town(bot) as town:
        await town.says("go")
        await trio.sleep(5)
        assert shown(town) == ["1", "Done."]


async def test_a_button_stops_what_goes_on(autojump_clock: MockClock) -> None:
    """Also in the middle of a step."""
    bot = Router()
    buttons = Buttons({"stop": "Stop"})

    async def convert(live: Live) -> None:
        while True:
            await trio.sleep(1)
            live.show(str(trio.current_time()))

    @bot.conversation
    async def run(chat: Chat) -> None:
        async with chat.live("0", buttons=buttons) as live:
            with chat.move_on_when(buttons.pressed(live.sent)) as stop:
                await chat.step(convert, live)
        await chat.send(f"stopped {stop.event is not None and stop.event.value}")

    async with open_town(bot) as town:
        await town.says("go")
        await trio.sleep(3.5)
        await town.presses("Stop")
        assert town.sent() == ["0", "stopped stop"]
        assert town.edits()[-1].inline_keyboard is None


async def test_showing_after_the_block_does_nothing(autojump_clock: MockClock) -> None:
    kept: list[Live] = []

    async def work(chat: Chat, live: Live) -> None:
        kept.append(live)
        assert "0" not in repr(live).replace(str(live.sent.id), "")
        with pytest.raises(LocalProtocolError):
            live.show("")

    async with open_town(live_bot(work)) as town:
        await town.says("go")
        kept[0].show("late")
        await trio.sleep(5)
        assert shown(town) == []
        assert town.sent() == ["0", "done"]


async def test_a_stop_shows_nothing_more(autojump_clock: MockClock) -> None:
    """The conversation has not ended, only its process."""

    async def work(chat: Chat, live: Live) -> None:
        live.show("1")
        await chat.sleep(60)

    outbox = FakeOutbox()
    async with open_town(live_bot(work, buttons=True), outbox=outbox) as town:
        await town.says("go")
    assert [op for op in outbox.left if isinstance(op, EditMessage)] == []


async def test_a_message_that_can_not_be_sent_is_the_authors_error() -> None:
    bot = Router()

    @bot.conversation
    async def run(chat: Chat) -> None:
        async with chat.live("0"):
            await chat.send("never")

    outbox = FakeOutbox()
    outbox.fail(BadRequestError("sendMessage", 400), lambda op: op.content == "0")
    async with open_town(bot, outbox=outbox) as town:
        await town.says("go")
        assert town.sent() == ["0", TEXTS.apology]


async def test_what_was_shown_last_is_known_when_the_block_has_ended(autojump_clock: MockClock) -> None:
    """Also when nothing was shown in it; and not before."""
    bot = Router()

    @bot.conversation
    async def run(chat: Chat) -> None:
        async with chat.live("0") as quiet:
            with pytest.raises(LocalProtocolError, match=r"text: is known once the block"):
                _ = quiet.text
        async with chat.live("1") as live:
            with chat.move_on_after(2.5):
                await chat.step(count, live)
        await chat.send(f"{quiet.text} {live.text}")

    async def count(live: Live) -> None:
        for n in range(9):
            live.show(f"{n}")
            await trio.sleep(1)

    async with open_town(bot) as town:
        await town.says("go")
        await trio.sleep(5)
        assert town.sent() == ["0", "1", "0 2"]
        assert shown(town)[-1] == "2"


async def test_the_first_text_comes_back_where_it_is_the_last(autojump_clock: MockClock) -> None:
    async def work(chat: Chat, live: Live) -> None:
        live.show("1")
        await chat.sleep(3)
        live.show("0")

    async with open_town(live_bot(work)) as town:
        await town.says("go")
        await trio.sleep(10)
        assert shown(town) == ["1", "0"]
        assert town.sent() == ["0", "done"]
