"""The recorded door to other chats, and routes that code starts, stops and continues."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import ALI, CHAT, SARA, TEXTS, Town, open_town, start
from trio.testing import MockClock

from triobot.conversations import data as data_module
from triobot.conversations.calls.signals import CALL, SIGNAL, Call, call_arrival
from triobot.conversations.chat import Chat, ChatRef
from triobot.conversations.data import Key
from triobot.conversations.routes.filters import command, signal, text
from triobot.conversations.routes.router import Router
from triobot.errors import (
    ConfigError,
    ConversationEndedError,
    ForeignTaskError,
    LocalProtocolError,
    StoreAwayError,
    StoreFullError,
    UnrecordableError,
)
from triobot.seams.inbox import Arrival, Quota
from triobot.wire.ids import ChatId

OTHER = ChatId(6)
STEPS = Key("steps", int, default=0)


@attrs.frozen
class Moved:
    minutes: int


async def call(town: Town, fn: Callable[..., object], *args: object, key: str | None = None) -> bool:
    """What `ChatRef.start` does from outside."""
    chat_calls = town.dispatcher.chat_calls
    name = chat_calls.table.route_of(fn, args, "start()").name
    return await chat_calls.start(CHAT, name, args, key=key, once=key)


async def halt(town: Town, fn: Callable[..., object], key: str | None = None) -> bool:
    """What `ChatRef.stop` does from outside."""
    chat_calls = town.dispatcher.chat_calls
    return await chat_calls.stop(CHAT, chat_calls.table.route_of(fn, None, "stop()").name, key)


# --- chat.to


async def test_a_conversation_speaks_to_another_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_module, "_declared", {"steps"})
    router, seen = Router(), list[object]()

    @router.conversation(text("go"))
    async def desk(chat: Chat) -> None:
        other = chat.to(OTHER)
        assert isinstance(other, ChatRef)
        sent = await other.send("A customer waits.")
        await other.edit(sent, "Somebody took it.")
        await other.delete(sent)
        await other.set(STEPS, 3)
        seen.append(await other.get(STEPS))
        await other.signal(Moved(2))

    @router.aside(signal(Moved))
    async def moved(chat: Chat[Moved]) -> None:
        seen.append((chat.id, chat.event, chat.data[STEPS]))

    async with open_town(router) as town:
        await town.says("go")

        assert town.sent(OTHER) == ["A customer waits."]
        assert [edit.content for edit in town.edits(OTHER)] == ["Somebody took it."]
        assert len(town.deletes(OTHER)) == 1
        assert seen == [3, (OTHER, Moved(2), 3)]
        assert not town.store.rows
        assert not town.left_over()


async def test_what_an_operation_stores_is_dropped_when_it_is_repeated() -> None:
    """Two operations of one run are two; what is recorded is not done again by the next process."""
    router = Router()

    @router.aside
    async def beside(chat: Chat, number: int) -> None: ...

    @router.conversation
    async def work(chat: Chat) -> None:
        for _ in range(2):
            await chat.to(OTHER).signal(Moved(1))
        assert await chat.start(beside, 1)
        assert await chat.start(beside, 1)
        await chat.to(OTHER).signal(Moved(2), key="mine")
        await trio.sleep_forever()

    class Keys(FakeStore):
        async def accept(self, arrival: Arrival, **more: Any) -> Any:
            keys.append(arrival.key)
            return await super().accept(arrival, **more)

    keys: list[str | None] = []
    async with trio.open_nursery() as nursery:
        town = Town(router, FakeOutbox(), Keys(), TEXTS, username=None)
        run = await start(nursery, town)
        await town.says("go")
        first = [key for key in keys if key is not None]
        assert len(first) == len(set(first)) == 5
        assert first[-1] == f"signal:{OTHER}:mine"

        keys.clear()
        await run.cut()
        town.new_dispatcher()
        await start(nursery, town)
        await town.rest()
        assert keys == []
        nursery.cancel_scope.cancel()


async def test_the_recorded_door_is_the_conversations_own(autojump_clock: MockClock) -> None:
    """It refuses whom the chat refuses."""
    router, errors = Router(), list[Exception]()
    kept: list[ChatRef] = []

    async def collect(work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
        except Exception as error:
            errors.append(error)

    @router.conversation
    async def work(chat: Chat) -> None:
        door = chat.to(OTHER)
        kept.append(door)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect, lambda: door.send("foreign"))
        await chat.step(collect, lambda: door.signal(Moved(1)))
        with pytest.raises(LocalProtocolError):
            chat.to("somebody")
        with pytest.raises(LocalProtocolError, match="chat_id"):
            await chat.to("+989120000000").signal(Moved(1))

    async with open_town(router) as town:
        await town.says("go")
        await collect(lambda: kept[0].send("late"))
        assert [type(error) for error in errors] == [
            ForeignTaskError,
            ForeignTaskError,
            ConversationEndedError,
        ]
        assert all("test_calls.py:" in str(error) for error in errors)
        assert town.sent(OTHER) == []
        assert TEXTS.apology not in town.sent()


# --- start


def reminder(router: Router) -> Callable[..., Any]:
    """An aside that only code starts."""

    @router.aside
    async def remind(chat: Chat, order: int, *, after: float = 10) -> None:
        assert chat.event is None
        await chat.sleep(after)
        await chat.send(f"Order {order}?")

    return remind


async def test_code_starts_an_aside(autojump_clock: MockClock) -> None:
    """Beside the live conversation, with its arguments; the same key only once."""
    router = Router()
    remind = reminder(router)

    @router.conversation
    async def live(chat: Chat) -> None:
        await chat.sleep(100)

    async with open_town(router) as town:
        await town.says("hi")
        assert await call(town, remind, 7, key="7")
        assert not await call(town, remind, 7, key="7")
        assert await call(town, remind, 8)
        await town.rest()
        assert not await call(town, remind, 7, key="7")
        await trio.sleep(11)
        assert sorted(map(str, town.sent())) == ["Order 7?", "Order 8?"]


async def test_a_start_is_durable_when_it_has_been_said() -> None:
    """And is carried out after a crash."""
    router = Router()
    remind = reminder(router)
    async with trio.open_nursery() as nursery, open_town(router) as town:
        town.new_dispatcher()
        run = await start(nursery, town)
        assert await call(town, remind, 7, key="7")
        assert [row.content_type for row in town.store.rows.values()] == [CALL]
        await run.cut()
        assert town.sent() == []
        town.new_dispatcher()
        await start(nursery, town)
        await town.rest()
        assert not await call(town, remind, 7, key="7")
        assert len(town.dispatcher.tasks.running) == 1
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("key", ["", "a\0b", "\ud800", 7])
async def test_a_key_that_no_store_can_hold_is_refused_at_the_door(key: Any) -> None:
    """It would be found out by the writer, which writes for everybody."""
    errors = list[Exception]()
    router = Router()

    @router.conversation
    async def starts(chat: Chat) -> None:
        for ask in (chat.start, chat.stop):
            try:
                await ask(remind, key=key)
            except LocalProtocolError as error:
                errors.append(error)

    @router.aside(command("remind"))
    async def remind(chat: Chat) -> None:
        """Runs nowhere."""

    async with open_town(router) as town:
        await town.joins()
        with pytest.raises(LocalProtocolError):
            await call(town, remind, key=key)

    assert len(errors) >= 1


async def test_a_started_conversation_waits_until_its_place_is_free() -> None:
    """No filter of the live one takes it, nor does anybody drain it."""
    router, seen = Router(), list[object]()

    @router.conversation(text("second"))
    async def second(chat: Chat) -> None:
        seen.append("second")

    @router.conversation
    async def first(chat: Chat) -> None:
        seen.append(chat.drain())
        seen.append(await chat.receive(~text("no")))
        seen.append(chat.drain())

    async with open_town(router) as town:
        await town.says("hi")
        assert await call(town, second)
        await town.rest()
        assert seen == [[]]
        await town.says("done")
        assert seen[-2:] == [[], "second"]
        assert await call(town, second)
        await town.rest()
        assert seen[-1] == "second"
        assert not town.store.rows


async def test_a_started_interrupt_ends_the_live_one() -> None:
    router, seen = Router(), list[object]()

    @router.interrupt(text("stop"))
    async def stop(chat: Chat) -> None:
        seen.append(chat.interrupted is not None)

    @router.conversation
    async def live(chat: Chat) -> None:
        await chat.receive(text("never"))

    async with open_town(router) as town:
        await town.says("hi")
        await call(town, stop)
        await town.rest()
        assert seen == [True]


async def test_a_conversation_starts_another_with_its_event() -> None:
    """And tells who it was."""
    router, seen = Router(), list[object]()

    @router.aside
    async def other(chat: Chat, number: int) -> None:
        seen.append((chat.event, chat.sender, number))
        await chat.receive(text("never"))

    @router.conversation(command("go"))
    async def work(chat: Chat) -> None:
        assert await chat.start(other, 3, key="k")
        assert not await chat.start(other, 3, key="k")
        assert not await chat.stop(work, key="nobody")
        assert await chat.to(OTHER).start(other, 4)

    async with open_town(router) as town:
        await town.says("/go there", sender=SARA)
        assert [(event.rest, sender, number) for event, sender, number in seen] == [  # type: ignore[misc]
            ("there", SARA, 3),
            ("there", SARA, 4),
        ]


async def test_what_is_no_route_is_refused_with_the_line() -> None:
    router, said = Router(), list[str]()

    async def helper(chat: Chat) -> None: ...

    @router.aside
    async def two(chat: Chat, one: int) -> None: ...

    @router.conversation
    async def work(chat: Chat) -> None:
        wrong: Any = two
        for mistake in (
            lambda: chat.start(helper),
            lambda: chat.stop(helper),
            lambda: chat.continue_as(helper),
            lambda: chat.start(wrong),
        ):
            try:
                await mistake()
            except ConfigError as error:
                said.append(str(error))
        with pytest.raises(UnrecordableError):
            await chat.start(wrong, object())

    async with open_town(router) as town:
        await town.says("go")
        assert len(said) == 4
        assert all("test_calls.py:" in words for words in said)
        assert "helper is none; decorate it with @bot.aside" in said[0]
        assert "the arguments don't fit" in said[3]
        assert not town.store.rows


async def test_a_route_that_is_gone_waits_in_the_inbox() -> None:
    """For a version of the bot that has it."""
    router, store = Router(), FakeStore()

    @router.conversation
    async def anything(chat: Chat) -> None: ...

    await store.accept(call_arrival(Call(CHAT, "bot.gone", (7,)), None, 0), quota=Quota())
    async with open_town(router, store=store) as town:
        await town.rest()
        assert town.counts["unknown_signal"] == 1
        assert len(store.rows) == 1
        assert "the bot has no route 'bot.gone'" in town.alarms[0].text


async def test_too_many_starts_are_refused() -> None:
    router = Router()
    remind = reminder(router)
    store = FakeStore()
    async with open_town(router, store=store) as town:
        for _ in range(256):  # of which the dispatcher hears nothing
            await store.accept(Arrival(CHAT, None, 0, "x", b""), quota=Quota())
        with pytest.raises(StoreFullError):
            await call(town, remind, 1)


# --- stop


async def test_code_stops_what_it_started(autojump_clock: MockClock) -> None:
    """By key, or all of a route's; it ends as by an interrupt, without a successor."""
    router, seen = Router(), list[object]()

    @router.aside
    async def beside(chat: Chat, name: str) -> None:
        try:
            await chat.sleep(1000)
        finally:
            seen.append(name)

    async with open_town(router) as town:
        for name in "abc":
            assert await call(town, beside, name, key=name)
        await town.rest()
        assert not await halt(town, beside, "d")
        assert await halt(town, beside, "b")
        await town.rest()
        assert seen == ["b"]
        assert await halt(town, beside)
        await town.rest()
        assert sorted(seen) == ["a", "b", "c"]  # type: ignore[type-var]
        assert not await halt(town, beside)
        assert not town.store.rows
        assert not town.left_over()


