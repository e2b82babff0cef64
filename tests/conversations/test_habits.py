"""What reading a route's source finds: each line that can't work, what it does, and what to write."""

# ruff: noqa: SIM105, DTZ005, DTZ011 - these mistakes are what is looked for

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import date, datetime
from random import choice as pick
from secrets import token_hex
from time import time as clock

import pytest
import trio

from triobot import Bot, Chat, ChatRef, Key
from triobot.studio.habits import habits
from triobot.testing import drive

Handler = Callable[..., Awaitable[object]]
NAME = Key("habits-name", str)


async def forgets(chat: Chat) -> None:
    chat.send("lost")
    await chat.send("said")
    chat.open_event()


async def keeps_coroutines(chat: Chat) -> object:
    name = chat.ask("Name?")
    await chat.send(f"Hi {name}, {chat.ask('More?')}")
    await chat.send(str(chat.ask("Name?")))
    if chat.choose("Sure?", {True: "Yes"}) and name:
        print([chat.ask("Who?") for _ in range(2)], {"x": chat.ask("Who?")})
    size: object = chat.ask("Size?")
    if other := chat.ask("Other?"):
        print(size, other)
    first = chat.ask("First?").strip()  # type: ignore[attr-defined]

    async def branch() -> None:
        chat.send(first)

    await branch()
    chat.to(7).send("x")
    chat.shared.set(NAME, "x")
    return chat.ask("Last?")


async def helped(chat: Chat) -> None:
    await helper(chat, 3)
    await helper(chat, 4)


async def helper(talk: Chat, number: int) -> None:
    talk.ask("How many?")


async def keeps_by_other_names(chat: Chat) -> None:
    other = chat.to(7)
    name = other.get(NAME)
    own = ask_size("pizza", talk=chat)
    await chat.send(f"{name} {own} {await ask_size('cake', chat)}")
    del own


async def ask_size(what: str, talk: Chat) -> object:
    words = talk
    return words.ask(what)


async def swallows(chat: Chat) -> None:
    try:
        await chat.ask("Who?")
    except:  # noqa: E722
        pass


async def swallows_by_name(chat: Chat) -> None:
    with contextlib.nullcontext():
        try:
            await chat.ask("Who?")
        except ValueError:
            pass
        except (KeyError, BaseException):
            await chat.send("No.")


async def cut(chat: Chat) -> None:
    with trio.move_on_after(5) as scope, contextlib.nullcontext():
        await chat.ask("Who?")
    del scope


async def blocks(chat: Chat) -> None:
    time.sleep(1)


async def awaits_asyncio(chat: Chat) -> None:
    await asyncio.sleep(1)
    await asyncio.gather(other_loop())


async def other_loop() -> None:
    await asyncio.sleep(1)


