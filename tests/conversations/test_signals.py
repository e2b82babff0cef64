"""Signals: the events' door and order, the same routes and waits, and never unexpected."""

from __future__ import annotations

import attrs
import pytest
import trio
from doubles import FakeStore
from town import ALI, CHAT, open_town, start
from trio.testing import MockClock, wait_all_tasks_blocked

from triobot.conversations.calls.signals import SIGNAL, SIGNALS, Signal
from triobot.conversations.chat import Chat
from triobot.conversations.routes.filters import (
    Setting,
    by,
    command,
    in_chat,
    message,
    pressed,
    signal,
    starting,
    text,
    when,
)
from triobot.conversations.routes.router import Router
from triobot.errors import LocalProtocolError, StoreFullError, UnrecordableError
from triobot.seams.inbox import Arrival, Quota
from triobot.wire.content import Location
from triobot.wire.events import Message


@attrs.frozen
class Moved:
    minutes: int


@attrs.frozen
class Arrived:
    pass


def follower(router: Router, seen: list[object], *, count: int = 3) -> None:
    """A conversation that follows a car."""

    @router.conversation
    async def follow(chat: Chat) -> None:
        await chat.send("Following.")
        for _ in range(count):
            seen.append(await chat.receive(signal(Moved) | signal(Arrived)))
        await chat.send("Done.")


async def test_a_conversation_gets_the_value_itself() -> None:
    router, seen = Router(), list[object]()
    follower(router, seen)
    async with open_town(router) as town:
        await town.says("go")
        for value in (Moved(2), Moved(1), Arrived()):
            await town.dispatcher.chat_calls.signal(CHAT, value, None)
            await town.rest()

        assert seen == [Moved(2), Moved(1), Arrived()]
        assert town.sent() == ["Following.", "Done."]
        assert not town.store.rows


async def test_signals_and_events_come_in_the_order_of_acceptance() -> None:
    router, seen = Router(), list[object]()

    @router.conversation
    async def all_of_it(chat: Chat) -> None:
        await chat.send("Go.")
        for _ in range(4):
            seen.append(await chat.receive(signal(Moved) | text()))

    async with open_town(router) as town:
        gate = town.outbox.hold()
        await town.says("start")
        await town.says("one")
        await town.dispatcher.chat_calls.signal(CHAT, Moved(2), None)
        await town.says("three")
        await town.dispatcher.chat_calls.signal(CHAT, Moved(4), None)
        gate.release()
        await town.rest()

    assert seen == [Message(CHAT, "one", ALI), Moved(2), Message(CHAT, "three", ALI), Moved(4)]


async def test_a_signal_is_never_unexpected() -> None:
    """It wakes no hint, and waits for a later wait; what is typed meanwhile is told to be unfit."""
    router, seen = Router(), list[object]()

    @router.conversation
    async def ask(chat: Chat) -> None:
        seen.append(await chat.ask("Where?", Location))
        assert chat.drain() == []
        seen.append(await chat.receive(text("no such word") | signal(Moved)))

    async with open_town(router) as town:
        await town.says("start")
        await town.dispatcher.chat_calls.signal(CHAT, Moved(2), None)
        await town.rest()
        assert town.sent() == ["Where?"]
        await town.says(Location(1.0, 2.0))

    assert seen == [Location(1.0, 2.0), Moved(2)]


async def test_a_signal_is_kept_when_nobody_lives() -> None:
    """For the next conversation, and across a restart; many of them don't stop the people of the chat."""
    router, seen = Router(), list[object]()
    follower(router, seen, count=40)
    async with trio.open_nursery() as nursery, open_town(router) as town:
        for minutes in range(20):
            await town.dispatcher.chat_calls.signal(CHAT, Moved(minutes), None)
        await town.rest()
        assert town.counts["signal_kept"] == 20
        assert "started" not in town.counts

        town.new_dispatcher()
        await start(nursery, town)
        for minutes in range(20, 40):
            await town.dispatcher.chat_calls.signal(CHAT, Moved(minutes), None)
        await town.rest()
        await town.says("go")

        assert seen == [Moved(minutes) for minutes in range(40)]
        assert town.sent() == ["Following.", "Done."]
        assert not town.store.rows
        assert not town.left_over()
        nursery.cancel_scope.cancel()


async def test_kept_signals_survive_an_interrupt_and_an_end(
    autojump_clock: MockClock,
) -> None:
    """What people typed before it is dropped; what programs told is not."""
    router, seen = Router(), list[object]()

    @router.conversation
    async def busy(chat: Chat) -> None:
        if chat.event == Message(CHAT, "follow", ALI):
            seen.append(await chat.receive(signal(Moved)))
        else:
            await chat.sleep(1000)

    @router.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    async with open_town(router) as town:
        await town.says("start")
        await town.says("typed ahead")
        await town.dispatcher.chat_calls.signal(CHAT, Moved(1), None)
        await town.says("/cancel")
        assert town.sent() == ["Cancelled."]
        assert town.counts["interrupted"] == 1
        await town.says("follow")

    assert seen == [Moved(1)]


