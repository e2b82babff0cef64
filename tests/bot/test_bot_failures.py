"""`on_error` gets each unhandled error of a bot's code; logs and alarms don't contain the error's text."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

import attrs
import pytest
import trio
from sentry_sdk.utils import event_from_exception
from trio.testing import MockClock

from tests.bot.rig import Chats, make_bot, say
from tests.loopback import PATIENCE
from triobot import Bot, Chat, Event, Failure, Key, Message, Room, Settings
from triobot.conversations.routes.filters import Command
from triobot.conversations.running.lines import is_authors
from triobot.errors import ConfigError, StepError
from triobot.filters import Filter, command, kept, signal, text, when
from triobot.runtime.failures import HOOK_SECONDS
from triobot.testing import drive

PIN = "my PIN is 4321"


@dataclass(frozen=True)
class WrongPin(Exception):
    """Takes no attribute, and so no note."""

    pin: str


async def look_up(pin: str) -> int:
    return {"0000": 1}[pin]


def failing(chats: Chats) -> Bot:
    bot = make_bot(chats)

    @bot.conversation
    async def order(chat: Chat[Message]) -> None:
        await chat.step(look_up, await chat.ask("PIN?"))

    return bot


async def test_an_error_that_takes_no_note_is_told_and_ends_its_conversation_alone() -> None:
    chats, told = Chats(), list[Exception]()
    bot = make_bot(chats)

    async def refuses(pin: str) -> None:
        raise WrongPin(pin)

    @bot.conversation
    async def order(chat: Chat[Message]) -> None:
        await chat.step(refuses, await chat.ask("PIN?"), raises=WrongPin)

    @bot.on_error
    async def track(failure: Failure) -> None:
        told.append(failure.error)

    async with bot.running() as intake:
        for chat in (7, 8):
            await say(intake, chat, "hi")
            await chats.wait_for(chat, "PIN?")
            await say(intake, chat, PIN)
            await chats.wait_for(chat, "PIN?", "Something went wrong here. Please start again.")
        with trio.fail_after(PATIENCE):
            while len(told) < 2:
                await trio.sleep(0.01)
    assert all(isinstance(error, WrongPin) for error in told)
    assert all(error.__notes__[0].startswith("raised in triobot, at engine") for error in told)


async def test_the_hook_gets_the_error_itself_and_where_it_happened(caplog: pytest.LogCaptureFixture) -> None:
    """It may write to the chat; the step's own error is the cause; the log and the alarm hold no text."""
    caplog.set_level(logging.DEBUG)
    chats, told = Chats(), list[Failure]()
    bot = failing(chats)

    @bot.on_error
    async def track(failure: Failure) -> None:
        told.append(failure)
        await failure.place.send("Ask Sara.")

    async with bot.running() as intake:
        await say(intake, 7, "hi")
        await chats.wait_for(7, "PIN?")
        await say(intake, 7, PIN)
        await chats.wait_for(7, "PIN?", "Something went wrong here. Please start again.", "Ask Sara.")
    (failure,) = told
    assert isinstance(failure.error, StepError)
    assert isinstance(failure.error.__cause__, KeyError)
    assert failure.route.endswith(".order")
    assert failure.place.id == 7
    assert f"(reference {failure.reference})" in caplog.text
    assert PIN not in caplog.text + repr(failure)


@attrs.frozen
class Order:
    """What somebody orders, and where to."""

    where: str


async def refuse(said: str) -> None:
    raise ValueError("no")


def failing_in_every_way(chats: Chats) -> Bot:
    """A bot that fails with what a person said in the hands of the runtime, by a command for each way."""
    bot = make_bot(chats)

    @bot.room(signal(Order))
    async def kitchen(room: Room[Order]) -> None:
        raise ValueError("closed")

    async def deliver(chat: Chat[Command], order: Order | None = None) -> None:
        await refuse("that")

    @bot.conversation(command("plain"))
    async def plain(chat: Chat[Command]) -> None:
        raise ValueError("no")

    @bot.conversation(command("asked"))
    async def asked(chat: Chat[Command]) -> None:
        with chat.move_on_after(60):
            await chat.ask(chat.event.rest)
            raise ValueError("no")

    @bot.conversation(command("step"))
    async def step(chat: Chat[Command]) -> None:
        await chat.step(refuse, chat.event.rest)

    @bot.conversation(command("task"))
    async def task(chat: Chat[Command]) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(refuse, chat.event.rest)
            nursery.start_soon(chat.step, refuse, chat.event.rest)

    @bot.conversation(command("continued"))
    async def continued(chat: Chat[Command]) -> None:
        await chat.continue_as(deliver, Order(chat.event.rest))

    @bot.conversation(command("told"))
    async def told(chat: Chat[Command]) -> None:
        await chat.to(kitchen, 1).signal(Order(chat.event.rest))

    @bot.conversation(command("refused"))
    async def refused(chat: Chat[Command]) -> None:
        await chat.choose(chat.event.rest, {})

    @bot.aside(command("aside"))
    async def aside(chat: Chat[Command]) -> None:
        raise ValueError("no")

    @bot.interrupt(command("interrupt"))
    async def interrupt(chat: Chat[Command]) -> None:
        raise ValueError("no")

    return bot


