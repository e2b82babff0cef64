"""A notch or a branch as a test: what people did up to there, run before it is called saved."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from journals import library
from trio.testing import MockClock

from tests import samples
from triobot import Bot
from triobot.cli.loading import load_bot
from triobot.conversations.revival.stored import Stored
from triobot.emulator.person import NotSeenError
from triobot.engine.records import INTERRUPTED
from triobot.errors import ConfigError
from triobot.studio.travel.branches import open_branch
from triobot.studio.travel.keeping import Kill, write_test
from triobot.studio.travel.outside import run_test
from triobot.studio.travel.past import look_back, notch_starts
from triobot.studio.travel.same_answers import open_same_answers
from triobot.testing import DrivenWorld, Plan, drive, simulate

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))

SHOP = """
import attrs
from triobot import Bot, Chat, Key, Paid
from triobot.filters import command, join, message, paid, signal

bot = Bot()
NAME = Key("kept-name", str)


@attrs.frozen
class Cake:
    size: str


class NoFlour(Exception):
    pass


@attrs.frozen
class Form:
    floor: int


async def price(size: str) -> int:
    raise AssertionError("no step runs in a kept test")


async def bake(size: str) -> Cake:
    raise AssertionError("no step runs in a kept test")


@bot.conversation(command("order"))
async def order(chat: Chat) -> None:
    name = chat.data[NAME] if NAME in chat.data else await chat.ask("Your name?")
    chat.data[NAME] = name
    size = await chat.choose("Size?", {"s": "Small", "l": "Large"})
    with chat.move_on_after(600) as block:
        await chat.fill(Form, "How do we find you?")
        try:
            rials = await chat.step(price, size, raises=NoFlour)
        except NoFlour as error:
            await chat.send(f"No flour: {error}")
            raise
        await chat.charge(rials, f"A cake for {name}", item=Cake(size), late="refund")
        cake = await chat.step(bake, size)
        await chat.send(f"It is {cake.size}.")
    if block.cancelled_caught:
        await chat.send("Too slow.")
    await chat.ask("How was it?")


@bot.aside(paid(Cake))
async def deliver(chat: Chat[Paid[Cake]]) -> None:
    chat.data[NAME] = chat.data[NAME] + "!"
    await chat.send("In the oven.")


@bot.conversation(signal(Cake))
async def told(chat: Chat[Cake]) -> None:
    await chat.send(f"Somebody has baked {chat.event.size}.")
    await chat.ask("Well?")
