"""Tasks that run one conversation after another: none sees anything of the one before."""

from __future__ import annotations

import gc
import weakref
from contextvars import ContextVar

import pytest
import trio

from triobot import Bot, Chat
from triobot.filters import command, text
from triobot.testing import drive


def note(tasks: list[trio.lowlevel.Task]) -> bool:
    """Note the current task, unless it only replays a journal; return whether it was noted."""
    task = trio.lowlevel.current_task()
    if task.name.startswith("replay of"):
        return False
    tasks.append(task)
    return True


SEEN: ContextVar[str] = ContextVar("SEEN", default="nothing")


async def test_a_task_runs_the_next_conversation_and_keeps_no_context(autojump_clock: object) -> None:
    """What a conversation sets in its context is gone with it; the task has the next one's name."""
    bot, tasks, found = Bot(), list[trio.lowlevel.Task](), list[str]()

    @bot.conversation(command("a"))
    async def first(chat: Chat) -> None:
        SEEN.set("what the first one set")
        note(tasks)
        await chat.send("a")

    @bot.conversation(command("b"))
    async def second(chat: Chat) -> None:
        if note(tasks):
            found.extend([SEEN.get(), trio.lowlevel.current_task().name])
        await chat.send("b")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("/a")
        await ali.sees("a")
        await ali.says("/b")
        await ali.sees("b")

    assert len(tasks) == 2
    assert tasks[0] is tasks[1]
    assert found[0] == "nothing"
    assert found[1].endswith("second")


async def test_a_task_at_rest_keeps_nothing_of_the_last_conversation(autojump_clock: object) -> None:
    """What that has set in its context goes with it, and not with the next one."""

    class Large:
        pass

    held: ContextVar[Large] = ContextVar("held")
    bot, left = Bot(), list[weakref.ref[Large]]()

    @bot.conversation(text())
    async def talk(chat: Chat) -> None:
        large = Large()
        held.set(large)
        left.append(weakref.ref(large))
        await chat.send("done")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("hi")
        await ali.sees("done")
        await trio.sleep(1)
        gc.collect()
        assert left
        assert [one() for one in left] == [None for _ in left]


async def test_what_was_cancelled_runs_nothing_more(autojump_clock: object) -> None:
    """An interrupt cancels the task's scope, so that the next conversation gets another task."""
    bot, tasks = Bot(), list[trio.lowlevel.Task]()

    @bot.conversation(text())
    async def talk(chat: Chat) -> None:
        note(tasks)
        await chat.ask("Go on?")
        await chat.send("done")

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("hi")
        await ali.sees("Go on?")
        await ali.says("/cancel")
        await ali.sees("Cancelled.")
        await ali.says("again")
        await ali.sees("Go on?")
        await ali.says("yes")
        await ali.sees("done")

    assert len(tasks) == 2
    assert tasks[0] is not tasks[1]


async def test_a_scope_that_is_left_open_fails_its_own_conversation(autojump_clock: object) -> None:
    """The author hears of it, and the next conversation has a task without it."""
    bot = Bot()

    @bot.conversation(command("open"))
    async def leaves_open(chat: Chat) -> None:
        await chat.send("open")
        trio.CancelScope().__enter__()

    @bot.conversation(text())
    async def echo(chat: Chat[object]) -> None:
        await chat.send("fine")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("/open")
        await ali.sees("open")
        await ali.sees("Something went wrong here. Please start again.")
        world.takes_alarm("conversation_crashed")
        for _ in range(3):
            await ali.says("hi")
            await ali.sees("fine")


@pytest.mark.slow
async def test_more_may_end_at_once_than_tasks_rest(autojump_clock: object) -> None:
    """Hundreds of conversations at once each have a task; what has ended serves the next ones."""
    bot, at_once, most = Bot(), set[trio.lowlevel.Task](), 0
    go = trio.Event()

    @bot.conversation(text())
    async def talk(chat: Chat) -> None:
        nonlocal most
        task = trio.lowlevel.current_task()
        at_once.add(task)
        most = max(most, len(at_once))
        await go.wait()
        at_once.discard(task)
        await chat.send("done")

    async with drive(bot) as world:
        users = [world.user(f"User {number}") for number in range(100)]
        for user in users:
            await user.joins()
            await user.says("hi")
        await world.waits(seconds=1)
        go.set()
        for user in users:
            await user.sees("done")
        assert most == 100
        for user in users[:3]:
            await user.says("again")
            await user.sees("done")
