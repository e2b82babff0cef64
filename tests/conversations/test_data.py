"""What a chat keeps: typed, seen at once by all its conversations, durable with the event that caused it."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    Protocol,
    TypedDict,
    TypeVar,
    cast,
)

import attrs
import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import CHAT, TEXTS, Town, open_town, start
from trio.testing import MockClock, wait_all_tasks_blocked

from triobot.conversations import data as data_module
from triobot.conversations.chat import Chat
from triobot.conversations.data import Key
from triobot.conversations.routes.filters import command, text
from triobot.conversations.routes.router import Router
from triobot.errors import (
    ConfigError,
    ForeignTaskError,
    StoreAwayError,
    UnreadableRecordError,
    UnrecordableError,
)
from triobot.seams.values import encode_value
from triobot.seams.writes import PutData
from triobot.wire.ids import ChatId


@attrs.frozen
class Answers:
    age: int
    names: tuple[str, ...] = ()


class Entry(TypedDict):
    age: int


class Aged(Protocol):
    age: int


T = TypeVar("T")
Age = NewType("Age", int)
VISITS = Key("visits", int, default=0)
ANSWERS = Key("answers", Answers)
SCORES = Key("scores", dict[int, int], default={1: 1})


def counter(seen: list[object] | None = None) -> Router:
    """Counts what is said."""
    router = Router()

    @router.conversation
    async def count(chat: Chat) -> None:
        chat.data[VISITS] += 1
        await chat.send(str(chat.data[VISITS]))

    return router


async def test_a_value_outlives_conversations_and_the_program() -> None:
    async with trio.open_nursery() as nursery, open_town(counter()) as town:
        for _ in range(3):
            await town.says("hi")
        await town.says("hi", 6)
        assert town.sent() == ["1", "2", "3"]
        assert town.sent(6) == ["1"]
        assert town.store.kept == {(CHAT, "visits"): "[1,3]", (6, "visits"): "[1,1]"}

        town.new_dispatcher()
        await start(nursery, town)
        await town.says("hi")
        assert town.sent()[-1] == "4"
        nursery.cancel_scope.cancel()


async def test_a_conversation_right_after_another_sees_what_that_wrote(autojump_clock: MockClock) -> None:
    """Although it is written behind: the store is slow, and the chat's memory is gone."""
    async with open_town(counter(), store=FakeStore(latency=5)) as town:
        for _ in range(3):
            await town.says("hi")
            await trio.sleep(12)
        await trio.sleep(60)
        assert town.sent() == ["1", "2", "3"]


async def test_a_crash_takes_back_the_event_and_what_it_wrote() -> None:
    """The value is in the commit that takes the event: counted twice, or not at all, is never seen."""
    router = Router()

    @router.conversation
    async def count(chat: Chat) -> None:
        chat.data[VISITS] += 1
        await chat.send(str(chat.data[VISITS]))

    async with trio.open_nursery() as nursery:
        town = Town(router, FakeOutbox(), FakeStore(), TEXTS, username=None)
        held = town.outbox.hold()
        run = await start(nursery, town)
        await town.says("hi")
        await run.cut()
        assert not town.store.rows
        assert town.store.kept == {(CHAT, "visits"): "[1,1]"}

        town.outbox.forget(held)
        town.new_dispatcher()
        await start(nursery, town)
        await wait_all_tasks_blocked()
        assert town.store.kept == {(CHAT, "visits"): "[1,1]"}
        assert not town.store.rows
        nursery.cancel_scope.cancel()


async def test_a_full_store_loses_nothing_of_it(autojump_clock: MockClock) -> None:
    store = FakeStore()
    async with open_town(counter(), store=store) as town:
        store.full = 2
        await town.says("hi", wait=False)
        await trio.sleep(1.5)
        await town.says("hi", wait=False)
        await trio.sleep(10)
        assert town.sent() == ["1", "2"]
        assert store.kept == {(CHAT, "visits"): "[1,2]"}
        assert not store.rows


async def test_an_aside_shares_it_and_the_newest_value_is_what_stays() -> None:
    """The aside writes later and is done earlier: the other one then writes down the aside's value."""
    router = Router()

    @router.aside(command("set"))
    async def aside(chat: Chat) -> None:
        assert chat.data[VISITS] == 10
        chat.data[VISITS] = 20

    @router.conversation
    async def live(chat: Chat) -> None:
        chat.data[VISITS] = 10
        await chat.send("Written.")
        assert chat.data[VISITS] == 20
        await chat.receive(text())

    async with open_town(router) as town:
        await town.rest()
        held = town.outbox.hold()
        await town.says("start")
        await town.says("/set")
        held.release()
        await town.rest()
        assert town.store.reads == 2  # the inbox at the start, twice; the data came with the beginning
        assert town.store.kept == {(CHAT, "visits"): "[1,20]"}
        assert town.counts.get("crashed", 0) == 0


