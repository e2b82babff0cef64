"""Whatever an author's code raises ends that code: every place that calls such code, and every kind of error.

An author's code comes in by the functions of `DOORS`, which are read from the public classes: a new one fails
a test until a row says which place calls it. Modules that call such code don't catch `Exception` alone.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import logging
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import trio

import triobot
from triobot import Bot, Buttons, Chat, Failure, Key, Room, Texts, filters, recorded, widgets
from triobot.base.alarm_kinds import Alarm, AlarmKind
from triobot.emulator.person import Person
from triobot.errors import NonDurableCancelError, StepError
from triobot.filters import command, join, kept, matches, pressed, signal, text, when
from triobot.testing import DrivenWorld, drive

LOGGED: Final = re.compile(
    r"(filter|conversation test_authors_code\.).* (failed|is parked).*test_authors_code\.py:\d+"
)
APOLOGY: Final = Texts.english().apology
NAME: Final = Key("authors_code.name", str, default="nobody")


class Panic(BaseException):
    """What an extension in another language raises."""

    def __str__(self) -> str:
        raise Panic


class Nothing(Exception):
    """Is false, and more than that."""

    def __bool__(self) -> bool:
        raise Panic

    def __repr__(self) -> str:
        raise Panic


class Nameless(type):
    """Of a class that doesn't say what it is called."""

    def __getattribute__(cls, name: str) -> Any:
        if name in ("__name__", "__qualname__"):
            raise Panic
        return type.__getattribute__(cls, name)


class Unseen(Exception, metaclass=Nameless):
    """Can be asked for nothing."""

    @property
    def __cause__(self) -> None:  # type: ignore[override]
        raise SystemExit(0)


class Classless(BaseException):
    """Doesn't say of which class it is."""

    @property
    def __class__(self) -> Any:
        raise Panic


class Partless(ExceptionGroup[Exception]):
    """Doesn't say what it consists of."""

    @property
    def exceptions(self) -> Any:
        raise Panic


@dataclass(frozen=True)
class Frozen(Exception):
    """Takes no attribute."""


def caused() -> BaseException:
    error = RuntimeError()
    error.__context__ = Unseen()
    return error


async def carried() -> BaseException:
    """Return a cancellation that no scope asks for any more."""
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            return cancelled
    raise AssertionError


def shy(name: str, base: type[BaseException] = Exception) -> Callable[[BaseException], BaseException]:
    """Return what makes an error of which one attribute, or method, raises."""

    @property
    def refused(self: object) -> Any:
        raise Panic

    def refuses(*_: object) -> Any:
        raise Panic

    asked: Any = refuses if callable(getattr(base, name)) and name != "__class__" else refused
    return lambda _: type("Shy", (base,), {name: asked})()


SHY: Final = (
    *("__traceback__", "__str__", "__repr__", "__class__", "__cause__", "__context__"),
    *("__suppress_context__", "__dict__", "args", "with_traceback", "add_note", "__eq__", "__hash__"),
)
PLAIN: Final = ("a_plain_nursery", "a_plain_nursery_beside_a_step")
# In a nursery of Trio's own Trio's loop itself asks for these, and ends at what they raise.
ASKED_BY_TRIO: Final = ("__traceback__", "__repr__", "__class__", "with_traceback", "false", "classless")
KINDS: Final[dict[str, Callable[[BaseException], BaseException]]] = {
    "exit": lambda _: SystemExit(2),
    "exit well": lambda _: SystemExit(0),
    "generator": lambda _: GeneratorExit(),
    "asyncio": lambda _: asyncio.CancelledError(),
    "own": lambda _: Panic(),
    "interrupt": lambda _: KeyboardInterrupt(),
    "cancelled": lambda cancelled: cancelled,
    "group": lambda _: BaseExceptionGroup("two", [SystemExit(1), ValueError()]),
    "deep": lambda cancelled: BaseExceptionGroup("", [BaseExceptionGroup("", [cancelled, Panic()])]),
    "exception": lambda _: OSError("no", "number"),
    "false": lambda _: Nothing(),
    "unseen": lambda _: Unseen(),
    "caused": lambda _: caused(),
    "frozen": lambda _: Frozen(),
    "classless": lambda _: Classless(),
    "partless": lambda _: Partless("one", [ValueError()]),
}