async def test_stopping_the_live_conversation_keeps_what_was_said() -> None:
    """It is routed again; and what waits for its place is stopped as well."""
    router, seen = Router(), list[object]()

    @router.conversation(text("first"))
    async def first(chat: Chat) -> None:
        await chat.send("busy")

    @router.conversation
    async def second(chat: Chat) -> None:
        seen.append(chat.event)

    async with open_town(router) as town:
        gate = town.outbox.hold()
        await town.says("first")
        message = await town.says("typed ahead")
        assert message
        await call(town, first, key="later")
        await town.rest()
        assert await halt(town, first)
        await town.rest()
        gate.release()
        await town.rest()
        assert [event.content for event in seen] == ["typed ahead"]  # type: ignore[attr-defined]
        assert town.counts["stopped"] == 1
        assert not town.store.rows


async def test_a_start_is_stopped_before_it_begins() -> None:
    """In the order in which they were said, also while the chat is behind."""
    router = Router()
    remind = reminder(router)

    @router.conversation(text("second"))
    async def second(chat: Chat) -> None:
        await chat.send("second")

    @router.conversation
    async def busy(chat: Chat) -> None:
        await chat.send("busy")

    async with open_town(router) as town:
        gate = town.outbox.hold()
        await town.says("hi")
        for number in range(40):
            await town.says(f"ahead {number}")
        await call(town, second, key="x")
        assert await halt(town, second)
        await call(town, remind, 1, key="y")
        assert await halt(town, remind, "y")
        await town.rest()
        gate.release()
        await town.rest()
        assert "second" not in town.sent()
        assert not town.store.rows