async def test_reads_are_fresh_and_empty_slots_have_their_default() -> None:
    router, seen = Router(), list[object]()

    @router.conversation
    async def look(chat: Chat) -> None:
        chat.data[SCORES][1] = 5
        seen.append(chat.data[SCORES])
        scores = chat.data[SCORES]
        chat.data[SCORES] = scores
        scores[2] = 2
        seen.append(chat.data[SCORES])
        with pytest.raises(KeyError, match="answers"):
            chat.data[ANSWERS]
        chat.data[ANSWERS] = Answers(7, ("a",))
        seen.append((ANSWERS in chat.data, chat.data[ANSWERS]))
        del chat.data[ANSWERS]
        del chat.data[ANSWERS]
        seen.append(ANSWERS in chat.data)
        with pytest.raises(UnrecordableError, match="another class"):
            chat.data[VISITS] = "many"  # type: ignore[misc]
        with pytest.raises(UnrecordableError, match="megabyte"):
            chat.data[ANSWERS] = Answers(7, ("a" * 2**20,))
        seen.append(ANSWERS in chat.data)

    async with open_town(router) as town:
        await town.says("start")
        assert seen == [{1: 1}, {1: 1}, (True, Answers(7, ("a",))), False, False]
        assert town.store.kept == {(CHAT, "scores"): encode_value({1: 1})}


async def test_a_key_upgrades_what_an_older_bot_stored() -> None:
    router, seen = Router(), list[object]()
    upgraded = Key("answers", Answers, upgrade=lambda old: Answers(int(str(old))))

    @router.conversation
    async def look(chat: Chat) -> None:
        seen.append(chat.data[upgraded])

    store = FakeStore()
    store.kept[CHAT, "answers"] = encode_value("42")
    async with open_town(router, store=store) as town:
        await town.says("start")
        assert seen == [Answers(42)]


async def test_it_is_the_conversations_own_tasks_only() -> None:
    router = Router()

    @router.conversation
    async def look(chat: Chat) -> None:
        async def body() -> None:
            chat.data[VISITS] = 1

        with pytest.raises(ForeignTaskError):
            await chat.step(body)
        await chat.send("Refused.")

    async with open_town(router) as town:
        await town.says("start")
        assert town.sent() == ["Refused."]


async def test_a_key_that_comes_too_late_is_refused() -> None:
    data_module._declared.clear()
    router = Router()

    @router.conversation
    async def look(chat: Chat) -> None:
        late = Key("late", int, default=0)
        with pytest.raises(ConfigError, match="too late"):
            chat.data[late]
        await chat.send("Refused.")

    async with open_town(router) as town:
        await town.says("start")
        assert town.sent() == ["Refused."]


def test_a_key_that_cannot_be_stored_is_refused() -> None:
    for name in ("", "\0", "\ud800"):
        with pytest.raises(ConfigError):
            Key(name, int)
    with pytest.raises(UnrecordableError):
        Key("x", int, default="no")  # type: ignore[type-var]
    with pytest.raises(ConfigError, match="takes a value, such as"):
        Key("x", list, default=list)  # type: ignore[arg-type]
    assert Key("x", float, default=1).load(None) == 1


