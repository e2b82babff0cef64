"""A support desk: a question goes to all operators, the first one takes it, and they talk through the bot."""

import attrs

from triobot import Bot, Buttons, Chat, ChatId, Command, Key, Press, Router
from triobot.filters import command, join, leave, message, pressed, signal, when

STAFF: set[int] = {1001, 1002}  # the ids of the people who may be operators
ON_DUTY = Key("on_duty", bool, default=False)

bot = Bot()
staff = Router(when=when(lambda event: event.sender is not None and event.sender.id in STAFF))


@attrs.frozen
class Take:
    """Value of an operator's button: the customer who asked. The button works for ever."""

    customer: ChatId


@attrs.frozen
class Taken:
    """Signal to the customer's chat: this operator takes the question."""

    operator: ChatId


@attrs.frozen
class Yours:
    """Signal to the operator's chat: the question of this customer is yours."""

    customer: ChatId


@attrs.frozen
class Over:
    """Signal to the other chat: the talk was ended."""


async def talk(chat: Chat, other: ChatId) -> None:
    """Send each message on to the other chat, until one of both ends the talk."""
    end = chat.move_on_when(command("end") | signal(Over))
    try:
        with end:
            while True:
                said = await chat.receive(message())
                await chat.to(other).send(said.content)
    finally:
        # This cleanup also runs when the person leaves. A cleanup that sends something needs a shield.
        if not isinstance(end.event, Over):
            with chat.shield():
                await chat.to(other).signal(Over())
    await chat.send("The talk is over.")


# --- the customer's chat


@bot.conversation
async def ask(chat: Chat) -> None:
    question = await chat.ask("How can we help?")
    for operator in await chat.step(on_duty):
        await chat.to(operator).send(question, buttons=Buttons({Take(chat.id): "Take"}))
    taken = await chat.receive(signal(Taken), otherwise="Somebody will be here soon.")
    await chat.to(taken.operator).signal(Yours(chat.id))
    await chat.send("Here we are. /end ends the talk.")
    async with chat.open_nursery() as nursery:
        nursery.start_soon(refuse_others, chat, taken.operator)
        await talk(chat, taken.operator)
        nursery.cancel()


async def refuse_others(chat: Chat, first: ChatId) -> None:
    """Refuse later operators. Only the customer's chat decides who was first, so there is no race."""
    while True:
        late = await chat.receive(signal(Taken))
        if late.operator != first:
            await chat.to(late.operator).send("Somebody else was faster.")


@bot.conversation(signal(Taken))
async def gone(chat: Chat[Taken]) -> None:
    await chat.to(chat.event.operator).send("This one needs no help any more.")


async def on_duty() -> list[ChatId]:
    return [chat_id async for chat_id, ready in bot.each(ON_DUTY) if ready]


# --- an operator's chat


@staff.aside(pressed(Take))
async def take(chat: Chat[Press[Take]]) -> None:
    await chat.to(chat.event.value.customer).signal(Taken(chat.id))


@staff.aside(command("on", "off"))
async def duty(chat: Chat[Command]) -> None:
    chat.data[ON_DUTY] = chat.event.name == "on"
    await chat.send(f"You are {chat.event.name} duty.")


@staff.aside(leave())
async def gone_home(chat: Chat) -> None:
    chat.data[ON_DUTY] = False


@staff.conversation(message() | join())
async def idle(chat: Chat) -> None:
    await chat.send("Questions come here. /on and /off say whether to you.")


@bot.conversation(signal(Yours))
async def serve(chat: Chat[Yours]) -> None:
    await chat.send("It is yours. /end ends the talk.")
    await talk(chat, chat.event.customer)


bot.include(staff)


if __name__ == "__main__":
    bot.run()