"""


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder; modules that were loaded by name are forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent in (EXAMPLES, tmp_path):
            del sys.modules[name]


@pytest.fixture
def shop(tmp_path: Path) -> ModuleType:
    (tmp_path / "cakes.py").write_text(SHOP, encoding="utf-8")
    load_bot(f"{tmp_path / 'cakes.py'}:bot")
    return sys.modules["cakes"]


async def passes(text: str, clock: MockClock) -> None:
    """Run a kept test in this process."""
    there: dict[str, Any] = {}
    exec(compile(text, "test_kept.py", "exec"), there)
    [test] = [value for name, value in there.items() if name.startswith("test_")]
    await test(clock)


async def sold(shop: ModuleType) -> list[Stored]:
    """The journals of an order with a form that was filled in wrongly, a refused payment and a kill."""
    with library() as kept:
        async with drive(shop.bot, steps={"price": [5_000], "bake": [shop.Cake("l")]}) as world:
            sara = world.user("Sara", wallet=50_000, id=2001)
            await sara.joins()
            await sara.says("/order")
            await sara.sees("Your name?")
            await sara.says("Sara")
            await sara.presses("Large")
            await sara.sees("How do we find you?")
            await sara.submits({"floor": "high"})
            await sara.sees("Floor: please enter a whole number.")
            await world.waits(minutes=3)
            await world.crashes()
            await sara.submits({"floor": "3"})
            await sara.sees("A cake for Sara")
            await sara.pays(code=1000)
            await world.waits(seconds=30)
            await sara.pays()
            await sara.sees("How was it?")
    return list(kept.all().values())


@pytest.mark.slow
async def test_a_kept_notch_passes_in_an_empty_folder(
    shop: ModuleType, tmp_path: Path, autojump_clock: MockClock
) -> None:
    order, *others = await sold(shop)
    last = len(notch_starts(order.records)) - 1
    past = await look_back(shop.bot, order, last)
    kill = order.records[0][1] + 60_000
    text = write_test("cakes.py:bot", past, beside=others, kills=[Kill(kill), Kill(kill, restart=True)])
    await passes(text, autojump_clock)
    kept = await run_test(text, folders=[str(tmp_path)])

    assert kept.passed, kept.output
    assert text == kept.text
    assert "    'price': [5000],\n    'bake': [recorded('[1,{\"class\":[\"cakes.Cake\"" in text
    body = [line.strip() for line in text.splitlines() if line.startswith(" " * 8)]
    assert body == [
        "sara = world.user('Sara', wallet=PLENTY, id=2001, chat_id=13601, joined=True)",
        "await sara.says('/order')",
        "await sara.sees('Your name?')",
        "await sara.says('Sara')",
        "await sara.sees('Size?')",
        "await sara.presses('Large')",
        "await sara.sees('How do we find you?')",
        "await sara.submits({'floor': 'high'})",
        "await sara.sees('Floor: please enter a whole number.')",
        "await world.waits(minutes=1)",
        "await world.crashes()",
        "await world.restarts()",
        "await world.waits(minutes=2)",
        "await sara.submits({'floor': '3'})",
        "await sara.sees('A cake for Sara')",
        "await sara.pays(code=1000)",
        'await sara.sees("Your wallet\'s balance is too low. Top it up and press the button again.")',
        "await world.waits(seconds=30)",
        "await sara.pays()",
        "await sara.sees('It is l.')",
        "await sara.sees('How was it?')",
        'assert (await sara.wallet())["IRR"] == PLENTY - 5000',
    ]


@pytest.mark.slow
async def test_one_that_fails_is_returned_with_its_failure(
    shop: ModuleType, tmp_path: Path, autojump_clock: MockClock
) -> None:
    order, *_ = await sold(shop)
    text = write_test("cakes.py:bot", await look_back(shop.bot, order, 3))
    kept = await run_test(text.replace("Your name?", "Your age?"), folders=[str(tmp_path)])

    assert not kept.passed
    assert "NotSeenError: the message 'Your age?' did not come" in kept.output
    assert str(tmp_path.parent) not in kept.output.replace(str(tmp_path), "")


async def test_of_one_that_does_not_end_in_time_it_is_not_known_whether_it_passes() -> None:
    kept = await run_test("import time\n\n\ndef test_long():\n    time.sleep(600)\n", seconds=0.2)

    assert kept.passed is None
    assert kept.output == "it did not end within 0.2 s"


async def test_a_branch_is_kept_with_what_was_said_in_it(shop: ModuleType, autojump_clock: MockClock) -> None:
    order, *_ = await sold(shop)
    size = (
        next(n for n, at in enumerate(notch_starts(order.records)) if "Press" in str(order.records[at])) - 1
    )
    async with open_branch(shop.bot, order, size) as branch:
        await branch.act("press", {"label": "Small"})
        await branch.waits(590)
        await branch.act("submit", {"values": {"floor": "2"}})
        await branch.raises("NoFlour", "none")
        text = write_test("cakes.py:bot", branch.past, branch=branch)
    await passes(text, autojump_clock)

    assert "from cakes import NoFlour, bot" in text
    assert "'price': [NoFlour('none')]" in text
    assert "await world.waits(seconds=590.02)" in text
    assert "await sara.sees('No flour: none')" in text
    assert "world.takes_alarm('conversation_crashed')" in text


async def test_a_timeout_at_the_end_is_kept(shop: ModuleType, autojump_clock: MockClock) -> None:
    order, *_ = await sold(shop)
    form = (
        next(n for n, at in enumerate(notch_starts(order.records)) if "Submission" in str(order.records[at]))
        - 1
    )
    async with open_branch(shop.bot, order, form) as branch:
        await branch.waits(601)
        await branch.waits(3600)
        text = write_test("cakes.py:bot", branch.past, branch=branch)
    await passes(text, autojump_clock)

    assert "await world.waits(minutes=10)\n        await sara.sees('Too slow.')" in text
    assert text.rstrip().endswith("await world.waits(seconds=3601.04)")


SHORT = """
from triobot import Bot, Chat