# --- continue_as


async def test_a_conversation_goes_on_as_itself_in_the_same_place() -> None:
    """With the same event, and its arguments; nothing is left over, and nobody else gets its place."""
    router, seen = Router(), list[object]()

    @router.conversation(command("go"))
    async def work(chat: Chat, round: int = 0) -> None:
        try:
            seen.append((chat.event.rest, chat.sender, round))  # type: ignore[attr-defined]
            await chat.receive(text("more"))
            with chat.move_on_after(1000):
                try:
                    await chat.continue_as(work, round + 1)
                except Exception:
                    seen.append("swallowed")
            seen.append("went on")
        finally:
            seen.append("left")

    async with open_town(router) as town:
        await town.says("/go x")
        for _ in range(2):
            await town.says("more")
        assert seen == [("x", ALI, 0), "left", ("x", ALI, 1), "left", ("x", ALI, 2)]
        assert len(town.store.rows) == 0
        assert len(town.dispatcher.tasks.running) == 1
        assert TEXTS.apology not in town.sent()


async def test_what_was_handed_over_is_started_after_a_crash() -> None:
    """It is stored in the place of what it goes on for; the inbox has nothing of either."""
    router, seen = Router(), list[object]()

    @router.conversation(command("go"))
    async def work(chat: Chat, round: int = 0) -> None:
        seen.append(round)
        if round < 2:
            await chat.continue_as(work, round + 1)
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery, open_town(router) as town:
        town.new_dispatcher()
        run = await start(nursery, town)
        await town.says("/go")
        assert seen == [0, 1, 2]
        assert town.store.rows == {}
        assert len(await town.store.conversations(CHAT)) == 1
        await run.cut()
        town.new_dispatcher()
        await start(nursery, town)
        await town.rest()
        assert seen == [0, 1, 2, 2]
        nursery.cancel_scope.cancel()