TYPES: Sequence[tuple[Any, Sequence[object], Sequence[object]]] = (
    # a type, what is of it, what isn't
    (int, (1, True), ("a", 1.0, None)),
    (float, (1, 1.5), (True, "a")),
    (bool, (True,), (1,)),
    (object, (1, None, "a"), ()),
    (None, (None,), (0,)),
    (int | None, (1, None), ("a", 1.0)),
    (typing.Optional[int], (1, None), ("a",)),  # noqa: UP045
    (typing.Union[int, str], (1, "a"), (None, 1.5)),  # noqa: UP007
    (list[int] | None, ([1], [], None), (["a"], (1,))),
    (float | None, (1, None), ("a",)),
    (list[int], ([], [1, 2]), ([1, "a"], (1,), None)),
    (list[float], ([1, 1.5],), ([True],)),
    (list, ([1, "a"],), ((1,),)),
    (list[Any], ([1, "a"],), ((1,),)),
    (list[int | None], ([1, None],), (["a"],)),
    (list[list[int]], ([[1], []],), ([[1], ["a"]], [1])),
    (set[int], ({1},), ({"a"}, frozenset({1}))),
    (frozenset[str], (frozenset({"a"}),), (frozenset({1}), {"a"})),
    (dict[str, int], ({}, {"a": 1}), ({"a": "x"}, {1: 1}, [])),
    (dict[str, list[int]], ({"a": [1]},), ({"a": ["x"]},)),
    (dict[str, Any], ({"a": "x"},), ({1: "x"},)),
    (dict[Any, int], ({"a": 1},), ({"a": "x"},)),
    (tuple[int, str], ((1, "a"),), ((1,), ("a", 1), (1, "a", 2), [1, "a"])),
    (tuple[int, ...], ((), (1, 2)), ((1, "a"), [1])),
    (tuple[()], ((),), ((1,),)),
    (tuple, ((), (1, "a")), ([],)),
    (typing.Tuple, ((), (1, "a")), ([],)),  # noqa: UP006
    (tuple[int, *tuple[str, ...]], ((1, "a"),), ([],)),
    (Sequence[int], ([1], (1,)), (["a"], "a", {1})),
    (Mapping[str, int], ({"a": 1},), ({"a": "x"}, ["a"])),
    (Annotated[int, "years"], (1,), ("a",)),
    (list[Annotated[int, "years"]], ([1],), (["a"],)),
    (Any, (1, None, ["a"]), ()),
    (Literal["a", 1], ("a", 1), ("b", True, None)),
    (Age, (1,), ("a",)),
    (dict[str, Age], ({"a": 1},), ({"a": "x"},)),
    (Answers, (Answers(1), Answers("a")), (1,)),  # type: ignore[arg-type]
    (tuple[Answers, ...], ((Answers(1),),), ((1,),)),
    (Entry, ({"age": 1},), ([],)),
    (T, (1, "a"), ()),
    (list[T], ([1, "a"],), (1,)),
    (Aged, (Answers(1), 1), ()),
)


@pytest.mark.parametrize(("kind", "fitting", "unfit"), TYPES, ids=lambda kind: str(kind)[:30])
def test_a_key_takes_what_is_of_its_type(
    kind: Any, fitting: Sequence[object], unfit: Sequence[object]
) -> None:
    """Elements and all; what is written is refused, and so is what is stored."""
    key: Key[Any] = Key("typed", kind)
    for value in fitting:
        assert key.load(key.dump(value)) == value
        assert Key[Any]("typed", kind, default=value).load(None) == value
    for value in unfit:
        with pytest.raises(UnrecordableError, match="holds another class"):
            key.dump(value)
        with pytest.raises(UnreadableRecordError, match="give the key an upgrade="):
            key.load(encode_value(value))


def test_elements_of_another_type_are_upgraded() -> None:
    key = Key("typed", list[str], upgrade=lambda old: [str(one) for one in cast("list[int]", old)])
    assert key.load(encode_value([1, 2])) == ["1", "2"]
    wrong = Key("typed", list[str], upgrade=lambda old: cast("list[str]", old))
    with pytest.raises(UnreadableRecordError, match=r"upgrade= makes a list, and no list\[str\]"):
        wrong.load(encode_value([1, 2]))


async def test_a_write_from_outside_is_seen_at_once_and_durable(autojump_clock: MockClock) -> None:
    router, seen = Router(), list[object]()

    @router.conversation
    async def wait(chat: Chat) -> None:
        seen.append(chat.data[VISITS])
        await chat.receive(text())
        seen.append(chat.data[VISITS])

    async with open_town(router, store=FakeStore(latency=3)) as town:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(town.says, "start")
            await trio.sleep(0.5)
            nursery.start_soon(town.dispatcher.keeping.put, CHAT, "visits", VISITS.dump(3))
        await trio.sleep(10)
        await town.dispatcher.keeping.put(CHAT, "visits", VISITS.dump(4))
        assert town.store.kept == {(CHAT, "visits"): "[1,4]"}
        assert VISITS.load((await town.dispatcher.keeping.data(CHAT))["visits"]) == 4
        assert await town.dispatcher.keeping.data(ChatId(99)) == {}
        await town.says("go on")
        assert seen == [3, 4]


async def test_of_two_writes_the_later_one_is_stored(autojump_clock: MockClock) -> None:
    """The conversation's own write is still with its turn when somebody else writes."""
    router = Router()

    @router.conversation
    async def write(chat: Chat) -> None:
        chat.data[VISITS] = 1
        town.dispatcher.commits.add([town.dispatcher.keeping.put_now(CHAT, "visits", VISITS.dump(2))])
        await chat.receive(text())

    async with open_town(router) as town:
        await town.says("start")
        assert await town.dispatcher.keeping.data(CHAT) == {"visits": VISITS.dump(2)}
        assert town.store.kept == {(CHAT, "visits"): VISITS.dump(2)}


