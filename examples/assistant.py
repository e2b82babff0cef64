"""A language model that answers slowly: its answer grows in one message.

A button or the next question interrupts it, and it goes on from what the user has seen by then.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import trio

from triobot import Bot, Buttons, Chat, Key, Message, Room
from triobot.filters import command, text

bot = Bot()
STOP = Buttons({"stop": "Stop"})
KEEP, QUOTA = 20, 50
log = logging.getLogger("assistant")


@dataclass(frozen=True)
class Line:
    role: str
    text: str


HISTORY = Key("history", tuple[Line, ...], default=())
ASKED = Key("asked", int, default=0)  # a person's, over all chats


async def answer(lines: tuple[Line, ...]) -> AsyncIterator[str]:
    """Stands for an HTTP client that streams."""
    for n in range(20):
        await trio.sleep(0.25)
        yield f"word{n} of {len(lines)} "


async def stream(lines: tuple[Line, ...], show: Callable[[str], None]) -> None:
    so_far = ""
    async for piece in answer(lines):
        show(so_far := so_far + piece)


@bot.around
async def logged(room: Room, call: Callable[[], Awaitable[None]]) -> None:
    """Times every talk, in weeks if need be: `now` is the turn's time, before a restart and after it."""
    began = room.now()
    if not room.replaying:
        log.info("%s began", room.route)
    await call()
    log.info("%s took %s", room.route, room.now() - began)


@bot.background
async def hello() -> None:
    log.info("the bot is up")


@bot.interrupt(command("new"))
async def new(chat: Chat) -> None:
    chat.data[HISTORY] = ()
    await chat.send("A new talk. What is it?")


@bot.conversation(text())
async def talk(chat: Chat[Message[str]]) -> None:
    said: Message[str] | None = chat.event
    for _ in range(50):
        if said is None:
            said = await chat.receive(text())
        if said.sender and await chat.person(said.sender.id).update(ASKED, lambda asked: asked + 1) > QUOTA:
            await chat.send("That was enough for today.")
            return
        lines = (*chat.data[HISTORY], Line("user", said.content))
        async with chat.typing(), chat.live("…", buttons=STOP) as live:
            with chat.move_on_when(STOP.pressed(live.sent) | text()) as stopped:
                await chat.step(stream, lines, live.show)
        # What the user has seen, to the end or to where it was cut.
        chat.data[HISTORY] = (*lines, Line("bot", live.text))[-KEEP:]
        said = stopped.event if isinstance(stopped.event, Message) else None
    await chat.continue_as(talk)


if __name__ == "__main__":
    bot.run()