WAYS = ("plain", "asked", "step", "task", "continued", "told", "refused", "aside", "interrupt")


async def test_an_error_tracker_gets_no_variables_of_the_runtime() -> None:
    """Sentry's SDK sends those of each frame: the author's are there, and no frame of ours."""
    chats, told = Chats(), dict[str, list[dict[str, Any]]]()
    bot = failing_in_every_way(chats)

    @bot.on_error
    async def track(failure: Failure) -> None:
        event, _ = event_from_exception(failure.error)
        raised = event["exception"]["values"]
        frames = [frame for one in raised for frame in one.get("stacktrace", {"frames": []})["frames"]]
        told[failure.route.rpartition(".")[2]] = frames

    async with bot.running() as intake:
        for chat, way in enumerate(WAYS):
            await say(intake, chat, f"/{way} {PIN}")
        await say(intake, WAYS.index("asked"), PIN)
        with trio.fail_after(PATIENCE):
            while len(told) < len(WAYS):
                await trio.sleep(0.01)

    assert set(told) == {*WAYS, "kitchen"} - {"told"}
    for way, frames in told.items():
        assert [frame["abs_path"] for frame in frames if not is_authors(frame["abs_path"])] == [], way
        assert frames, way
    assert PIN in json.dumps(told["step"])


async def test_a_filter_that_failed_is_told(caplog: pytest.LogCaptureFixture) -> None:
    chats, told = Chats(), list[str]()
    bot = make_bot(chats)

    def broken(event: Event) -> bool:
        raise ValueError(event)

    @bot.conversation(when(broken))
    async def order(chat: Chat) -> None:
        await chat.send("not here")

    @bot.on_error
    async def track(failure: Failure) -> None:
        told.append(f"{type(failure.error).__name__} {failure.reference!r}")

    async with bot.running() as intake:
        await say(intake, 7, "hi")
        await trio.testing.wait_all_tasks_blocked()
    assert told == ["ValueError ''"]


async def test_a_hook_that_fails_or_hangs_is_logged_and_the_next_failure_told(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    chats, told = Chats(), list[float]()
    bot = failing(chats)

    @bot.on_error
    async def track(failure: Failure) -> None:
        told.append(trio.current_time())
        if len(told) == 1:
            raise RuntimeError(PIN)
        if len(told) == 2:
            await trio.sleep_forever()

    async with bot.running() as intake:
        for chat in (1, 2, 3):
            await say(intake, chat, "hi")
            await chats.wait_for(chat, "PIN?")
        for chat in (1, 2, 3):
            await say(intake, chat, PIN)
        await trio.sleep(HOOK_SECONDS + 1)
    assert len(told) == 3
    assert told[2] - told[1] == pytest.approx(HOOK_SECONDS)
    assert "on_error failed: RuntimeError at " in caplog.text
    assert "on_error was cut after 5 s" in caplog.text
    assert PIN not in caplog.text


async def test_what_fails_last_is_told_before_the_bot_stops(autojump_clock: MockClock) -> None:
    """The hook has five seconds then, in all, and its resources are still open."""
    chats, told = Chats(), list[str]()
    bot = make_bot(chats)
    hanging = trio.Event()

    @bot.conversation
    async def order(chat: Chat[Message]) -> None:
        await chat.send("in")
        raise ValueError

    @bot.on_error
    async def track(failure: Failure) -> None:
        await trio.sleep(1)
        told.append(failure.route)
        await hanging.wait()

    async with bot.running() as intake:
        await say(intake, 7, "hi")
        await chats.wait_for(7, "in", "Something went wrong here. Please start again.")
        assert told == []
        began = trio.current_time()
    assert len(told) == 1
    assert trio.current_time() - began <= HOOK_SECONDS + PATIENCE


async def test_an_error_that_is_its_own_cause_is_told() -> None:
    chats, told = Chats(), list[Failure]()
    bot = make_bot(chats)

    @bot.conversation
    async def order(chat: Chat[Message]) -> None:
        error = ValueError()
        raise error from error

    @bot.on_error
    async def track(failure: Failure) -> None:
        told.append(failure)

    async with bot.running() as intake:
        await say(intake, 7, "hi")
        await chats.wait_for(7, "Something went wrong here. Please start again.")
        await trio.testing.wait_all_tasks_blocked()
    assert len(told) == 1


async def test_someone_who_leaves_is_no_failure() -> None:
    chats, told = Chats(), list[Failure]()
    bot = make_bot(chats)

    @bot.conversation
    async def order(chat: Chat[Message]) -> None:
        await chat.ask("PIN?")

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat[Message]) -> None:
        await chat.send("Cancelled.")

    @bot.on_error
    async def track(failure: Failure) -> None:
        told.append(failure)

    async with bot.running() as intake:
        await say(intake, 7, "hi")
        await chats.wait_for(7, "PIN?")
        await say(intake, 7, "/cancel")
        await chats.wait_for(7, "PIN?", "Cancelled.")
    assert told == []


