"""What the author's handle does, one operation at a time."""

from __future__ import annotations

from town import open_town

from triobot.conversations.chat import Chat
from triobot.conversations.routes import Router


async def test_a_message_starts_the_conversation_and_its_answer_is_sent() -> None:
    """Hello, town."""
    bot = Router()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        name = await chat.ask("Your name?")
        await chat.send(f"Hello, {name}.")

    async with open_town(bot) as town:
        await town.says("hi")
        assert town.sent() == ["Your name?"]
        await town.says("Ali")
        assert town.sent() == ["Your name?", "Hello, Ali."]
        assert town.left_over() == {}
        assert town.store.rows == {}
