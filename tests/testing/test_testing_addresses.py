"""What one chat does to another's messages and slots, and to its own message's buttons."""

from __future__ import annotations

import attrs
import pytest

from triobot import Bot, Buttons, Chat, Key, Media, Message
from triobot.errors import LocalProtocolError
from triobot.filters import message, text
from triobot.testing import drive
from triobot.wire.content import Audio, File, Image, Video, Voice

VISITS = Key("visits of an address", int, default=0)


async def test_a_slot_is_emptied_from_elsewhere(autojump_clock: object) -> None:
    """By a conversation, also when a crash comes right after it, and by the program."""
    bot = Bot()

    @bot.conversation(text("count"))
    async def count(chat: Chat) -> None:
        chat.data[VISITS] += 1
        await chat.send(f"{chat.data[VISITS]}")

    @bot.conversation(text("clear"))
    async def clear(chat: Chat) -> None:
        await chat.to(chat.id).clear(VISITS)
        await chat.ask("Cleared?")
        await chat.send(f"{VISITS in chat.data}")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("count")
        await ali.sees("1")
        await ali.says("clear")
        await ali.sees("Cleared?")
        await world.crashes()
        await ali.says("yes")
        await ali.sees("False")
        await bot.to(ali.chat_id).set(VISITS, 7)
        await bot.to(ali.chat_id).clear(VISITS)
        assert await bot.to(ali.chat_id).get(VISITS) == 0


async def test_buttons_change_and_the_words_stay(autojump_clock: object) -> None:
    bot = Bot()

    @bot.conversation
    async def change(chat: Chat) -> None:
        sent = await chat.send("Words.", buttons=Buttons({"a": "A"}))
        await chat.edit(sent, buttons=Buttons({"b": "B"}))
        await chat.send("Done.")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Done.")
        await ali.sees_buttons("B")
        assert "Words. <B>" in await world.transcript()


async def test_any_media_is_one_filter(autojump_clock: object) -> None:
    bot = Bot()

    @bot.conversation(message(Media))
    async def again(chat: Chat[Message[Image | Video | Audio | Voice | File]]) -> None:
        await chat.send(attrs.evolve(chat.event.content, caption="again"))

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says(Voice.from_bytes(b"voice", "a.ogg"))
        await ali.sees(Voice)
        await ali.says("no media")
        await ali.sees_nothing(within=5)


async def test_an_audience_is_chats(autojump_clock: object) -> None:
    bot = Bot()

    @bot.conversation
    async def hello(chat: Chat) -> None: ...

    async with drive(bot):
        broadcast = bot.broadcast("one")
        with pytest.raises(LocalProtocolError, match="to: must be chat ids"):
            await broadcast.start("x", 13601)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        with pytest.raises(LocalProtocolError, match="content: must be text"):
            await broadcast.start(5, [13601])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