bot = Bot()


@bot.conversation
async def order(chat: Chat) -> None:
    with chat.move_on_after(1.5) as block:
        size = await chat.ask("Size?")
        await chat.sleep(0.05)
        await chat.send(f"{size} it is.")
        await chat.send(f"And {await chat.ask('Anything else?')}.")
    if block.cancelled_caught:
        await chat.send("Too slow.")
    await chat.ask("Where to?")
"""


async def test_an_answer_comes_at_the_very_moment(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundredth of a second decides: what is kept fails where the time-out is shorter."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def written(seconds: float) -> Bot:
        sys.modules.pop("shop", None)
        (tmp_path / "shop.py").write_text(SHORT.replace("1.5", str(seconds)), encoding="utf-8")
        return load_bot(f"{tmp_path / 'shop.py'}:bot")

    with library() as kept:
        async with drive(bot := written(1.5)) as world:
            sara = world.user("Sara", id=2001)
            await sara.joins()
            await sara.sees("Size?")
            for seconds, words in ((0.7, "Large"), (0.75, "Jam")):
                await world.waits(seconds=seconds)
                await sara.says(words)
            await sara.sees("Where to?")
    [stored] = kept.all().values()
    text = write_test("shop.py:bot", await look_back(bot, stored, len(notch_starts(stored.records)) - 1))
    assert text.count("await world.waits(seconds=0.7") == 2
    assert "waits(seconds=0.75)\n        await sara.sees('Large it is.')" in text
    await passes(text, autojump_clock)
    for seconds in (0.69, 1.44):
        written(seconds)
        with pytest.raises(BaseException, match="did not come"):
            await passes(text, autojump_clock)
    written(1.46)
    await passes(text, autojump_clock)


PRICES = """
import trio
from triobot import Bot, Chat

bot = Bot()


async def price(what: str) -> int:
    await trio.lowlevel.checkpoint()
    return {"tea": 5}[what]


@bot.conversation
async def order(chat: Chat) -> None:
    cost = await chat.step(price, await chat.ask("What?"))
    await chat.ask(f"It costs {cost}.")