async def test_what_goes_on_starts_under_the_same_key_after_a_restart() -> None:
    """By that key an aside is started once, however often the call that starts it is repeated."""
    router = Router()

    @router.aside
    async def helper(chat: Chat, number: int) -> None: ...

    @router.conversation(command("go"))
    async def work(chat: Chat, round: int = 0) -> None:
        if round < 1:
            await chat.continue_as(work, round + 1)
        await chat.receive(text("more"))
        await chat.start(helper, 7)

    keys: list[object] = []
    for restarts in (False, True):
        store = FakeStore()
        async with open_town(router, store=store) as town:
            await town.says("/go")
            if not restarts:
                await town.says("more")
        if restarts:
            async with open_town(router, store=store) as town:
                await town.says("more")
        rows = store.journals._sql.execute("SELECT key FROM deliveries WHERE key LIKE 'call:%'")
        keys += rows.fetchall()
    assert len(keys) == 2
    assert keys[0] == keys[1]


async def test_an_aside_goes_on_beside(autojump_clock: MockClock) -> None:
    router, seen = Router(), list[int]()

    @router.aside
    async def count(chat: Chat, number: int) -> None:
        seen.append(number)
        await chat.sleep(1)
        if number < 3:
            await chat.continue_as(count, number + 1)

    @router.conversation
    async def live(chat: Chat) -> None:
        await chat.receive(text("never"))

    async with open_town(router) as town:
        await town.says("hi")
        await call(town, count, 0, key="k")
        await trio.sleep(1.5)
        assert not await call(town, count, 0, key="k")
        await trio.sleep(10)
        assert seen == [0, 1, 2, 3]
        assert len(town.dispatcher.tasks.running) == 1


