"""A cake shop that shows what it has."""

from triobot import Bot, Chat

CAKES = {"honey": "Honey cake", "lemon": "Lemon cake"}

bot = Bot()


@bot.conversation
async def order(chat: Chat) -> None:
    name = await chat.ask("Welcome! What is your name?")
    cake = await chat.choose("Which cake?", CAKES)
    await chat.send(f"{CAKES[cake]} for {name}.")
