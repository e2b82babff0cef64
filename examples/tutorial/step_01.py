"""A cake shop that asks for a name."""

from triobot import Bot, Chat

bot = Bot()


@bot.conversation
async def order(chat: Chat) -> None:
    name = await chat.ask("Welcome! What is your name?")
    await chat.send(f"Hello, {name}.")