def kinds_for(place: str) -> Mapping[str, Callable[[BaseException], BaseException]]:
    """Return all kinds; where a place stands for many, also those of which one attribute raises."""
    shown = {name: shy(name) for name in SHY}
    if place in PLAIN:
        return {name: made for name, made in (KINDS | shown).items() if name not in ASKED_BY_TRIO}
    if place not in ("a_conversation", "an_aside", "a_step", "a_job", "a_room", "the_hook_of_alarms"):
        return KINDS
    wild = {f"wild {name}": shy(name, BaseException) for name in SHY}
    return KINDS | shown | wild


class Trap:
    """Raises, when it is armed, what it is armed with: the piece of an author's code that fails."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.sprung = 0

    def springs(self, *_: object) -> None:
        if self.error is not None:
            self.sprung += 1
            raise self.error


TRAP: Final = Trap()


@recorded(name="authors_code.Order")
@attrs.frozen
class Order:
    size: str = attrs.field(default="small", validator=TRAP.springs)


@attrs.frozen
class Told:
    words: str = "?"


@attrs.frozen
class Press:
    value: str = attrs.field(validator=TRAP.springs)


def springs(*_: object) -> bool:
    TRAP.springs()
    return True


# --- the places


Declare = Callable[[Bot], None]


@attrs.frozen
class Place:
    """A place that calls an author's code.

    Attributes:
        declare: makes the bot's route that is there, begun by "go".
        hears: what the person reads; empty for nothing.
        rings: the alarm that is raised, if one is.
        says: what the person says once the trap is armed; None for nothing.
    """

    declare: Declare
    hears: str = APOLOGY
    rings: AlarmKind | None = "conversation_crashed"
    says: str | None = "go on"


PLACES: Final[dict[str, Place]] = {}


def place(
    *,
    hears: str = APOLOGY,
    rings: AlarmKind | None = "conversation_crashed",
    says: str | None = "go on",
) -> Callable[[Declare], Declare]:
    def take(declare: Declare) -> Declare:
        PLACES[declare.__name__] = Place(declare, hears, rings, says)
        return declare

    return take


def talks(code: Callable[[Chat], Awaitable[object]]) -> Declare:
    """Declare a conversation that asks, and then runs this."""

    def declare(bot: Bot) -> None:
        @bot.conversation(text("go"))
        async def talk(chat: Chat) -> None:
            await chat.ask("Go on?")
            await code(chat)
            await chat.send("It went on.")

    return declare


@place()
def a_conversation(bot: Bot) -> None:
    async def code(chat: Chat) -> None:
        TRAP.springs()

    talks(code)(bot)


@place()
def a_successor(bot: Bot) -> None:
    @bot.aside(text("never"))
    async def second(chat: Chat[Any]) -> None:
        TRAP.springs()

    async def code(chat: Chat) -> None:
        await chat.continue_as(second)

    talks(code)(bot)


@place()
def an_aside(bot: Bot) -> None:
    @bot.aside(text("go"))
    async def beside(chat: Chat[Any]) -> None:
        await chat.send("Go on?")
        await chat.receive(text("go on"))
        TRAP.springs()


@place()
def an_interrupt(bot: Bot) -> None:
    @bot.interrupt(text("go"))
    async def instead(chat: Chat[Any]) -> None:
        await chat.ask("Go on?")
        TRAP.springs()


@place()
def a_child(bot: Bot) -> None:
    async def child() -> None:
        TRAP.springs()

    async def code(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(child)
            nursery.start_soon(chat.sleep, 60)

    talks(code)(bot)


async def works() -> None:
    TRAP.springs()


@place()
def a_plain_nursery(bot: Bot) -> None:
    async def child() -> None:
        TRAP.springs()

    async def work() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)

    async def code(chat: Chat) -> None:
        await chat.step(work)

    talks(code)(bot)


@place()
def a_plain_nursery_beside_a_step(bot: Bot) -> None:
    async def child() -> None:
        await trio.sleep(0)
        TRAP.springs()

    async def code(chat: Chat) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)

    talks(code)(bot)


@place()
def a_step(bot: Bot) -> None:
    async def code(chat: Chat) -> None:
        await chat.step(works)

    talks(code)(bot)


@place(hears="It went on.", rings=None)
def a_step_whose_error_is_caught(bot: Bot) -> None:
    async def code(chat: Chat) -> None:
        with suppress(StepError, NonDurableCancelError):
            await chat.step(trio.to_thread.run_sync, TRAP.springs)

    talks(code)(bot)


@place()
def a_parser(bot: Bot) -> None:
    @bot.conversation(text("go"))
    async def talk(chat: Chat) -> None:
        await chat.ask("Go on?", springs)


@place(says=None)
def a_form(bot: Bot) -> None:
    @bot.conversation(text("go"))
    async def talk(chat: Chat) -> None:
        await chat.send("Go on?")
        await chat.fill(Order, "Your order?")


@place()
def a_wait_s_filter(bot: Bot) -> None:
    @bot.conversation(text("go"))
    async def talk(chat: Chat) -> None:
        await chat.send("Go on?")
        await chat.receive(text().where(springs))


@place(hears="No.", rings="filter_failed")
def a_block_s_filter(bot: Bot) -> None:
    @bot.conversation(text("go"))
    async def talk(chat: Chat) -> None:
        await chat.send("Go on?")
        with chat.move_on_when(text().where(springs)):
            await chat.receive(text("go on"))
            await chat.send("No.")


@place(hears="No.", rings="filter_failed")
def a_route_s_filter(bot: Bot) -> None:
    bot.ignore(text("go on") & when(springs))

    @bot.conversation(text("go"))
    async def talk(chat: Chat) -> None:
        await chat.ask("Go on?")
        await chat.send("No.")


@place(hears="No.", rings="filter_failed")
def a_filter_of_what_is_kept(bot: Bot) -> None:
    @bot.interrupt(text("go on") & kept(NAME, springs))
    async def never(chat: Chat[Any]) -> None:
        await chat.send("Yes.")

    @bot.conversation(text("go"))
    async def talk(chat: Chat) -> None:
        await chat.ask("Go on?")
        await chat.send("No.")


@place(hears="No.", rings="filter_failed")
def a_class_that_matches(bot: Bot) -> None:
    @bot.interrupt(matches("go (?P<size>on)", Order))
    async def never(chat: Chat[Any]) -> None:
        await chat.send("Yes.")

    @bot.conversation(text("go"))
    async def talk(chat: Chat) -> None:
        await chat.ask("Go on?")
        await chat.send("No.")


@place(hears="No.", rings=None, says=None)
def a_key_of_buttons(bot: Bot) -> None:
    @bot.conversation(text("go"))
    async def talk(chat: Chat) -> None:
        await chat.send("Go on?", buttons=Buttons({Press("x"): "Press"}))
        with chat.move_on_after(5):
            await chat.receive(pressed(Press))
        await chat.send("No.")


@place()
def a_hook(bot: Bot) -> None:
    @bot.around
    async def around(room: Room[Any], call: Callable[[], Awaitable[None]]) -> None:
        await call()
        TRAP.springs()

    async def code(chat: Chat) -> None:
        await trio.lowlevel.checkpoint()

    talks(code)(bot)


@place()
def the_hook_of_errors(bot: Bot) -> None:
    @bot.on_error
    async def told(failure: Failure) -> None:
        TRAP.springs()

    async def code(chat: Chat) -> None:
        raise ValueError

    talks(code)(bot)


@place()
def the_hook_of_alarms(bot: Bot) -> None:
    @bot.on_alarm
    async def told(alarm: Alarm) -> None:
        TRAP.springs()

    async def code(chat: Chat) -> None:
        raise ValueError

    talks(code)(bot)


@place(hears="", rings="job_failed")
def a_job(bot: Bot) -> None:
    @bot.every(timedelta(minutes=1))
    async def job(room: Room[Any]) -> None:
        TRAP.springs()

    async def code(chat: Chat) -> None:
        await chat.sleep(90)
        await chat.receive(text("never"))

    talks(code)(bot)


@place(hears="It went on.")
def a_room(bot: Bot) -> None:
    @bot.room(signal(Told))
    async def room(room: Room[Told]) -> None:
        TRAP.springs()

    async def code(chat: Chat) -> None:
        await chat.to(room, chat.id).signal(Told())

    talks(code)(bot)


@place()
def a_resource(bot: Bot) -> None:
    @bot.resource
    @asynccontextmanager
    async def kitchen() -> AsyncGenerator[Trap]:
        yield TRAP

    async def code(chat: Chat) -> None:
        chat.use(kitchen).springs()

    talks(code)(bot)


@place()
def an_update(bot: Bot) -> None:
    def change(name: str) -> str:
        TRAP.springs()
        return name

    async def code(chat: Chat) -> None:
        await chat.shared.update(NAME, change)

    talks(code)(bot)


@place(hears="", rings="conversation_parked")
def a_value_that_is_upgraded(bot: Bot) -> None:
    old, new = Key("authors_code.old", int), Key("authors_code.old", str, upgrade=springs)

    @bot.conversation(text("go"))
    async def talk(chat: Chat) -> None:
        chat.data[old] = 1
        await chat.ask("Go on?")
        await chat.send(chat.data[new])


@place(hears=APOLOGY)
def the_bot_s_words(bot: Bot) -> None:
    def words(data: object) -> Texts:
        TRAP.springs()
        return Texts.english()

    bot._texts = words

    async def code(chat: Chat) -> None:
        raise ValueError

    talks(code)(bot)


@place()
def a_widget_s_function(bot: Bot) -> None:
    async def code(chat: Chat) -> None:
        today = date(2026, 1, 1)
        await widgets.calendar(chat, "Which day?", first=today, last=today + timedelta(1), free=springs)

    talks(code)(bot)


@place()
def an_audience(bot: Bot) -> None:
    async def everybody() -> AsyncGenerator[int]:
        TRAP.springs()
        yield 1

    async def code(chat: Chat) -> None:
        await bot.broadcast("news").start("Hello.", to=everybody())  # type: ignore[arg-type]

    async def step(chat: Chat) -> None:
        await chat.step(code, chat)

    talks(step)(bot)


# --- what happens there


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    TRAP.error, TRAP.sprung = None, 0
    yield
    TRAP.error = None


def of(declare: Declare) -> Bot:
    bot = Bot()
    declare(bot)

    @bot.conversation(join())
    async def hello(chat: Chat) -> None:
        await chat.send("Hello.")

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat[Any]) -> None:
        await chat.send("Cancelled.")

    return bot


async def others_are_served(world: DrivenWorld, name: str) -> None:
    sara = world.user(f"Sara {name}")
    await sara.joins()
    await sara.sees("Hello.")


async def happens(there: Place, ali: Person, world: DrivenWorld) -> None:
    """Do what the trap is waiting for."""
    if there.says is not None:
        await ali.says(there.says)
    elif there.hears == APOLOGY:
        await ali.submits({"size": "large"})
    else:
        await ali.presses("Press")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PLACES))
async def test_the_first_time(name: str, autojump_clock: object, caplog: pytest.LogCaptureFixture) -> None:
    there, cancelled = PLACES[name], await carried()
    caplog.set_level(logging.INFO)
    async with drive(of(there.declare), replay_check=False) as world:
        for kind, make in kinds_for(name).items():
            ali = world.user(kind)
            await ali.joins()
            await ali.sees("Hello.")
            await ali.says("go")
            await ali.sees("Go on?")
            TRAP.error, TRAP.sprung = make(cancelled), 0
            caplog.clear()
            await happens(there, ali, world)
            # A nursery that is being left takes each cancellation: that is Trio's rule.
            taken = name in (*PLAIN, "a_child") and kind == "cancelled"
            if there.hears:
                await ali.sees("It went on." if taken else there.hears, within=60)
            # An alarm that is told already is told again after an hour.
            await world.waits(seconds=4000 if name == "the_hook_of_alarms" else 70)
            sprung, TRAP.error = TRAP.sprung, None
            assert sprung, kind
            if there.rings is not None and not taken:
                # An alarm is raised once for a line, a log line each time.
                assert kind != "exit" or world.takes_alarm(there.rings)
                world.alarms[:] = [alarm for alarm in world.alarms if alarm.kind != there.rings]
                assert LOGGED.search(caplog.text), kind
            await others_are_served(world, kind)
        await world.restarts()
        await others_are_served(world, "again")
        await world.crashes()
        await others_are_served(world, "once more")
        assert not world.alarms


# --- in code that runs again, and in cleanup


async def in_line(chat: Chat) -> None:
    TRAP.springs()


async def in_a_child(chat: Chat) -> None:
    async def child() -> None:
        TRAP.springs()

    async with chat.open_nursery() as nursery:
        nursery.start_soon(child)


async def in_a_step(chat: Chat) -> None:
    await chat.step(works)


async def in_a_parser(chat: Chat) -> None:
    await chat.ask("Parsed?", springs)


RUNS_AGAIN: Final = [in_line, in_a_child, in_a_parser]


def passes_over(run: Callable[[Chat], Awaitable[None]], kind: str) -> bool:
    """Return whether the kind is what Trio's nursery takes as its own."""
    return run is in_a_child and kind == "cancelled"


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS_AGAIN)
async def test_where_it_went_on_before(
    run: Callable[[Chat], Awaitable[None]], autojump_clock: object
) -> None:
    """The code doesn't do what it did: the conversation is parked, and goes on once that is over."""

    def declare(bot: Bot) -> None:
        @bot.conversation(text("go"))
        async def talk(chat: Chat) -> None:
            await chat.ask("Go on?")
            await run(chat)
            await chat.ask("Again?")
            await chat.send("It went on.")

    cancelled = await carried()
    async with drive(of(declare), replay_check=False) as world:
        for kind, make in KINDS.items():
            ali = world.user(kind)
            await ali.joins()
            await ali.says("go")
            await ali.sees("Go on?")
            await ali.says("yes")
            if run is in_a_parser:
                await ali.sees("Parsed?")
                await ali.says("yes")
            await ali.sees("Again?")
            await world.waits(seconds=1)
            TRAP.error = make(cancelled)
            await world.crashes()
            await ali.says("again")
            await world.waits(seconds=10)
            await others_are_served(world, kind)
            if not passes_over(run, kind):
                assert TRAP.sprung
                world.alarms[:] = [alarm for alarm in world.alarms if alarm.kind != "conversation_parked"]
            TRAP.error = None
            await world.restarts()
            await ali.sees("It went on.", within=60)
            assert not world.alarms, kind


