"""Resources: open in order while the bot works, and replaceable for one run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import pytest
import trio

from tests.bot.rig import Chats, make_bot, say
from tests.loopback import PATIENCE
from tests.samples import EVERY
from triobot import Bot, Chat, Resource, provide
from triobot.errors import ConfigError


def shop(chats: Chats, log: list[str]) -> tuple[Bot, Resource[str], Resource[int]]:
    """A bot with two resources, the second made of the first."""
    bot = make_bot(chats)

    @bot.resource
    @asynccontextmanager
    async def name() -> AsyncGenerator[str]:
        log.append("open name")
        yield "pool"
        log.append("close name")

    @bot.resource
    @asynccontextmanager
    async def size() -> AsyncGenerator[int]:
        log.append(f"open size of {bot_name()}")
        yield 7
        log.append("close size")

    def bot_name() -> str:
        return name.name.rpartition(".")[2]

    @bot.conversation
    async def tell(chat: Chat) -> None:
        await chat.send(f"{chat.use(name)} {chat.use(size)}")
        try:
            await chat.sleep(1000)
        finally:
            log.append("conversation cut")

    return bot, name, size


async def test_they_are_open_while_conversations_live() -> None:
    chats, log = Chats(), list[str]()
    bot, name, size = shop(chats, log)
    async with bot.running() as intake:
        assert log == ["open name", "open size of name"]
        assert (bot.use(name), bot.use(size)) == ("pool", 7)
        await say(intake, 7, "hi")
        await chats.wait_for(7, "pool 7")
    assert log[2:] == ["conversation cut", "close size", "close name"]


async def test_a_value_takes_the_place_of_one_for_a_run() -> None:
    chats, log = Chats(), list[str]()
    bot, name, _ = shop(chats, log)
    async with bot.running(provide(name, "fake")) as intake:
        await say(intake, 7, "hi")
        await chats.wait_for(7, "fake 7")
    assert "open name" not in log
    async with trio.open_nursery() as nursery:
        await nursery.start(bot.serve, provide(name, "another"))
        assert bot.use(name) == "another"
        bot.stop()
    async with bot.running():
        assert bot.use(name) == "pool"


async def test_what_is_not_declared_or_not_running_is_refused() -> None:
    bot, name, _ = shop(Chats(), [])
    other, others, _ = shop(Chats(), [])
    with pytest.raises(ConfigError, match="running"):
        bot.use(name)
    async with bot.running():
        with pytest.raises(ConfigError, match="declared"):
            bot.use(others)
    with pytest.RaisesGroup(ConfigError, flatten_subgroups=True):
        async with other.running(provide(name, "x")):
            pytest.fail("it ran")


async def test_one_that_cannot_be_opened_starts_nothing() -> None:
    bot, _, _ = shop(Chats(), log := [])

    @bot.resource
    @asynccontextmanager
    async def broken() -> AsyncGenerator[None]:
        raise OSError("no database")
        yield

    with pytest.RaisesGroup(OSError, flatten_subgroups=True):
        async with bot.running():
            pytest.fail("it ran")
    assert log == ["open name", "open size of name"]


async def test_a_function_without_asynccontextmanager_is_named() -> None:
    """Everybody forgets it once."""

    async def pool() -> AsyncGenerator[str]:
        yield "pool"

    words = r"resource .* is no async context manager.*@asynccontextmanager"

    @contextmanager
    def other() -> Generator[str]:
        yield "pool"

    for wrong in (pool, other):
        bot = make_bot(Chats())
        bot.resource(wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        bot.conversation(hello)
        with pytest.RaisesGroup(pytest.RaisesExc(ConfigError, match=words), flatten_subgroups=True):
            async with bot.running():
                pytest.fail("it runs")


def test_what_is_no_resource_is_named() -> None:
    with pytest.raises(ConfigError, match=r"provide\(\) takes a resource"):
        provide(hello, 1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_bot_refuses_words_and_settings_that_are_none() -> None:
    for wrong in ({"texts": 5}, {"texts": "fa"}, {"settings": {"token": "x"}}):
        with pytest.raises(ConfigError, match="takes a"):
            Bot(**wrong)  # type: ignore[arg-type]  # pyright: ignore


def test_a_hook_is_async() -> None:
    """An alarm is not the moment to find out."""
    for wrong in (print, 5, lambda alarm: None):  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType]
        with pytest.raises(ConfigError, match="@on_alarm decorates an async function"):
            make_bot(Chats()).on_alarm(wrong)  # type: ignore[arg-type]  # pyright: ignore


async def hello(chat: Chat) -> None:
    await chat.send("hello")


FAILING = """\
import sys
from contextlib import asynccontextmanager
import trio
from triobot import Bot, Chat, Settings
from triobot.base.secrets import Secret

def run(steps):
    bot = Bot(settings=Settings(token=Secret("t"), store="memory:", port=0, base_url="http://127.0.0.1:9"))

    async def fail():
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        raise RuntimeError(f"failed after {steps}")

    @bot.resource
    @asynccontextmanager
    async def pool():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            yield None

    @bot.conversation
    async def hello(chat: Chat) -> None:
        await chat.send("hello")

    try:
        bot.run()
    except* RuntimeError as group:
        while isinstance(group, BaseExceptionGroup):
            (group,) = group.exceptions
        print(group, flush=True)

for steps in map(int, sys.argv[1:]):
    run(steps)
"""


@pytest.mark.slow
def test_a_background_task_may_fail_at_any_moment_of_the_start(long: bool) -> None:
    """The bot stops with the task's own error; a process of its own, since what hangs here is shielded."""
    moments = [*range(0, 60, 1 if long else EVERY), 1000]
    command = [sys.executable, "-c", FAILING, *map(str, moments)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ran.stdout.splitlines() == [f"failed after {steps}" for steps in moments]