async def test_an_aside_runs_on_a_signal_and_waits_for_others(autojump_clock: MockClock) -> None:
    """Beside the live conversation; it finds what came before it asked."""
    router, seen = Router(), list[object]()

    @router.aside(signal(Moved))
    async def parcel(chat: Chat[Moved]) -> None:
        await chat.send(f"{chat.event.minutes} min")
        await chat.sleep(10)
        seen.append(await chat.receive(signal(Arrived)))

    @router.conversation
    async def live(chat: Chat) -> None:
        await chat.sleep(20)
        seen.append(await chat.receive(text()))

    async with open_town(router) as town:
        await town.says("start")
        await town.says("typed ahead")
        await town.dispatcher.chat_calls.signal(CHAT, Moved(3), None)
        await town.dispatcher.chat_calls.signal(CHAT, Arrived(), None)
        await trio.sleep(15)
        assert seen == [Arrived()]
        await trio.sleep(10)

        assert seen == [Arrived(), Message(CHAT, "typed ahead", ALI)]
        assert town.sent() == ["3 min"]


async def test_an_interrupt_and_a_conversation_start_on_a_signal(autojump_clock: MockClock) -> None:
    router, seen = Router(), list[object]()

    @router.conversation(signal(Moved))
    async def moved(chat: Chat[Moved]) -> None:
        seen.append(chat.event)
        assert chat.sender is None
        await chat.sleep(1000)

    @router.interrupt(signal(Arrived))
    async def arrived(chat: Chat[Arrived]) -> None:
        seen.append(chat.interrupted is not None)

    async with open_town(router) as town:
        await town.dispatcher.chat_calls.signal(CHAT, Moved(1), None)
        await town.rest()
        await town.dispatcher.chat_calls.signal(CHAT, Arrived(), None)
        await town.rest()

    assert seen == [Moved(1), True]


async def test_a_signal_ends_with_a_leave() -> None:
    """Who has left gets no more of it."""
    router, seen = Router(), list[object]()
    follower(router, seen)
    async with open_town(router) as town:
        await town.dispatcher.chat_calls.signal(CHAT, Moved(1), None)
        await town.leaves()
        await town.says("back")
        assert seen == []
        assert not town.store.rows


def test_only_filters_that_name_a_signal_take_one() -> None:
    """What is about people stays about people; joined with ``&`` it may look at a signal as well."""
    moved, event = Signal(CHAT, Moved(1)), Message(CHAT, "hello", ALI)

    def takes(taken: object) -> tuple[bool, bool]:
        look = taken.look  # type: ignore[attr-defined]
        return look(moved, Setting()) is not None, look(event, Setting()) is not None

    anything = when(lambda _: True)
    assert takes(signal(Moved)) == (True, False)
    assert takes(signal(Arrived)) == (False, False)
    for people in (message(), pressed(), starting(), by(ALI.id), in_chat(CHAT), anything, ~text("no")):
        assert takes(people)[0] is False
        assert takes(people | people)[0] is False
    assert takes(~signal(Arrived)) == (False, True)
    assert takes(signal(Moved) & in_chat(CHAT)) == (True, False)
    assert takes(in_chat(CHAT) & signal(Moved)) == (True, False)
    assert takes(signal(Moved) & ~in_chat(CHAT)) == (False, False)
    assert takes(signal(Moved) & (in_chat(1) | in_chat(CHAT))) == (True, False)
    assert takes(signal(Arrived) | anything) == (False, True)
    assert takes((signal(Moved) | anything) & in_chat(CHAT)) == (True, True)


async def test_a_signal_of_an_unknown_class_waits_in_the_inbox() -> None:
    """Another version of the bot may know it: it is counted, not lost, and delays nobody."""
    router, seen = Router(), list[object]()
    follower(router, seen, count=1)
    store = FakeStore()
    body = b'[1,{"class":["bots.newer.Moved",{}]}]'
    await store.accept(Arrival(CHAT, None, 0, SIGNAL, body), quota=Quota())
    async with open_town(router, store=store) as town:
        await town.rest()
        assert town.counts["unknown_signal"] == 1
        (alarm,) = town.alarms
        assert alarm.kind == "signal_unreadable"
        assert "knows no class 'bots.newer.Moved'" in alarm.text
        await town.says("go")
        await town.dispatcher.chat_calls.signal(CHAT, Moved(1), None)
        await town.rest()

        assert seen == [Moved(1)]
        assert [row.body for row in town.store.rows.values()] == [body]


async def test_what_is_no_signal_is_refused_at_once() -> None:
    router = Router()
    follower(router, [])
    async with open_town(router) as town:
        with pytest.raises(LocalProtocolError):
            await town.dispatcher.chat_calls.signal(CHAT, None, None)
        with pytest.raises(UnrecordableError, match="type"):
            await town.dispatcher.chat_calls.signal(CHAT, Moved, None)
        assert not town.store.rows


async def test_too_many_signals_are_refused_and_the_chat_goes_on() -> None:
    router, seen = Router(), list[object]()
    follower(router, seen, count=SIGNALS)
    async with open_town(router) as town:
        for minutes in range(SIGNALS):
            await town.dispatcher.chat_calls.signal(CHAT, Moved(minutes), None)
        with pytest.raises(StoreFullError, match="repeat"):
            await town.dispatcher.chat_calls.signal(CHAT, Moved(0), None)
        await town.says("go")
        await wait_all_tasks_blocked()

        assert len(seen) == SIGNALS
        await town.dispatcher.chat_calls.signal(CHAT, Moved(0), None)