@pytest.mark.slow
@pytest.mark.parametrize("run", [*RUNS_AGAIN[:2], in_a_step])
async def test_what_a_kill_took_the_word_of_fails_again(
    run: Callable[[Chat], Awaitable[None]], autojump_clock: object
) -> None:
    """Killed where it fails, it fails after the next start, and is told then."""

    def declare(bot: Bot) -> None:
        @bot.conversation(text("go"))
        async def talk(chat: Chat) -> None:
            await chat.ask("Go on?")
            if TRAP.error is None:
                await trio.sleep_forever()  # the process dies in here
            await run(chat)

    cancelled = await carried()
    async with drive(of(declare), replay_check=False) as world:
        for kind, make in KINDS.items():
            if passes_over(run, kind):
                continue
            ali = world.user(kind)
            await ali.joins()
            await ali.says("go")
            await ali.sees("Go on?")
            await ali.says("yes")
            await world.waits(seconds=1)
            TRAP.error = make(cancelled)
            await world.crashes()
            await ali.sees(APOLOGY, within=60)
            TRAP.error = None
            await others_are_served(world, kind)
            await world.crashes()
            await others_are_served(world, f"{kind} again")
            world.alarms[:] = [alarm for alarm in world.alarms if alarm.kind != "conversation_crashed"]
            assert not world.alarms


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["interrupt", "stop", "crash", "deadline"])
@pytest.mark.parametrize("run", [in_line, in_a_child, in_a_step])
async def test_in_cleanup(run: Callable[[Chat], Awaitable[None]], ends: str, autojump_clock: object) -> None:
    def declare(bot: Bot) -> None:
        @bot.conversation(text("go"))
        async def talk(chat: Chat) -> None:
            try:
                with chat.move_on_after(100):
                    await chat.ask("Go on?")
            finally:
                with chat.shield():
                    await run(chat)

    cancelled = await carried()
    async with drive(of(declare), replay_check=False) as world:
        for kind, make in KINDS.items():
            ali = world.user(kind)
            await ali.joins()
            await ali.says("go")
            await ali.sees("Go on?")
            TRAP.error = make(cancelled)
            if ends == "interrupt":
                await ali.says("/cancel")
                await ali.sees("Cancelled.")
            elif ends == "stop":
                await world.restarts()
            elif ends == "crash":
                await world.crashes()
            else:
                await world.waits(seconds=101)
                assert passes_over(run, kind) or await ali.sees(APOLOGY)
            TRAP.error = None
            await others_are_served(world, kind)
            world.alarms[:] = [alarm for alarm in world.alarms if alarm.kind != "conversation_crashed"]
            assert not world.alarms
            await ali.says("/cancel")
            await ali.sees("Cancelled.")


