"""Changed code under what no person answers: signals, rooms, jobs, values that a place keeps, sleeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC

import attrs
import pytest
import trio
from deployed import PRELUDE, only, verdict_of
from doubles import FakeOutbox, FakeStore
from town import Town, open_town
from trio.testing import MockClock

from tests.exact.changes import swap
from tests.exact.small import Loaded
from triobot.conversations.routes.filters import signal, text
from triobot.conversations.routes.router import Router, table_of
from triobot.seams.journals import ConversationRow
from triobot.seams.rooms import SHARED, room_place
from triobot.wire.ids import ChatId


@attrs.frozen
class Change:
    """What has come of it under the old code; a number is time that passes, "@" is in front of a signal."""

    name: str
    kind: str
    old: str
    new: str
    happens: Sequence[str | int]
    expect: str


CHANGES: list[Change] = []
PLACES = {"chat": ChatId(10), "room": room_place("order", "k"), "job": SHARED}
NEXT: Mapping[str, str | int] = {"chat": "x", "room": "@9", "job": 9_000}


def case(
    name: str, kind: str, old: str, pairs: Sequence[tuple[str, str]], happens: object, expect: str
) -> None:
    CHANGES.append(Change(name, kind, old, swap(old, *pairs), happens, expect))  # type: ignore[arg-type]


SIGNALS = """async def order(chat):
    await chat.send("Go")
    a = await chat.receive(signal(str))
    kept.name = a
    b = await chat.receive(signal(str))
    kept.city = b
    await chat.ask("ok?")
"""
A, B = (
    "    a = await chat.receive(signal(str))\n    kept.name = a\n",
    "    b = await chat.receive(signal(str))\n",
)
HEARD = ["hi", "@1"]
case("signals swapped", "chat", SIGNALS, [(A + B, B + A)], HEARD, "P")
case("a signal inserted", "chat", SIGNALS, [(B, B.replace("b =", "c =") + B)], HEARD, "P")
case("a signal becomes a question", "chat", SIGNALS, [(B, '    b = await chat.ask("B?")\n')], HEARD, "P")
case("a wait takes more", "chat", SIGNALS, [(B, B.replace("str)", "str) | text()"))], HEARD, "S")
case(
    "a signal to a chat inserted",
    "chat",
    SIGNALS,
    [(B, '    await chat.to(7).signal("x")\n' + B)],
    HEARD,
    "P",
)

VALUES = """from triobot import Key
N = Key("n", int, default=0)
M = Key("m", int, default=0)

async def order(chat):
    n = await chat.shared.update(N, lambda old: old + 1)
    m = await chat.shared.get(M)
    await chat.ask("A?")
    kept.name, kept.city = n, m
"""
N = "    n = await chat.shared.update(N, lambda old: old + 1)\n"
M = "    m = await chat.shared.get(M)\n"
case("values of a place swapped", "chat", VALUES, [(N + M, M + N)], ["hi"], "P")
case("another value is read", "chat", VALUES, [("get(M", "get(N")], ["hi"], "P")
case("another value is changed", "chat", VALUES, [("update(N", "update(M")], ["hi"], "P")
case("a value is changed otherwise", "chat", VALUES, [("old + 1", "old + 2")], ["hi"], "S")

SLEEPS = """async def order(chat):
    await chat.sleep(100)
    await chat.send("late")
    await chat.sleep(100)
    await chat.ask("B?")
"""
SLEEP = "    await chat.sleep(100)\n"
case(
    "a sleep is longer",
    "chat",
    SLEEPS,
    [(SLEEP + "    await chat.send", SLEEP.replace("1", "5") + "    await chat.send")],
    ["hi"],
    "S",
)
case(
    "a sleep replaced",
    "chat",
    SLEEPS,
    [(SLEEP + '    await chat.ask("B?")', '    await chat.ask("C?")')],
    ["hi", 150],
    "P",
)

ON = """async def order(chat, n=0):
    a = await chat.ask("A?")
    b = await chat.ask("B?")
    await chat.continue_as(order, n + 1)
