"""A quiz for a group: everybody presses the same buttons, once for each question; fast answers score more."""

from collections import Counter

import attrs

from triobot import Bot, Buttons, Chat
from triobot.filters import command

EACH = 20.0  # seconds

bot = Bot()


@attrs.frozen
class Question:
    text: str
    options: tuple[str, ...]
    right: str


QUESTIONS = (
    Question("Which river is the longest?", ("Nile", "Karun", "Danube"), "Nile"),
    Question("How many sides has a cube?", ("Four", "Six", "Eight"), "Six"),
)


async def ask_all(chat: Chat, question: Question, scores: Counter[str]) -> None:
    # Buttons of `choose` take one answer; these buttons take an answer from everybody.
    buttons = Buttons({option: option for option in question.options}, columns=3)
    asked = await chat.send(question.text, buttons=buttons)
    answered: set[int] = set()
    with chat.move_on_after(EACH):
        while True:
            press = await chat.receive(buttons.pressed(asked))
            if press.sender is None or press.sender.id in answered:
                await chat.answer("Once is enough.")
                continue
            answered.add(press.sender.id)
            if press.value == question.right:
                # Three points if this is the first answer, two if it is the second, else one.
                scores[press.sender.name] += max(1, 4 - len(answered))
            await chat.answer(f"{press.value} it is.")
    await chat.edit(asked, f"{question.text} {question.right}!")


@bot.conversation(command("quiz"))
async def quiz(chat: Chat) -> None:
    scores: Counter[str] = Counter()
    for question in QUESTIONS:
        await ask_all(chat, question, scores)
    best = [f"{name}: {score}" for name, score in scores.most_common()]
    await chat.send("\n".join(best or ["Nobody knew."]))


@bot.interrupt(command("stop"))
async def stop(chat: Chat) -> None:
    await chat.send("No more questions." if chat.interrupted else "There is no quiz to stop.")


if __name__ == "__main__":
    bot.run()