# --- the doors

NO_CODE: Final = "takes no code, or only names what was declared"
FILTERS: Final = "a_route_s_filter, a_wait_s_filter, a_block_s_filter"
# Each function that is given code, a class or a filter: the places that call it, or why none does.
DOORS: Final[Mapping[str, str]] = {
    "Board.__init__": "made by the chat",
    "Board.choose": "a_key_of_buttons, a_wait_s_filter",
    "Bot.__init__": "the_bot_s_words; a transport: test_a_transport; a clock ends the process, with an error",
    "Bot.around": "a_hook",
    "Bot.aside": "an_aside",
    "Bot.background": "test_a_background_task",
    "Bot.conversation": "a_conversation",
    "Bot.every": "a_job",
    "Bot.ignore": "a_route_s_filter",
    "Bot.interrupt": "an_interrupt",
    "Bot.on_alarm": "the_hook_of_alarms",
    "Bot.on_error": "the_hook_of_errors",
    "Bot.resource": "a_resource, test_a_resource_that_can_t_be_opened",
    "Bot.room": "a_room",
    "Bot.serve": "a clock ends the process, with an error",
    "Bot.to": NO_CODE,
    "Bot.upload": NO_CODE,
    "Broadcast.start": "an_audience",
    "Buttons.__init__": "a_key_of_buttons",
    "Buttons.link": NO_CODE,
    "Buttons.pressed": "a_key_of_buttons",
    "CalendarSystem.__init__": "a_widget_s_function",
    "Chat.ask": "a_parser",
    "Chat.charge": NO_CODE,
    "Chat.choose": "a_key_of_buttons, a_wait_s_filter",
    "Chat.continue_as": "a_successor",
    "Chat.edit": "a_key_of_buttons",
    "Chat.fill": "a_form",
    "Chat.live": "a_key_of_buttons",
    "Chat.move_on_when": "a_block_s_filter",
    "Chat.receive": "a_wait_s_filter",
    "Chat.send": "a_key_of_buttons",
    "Chat.start": "a_conversation",
    "Chat.step": "a_step, a_step_whose_error_is_caught",
    "Chat.stop": NO_CODE,
    "Chat.to": NO_CODE,
    "ChatNursery.start_soon": "a_child",
    "ChatRef.edit": NO_CODE,
    "ChatRef.send": NO_CODE,
    "ChatRef.start": "a_conversation",
    "ChatRef.stop": NO_CODE,
    "ChatRef.update": "an_update",
    "Filter.__init__": FILTERS,
    "Filter.where": FILTERS,
    "Key.__init__": "a_value_that_is_upgraded",
    "Menu.__init__": "a_key_of_buttons",
    "Resource.__init__": "a_resource",
    "Retry.__init__": NO_CODE,
    "Room.continue_as": "a_successor",
    "Room.move_on_when": "a_block_s_filter",
    "Room.receive": "a_wait_s_filter",
    "Room.step": "a_step",
    "Room.to": NO_CODE,
    "RoomRef.update": "an_update",
    "Router.__init__": "a_route_s_filter",
    "Router.around": "a_hook",
    "Router.aside": "an_aside",
    "Router.conversation": "a_conversation",
    "Router.every": "a_job",
    "Router.ignore": "a_route_s_filter",
    "Router.interrupt": "an_interrupt",
    "Router.room": "a_room",
    "Scope.__init__": "made by the chat",
    "by": NO_CODE,
    "calendar": "a_widget_s_function",
    "command": NO_CODE,
    "date_time": "a_widget_s_function",
    "flooding": NO_CODE,
    "in_chat": NO_CODE,
    "join": NO_CODE,
    "kept": "a_filter_of_what_is_kept",
    "leave": NO_CODE,
    "matches": "a_class_that_matches",
    "message": NO_CODE,
    "paid": "a_wait_s_filter",
    "pressed": "a_key_of_buttons",
    "recorded": "a_value_that_is_upgraded",
    "signal": NO_CODE,
    "text": NO_CODE,
    "when": FILTERS,
}
CODE: Final = re.compile(
    r"Callable|type\[|Speech|OnError|OnAlarm|AsyncBaseTransport|WallClock|Audience|Buttons|Filter\["
    r"|Look|Handler|Around|BackgroundT|TypeForm|Declaration|Mapping\[K_co"
)
# What catches Exception alone where an author's code runs within: the others have been contained by then.
NARROW: Final = {
    "engine/core.py": 1,  # the rest is caught behind it
    "engine/run.py": 1,  # what our own host raises
    "conversations/charges/charging.py": 1,
    "conversations/workload.py": 1,
    "conversations/blocks.py": 1,  # what a step came to
    "conversations/questions/live.py": 1,  # what the platform says to an operation of our own
    "seams/resources.py": 1,  # what is contained already, and gets a note
    "base/authors.py": 1,
    "client/exchange.py": 1,
}


