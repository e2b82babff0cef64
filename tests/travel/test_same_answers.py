"""What people answered goes into a fresh run of new code; what that asks besides is a developer's."""

from __future__ import annotations

import json
from collections.abc import Callable

import attrs
import pytest
from journals import library
from trio.testing import MockClock

from triobot import Bot, Chat, Key, Paid
from triobot.base.clock import StoppedClock
from triobot.conversations.revival.stored import Stored, read_stored
from triobot.errors import ConfigError
from triobot.filters import Filter, command, join, paid, text
from triobot.store.memory import open_memory
from triobot.studio.travel.branches import LiveBranch, written_down
from triobot.studio.travel.past import look_back, notch_starts
from triobot.studio.travel.same_answers import open_same_answers, replacement_of
from triobot.testing import drive

SIZE = Key("same-size", str)
BAKED = Key("baked", int, default=0)


@attrs.frozen
class Details:
    floor: int
    bell: str = ""


@attrs.frozen
class MoreDetails:
    floor: int
    bell: str = ""
    cutlery: bool = False


@attrs.frozen
class Cake:
    size: str


Extra = Callable[[Chat], object]


def a_shop(  # each is a way to change the code
    *,
    drink: bool = False,
    labels: tuple[str, str] = ("Small", "Large"),
    where: str = "Where to?",
    form: type[Details] | type[MoreDetails] = Details,
    step: str = "price",
    version: int = 1,
    name: str = "order",
) -> Bot:
    bot = Bot()

    async def price(size: str) -> int:
        return 5_000 if size == "s" else 7_000

    async def cost(size: str) -> int:
        return 9_000

    @bot.conversation(join(), name=name, version=version)
    async def order(chat: Chat) -> None:
        who = await chat.ask("Your name?")
        if drink:
            await chat.send(f"You drink {await chat.ask('Something to drink?')}.")
        size = await chat.choose("Size?", {"s": labels[0], "l": labels[1]})
        chat.data[SIZE] = size
        with chat.move_on_after(600):
            street = await chat.ask(where)
            details = await chat.fill(form, "How do we find you?")
            rials = await chat.step(price if step == "price" else cost, size)
            await chat.charge(rials, f"A cake for {who}", item=Cake(size), late="refund")
            await chat.send(f"{street}, floor {details.floor}.")
        await chat.ask("How was it?")

    @bot.aside(paid(Cake), name="bake")
    async def bake(chat: Chat[Paid[Cake]]) -> None:
        chat.data[BAKED] += 1
        await chat.send("It is in the oven.")

    return bot


async def ordered(bot: Bot) -> list[Stored]:
    """The journals of an order, the order's own first."""
    with library() as kept:
        async with drive(bot) as world:
            sara = world.user("Sara", wallet=50_000)
            await sara.joins()
            await sara.sees("Your name?")
            await sara.says("Sara")
            await sara.presses("Large")
            await world.waits(minutes=3)
            await sara.says("Main street")
            await sara.submits({"floor": "high", "bell": "S"})
            await sara.sees("Floor: please enter a whole number.")
            await sara.submits({"floor": "3", "bell": "S"})
            await sara.pays()
            await sara.sees("How was it?")
    return list(kept.all().values())


def said(branch: LiveBranch) -> list[str]:
    lines = [line for line in branch.chat() if line["kind"] == "message" and line["from_bot"]]
    return [str(line["content"]["text"]) for line in lines]


ALL = [
    "Your name?",
    "Size?",
    "Where to?",
    "How do we find you?",
    "Floor: please enter a whole number.",
    "A cake for Sara",
    "It is in the oven.",
    "Main street, floor 3.",
    "How was it?",
]