"""
ASKS = '    a = await chat.ask("A?")\n', '    b = await chat.ask("B?")\n'
ROUND = ["hi", "1", "2", "3"]
case("swapped in what goes on anew", "chat", ON, [("".join(ASKS), ASKS[1] + ASKS[0])], ROUND, "P")
case("reworded in what goes on anew", "chat", ON, [("A?", "And A?")], ROUND, "R")

ROOM = """async def tell(x):
    return x

async def order(room):
    a = await room.receive(signal(str))
    n = await room.step(tell, 1)
    await room.to(7).send("one")
    b = await room.receive(signal(str))
    c = await room.receive(signal(str))
    kept.name, kept.city = b, c
"""
TELL = "    n = await room.step(tell, 1)\n"
B = "    b = await room.receive(signal(str))\n"
C = B.replace("b =", "c =")
BEGUN = ["@0", "@1", "@2"]
case("a room's comments", "room", ROOM, [("    a =", "    # first\n    a =")], BEGUN, "S")
case("a room's signals swapped", "room", ROOM, [(B + C, C + B)], BEGUN, "P")
case("a wait inserted in a room", "room", ROOM, [(B, B.replace("b =", "d =") + B)], BEGUN, "P")
case("a room's step removed", "room", ROOM, [(TELL, "    n = 1\n")], BEGUN, "P")
case("a room's message reworded", "room", ROOM, [('"one"', '"first"')], BEGUN, "R")

JOB = """async def tell(x):
    return x

async def order(job):
    n = await job.step(tell, 1)
    await job.sleep(7200)
    await job.to(7).send("one")
    m = await job.step(tell, 2)
    await job.sleep(7200)
    kept.name, kept.city = n, m
"""
SEND = '    await job.to(7).send("one")\n'
ONE, TWO = "    n = await job.step(tell, 1)\n", "    m = await job.step(tell, 2)\n"
case("a job's comments", "job", JOB, [(ONE, "    # first\n" + ONE)], [40_000], "S")
case("a step inserted in a job", "job", JOB, [(SEND, ONE.replace("n =", "x =") + SEND)], [40_000, 9_000], "P")
case(
    "a job's steps exchange arguments",
    "job",
    JOB,
    [("tell, 1", "tell, ?"), ("tell, 2", "tell, 1"), ("tell, ?", "tell, 2")],
    [40_000],
    "P",
)
case("a job sleeps longer", "job", JOB, [("7200)\n" + SEND, "9200)\n" + SEND)], [40_000], "S")


def router_of(source: str, kind: str) -> Router:
    order = Loaded({"shop": PRELUDE.replace("import text", "import signal, text") + source}).find(
        "shop.order"
    )
    router = Router()
    match kind:
        case "chat":
            router.conversation(text(), name="order")(order)
        case "room":
            router.room(signal(str), name="order")(order)
        case _:
            router.every("0 9 * * *", tz=UTC, name="order")(order)
    return router


async def happen(town: Town, kind: str, what: str | int) -> None:
    match what:
        case int():
            await trio.sleep(what)
        case str() if what.startswith("@"):
            room = [("order", "k")] if kind == "room" else []
            await town.dispatcher.chat_calls.signal(PLACES[kind], what[1:], None, *room)
        case _:
            await town.says(what, PLACES[kind])
    await town.rest()


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
async def test_it_goes_on_with_what_was_meant_or_is_parked(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    only(monkeypatch)
    store, outbox = FakeStore(), FakeOutbox()
    verdict, rows = "", list[ConversationRow]()
    for source in (change.old, change.new):
        router = router_of(source, change.kind)
        for row in store.journals.conversations(PLACES[change.kind]):
            verdict, _ = await verdict_of(store, table_of(router), row)
        async with open_town(router, store=store, outbox=outbox, code=True) as town:
            for what in change.happens if source is change.old else [NEXT[change.kind]]:
                await happen(town, change.kind, what)
            rows = store.journals.conversations(PLACES[change.kind])

    assert verdict == change.expect
    assert any(row.parked_because for row in rows) is (change.expect == "P")