def doors() -> set[str]:
    """Return each function of the public modules that is given code, or that decorates it."""
    found: set[str] = set()
    for module in (triobot, filters, widgets):
        for name in getattr(module, "__all__", None) or [name for name in dir(module) if name[0] != "_"]:
            thing: object = getattr(module, name)
            functions: dict[str, object] = {}
            if inspect.isclass(thing):
                for cls in thing.__mro__:
                    if cls.__module__.startswith("triobot"):
                        own = [key for key in vars(cls) if key[0] != "_" or key == "__init__"]
                        functions |= {f"{name}.{key}": vars(cls)[key] for key in own}
            else:
                functions[name] = thing
            found |= {door for door, function in functions.items() if takes_code(function)}
    return found


def takes_code(function: object) -> bool:
    return inspect.isfunction(function) and any(
        CODE.search(str(kind)) for kind in function.__annotations__.values()
    )


def test_each_door_of_authors_code_has_a_place() -> None:
    assert doors() == set(DOORS)
    told = {name for names in DOORS.values() for name in re.findall(r"\w+", names) if name in PLACES}
    assert told >= PLACES.keys() - {"a_step_whose_error_is_caught", "a_child", *PLAIN}


def test_nobody_catches_exceptions_alone_where_authors_code_runs() -> None:
    house = Path(triobot.__file__).parent
    runs = [
        *(path for part in ("engine", "conversations", "widgets") for path in (house / part).rglob("*.py")),
        *(house / "base" / "authors.py", house / "client" / "exchange.py", house / "alarms" / "sink.py"),
        *(house / "seams" / name for name in ("values.py", "resources.py")),
        *(house / "runtime" / name for name in ("bot.py", "failures.py")),
    ]
    found = Counter[str]()
    for path in runs:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Name):
                found[str(path.relative_to(house))] += node.type.id == "Exception"
    assert +found == NARROW