async def test_what_was_over_before_need_not_fit_the_new_code(autojump_clock: MockClock) -> None:
    """The chat hears of it neither in a branch nor in what takes the chat's place."""

    def talking(*questions: str) -> Bot:
        bot = Bot()

        @bot.conversation(name="talk")
        async def talk(chat: Chat) -> None:
            for question in questions:
                await chat.ask(question)
                if question == "Name?":
                    await chat.send("Hello.")

        return bot

    with library(ended=True) as kept:
        async with drive(talking("Name?", "Size?")) as world:
            sara = world.user("Sara")
            await sara.joins()
            for question, text in (("Name?", "Sara"), ("Size?", "large"), (None, "again"), ("Name?", "Ali")):
                if question is not None:
                    await sara.sees(question)
                await sara.says(text)
                await world.waits(seconds=1)
            await sara.sees("Size?")
    over, stored = kept.all().values()
    bot = talking("Language?", "Name?", "Size?")
    async with open_same_answers(bot, stored, beside=[over], numbers=500) as same:
        assert said(same.branch) == ["Language?"]
        await same.branch.act("say", {"text": "fa"})
        await same.insist()
        assert said(same.branch) == ["Language?", "Name?", "Hello.", "Size?"]
        assert not same.branch.alarms
        instead = replacement_of(await same.replacement())
    # No message that was there before gives way to one of these, also to that which the chat began with.
    assert instead.chat is not None
    assert min(instead.chat.entries) > 500


async def test_the_purchase_of_another_is_no_payment_of_what_takes_a_place(autojump_clock: MockClock) -> None:
    bot = Bot()

    @bot.conversation(command("buy"))
    async def buy(chat: Chat) -> None:
        await chat.charge(1_000, "tea", item=Cake("tea"))

    @bot.aside(paid(Cake))
    async def give(chat: Chat[Paid[Cake]]) -> None:
        chat.data[BAKED] += 1
        await chat.send("Here it is.")

    @bot.conversation(command("talk"))
    async def talk(chat: Chat) -> None:
        await chat.ask("Well?")
        await chat.ask("And then?")

    with library(ended=True) as kept:
        async with drive(bot) as world:
            sara = world.user("Sara", wallet=50_000)
            await sara.joins()
            await sara.says("/buy")
            await sara.pays()
            await sara.sees("Here it is.")
            await sara.says("/talk")
            await sara.sees("Well?")
            await sara.says("Good.")
            await sara.sees("And then?")
    *beside, stored = kept.all().values()
    assert stored.row.route.endswith("talk")
    async with open_same_answers(bot, stored, beside=beside, numbers=500) as same:
        assert (same.stopped, same.left) == (None, [])
        assert not replacement_of(await same.replacement()).asks_money


async def test_all_fits_the_same_code(autojump_clock: MockClock) -> None:
    stored, *beside = await ordered(bot := a_shop())
    async with open_same_answers(bot, stored, beside=beside, numbers=500) as same:
        assert (same.stopped, same.left) == (None, [])
        assert said(same.branch) == ALL
        [stands] = same.branch.stands()
        assert stands["id"] == stored.row.id
        # It happened when it had happened.
        assert same.branch.now - stored.records[0][1] >= 180_000

        instead = replacement_of(await same.replacement())
    assert (instead.conversation, instead.journal is None) == (stored.row.id, False)
    assert instead.journal is not None
    mine = read_stored(instead.journal)
    kinds = [one[3] for one in stored.records if one[0] == "D"]
    assert [one[3] for one in mine.records if one[0] == "D"] == kinds
    assert instead.chat is not None
    assert min(instead.chat.entries) > 500
    assert instead.data == {"baked": "[1,1]", "same-size": '[1,"l"]'}
    bills = same.branch.exchange.world.bills
    assert [(bill.amount, bill.state(instead.at)) for bill in bills] == [(7_000, "captured")]
    assert instead.asks_money


async def test_a_journal_of_the_new_code_goes_on_under_it(autojump_clock: MockClock) -> None:
    """What takes the chat's place can be branched, and revived, as any other."""
    stored, *beside = await ordered(a_shop())
    new = a_shop(drink=True)
    async with open_same_answers(new, stored, beside=beside) as same:
        await same.branch.act("say", {"text": "Tea"})
        await same.go_on()
        journal = replacement_of(await same.replacement()).journal
    assert journal is not None
    mine = read_stored(journal)
    past = await look_back(new, mine, len(notch_starts(mine.records)) - 1)
    assert not past.ended


