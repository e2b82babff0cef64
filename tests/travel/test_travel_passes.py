"""Passes over the journals of driven bots: what came, what was sent, lines and variables at each turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.passing import SCHEMA, notches_of
from tests.schema import wrong
from tests.travel.rig import journals, states
from triobot import Bot, Chat, Key, Room
from triobot.base.secrets import Secret
from triobot.cli.exported import exported_journal
from triobot.conversations.revival.stored import Stored, read_stored
from triobot.conversations.routes.router import table_of
from triobot.conversations.services import Services
from triobot.emulator.views import JsonObject
from triobot.engine import Record, encode_record
from triobot.filters import command, text
from triobot.runtime.bot import dry_services_of
from triobot.runtime.settings import Settings
from triobot.studio.travel.notches import FRAMES
from triobot.studio.travel.parting import worded
from triobot.studio.travel.passes import Passed, run_pass
from triobot.testing import drive

SEEN = Key("seen", int, default=0)
HERE = Path(__file__).name


def line_of(words: str) -> int:
    """The line of this file in which these words stand first."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(n for n, line in enumerate(lines, 1) if words in line and "line_of(" not in line)


def lit(state: dict[str, Any], branch: str = "") -> list[int]:
    return [line for _, line, _ in state["f"][branch]]


def variables(state: dict[str, Any], branch: str = "") -> dict[str, str]:
    return {name: value for frame in state["v"].get(branch, ()) for name, value in frame.items()}


def story(passed: Passed) -> list[str]:
    """Kind and dot of each notch."""
    return [f"{notch['k']} {notch['dot']}" for notch in notches_of(passed)]


async def test_an_order_with_a_wrong_form_and_a_timeout(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = Bot()

    @attrs.frozen
    class Details:
        floor: int

    @bot.conversation
    async def order(chat: Chat) -> None:
        name = await chat.ask("Your name?")
        size = await chat.choose("Size?", {1: "Small", 2: "Large"})
        with chat.move_on_after(600) as limit:
            await chat.fill(Details, "Where?")
        chat.data[SEEN] += size
        await chat.send(f"{name}: {limit.cancelled_caught}")

    with journals(monkeypatch) as kept:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.sees("Your name?")
            await sara.says("Sara")
            await sara.presses("Large")
            await sara.submits({"floor": "second"})
            await sara.sees("Where?")
            await sara.sees("Floor: please enter a whole number.")
            await trio.sleep(700)
            await sara.sees("Sara: True")
        passed = await kept.passed("order")

    assert passed.head["state"] == "ended"
    assert (passed.head["notches"], passed.head["first"]) == (11, 0)
    (source,) = passed.head["sources"]
    assert source["name"] == HERE
    assert passed.texts == [Path(__file__).read_text(encoding="utf-8")]
    assert " ".join(story(passed)).split()[::2] == (
        ["begin", "send", "receive", "send", "receive", "send", "receive", "send", "fired", "send", "end"]
    )
    assert " ".join(story(passed)).split()[1::2] == (
        ["begin", "bot", "person", "bot", "person", "bot", "person", "bot", "time", "bot", "end"]
    )
    whole = states(passed)
    first, asked, named = whole[:3]
    assert first["in"]["what"] == "join"
    assert [one["text"] for one in first["out"]] == ["Your name?"]
    assert first["parked"][0]["words"] == "a delivery"
    assert asked["done"] == [["1", 1]]
    assert asked["parked"][0]["kind"] == "receive"
    assert lit(named) == [line_of('choose("Size?"')]
    assert variables(named)["name"] == "'Sara'"
    assert (named["in"]["text"], named["in"]["name"]) == ("Sara", "Sara")
    pressed = whole[4]
    assert (pressed["in"]["what"], pressed["in"]["text"], pressed["in"]["label"]) == (
        "press",
        "Large",
        "Large",
    )
    assert [one["kind"] for one in pressed["out"]] == ["tidy", "send"]
    (block,) = pressed["blocks"]
    assert block["due"] == pressed["t"] + 600_000
    assert block["line"] == [0, line_of("move_on_after(600)")]
    wrong = whole[6]
    assert wrong["in"]["fields"] == {"floor": "second"}
    assert wrong["out"][0]["form"][0]["value"] == "second"
    fired = whole[8]
    assert fired["line"] == block["line"]
    assert (fired["in"], fired["id"]) == ({"what": "timeout", "text": "", "block": block["id"]}, block["id"])
    assert fired["blocks"] == []
    assert fired["line"] == block["line"]
    assert variables(fired)["limit"] == "<Scope>"
    assert fired["data"] == {"seen": "2"}


async def test_children_and_hooks(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each branch has its lines, as far as it lives."""
    bot = Bot()

    @bot.around
    async def timed(room: Room, call: Callable[[], Awaitable[None]]) -> None:
        began = room.now().year
        await call()
        del began

    async def child(chat: Chat, n: int) -> None:
        await chat.sleep(n)
        found = await chat.step(double, n)
        await chat.sleep(found)

    async def double(n: int) -> int:
        await trio.lowlevel.checkpoint()
        return 2 * n

    @bot.conversation
    async def both(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            for n in (1, 10):
                nursery.start_soon(child, chat, n)
        await chat.ask("Done?")

    with journals(monkeypatch) as kept:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.sees("Done?", within=60)
        passed = await kept.passed("both")

    assert passed.head["state"] == "waits"
    whole = states(passed)
    children = sorted(path for path in whole[0]["f"] if path)
    assert len(children) == 2
    assert [variables(whole[0], path)["n"] for path in children] == ["1", "10"]
    assert [frame[2].rpartition(".")[2] for frame in whole[0]["f"][""]] == ["timed", "both"]
    assert variables(whole[0])["began"] == str(2027)
    assert lit(whole[1], children[0]) == [line_of("found = await chat.step(double, n)")]
    assert whole[1]["parked"][0]["words"].startswith("the step ")
    assert whole[2]["in"] == {"what": "result", "text": "2"}
    assert variables(whole[2], children[0])["found"] == "2"
    assert whole[-1]["f"].keys() == {""}
    assert lit(whole[-1])[-1] == line_of('await chat.ask("Done?")')
    assert any(notch.get("f", {}).get(children[0], 0) is None for notch in notches_of(passed))


def test_a_route_that_is_gone_is_named_where_code_parts() -> None:
    parting: JsonObject = {"notch": 0, "was": None, "now": None, "what": "the bot has no route 'bot.buy'"}
    assert worded(parting) == "at notch 0: the bot has no route 'bot.buy'"


async def test_a_crash_has_its_frames_and_causes(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = Bot()

    def price(name: str) -> int:
        cents = {"small": 1}
        try:
            return cents[name]
        except KeyError as error:
            raise ValueError(f"no {name}") from error

    @bot.conversation
    async def order(chat: Chat) -> None:
        name = await chat.ask("Size?")
        price(name)

    with journals(monkeypatch) as kept:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.sees("Size?")
            await sara.says("huge")
            await sara.sees()
            world.takes_alarm("conversation_crashed")
        passed = await kept.passed("order")

    assert passed.head["state"] == "crashed"
    (failure,) = passed.head["failures"]
    assert (failure["error"], failure["text"]) == ("ValueError", "ValueError: no huge")
    assert [frame[1:] for frame in failure["frames"]] == [
        [line_of("price(name)"), order.__qualname__],
        [line_of("raise ValueError(f"), price.__qualname__],
    ]
    assert failure["v"][1]["cents"] == "{'small': 1}"
    (cause,) = failure["causes"]
    assert (cause["error"], cause["because"]) == ("KeyError", "cause")
    last = states(passed)[-1]
    assert (last["k"], last["dot"]) == ("end", "crash")
    assert lit(last) == [line_of("price(name)"), line_of("raise ValueError(f")]
    assert variables(last)["name"] == "'huge'"


def talk_bot(way: str) -> Bot:
    """A bot whose conversation asks twice; or by other code."""
    bot = Bot()

    @bot.conversation
    async def talk(chat: Chat) -> None:
        first = await chat.ask("First?")
        if way == "sleeps":
            await chat.sleep(5)
        if way == "turns":
            while True:
                first += "x" if len(first) < 9 else ""
        if way == "spins":
            while True:
                await trio.lowlevel.checkpoint()
        if way == "fails":
            raise RuntimeError(first)
        if way == "catches":
            while True:
                try:
                    await trio.sleep_forever()
                except BaseException:
                    first += ""
        await chat.ask("Second?")

    return bot


async def passed_by(way: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Passed:
    with journals(monkeypatch) as kept:
        async with drive(talk_bot("asks")) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.sees("First?")
            await sara.says("one")
            await sara.sees("Second?")
    ((services, _, stored),) = kept.journals.values()
    return await run_pass(services, table_of(talk_bot(way)), stored, **options)


async def test_code_that_never_waits_has_its_line_and_variables(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = Bot()

    @bot.aside(text("?"))
    async def tell(chat: Chat) -> None:
        many = chat.data[SEEN] + 3
        if many > 5:
            await chat.send("Many.")

    with journals(monkeypatch) as kept:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.says("?")
            await world.waits(seconds=1)
        passed = await kept.passed("tell")

    [begins, _] = states(passed)
    assert lit(begins) == [line_of("if many > 5")]
    assert variables(begins)["many"] == "3"
    assert variables(begins)["chat.event"].startswith("Message(")


async def test_other_code_parts_from_its_journal(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = await passed_by("sleeps", monkeypatch)

    assert passed.head["state"] == "diverged"
    divergence = passed.head["divergence"]
    assert (divergence["notch"], divergence["line"]) == (2, [0, line_of("await chat.sleep(5)")])
    assert "sleep" in divergence["what"]
    assert lit(states(passed)[-1]) == [line_of("await chat.sleep(5)")]
    assert states(passed)[-1]["parked"][0]["kind"] == "sleep"


async def test_code_that_fails_by_now(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal goes on: code and journal part, and by what."""
    passed = await passed_by("fails", monkeypatch)

    assert passed.head["state"] == "diverged"
    assert "RuntimeError" in passed.head["divergence"]["what"]
    assert passed.head["divergence"]["line"] == [0, line_of("raise RuntimeError(first)")]


async def test_what_began_a_conversation_is_among_its_variables(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = Bot()

    @bot.conversation(text("milk", "oolong"))
    async def order(chat: Chat) -> None:
        await chat.ask("How many?")

    with journals(monkeypatch) as kept:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.says("oolong")
            await sara.sees("How many?")
        passed = await kept.passed("order")

    found = variables(states(passed)[1])
    assert list(found) == ["chat", "chat.event", "chat.sender"]
    assert "oolong" in found["chat.event"]
    assert "Sara" in found["chat.sender"]


async def test_words_that_were_not_sent_are_marked(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    price = 100

    def a_shop() -> Bot:
        bot = Bot()

        @bot.conversation
        async def order(chat: Chat) -> None:
            n = int(await chat.ask("How many?"))
            await chat.ask(f"{n} cost {n * price}. Right?")

        return bot

    with journals(monkeypatch) as kept:
        async with drive(a_shop()) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.sees("How many?")
            await sara.says("4")
            await sara.sees("4 cost 400. Right?")
    ((services, _, stored),) = kept.journals.values()
    as_sent = await run_pass(services, table_of(a_shop()), stored)
    price = 50
    other = await run_pass(services, table_of(a_shop()), stored)

    def sent(passed: Passed) -> list[tuple[str, bool]]:
        told = [out for notch in states(passed) for out in notch.get("out", ())]
        return [(out["text"], "reworded" in out) for out in told if out["kind"] == "send"]

    assert (as_sent.head["reworded"], other.head["reworded"]) == (0, 1)
    assert sent(as_sent) == [("How many?", False), ("4 cost 400. Right?", False)]
    assert sent(other) == [("How many?", False), ("4 cost 200. Right?", True)]


@pytest.mark.virtual_time(False)
@pytest.mark.parametrize("way", ["turns", "spins", "catches"])
async def test_code_that_does_not_rest_is_cut_short(way: str) -> None:
    """Even what never awaits anything: the pass says in which line."""
    services, stored = two_answers()

    passed = await run_pass(services, table_of(talk_bot(way)), stored, seconds=0.3)

    assert passed.head["state"] == "hangs"
    assert passed.head["divergence"] is None
    number, line = passed.head["hangs"]["line"]
    assert passed.head["sources"][number]["name"] == HERE
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    begin = next(n for n, one in enumerate(source, 1) if f'way == "{way}"' in one)
    assert begin < line < begin + 6
    assert len(notches_of(passed)) == 2


def two_answers() -> tuple[Services, Stored]:
    """A journal of `talk`, as it is exported."""
    bot = talk_bot("asks")
    (route,) = table_of(bot).routes
    row = {
        "conversation": 1,
        "chat_id": 5,
        "route": route.name,
        "kind": "conversation",
        "version": str(route.version),
        "sender_id": None,
        "key": None,
        "run": 1,
        "unfinished": False,
        "wake_at": None,
        "parked_because": None,
        "error": None,
        "in_hand": 0,
        "position": 3,
        "started_at": 1700000000000,
        "updated_at": 1700000000001,
    }
    began = [{"class": ["triobot.Join", {"chat_id": 5, "sender": None}]}, 7, None]
    said = {"said": [5, "one", 7, "Sara", "sara", 2, 1700000000001]}
    records: list[Record] = [
        ["S", 1700000000000, route.name, began, "aa", 1],
        ["D", 1700000000000, 1, "send sendMessage", "", {"sent": [5, 1]}],
        ["D", 1700000000001, 2, "receive", "", said, 2],
    ]
    lines = [{"n": n, "record": encode_record(record)} for n, record in enumerate(records)]
    journal = exported_journal([row, *lines])
    settings = Settings(development=True, token=Secret("t"), base_url="http://x", store="memory:")
    return dry_services_of(bot, settings), read_stored(journal)


async def test_a_window_begins_with_a_whole_state(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = await passed_by("asks", monkeypatch)

    for start in range(len(notches_of(passed))):
        first, *rest = passed.window(start, start + 2)
        assert first == states(passed)[start]
        assert rest == list(notches_of(passed)[start + 1 : start + 2])
    assert list(passed.window(len(passed.turns), 99)) == []


async def test_after_its_time_only_what_ran_has_variables(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = Bot()

    async def child(chat: Chat) -> None:
        for n in range(3):
            await chat.sleep(n + 1)

    @bot.conversation
    async def both(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(child, chat)
            await chat.receive(text("end"))

    with journals(monkeypatch) as kept:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await trio.sleep(20)
        thin = await kept.passed("both", variables=0)
        full = await kept.passed("both")

    assert any(notch.get("thin") for notch in notches_of(thin))
    assert not any(notch.get("thin") for notch in notches_of(full))
    assert [lit(state, path) for state in states(thin) for path in state["f"]] == [
        lit(state, path) for state in states(full) for path in state["f"]
    ]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"dot": "blue"}, "dot"),
        ({"n": "1"}, "n: str"),
        ({"more": 1}, "there is no 'more'"),
        ({"f": {"": [[0, 1]]}}, "f."),
        ({"v": {"": [{"a": 1}]}}, "a: int"),
    ],
)
async def test_the_schema_refuses_what_is_no_notch(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], where: str
) -> None:
    passed = await passed_by("asks", monkeypatch)
    schema = SCHEMA["$defs"]["notch"]

    notches = notches_of(passed)
    assert [wrong(notch, schema, SCHEMA) for notch in notches] == [None] * len(notches)
    assert where in (wrong({**notches[0], **change}, schema, SCHEMA) or "")


@pytest.mark.parametrize("way", ["sleeps", "fails"])
async def test_the_schema_knows_passes_that_part(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    passed = await passed_by(way, monkeypatch)
    assert wrong(passed.head, SCHEMA["$defs"]["head"], SCHEMA) is None


@pytest.mark.slow
async def test_a_long_journal_by_windows(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each whole notch is what the notches from the first to it make."""
    bot = Bot()

    async def counts(chat: Chat, n: int) -> None:
        await chat.sleep(n)

    @bot.conversation
    async def talk(chat: Chat) -> None:
        for n in range(300):
            async with chat.open_nursery() as nursery:
                nursery.start_soon(counts, chat, n % 3 + 1)
                nursery.start_soon(counts, chat, n % 2 + 1)
            if n % 7 == 0:
                chat.data[SEEN] = n
        await chat.ask("Done?")

    with journals(monkeypatch) as kept:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.sees("Done?", within=1_000)
        passed = await kept.passed("talk")

    whole = states(passed)
    assert len(whole) > 400
    for start in (0, 1, 255, 256, 257, 300, len(whole) - 1):
        first, *rest = passed.window(start, start + 20)
        assert first == whole[start]
        assert rest == list(notches_of(passed)[start + 1 : start + 20])


async def test_deep_recursion_shows_its_ends(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = Bot()

    async def deeper(chat: Chat, n: int) -> None:
        if n:
            await deeper(chat, n - 1)
        else:
            await chat.ask("Done?")

    @bot.conversation
    async def talk(chat: Chat) -> None:
        await deeper(chat, 100)

    with journals(monkeypatch) as kept:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.sees("Done?")
        last = states(await kept.passed("talk"))[-1]

    assert len(last["f"][""]) == len(last["v"][""]) == FRAMES
    assert [frame.get("n") for frame in last["v"][""]][:2] == [None, "100"]
    assert last["v"][""][-1]["n"] == "0"


async def test_an_error_of_the_authors_is_told_by_its_class(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = Bot()

    class NoFlourError(Exception):
        pass

    async def buy() -> None:
        raise NoFlourError("none until Monday")

    @bot.conversation
    async def order(chat: Chat) -> None:
        try:
            await chat.step(buy, raises=NoFlourError)
        except NoFlourError:
            await chat.ask("Bread?")

    with journals(monkeypatch) as kept:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.sees("Bread?")
        passed = await kept.passed("order")
    assert notches_of(passed)[1]["in"] == {"what": "error", "text": "NoFlourError: none until Monday"}


async def test_what_has_ended_a_conversation_is_told(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = Bot()

    @bot.conversation(command("wait"))
    async def waits(chat: Chat) -> None:
        await chat.ask("Well?")

    @bot.conversation(command("left"))
    async def left(chat: Chat) -> None:
        await chat.ask("Well?")

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    with journals(monkeypatch) as kept:
        async with drive(bot) as world:
            sara, leyla = world.user("Sara", joined=True), world.user("Leyla", joined=True)
            await sara.says("/wait")
            await sara.sees("Well?")
            await sara.says("/cancel")
            await sara.sees("Cancelled.")
            await leyla.says("/left")
            await leyla.sees("Well?")
            await leyla.leaves()
            await world.waits(seconds=1)
        told = {name: (await kept.passed(name)).head for name in ("waits", "left", "cancel")}
    assert {name: head["state"] for name, head in told.items()} == {
        "waits": "interrupted",
        "left": "left",
        "cancel": "ended",
    }
    assert [wrong(head, SCHEMA["$defs"]["head"], SCHEMA) for head in told.values()] == [None] * 3