@pytest.mark.parametrize("begun", [True, False])
async def test_a_write_from_outside_is_not_undone_after_a_crash(
    begun: bool, autojump_clock: MockClock
) -> None:
    """It came while the conversation had the turn, or only its event stood for it: nobody had told it yet."""
    bot, store = Router(), FakeStore()

    @bot.conversation
    async def count(chat: Chat) -> None:
        if not begun:
            await chat.send("Wait.")
        await trio.sleep(10)
        await chat.send("Now.")
        chat.data[VISITS] += 1
        await chat.send(str(chat.data[VISITS]))

    async with trio.open_nursery() as nursery:
        town = Town(bot, FakeOutbox(), store, TEXTS, username=None)
        run = await start(nursery, town)
        await town.rest()
        await town.says("hi")
        assert [row.begun is not None for row in store.rows.values()] == [True] * begun
        await town.dispatcher.keeping.put(CHAT, "visits", encode_value(7))
        await run.cut()
        town.new_dispatcher()
        run = await start(nursery, town)
        await trio.sleep(20)
        assert town.sent()[-1] == "8"
        await run.cut()
    assert store.kept == {(CHAT, "visits"): encode_value(8)}


async def test_who_asks_for_all_chats_sees_what_was_put_just_now() -> None:
    """In the very step in which a conversation has put it, before anything of that is in the store."""
    router, put = Router(), dict[int, trio.Event]()

    @router.conversation
    async def visit(chat: Chat) -> None:
        chat.data[VISITS] = chat.id
        put[chat.id].set()
        await chat.receive(command("end"))

    async with open_town(router) as town, trio.open_nursery() as nursery:
        seen = list[object]()

        async def look(chat_id: int) -> None:
            put[chat_id] = trio.Event()
            await put[chat_id].wait()
            found = dict(await town.dispatcher.keeping.keyed("visits", None))
            seen.append(found.get(ChatId(chat_id)))

        for chat_id in range(1, 21):
            nursery.start_soon(look, chat_id)
            await wait_all_tasks_blocked()
            await town.says("hi", chat_id)
        await wait_all_tasks_blocked()
        assert seen == [encode_value(chat_id) for chat_id in range(1, 21)]


async def test_values_of_a_store_that_is_away_for_a_moment_are_waited_for(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversation must not fail because the database's server was away."""
    store = FakeStore()
    read, away = store.data, [StoreAwayError("away"), StoreAwayError("away")]

    async def data(chat_id: ChatId) -> Mapping[str, str]:
        if away:
            raise away.pop()
        return await read(chat_id)

    monkeypatch.setattr(store, "data", data)
    async with open_town(counter(), store=store) as town:
        await town.says("hi")
        await trio.sleep(1)
        await town.rest()
        assert (away, town.sent()) == ([], ["1"])


async def test_what_a_place_keeps_is_forgotten_with_its_life(autojump_clock: MockClock) -> None:
    """What is stored counts then; until then all see the same, whoever has looked at it first."""
    router = Router()

    @router.conversation
    async def visit(chat: Chat) -> None:
        """Nobody comes."""

    async with open_town(router) as town:
        keeping = town.dispatcher.keeping
        kept = keeping.kept(CHAT)
        assert keeping.kept(CHAT) is kept
        await kept.load()
        await keeping.put(CHAT, "visits", VISITS.dump(1))
        assert kept.values == {"visits": "[1,1]"}
        keeping.drop(CHAT)
        await town.store.commit(PutData(CHAT, "visits", None))
        assert await keeping.data(CHAT) == {}
        assert keeping.kept(CHAT) is not kept
        # One in which nobody lives is forgotten as well.
        alone = keeping.kept(CHAT)
        keeping.drop(CHAT)
        assert keeping.kept(CHAT) is not alone


READS = ("conversations", "journal", "pending", "backlog", "unfinished", "due", "next_wake", "data")


@pytest.mark.parametrize("name", READS)
async def test_a_store_that_is_away_for_a_moment_cuts_nothing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A chat at rest comes back behind a restart, and a timeout fires, whichever read has to wait."""
    router, store, outbox = Router(), FakeStore(), FakeOutbox()

    @router.conversation
    async def remind(chat: Chat) -> None:
        with chat.move_on_after(60):
            await chat.ask("Well?")
        await chat.send("too late")

    async with open_town(router, store=store, outbox=outbox) as town:
        await town.says("hi")
        await town.rest()
    away, read = 3, getattr(store, name)

    async def reading(*args: object, **named: object) -> object:
        nonlocal away
        if away:
            away -= 1
            raise StoreAwayError("away")
        return await read(*args, **named)

    monkeypatch.setattr(store, name, reading)
    async with open_town(router, store=store, outbox=outbox) as town:
        await trio.sleep(61)
        await town.says("hello?")
        await town.rest()
        assert town.sent() == ["Well?", "too late", "Well?"]
