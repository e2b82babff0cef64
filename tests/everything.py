"""A table of all calls that authors' code can make in a conversation; `missing` names the absent calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from datetime import UTC, date, datetime, time, timedelta
from inspect import iscoroutinefunction
from typing import Any, Final, TypeAlias, final

import attrs
import trio

import triobot.widgets
from triobot import (
    Bot,
    Broadcast,
    Buttons,
    Chat,
    ChatChannel,
    ChatEvent,
    ChatNursery,
    ChatRef,
    Key,
    Live,
    Paid,
    Room,
    RoomRef,
    Scope,
)
from triobot.conversations.chat_data import ChatData
from triobot.filters import paid, signal, text
from triobot.widgets import Menu

COUNT: Final = Key("everything-count", int, default=0)
CLASSES: Final = (
    *(Broadcast, Chat, ChatChannel, ChatData, ChatEvent, ChatNursery, ChatRef, Live, Room, RoomRef, Scope),
)
KEEP: Final = Buttons({"k": "Keep"})


@attrs.frozen
class Cake:
    """What is sold."""

    size: int = 1


@attrs.frozen
class Address:
    """What a form asks for."""

    street: str


@attrs.frozen
class News:
    """What is signalled."""

    number: int = 1


@final
@attrs.define
class Things:
    """What was made before an operation, and is handed to it."""

    chat: Chat[Any]
    sent: Any
    live: Live
    over: Live
    routes: Routes
    happened: ChatEvent = attrs.field(init=False)
    event: ChatEvent = attrs.field(init=False)
    full: ChatChannel[int] = attrs.field(init=False)
    filled: ChatChannel[int] = attrs.field(init=False)
    roomy: ChatChannel[int] = attrs.field(init=False)
    scope: Scope[None] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        chat = self.chat
        self.event, self.happened = chat.open_event(), chat.open_event()
        self.happened.set()
        self.full, self.roomy = chat.open_channel(int), chat.open_channel(int, 1_000)
        self.filled = chat.open_channel(int, 1)
        self.filled.send_nowait(1)
        self.scope = chat.cancel_scope()

    @property
    def there(self) -> ChatRef:
        return self.chat.to(self.chat.id)

    @property
    def room(self) -> RoomRef:
        return self.chat.to(self.routes.room, "one")


@final
class Routes:
    """What conversations can start, stop and become.

    Args:
        gives: gets the key of each payment.
    """

    def __init__(self, bot: Bot, gives: Callable[[str], Awaitable[None]] | None = None) -> None:
        @bot.aside
        async def beside(chat: Chat[Any], n: int = 0) -> None:
            await chat.sleep(1)

        @bot.aside(signal(News))
        async def hears(chat: Chat[Any]) -> None:
            await chat.sleep(1)

        @bot.room(signal(News))
        async def room(chat: Room[Any]) -> None:
            await chat.sleep(1)

        @bot.conversation(text("never begun"))
        async def other(chat: Chat[Any]) -> None:
            await chat.ask("Where am I?")

        @bot.aside(paid(Cake))
        async def bake(chat: Chat[Paid[Cake]]) -> None:
            await chat.step(gives or _forget, chat.event.key)

        @bot.resource
        @asynccontextmanager
        async def oven() -> AsyncGenerator[str]:
            yield "oven"

        self.beside, self.room, self.other, self.oven = beside, room, other, oven


async def _forget(key: str) -> None:
    await trio.lowlevel.checkpoint()


Act: TypeAlias = Callable[[Things], "Awaitable[object]"]


def plain(act: Callable[[Things], object]) -> Act:
    """Return what doesn't wait as what may."""

    async def acts(things: Things) -> object:
        return act(things)

    return acts


def block(opened: Callable[[Things], AbstractContextManager[object]], *, within: bool = True) -> Act:
    """Return what enters a block, and sends in it."""

    async def acts(things: Things) -> None:
        with opened(things):
            await things.chat.send("in it") if within else None

    return acts


def async_block(
    opened: Callable[[Things], AbstractAsyncContextManager[object]], *, within: bool = True
) -> Act:
    async def acts(things: Things) -> None:
        async with opened(things):
            await things.chat.send("in it") if within else None

    return acts


async def with_board(things: Things) -> object:
    with things.chat.board() as board:
        return await board.choose("Which?", {1: "One"})


async def with_child(things: Things) -> None:
    async with things.chat.open_nursery() as nursery:
        nursery.start_soon(things.chat.send, "a child")


