"""A round in a group: everybody answers for themselves, at the same time, and in the same chat.

With `per="sender"` each member has a separate conversation, which gets only this member's messages. All these
conversations share `chat.data`.
"""

import attrs

from triobot import Bot, Chat, Command, Key
from triobot.filters import command

PATIENCE = 600.0  # seconds

bot = Bot()


@attrs.frozen
class Report:
    name: str
    done: str
    next: str


REPORTS = Key("reports", tuple[Report, ...], default=())


@bot.conversation(command("me"), per="sender")
async def report(chat: Chat[Command]) -> None:
    name = chat.sender.name if chat.sender is not None else "Somebody"
    with chat.move_on_after(PATIENCE) as late:
        done = await chat.ask(f"{name}, what did you do?")
        next = await chat.choose(f"{name}, and today?", {"same": "More of it", "new": "Something else"})
        if next == "new":
            next = await chat.ask(f"{name}, what is it?")
        others = tuple(other for other in chat.data[REPORTS] if other.name != name)
        chat.data[REPORTS] = (*others, Report(name, done, next))
        await chat.send(f"Thank you, {name}. That makes {len(others) + 1}.")
    if late.cancelled_caught:
        await chat.send(f"{name} has nothing to say today.")


@bot.aside(command("board"))
async def board(chat: Chat[Command]) -> None:
    lines = [f"{each.name}: {each.done}; {each.next}" for each in chat.data[REPORTS]]
    await chat.send("\n".join(lines) or "Nobody yet: /me begins.")


if __name__ == "__main__":
    bot.run()
