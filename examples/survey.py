"""A survey with branches and a way back, which survives long pauses; the answers make a table."""

import csv
import io
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import attrs

from triobot import NO_KEYBOARD, Bot, Chat, File, Key, Keyboard
from triobot.filters import by, command, text

OWNER = 1001  # the id of the person who may export the answers
PATIENCE = 24 * 3600.0  # seconds

bot = Bot()


@attrs.frozen
class Answers:
    stars: int = 0
    complaint: str = ""
    city: str = ""


ANSWERS = Key("answers", Answers)

Page: TypeAlias = Callable[[Chat, Answers], Awaitable[Answers]]


async def rate(chat: Chat, answers: Answers) -> Answers:
    return attrs.evolve(answers, stars=await chat.choose("How was it?", {n: "★" * n for n in range(1, 6)}))


async def complain(chat: Chat, answers: Answers) -> Answers:
    return attrs.evolve(answers, complaint=await chat.ask("What went wrong?"))


async def locate(chat: Chat, answers: Answers) -> Answers:
    return attrs.evolve(answers, city=await chat.ask("Where do you live?"))


def pages(answers: Answers) -> Sequence[Page]:
    """Return the pages for these answers. A branch is another list; "back" returns to the page before."""
    return [rate, complain, locate] if 0 < answers.stars < 3 else [rate, locate]


@bot.conversation
async def survey(chat: Chat) -> None:
    answers, page = Answers(), 0
    await chat.send("Three questions at most.", keyboard=Keyboard({"back": "« Back"}, once=False))
    while page < len(pages(answers)):
        # Two blocks in one line: a timeout, and the word "back", which ends any question.
        with chat.move_on_after(PATIENCE) as lost, chat.move_on_when(text("back")) as back:
            answers = await pages(answers)[page](chat, answers)
        if lost.cancelled_caught:
            await chat.send("Still there? We go on where you stopped.")
        elif back.cancelled_caught:
            page = max(0, page - 1)
        else:
            page += 1
    chat.data[ANSWERS] = answers
    await chat.send("Thank you!", keyboard=NO_KEYBOARD)


@bot.aside(command("export") & by(OWNER))
async def export(chat: Chat) -> None:
    await chat.send(File.from_bytes(await chat.step(table), "answers.csv"))


async def table() -> bytes:
    written = io.StringIO()
    rows = csv.writer(written)
    rows.writerow(field.name for field in attrs.fields(Answers))
    async for _, answers in bot.each(ANSWERS):
        rows.writerow(attrs.astuple(answers))
    return written.getvalue().encode()


if __name__ == "__main__":
    bot.run()