async def test_a_traceback_is_in_the_log_where_that_is_wanted(caplog: pytest.LogCaptureFixture) -> None:
    chats = Chats()
    bot = failing(chats)
    settings: Settings = attrs.evolve(bot.settings(), log_tracebacks=True)
    async with bot.running(settings=settings) as intake:
        await say(intake, 7, "hi")
        await chats.wait_for(7, "PIN?")
        await say(intake, 7, PIN)
        await chats.wait_for(7, "PIN?", "Something went wrong here. Please start again.")
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], StepError)
    assert f"KeyError: {PIN!r}" in caplog.text


def raises(event: Event) -> bool:
    raise ValueError("no such size")


LEVEL = Key("level", int, default=1)


@pytest.mark.parametrize(
    "broken", [when(raises), text().where(raises), kept(LEVEL, lambda level: level / 0 > 1)]
)
async def test_a_filter_that_fails_fails_the_test(broken: Filter[object], autojump_clock: MockClock) -> None:
    """It is an alarm that the test doesn't take; raised from the error itself."""
    bot = Bot()

    @bot.conversation(broken)
    async def order(chat: Chat) -> None:
        await chat.send("not here")

    with pytest.raises(AssertionError, match=r"filter_failed: .*Error at .*\.py:\d+; it took") as caught:
        async with drive(bot) as world:
            ali = world.user("Ali")
            await ali.joins()
            await ali.says("hi")
            await world.waits(seconds=1)
    assert isinstance(caught.value.__cause__, ValueError | ZeroDivisionError)


async def test_a_developer_sees_the_error_of_the_hook_itself(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bot = Bot()

    @bot.conversation
    async def order(chat: Chat[Message]) -> None:
        raise KeyError("gone")

    @bot.on_error
    async def track(failure: Failure) -> None:
        raise RuntimeError("the tracker is not there")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await world.waits(seconds=1)
        world.takes_alarm("conversation_crashed")
    (record,) = [record for record in caplog.records if "on_error failed" in record.message]
    assert record.exc_info is not None
    assert "RuntimeError: the tracker is not there" in caplog.text


def test_what_is_no_hook_is_refused() -> None:
    bot = Bot()

    async def no_arguments() -> None: ...

    async def two_arguments(chat: object, error: object) -> None: ...

    for hook in (no_arguments, two_arguments):
        with pytest.raises(ConfigError, match="@on_error decorates a function of one argument, a Failure"):
            bot.on_error(hook)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="@on_alarm decorates a function of one argument, an Alarm"):
            bot.on_alarm(hook)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="@on_error decorates"):
        bot.on_error(lambda failure: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match="not 7"):
        bot.on_error(7)  # type: ignore[arg-type]

    @bot.on_error
    async def track(failure: Failure) -> None: ...

    with pytest.raises(ConfigError, match="has it already"):
        bot.on_error(track)
