"""triobot: an echo by a new conversation for each message, for any server; set by TRIOBOT_* variables."""

from triobot import Bot, Chat

bot = Bot()


@bot.conversation
async def echo(chat: Chat) -> None:
    await chat.send(chat.event.content)