async def test_it_takes_the_place_of_what_was_stored(autojump_clock: MockClock) -> None:
    """One commit ends what was, and puts what is there instead."""
    stored, *beside = await ordered(a_shop())
    async with open_same_answers(a_shop(drink=True), stored, beside=beside) as same:
        await same.branch.act("say", {"text": "Tea"})
        await same.go_on()
        instead = replacement_of(json.loads(json.dumps(await same.replacement())))
    async with open_memory(clock=StoppedClock(instead.at)) as store:
        chat_id = stored.row.chat_id
        await store.commit(*written_down(stored))
        await store.commit(*instead.writes(chat_id))

        [row] = await store.conversations(chat_id)
        assert (row.id, row.unfinished) == (stored.row.id, True)
        journal = await store.journal(row.id)
        assert journal is not None
        assert instead.journal is not None
        assert journal.records == instead.journal.records
        assert await store.data(chat_id) == instead.data


async def test_what_has_ended_leaves_no_journal(autojump_clock: MockClock) -> None:
    bot = Bot()

    @bot.conversation(join(), name="order")
    async def order(chat: Chat) -> None:
        await chat.send(f"Hello, {await chat.ask('Your name?')}.")

    stored, *_ = await ordered(a_shop())
    async with open_same_answers(bot, stored) as same:
        assert same.stopped == "the conversation is over, and this answer was not given"
        instead = replacement_of(await same.replacement())
    assert instead.journal is None
    assert [type(write).__name__ for write in instead.writes(stored.row.chat_id)] == ["EndConversation"]


async def test_a_new_question_is_the_developers(autojump_clock: MockClock) -> None:
    stored, *beside = await ordered(a_shop())
    async with open_same_answers(a_shop(drink=True), stored, beside=beside) as same:
        assert said(same.branch) == ["Your name?", "Something to drink?"]
        assert same.stopped == "there is no button like the one that was pressed"
        assert len(same.left) == 5
        await same.branch.act("say", {"text": "Tea"})
        await same.go_on()

        assert (same.stopped, same.left) == (None, [])
        assert said(same.branch) == [
            *ALL[:1],
            "Something to drink?",
            "You drink Tea.",
            *ALL[1:],
        ]


async def test_a_text_is_not_given_to_another_question(autojump_clock: MockClock) -> None:
    """Two texts in a row: the second is not for what comes between."""

    def a_talk(*, more: bool, words: str = "Which street do you live in?") -> Bot:
        bot = Bot()

        @bot.conversation(join(), name="talk")
        async def talk(chat: Chat) -> None:
            await chat.ask("Your name?")
            if more:
                await chat.ask("Something to drink?")
            await chat.send(f"To {await chat.ask(words)}.")
            await chat.ask("Well?")

        return bot

    with library() as kept:
        async with drive(a_talk(more=False)) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.sees("Your name?")
            await sara.says("Sara")
            await sara.sees("Which street do you live in?")
            await sara.says("Main street")
            await sara.sees("Well?")
    [stored] = kept.all().values()

    async with open_same_answers(a_talk(more=True), stored) as same:
        assert same.stopped == "what is open is another question than the one that was answered"
        await same.branch.act("say", {"text": "Tea"})
        await same.go_on()
        assert said(same.branch)[-2:] == ["To Main street.", "Well?"]
    reworded = a_talk(more=False, words="Which street is it that you live in?")
    async with open_same_answers(reworded, stored) as same:
        assert same.stopped == "what is open is another question than the one that was answered"
        await same.insist()
        assert (same.stopped, said(same.branch)[-1]) == (None, "Well?")
    async with open_same_answers(a_talk(more=True), stored) as same:
        await same.leave_out()
        assert said(same.branch)[-1] == "Something to drink?"


