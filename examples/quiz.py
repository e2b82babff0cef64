"""A quiz: buttons, and a time limit for each question and for the whole."""

import attrs

from triobot import Bot, Chat
from triobot.filters import command

EACH, WHOLE = 20.0, 60.0  # seconds

bot = Bot()


@attrs.frozen
class Question:
    text: str
    options: tuple[str, ...]
    right: str


QUESTIONS = (
    Question("Which planet is the largest?", ("Mars", "Jupiter", "Saturn"), "Jupiter"),
    Question("How many strings has a tar?", ("Four", "Six", "Eight"), "Six"),
    Question("Which one is not a fruit?", ("Tomato", "Pumpkin", "Potato"), "Potato"),
)


@bot.conversation
async def quiz(chat: Chat) -> None:
    score = 0
    with chat.move_on_after(WHOLE) as whole:
        for question in QUESTIONS:
            # A timeout is a block. When it ends, so does whatever is open in it: here the question, and
            # with that its buttons.
            with chat.move_on_after(EACH) as limit:
                answer = await chat.choose(question.text, {option: option for option in question.options})
                if answer == question.right:
                    score += 1
                    await chat.answer("Right!")
                else:
                    await chat.answer(f"No: {question.right}.", alert=True)
            if limit.cancelled_caught:
                await chat.send("Time is up for this one.")
    if whole.cancelled_caught:
        await chat.send("That was the last minute.")
    await chat.send(f"{score} of {len(QUESTIONS)} right.")


@bot.interrupt(command("stop"))
async def stop(chat: Chat) -> None:
    await chat.send("No more questions." if chat.interrupted else "There is no quiz to stop.")


if __name__ == "__main__":
    bot.run()
