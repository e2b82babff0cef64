"""A moderator of groups: ignores floods, warns of forbidden words, and reports the third warning."""

from triobot import Bot, Chat, ChatId, Command, Key, Message, Router, SenderId
from triobot.filters import command, flooding, kept, message

bot = Bot()
bot.ignore(flooding(per_minute=20), say="Slowly, please: I read twenty messages a minute.")

MOST = 3
FORBIDDEN = Key("forbidden", list[str], default=[])  # a group's
OWNER = Key("owner", int, default=0)  # the person who forbade the first word
WARNINGS = Key("warnings", dict[int, int], default={})  # by person
HOME = Key("home", ChatId, default=ChatId(0))  # a person's: their own chat with the bot
watched = Router(when=kept(FORBIDDEN))


@bot.aside(command("start"))
async def introduce(chat: Chat) -> None:
    if chat.sender is not None:
        await chat.person(chat.sender.id).set(HOME, chat.id)
    await chat.send("Take me into your group, and write there: /forbid WORD WORD. I report to you here.")


async def is_owner(chat: Chat) -> bool:
    who = 0 if chat.sender is None else chat.sender.id
    chat.data[OWNER] = chat.data[OWNER] or who
    if chat.data[OWNER] == who:
        return True
    await chat.send("That is for whoever forbade the first word.")
    return False


@bot.aside(command("forbid"))
async def forbid(chat: Chat[Command]) -> None:
    if await is_owner(chat):
        chat.data[FORBIDDEN] = sorted(set(chat.event.rest.casefold().split()))
        await chat.send(f"Forbidden: {', '.join(chat.data[FORBIDDEN]) or 'nothing'}.")


@bot.aside(command("pardon"))
async def pardon(chat: Chat[Command]) -> None:
    if await is_owner(chat):
        warned = chat.data[WARNINGS]
        chat.data[WARNINGS] = {who: count for who, count in warned.items() if str(who) != chat.event.rest}
        await chat.send("Forgiven.")


@watched.aside(message(str))
async def watch(chat: Chat[Message[str]]) -> None:
    who, words = chat.sender, set(chat.event.content.casefold().split())
    if who is None or not words & set(chat.data[FORBIDDEN]):
        return
    count = chat.data[WARNINGS].get(who.id, 0) + 1
    chat.data[WARNINGS] = {**chat.data[WARNINGS], who.id: count}
    await chat.send(f"{who.name}, not these words, please. That is warning {count} of {MOST}.")
    home = await chat.person(SenderId(chat.data[OWNER])).get(HOME)
    if count == MOST and home:
        await chat.to(home).send(f"{who.name} was warned {MOST} times; in the group: /pardon {who.id}")


bot.include(watched)
