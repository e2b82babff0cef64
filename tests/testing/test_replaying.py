"""`Chat.replaying` and `Chat.route`: what code knows of itself, for logs."""

from __future__ import annotations

from triobot import Bot, Chat
from triobot.filters import text
from triobot.testing import drive


async def test_replaying_is_true_until_something_happens_that_is_new(autojump_clock: object) -> None:
    bot, told = Bot(), list[tuple[str, bool]]()

    def tell(chat: Chat, where: str) -> None:
        told.append((where, chat.replaying))

    @bot.conversation(name="talk")
    async def talk(chat: Chat) -> None:
        tell(chat, chat.route)
        await chat.receive(text("go on"))  # nothing is recorded before
        tell(chat, "first")
        await chat.send("Good.")
        await chat.receive(text("go on"))
        tell(chat, "second")

    # Replay-check runs the code again, too.
    async with drive(bot, replay_check=False) as world:
        sara = world.user("Sara")
        await sara.joins()
        await world.waits(seconds=5)
        assert told == [("talk", False)]
        await world.crashes()
        await sara.says("go on")
        await sara.sees("Good.")
        assert told[1:] == [("talk", True), ("first", False)]
        told.clear()
        await world.restarts()
        await sara.says("go on")
        await world.waits(seconds=5)
        assert told == [("talk", True), ("first", True), ("second", False)]