async def differs(chat: Chat) -> None:
    await chat.send(f"{datetime.now()} {date.today()}")
    await chat.send(f"{clock()}")
    await chat.send(uuid.uuid4().hex)
    await chat.send(pick(["a", "b"]))
    random.shuffle([1, 2])
    await chat.send(token_hex())
    await chat.send(f"{time.monotonic()}")


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (forgets, [(1, "chat.send()", "write await")]),
        (
            keeps_coroutines,
            [
                (1, "chat.ask()", "write await"),
                (2, "chat.ask()", "write await"),
                (3, "chat.ask()", "write await"),
                (4, "chat.choose()", "write await"),
                (5, "chat.ask()", "write await"),
                (5, "chat.ask()", "write await"),
                (6, "chat.ask()", "write await"),
                (7, "chat.ask()", "write await"),
                (9, "chat.ask()", "write await"),
                (12, "chat.send()", "write await"),
                (15, "chat.to(7).send()", "write await"),
                (16, "chat.shared.set()", "write await"),
                (17, "chat.ask()", "write await"),
            ],
        ),
        (helped, [(6, "talk.ask()", "write await")]),
        (
            keeps_by_other_names,
            [
                (2, "other.get()", "write await"),
                (3, "ask_size()", "write await"),
                (10, "words.ask()", "write await"),
            ],
        ),
        (swallows, [(3, "except", "except Exception")]),
        (swallows_by_name, [(6, "except (KeyError, BaseException)", "ends a block in time")]),
        (cut, [(1, "trio.move_on_after()", "use chat.move_on_after")]),
        (
            awaits_asyncio,
            [(1, "asyncio.sleep()", "page libraries"), (2, "asyncio.gather()", "page libraries")],
        ),
        (blocks, [(1, "time.sleep()", "use chat.sleep()")]),
        (
            differs,
            [
                (1, "datetime.now()", "use chat.now()"),
                (1, "date.today()", "use chat.now()"),
                (2, "clock()", "use chat.now()"),
                (3, "uuid.uuid4()", "use chat.uuid()"),
                (4, "pick()", "use chat.random()"),
                (5, "random.shuffle()", "use chat.random()"),
                (6, "token_hex()", "use a step"),
                (7, "time.monotonic()", "use chat.now()"),
            ],
        ),
    ],
)
def test_a_line_that_can_not_work(handler: Handler, expected: list[tuple[int, str, str]]) -> None:
    """Each is found once, however often the function is called."""
    found = list(habits([handler, handler], Chat, ChatRef))
    first = handler.__code__.co_firstlineno
    assert [(line, what) for line, what, _ in found] == [
        (f"{__file__}:{first + offset}", what) for offset, what, _ in expected
    ]
    assert all(says in wrong for (_, _, wrong), (_, _, says) in zip(found, expected, strict=True))


async def awaits(question: Awaitable[str], said: object) -> None:
    await question


async def right(chat: Chat) -> None:
    try:
        await chat.ask("Who?")
    except trio.Cancelled:
        raise
    except BaseException:
        pass
    try:
        len("no await")
    except BaseException:
        pass
    try:
        await chat.ask("Who?")
    except BaseException:
        await chat.send("Stopped.")
        raise
    with contextlib.suppress(ValueError), trio.CancelScope():
        await trio.lowlevel.checkpoint()

    async def measure() -> float:
        with trio.move_on_after(1):
            await trio.sleep(0)
        return time.time()

    later = chat.ask("Who?")
    await (chat.ask("Who?") if await later else chat.ask("Where?"))
    await (asked := chat.ask("When?"))
    await awaits(chat.ask("Why?"), asked)
    held = awaits(chat.ask("How?"), asked)
    await held
    contextlib.closing(awaits(chat.ask("Which?"), asked))
    await chat.shared.set(NAME, "x")

    async def on_asyncio() -> None:
        await trio.to_thread.run_sync(lambda: asyncio.run(other_loop()))

    await chat.step(measure)
    await chat.step(on_asyncio)
    await chat.step(lambda: trio.to_thread.run_sync(time.time))
    random.Random(7).random()
    chat.random()
    chat.drain()


def plain(chat: Chat) -> None:
    chat.send("no coroutine")


def test_what_works_is_not_told_of() -> None:
    """Nor what is no coroutine, has no source or is no author's, nor what a step does."""
    sourceless: dict[str, Handler] = {}
    exec("async def talk(chat):\n    chat.send('x')\n", sourceless)
    assert not list(habits([right, plain, sourceless["talk"], Chat.send], Chat, ChatRef))


async def test_a_driven_bot_is_read_when_it_starts(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Before anybody has come to the line."""
    bot = Bot()
    bot.conversation(blocks)
    async with drive(bot):
        pass
    (told,) = [record for record in caplog.records if record.name == "triobot.development"]
    assert told.levelno == logging.WARNING
    assert told.getMessage().endswith(
        f":{blocks.__code__.co_firstlineno + 1}: time.sleep() makes every chat wait: use chat.sleep()"
    )
