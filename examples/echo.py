"""Say back whatever is said: text, pictures, voices, places."""

from triobot import Bot, Chat, Message
from triobot.filters import message

bot = Bot()


@bot.conversation(message())
async def echo(chat: Chat[Message]) -> None:
    async with chat.typing():
        await chat.send("You said:")
    await chat.send(chat.event.content)


if __name__ == "__main__":
    bot.run()