"""


async def test_a_step_that_was_run_is_run_by_the_test(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def written(code: str) -> Bot:
        sys.modules.pop("prices", None)
        (tmp_path / "prices.py").write_text(code, encoding="utf-8")
        return load_bot(f"{tmp_path / 'prices.py'}:bot")

    with library() as kept:
        async with drive(written(PRICES)) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.sees("What?")
            await sara.says("coffee")
            await world.waits(seconds=1)
            world.takes_alarm("conversation_crashed")
    [stored] = kept.all().values()
    mended = PRICES.replace('{"tea": 5}[what]', '{"tea": 5}.get(what, 7)')
    async with open_same_answers(written(mended), stored) as same:
        await same.branch.runs()
        text = write_test("prices.py:bot", same.branch.past, branch=same.branch)
    assert "STEPS" not in text
    await passes(text, autojump_clock)
    written(PRICES)
    with pytest.raises(NotSeenError, match="It costs 7"):
        await passes(text, autojump_clock)


async def test_a_second_order_is_kept_without_the_steps_of_the_first(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    (tmp_path / "prices.py").write_text(PRICES, encoding="utf-8")
    bot = load_bot(f"{tmp_path / 'prices.py'}:bot")
    with library() as kept:
        async with drive(bot, steps={"price": [5, 6]}) as world:
            sara = world.user("Sara", joined=True)
            for rials in (5, 6):
                await sara.says("Hello")
                await sara.sees("What?")
                await sara.says("tea")
                await sara.sees(f"It costs {rials}.")
                await sara.says("Fine")
                await world.waits(seconds=9)
    first, second = kept.all().values()
    text = write_test("prices.py:bot", await look_back(bot, second, 3), beside=[first])
    await passes(text, autojump_clock)
    assert "'price': [6]," in text


async def test_what_the_chat_kept_and_what_was_told_begin_it(
    shop: ModuleType, autojump_clock: MockClock
) -> None:
    with library() as kept:
        async with drive(shop.bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await shop.bot.to(sara.chat_id).set(shop.NAME, "Sara")
            await sara.says("/order")
            await sara.sees("Size?")
            ali = world.user("Ali")
            await ali.joins()
            await shop.bot.to(ali.chat_id).signal(shop.Cake("m"))
            await ali.sees("Well?")
            await ali.says("Fine")
            await world.waits(seconds=1)
    order, told = (one for one in kept.all().values())
    text = write_test("cakes.py:bot", await look_back(shop.bot, order, 1))
    await passes(text, autojump_clock)
    assert "await bot.to(13601).set(NAME, NAME.load('[1,\"Sara\"]'))" in text

    text = write_test("cakes.py:bot", await look_back(shop.bot, told, 2))
    await passes(text, autojump_clock)
    assert "await bot.to(13602).signal(recorded(" in text


async def test_a_group_is_kept_with_all_who_spoke(autojump_clock: MockClock) -> None:
    bot = load_bot(f"{EXAMPLES / 'group_quiz.py'}:bot")

    async def play(world: DrivenWorld) -> None:
        ali, sara = world.user("Ali", id=1), world.user("Sara", id=2)
        group = await world.group(ali, sara, id=-77)
        await ali.at(group).says("/quiz")
        await ali.at(group).sees()
        await sara.at(group).presses("Nile")
        await world.waits(minutes=5)

    with library() as kept:
        async with drive(bot) as world:
            await play(world)
    stored = next(iter(kept.all().values()))
    last = len(notch_starts(stored.records)) - 1
    text = write_test("group_quiz.py:bot", await look_back(bot, stored, last, group=True), group=True)
    await passes(text, autojump_clock)

    assert "group = await world.group(ali, sara, id=-77)" in text
    assert "await sara.presses('Nile')" in text


async def test_a_payments_aside_is_kept_with_its_order(shop: ModuleType, autojump_clock: MockClock) -> None:
    journals = await sold(shop)
    aside = next(one for one in journals if one.row.kind == "aside")
    with pytest.raises(ConfigError, match="keep the one that did that"):
        write_test("cakes.py:bot", await look_back(shop.bot, aside, 0))


@pytest.mark.slow
@pytest.mark.parametrize("name", samples.sample(NAMES, every=3))
async def test_what_a_crowd_did_is_kept(name: str, autojump_clock: MockClock) -> None:
    """At the last notch of the first conversation of each chat, before something interrupted it."""
    bot: Bot = load_bot(f"{EXAMPLES / name}.py:bot")
    with library() as kept:
        await simulate(bot, Plan(seed=3, chats=2, groups=0, hours=2, crashes=0, faults=0))
    journals = kept.all()
    first: dict[int, Stored] = {}
    for one in journals.values():
        first.setdefault(one.row.chat_id, one)
    tried = 0
    for stored in list(first.values())[: samples.examples(12, every=8)]:
        begins = notch_starts(stored.records)
        ends = [n for n, at in enumerate(begins) if stored.records[at][0] == INTERRUPTED]
        notch = min([*ends, len(begins)]) - 1
        beside = [one for one in journals.values() if one.row.chat_id == stored.row.chat_id]
        past = await look_back(bot, stored, notch)
        try:
            text = write_test(f"{name}.py:bot", past, beside=[one for one in beside if one is not stored])
        except ConfigError:
            continue  # a room's, or begun by code
        await passes(text, autojump_clock)
        tried += 1
    assert tried or name in ("embed",)