async def with_generator(things: Things) -> object:
    async def audience() -> AsyncGenerator[int]:
        try:
            yield things.chat.id
        finally:
            await trio.lowlevel.checkpoint()

    return await things.chat.broadcast("gen").start("News", audience())


async def change(things: Things) -> None:
    things.chat.data[COUNT] += 1
    assert COUNT in things.chat.data
    del things.chat.data[COUNT]


def _next_week() -> tuple[date, date]:
    return date(2031, 1, 1), date(2031, 1, 7)


def _days(things: Things) -> Coroutine[Any, Any, object]:
    first, last = _next_week()
    return triobot.widgets.calendar(things.chat, "Day?", first=first, last=last)


def _hours(things: Things) -> Coroutine[Any, Any, object]:
    first, last = _next_week()
    return triobot.widgets.date_time(
        things.chat, "When?", lambda day: [time(9), time(10)], first=first, last=last, tz=UTC
    )


OPERATIONS: Final[dict[str, Act]] = {
    # A room
    "Chat.event": plain(lambda it: it.chat.event),
    "Chat.key": plain(lambda it: it.chat.key),
    "Chat.route": plain(lambda it: it.chat.route),
    "Chat.replaying": plain(lambda it: it.chat.replaying),
    "Chat.data": change,
    "Chat.use": plain(lambda it: it.chat.use(it.routes.oven)),
    "Chat.receive": lambda it: it.chat.receive(text("never")),
    "Chat.drain": plain(lambda it: it.chat.drain()),
    "Room.drain": plain(lambda it: Room.drain(it.chat)),
    "Chat.step": lambda it: it.chat.step(trio.sleep, 0),
    "Chat.to": plain(lambda it: it.chat.to(7)),
    "Chat.person": plain(lambda it: it.chat.person(it.chat.sender.id)),
    "Chat.place": lambda it: it.chat.place("day", 1).get(COUNT),
    "Chat.shared": lambda it: it.chat.shared.get(COUNT),
    "Chat.broadcast": plain(lambda it: it.chat.broadcast("key")),
    "Chat.continue_as": lambda it: it.chat.continue_as(it.routes.other),
    "Room.continue_as": lambda it: Room.continue_as(it.chat, it.routes.other),
    "Chat.now": plain(lambda it: it.chat.now()),
    "Chat.random": plain(lambda it: it.chat.random()),
    "Chat.uuid": plain(lambda it: it.chat.uuid()),
    "Chat.patched": plain(lambda it: it.chat.patched("everything")),
    "Chat.move_on_after": block(lambda it: it.chat.move_on_after(50)),
    "Chat.move_on_at": block(lambda it: it.chat.move_on_at(it.chat.now() + timedelta(minutes=1))),
    "Chat.move_on_when": block(lambda it: it.chat.move_on_when(text("never"))),
    "Chat.fail_after": block(lambda it: it.chat.fail_after(50)),
    "Chat.cancel_scope": block(lambda it: it.chat.cancel_scope()),
    "Chat.shield": block(lambda it: it.chat.shield()),
    "Chat.sleep": lambda it: it.chat.sleep(0),
    "Chat.sleep_until": lambda it: it.chat.sleep_until(datetime(2001, 1, 1, tzinfo=UTC)),
    "Chat.open_nursery": async_block(lambda it: it.chat.open_nursery()),
    "Chat.open_event": plain(lambda it: it.chat.open_event()),
    "Chat.open_channel": plain(lambda it: it.chat.open_channel(int)),
    # A chat
    "Chat.id": plain(lambda it: it.chat.id),
    "Chat.sender": plain(lambda it: it.chat.sender),
    "Chat.interrupted": plain(lambda it: it.chat.interrupted),
    "Chat.send": lambda it: it.chat.send("a text", on_unknown="raise"),
    "Chat.edit": lambda it: it.chat.edit(it.sent, "another text"),
    "Chat.delete": lambda it: it.chat.delete(it.sent),
    "Chat.answer": lambda it: it.chat.answer("a tooltip"),
    "Chat.typing": async_block(lambda it: it.chat.typing()),
    "Chat.live": async_block(lambda it: it.chat.live("0 %", buttons=KEEP)),
    "Chat.ask": lambda it: it.chat.ask("How many?", int),
    "Chat.choose": lambda it: it.chat.choose("Which?", {1: "One"}),
    "Chat.board": with_board,
    "Chat.fill": lambda it: it.chat.fill(Address),
    "Chat.charge": lambda it: it.chat.charge(1_000, "A cake", item=Cake(), options={"n": "No"}),
    "Chat.invoice": lambda it: it.chat.invoice(1_000, "A cake", item=Cake()),
    "Chat.start": lambda it: it.chat.start(it.routes.beside, 1),
    "Chat.stop": lambda it: it.chat.stop(it.routes.beside),
    # Another place
    "ChatRef.id": plain(lambda it: it.there.id),
    "ChatRef.send": lambda it: it.there.send("a text", buttons=KEEP),
    "ChatRef.edit": lambda it: it.there.edit(it.sent, buttons=KEEP),
    "ChatRef.delete": lambda it: it.there.delete(it.sent),
    "ChatRef.start": lambda it: it.there.start(it.routes.beside, 1, key="once"),
    "ChatRef.stop": lambda it: it.there.stop(it.routes.beside, key="once"),
    "ChatRef.get": lambda it: it.there.get(COUNT),
    "ChatRef.set": lambda it: it.there.set(COUNT, 7),
    "ChatRef.clear": lambda it: it.there.clear(COUNT),
    "ChatRef.update": lambda it: it.there.update(COUNT, lambda old: old + 1),
    "ChatRef.signal": lambda it: it.there.signal(News()),
    "RoomRef.get": lambda it: it.room.get(COUNT),
    "RoomRef.set": lambda it: it.room.set(COUNT, 7),
    "RoomRef.clear": lambda it: it.room.clear(COUNT),
    "RoomRef.update": lambda it: it.room.update(COUNT, lambda old: old + 1),
    "RoomRef.signal": lambda it: it.room.signal(News()),
    "Broadcast.key": plain(lambda it: it.chat.broadcast("key").key),
    "Broadcast.start": with_generator,
    "Broadcast.status": lambda it: it.chat.broadcast("key").status(),
    "Broadcast.stop": lambda it: it.chat.broadcast("key").stop(),
    "Broadcast.gone": plain(lambda it: it.chat.broadcast("key").gone()),
    # Objects that the chat has opened
    "Live.show": plain(lambda it: it.live.show("1 %")),
    "Live.text": plain(lambda it: it.over.text),
    "Scope.cancel": block(lambda it: it.chat.move_on_after(9), within=False),
    "Scope.cancelled_caught": plain(lambda it: it.scope.cancelled_caught),
    "Scope.event": plain(lambda it: it.scope.event),
    "ChatNursery.start_soon": with_child,
    "ChatNursery.cancel": async_block(lambda it: it.chat.open_nursery(), within=False),
    "ChatEvent.is_set": plain(lambda it: it.event.is_set()),
    "ChatEvent.set": plain(lambda it: it.chat.open_event().set()),
    "ChatEvent.wait": lambda it: it.event.wait(),
    "ChatEvent.wait that has happened": lambda it: it.happened.wait(),
    "ChatChannel.send": lambda it: it.roomy.send(1),
    "ChatChannel.send to a full one": lambda it: it.full.send(1),
    "ChatChannel.send_nowait": plain(lambda it: it.roomy.send_nowait(1)),
    "ChatChannel.receive": lambda it: it.full.receive(),
    "ChatChannel.receive what is there": lambda it: it.filled.receive(),
    "ChatChannel.close": plain(lambda it: it.chat.open_channel(int).close()),
    # Widgets
    "widgets.confirm": lambda it: triobot.widgets.confirm(it.chat, "Sure?"),
    "widgets.rating": lambda it: triobot.widgets.rating(it.chat, "How good?"),
    "widgets.pager": lambda it: triobot.widgets.pager(it.chat, "Which?", {1: "One", 2: "Two"}, size=1),
    "widgets.multi_select": lambda it: triobot.widgets.multi_select(it.chat, "Which?", {1: "One"}),
    "widgets.menu": lambda it: triobot.widgets.menu(it.chat, Menu("Which?", options={1: "One"})),
    "widgets.calendar": _days,
    "widgets.date_time": _hours,
}
"""By class and name; words behind the name tell another way to call it."""


def public() -> Collection[str]:
    """Return what an author's code can call, by class and name: of a base's in the class that has it last."""
    found = {
        f"{cls.__name__}.{name}"
        for cls in CLASSES
        for name in dir(cls)
        if not name.startswith("_") and not (cls is Room and getattr(Chat, name) is getattr(Room, name))
    }
    widgets = [name for name, value in vars(triobot.widgets).items() if iscoroutinefunction(value)]
    return {*found, "Chat.data", *(f"widgets.{name}" for name in widgets)} - {"Live.sent"}


def missing(names: Collection[str]) -> Collection[str]:
    """Return what is public and not among these."""
    return public() - {name.partition(" ")[0] for name in names}