async def test_who_goes_on_after_a_refused_continuation_is_written_down(autojump_clock: MockClock) -> None:
    """It has not ended: what it says and hears after that is said and heard once, over a restart, too."""
    router, store = Router(), FakeStore()

    @router.conversation
    async def work(chat: Chat, what: object = None) -> None:
        try:
            await chat.continue_as(work, object())
        except UnrecordableError:
            name = await chat.ask("That was nothing. Your name?")
            await chat.ask(f"And now, {name}?")
            await chat.send("Bye.")

    async with open_town(router, store=store) as town:
        await town.rest()
        await town.says("hi")
        await town.says("Ali")
        assert town.sent() == ["That was nothing. Your name?", "And now, Ali?"]
        assert store.rows == {}
    async with open_town(router, store=store) as town:
        await town.rest()
        await town.says("nothing")
        assert town.sent() == ["Bye."]
    assert await store.conversations(CHAT) == []


async def test_continue_as_is_refused_while_a_nursery_is_open() -> None:
    """Its children would be lost."""
    router, said = Router(), list[str]()

    async def child(chat: Chat) -> None:
        try:
            await chat.continue_as(work)
        except ConfigError as error:
            said.append(str(error))

    @router.conversation
    async def work(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(child, chat)
            await child(chat)
        await chat.send("over")

    async with open_town(router) as town:
        await town.says("go")
        assert len(said) == 2
        assert all("open chat nursery" in words for words in said)
        assert all("test_calls.py:" in words for words in said)
        assert town.sent() == ["over"]


async def test_an_interrupt_that_comes_in_between_wins(autojump_clock: MockClock) -> None:
    """What was handed over begins once that is durable: the interrupt ends it."""
    router, seen = Router(), list[object]()

    @router.conversation(command("go"))
    async def work(chat: Chat, round: int = 0) -> None:
        seen.append(round)
        if round == 0:
            await chat.continue_as(work, 1)

    @router.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        seen.append(chat.interrupted)

    # The interrupt is accepted while the successor's beginning is on its way to the disk.
    async with open_town(router, store=FakeStore(commit_lag=0.01, latency=0.1)) as town:
        await town.says("/go", wait=False)
        await town.says("/cancel", wait=False)
        await trio.sleep(1)
        assert seen[0] == 0
        assert str(seen[-1]).endswith("work")
        assert not town.store.rows


@pytest.mark.parametrize("waits", [False, True])
async def test_what_hands_over_without_end_can_be_interrupted(
    autojump_clock: MockClock, *, waits: bool
) -> None:
    """It never waits for anything, but for the disk; its end is written down, and it doesn't come back."""
    router, store, seen = Router(), FakeStore(latency=1.0), list[str]()

    @router.conversation(command("go"))
    async def work(chat: Chat, after: bool = False) -> None:
        seen.append("after" if after else "before")
        if waits and not after:
            await chat.receive(text("more"))
        await chat.continue_as(work, True)

    @router.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        seen.append("cancelled")

    async with open_town(router, store=store) as town:
        await town.says("/go", wait=False)
        if waits:
            await town.says("more", wait=False)
        await trio.sleep(10)
        assert 3 < len(seen) < 15
        await town.says("/cancel", wait=False)
        await trio.sleep(100)
        assert seen == ["before", *["after"] * (len(seen) - 2), "cancelled"]
        assert len(seen) < 20
    assert store.rows == {}
    assert await store.conversations(CHAT) == []


async def test_a_store_that_is_away_for_a_moment_fails_no_call(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversation that starts, tells or stops something must not end because the database was away."""
    router, store = Router(), FakeStore()
    away = 0

    @router.aside
    async def remind(chat: Chat, order: int) -> None:
        said = await chat.receive(signal(int))
        await chat.send(f"Order {order}, {said}")
        await chat.sleep(1_000)

    @router.conversation
    async def talk(chat: Chat) -> None:
        nonlocal away
        away = 2
        assert await chat.start(remind, 7, key="7")
        away = 2
        await chat.to(CHAT).signal(8)
        await chat.sleep(60)
        away = 2
        assert await chat.stop(remind, key="7")
        await chat.send("stopped")

    accept = store.accept

    async def accepting(arrival: Arrival, **more: Any) -> Any:
        nonlocal away
        if away and arrival.content_type in (CALL, SIGNAL):
            away -= 1
            raise StoreAwayError("away")
        return await accept(arrival, **more)

    monkeypatch.setattr(store, "accept", accepting)
    async with open_town(router, store=store) as town:
        await town.says("hi")
        await trio.sleep(100)
        await town.rest()
        assert (away, [str(said) for said in town.sent()]) == (0, ["Order 7, 8", "stopped"])