async def test_what_an_interrupt_took_is_an_answer(autojump_clock: MockClock) -> None:
    """Code whose interrupt doesn't take it any more gives it to the question."""

    def a_stop(*words: str) -> Bot:
        bot = Bot()

        @bot.conversation(join(), name="talk")
        async def talk(chat: Chat) -> None:
            await chat.ask(f"{await chat.ask('Your name?')}, what size?")

        @bot.interrupt(text(*words))
        async def stop(chat: Chat) -> None:
            await chat.ask("Stopped.")

        return bot

    with library(ended=True) as kept:
        async with drive(bot := a_stop("stop", "Stopford")) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.sees("Your name?")
            await sara.says("Stopford")
            await sara.sees("Stopped.")
    talk, *beside = kept.all().values()
    for one, words in ((bot, "Stopped."), (a_stop("stop"), "Stopford, what size?")):
        async with open_same_answers(one, talk, beside=beside) as same:
            assert (same.stopped, said(same.branch)) == (None, ["Your name?", words])


@pytest.mark.parametrize("starts", [text(), command("start")], ids=["the next conversation", "nothing"])
async def test_what_came_too_late_is_offered_once_there_is_time(
    starts: Filter[str], autojump_clock: MockClock
) -> None:
    """Whatever took it then. No time passes by itself, and what fits no more is not left over."""

    def a_shop(seconds: float) -> Bot:
        bot = Bot()

        @bot.conversation(starts, name="order")
        async def order(chat: Chat) -> None:
            with chat.move_on_after(seconds):
                await chat.send(f"{await chat.ask('Size?')}, on its way.")

        return bot

    with library(ended=True) as kept:
        async with drive(a_shop(5)) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.says("/start")
            await sara.sees("Size?")
            await world.waits(seconds=60)
            await sara.says("Large")
            await world.waits(seconds=1)
    stored, *beside = kept.all().values()
    late = stored.records[-1][1] + 55_000
    written = [(stored.records[0][1], sara.id, "/start"), (late, sara.id, "Large")]
    async with open_same_answers(a_shop(600), stored, beside=beside, said=written) as same:
        assert same.stopped == "what was said next came too late for the conversation as it was"
        assert (len(same.left), same.branch.now < late) == (1, True)
        await same.insist()
        assert (same.stopped, same.left, said(same.branch)[-1]) == (None, [], "Large, on its way.")
    async with open_same_answers(a_shop(5), stored, beside=beside, said=written) as same:
        await same.insist()
        assert (same.stopped, same.left, same.branch.ended) == (None, [], True)


@pytest.mark.parametrize(
    "new",
    [
        a_shop(labels=("Klein", "Groß")),
        a_shop(version=2),
        a_shop(form=MoreDetails),
    ],
    ids=["other labels", "another version", "one field more"],
)
async def test_what_was_meant_is_found_again(new: Bot, autojump_clock: MockClock) -> None:
    stored, *beside = await ordered(a_shop())
    async with open_same_answers(new, stored, beside=beside) as same:
        assert (same.stopped, same.left) == (None, [])
        assert said(same.branch)[-1] == "How was it?"


async def test_a_step_that_is_new_asks(autojump_clock: MockClock) -> None:
    stored, *beside = await ordered(a_shop())
    async with open_same_answers(a_shop(step="cost"), stored, beside=beside) as same:
        assert same.stopped is not None
        assert "cost waits for you" in same.stopped
        with pytest.raises(ConfigError, match="still waits"):
            await same.replacement()
        await same.branch.returns(4_000)
        await same.go_on()

        assert said(same.branch)[-1] == "How was it?"
        assert [bill.amount for bill in same.branch.exchange.world.bills] == [4_000]


async def test_a_route_that_is_gone_has_no_answers(autojump_clock: MockClock) -> None:
    stored, *_ = await ordered(a_shop())
    with pytest.raises(ConfigError, match="no route 'order'; if it has a new name"):
        async with open_same_answers(a_shop(name="sale"), stored):
            pass
