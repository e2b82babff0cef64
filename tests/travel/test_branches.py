"""A conversation goes on from a notch in another way: on the real runtime, beside the one that there was."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import attrs
import pytest
import trio
from journals import Library, library
from trio.testing import MockClock

from triobot import Alarm, Bot, Buttons, Chat, Failure, Key, Room, Tick
from triobot.conversations.revival.stored import Stored
from triobot.errors import ConfigError, NondeterminismError
from triobot.filters import command, join, message, signal
from triobot.studio.travel.branches import LiveBranch, open_branch
from triobot.studio.travel.past import notch_starts
from triobot.testing import drive

NAME = Key("name", str)
SEEN = Key("seen", int, default=0)


@attrs.frozen
class Wanted:
    what: str


def a_shop() -> Bot:
    bot = Bot()

    @bot.conversation(join(), name="order")
    async def order(chat: Chat) -> None:
        name = await chat.ask("Your name?")
        chat.data[NAME] = name
        with chat.move_on_after(600) as block:
            size = await chat.choose("Size?", {"s": "Small", "l": "Large"})
            where = await chat.ask("Where to?")
            await chat.send(f"{name}: {size} to {where}.")
        if block.cancelled_caught:
            await chat.send(f"Too slow, {chat.data[NAME]}.")
        await chat.to(77).send(f"{name} was here")
        await chat.to(78).signal(Wanted(name))
        await chat.to(kitchen, "a").signal(Wanted(name))
        await chat.ask("How was it?", int)
        raise RuntimeError("nobody asked for this")

    @bot.interrupt(command("cancel"), name="cancel")
    async def cancel(chat: Chat) -> None:
        await chat.send(f"Cancelled {chat.interrupted}.")

    @bot.aside(command("help"), name="help")
    async def help_(chat: Chat) -> None:
        await chat.send("There is no help.")

    @bot.room(signal(Wanted), name="kitchen")
    async def kitchen(room: Room[Wanted]) -> None:
        room.data[SEEN] += 1

    return bot


async def ordered(bot: Bot) -> Stored:
    """The journal of somebody who has ordered a small one, up to the last question."""
    with library() as kept:
        async with drive(bot) as world:
            for number in (77, 78):
                await world.user(f"Somebody {number}", chat_id=number).joins()
            sara = world.user("Sara", id=2001)
            await sara.joins()
            await sara.sees("Your name?")
            await sara.says("Sara")
            await sara.presses("Small")
            await world.waits(minutes=3)
            await sara.says("Main street")
            await sara.sees("How was it?")
    return next(one for one in kept.all().values() if one.row.chat_id == sara.chat_id)


def at_question(stored: Stored, text: str, bot_texts: list[str]) -> int:
    """The notch at which a question has been answered by the platform: it is on the screen."""
    begins = enumerate(notch_starts(stored.records))
    sends = [n for n, place in begins if stored.records[place][3] == "send sendMessage"]
    return sends[bot_texts.index(text)]


async def data_of(branch: LiveBranch) -> Mapping[str, str]:
    work = branch._work  # pyright: ignore[reportPrivateUsage]
    return await work.store.data(branch.past.chat_id)


def said(branch: LiveBranch) -> list[str]:
    """What the bot has said in the branch, itself."""
    lines = [line for line in branch.chat() if line["kind"] == "message" and line["new"] and line["from_bot"]]
    return [str(line["content"]["text"]) for line in lines]


TEXTS = ["Your name?", "Size?", "Where to?", "Sara: s to Main street."]


async def test_another_answer_leads_on_from_the_notch(autojump_clock: MockClock) -> None:
    stored = await ordered(bot := a_shop())
    async with open_branch(bot, stored, at_question(stored, "Size?", TEXTS)) as branch:
        shown = [line["content"]["text"] for line in branch.chat() if line["kind"] == "message"]
        assert shown == ["Your name?", "Sara", "Size?"]
        assert not any(line["new"] for line in branch.chat())
        await branch.act("press", {"label": "Large"})
        await branch.act("say", {"text": "Side street"})

        assert said(branch) == ["Where to?", "Sara: l to Side street.", "How was it?"]
        assert [line["kind"] for line in branch.chat() if line["new"]] == [
            "press",
            "message",
            "message",
            "message",
            "message",
        ]
        [stands] = branch.stands()
        assert (stands["route"], stands["state"], stands["tasks"][0]["kind"]) == ("order", "waits", "receive")
        assert not branch.failures


async def test_the_clock_begins_at_the_notch_and_an_open_block_ends_when_it_would_have(
    autojump_clock: MockClock,
) -> None:
    stored = await ordered(bot := a_shop())
    notch = at_question(stored, "Where to?", TEXTS)
    async with open_branch(bot, stored, notch) as branch:
        assert branch.now - branch.past.at < 1_000
        [block] = branch.stands()[0]["blocks"]
        assert block["due"] - branch.past.at == 600_000
        await branch.waits(599)
        assert said(branch) == []
        await branch.waits(2)

        assert said(branch)[0] == "Too slow, Sara."


async def test_nothing_leaves_and_what_would_have_is_told(autojump_clock: MockClock) -> None:
    stored = await ordered(bot := a_shop())
    async with open_branch(bot, stored, at_question(stored, "Where to?", TEXTS)) as branch:
        assert branch.left == []
        await branch.act("say", {"text": "Side street"})

        assert [(one.what, one.text) for one in branch.left] == [
            ("send", "Sara was here"),
            ("signal", "Wanted(what='Sara')"),
            ("signal", "Wanted(what='Sara')"),
        ]
        assert branch.left[0].to == "chat 77"
        assert len(branch.stands()) == 1  # no room has begun, and no other chat


async def test_a_crash_is_shown_with_its_line_and_variables(autojump_clock: MockClock) -> None:
    stored = await ordered(bot := a_shop())
    last = len(notch_starts(stored.records)) - 1
    async with open_branch(bot, stored, last) as branch:
        assert not branch.ended
        await branch.act("say", {"text": "5"})

        assert branch.ended
        [broke] = branch.failures
        assert isinstance(broke.error, RuntimeError)
        assert 'raise RuntimeError("nobody asked for this")' in broke.text
        assert "size = 's'" in broke.text
        assert [alarm.kind for alarm in branch.alarms] == ["conversation_crashed"]
        assert said(branch) == ["Something went wrong here. Please start again."]


async def test_interrupts_and_asides_come_as_ever(autojump_clock: MockClock) -> None:
    stored = await ordered(bot := a_shop())
    async with open_branch(bot, stored, at_question(stored, "Where to?", TEXTS)) as branch:
        await branch.act("say", {"text": "/help"})
        assert not branch.ended
        await branch.act("say", {"text": "/cancel"})
        assert branch.ended

        assert said(branch) == ["There is no help.", "Cancelled order."]


async def test_what_the_chat_kept_at_the_notch_is_there(autojump_clock: MockClock) -> None:
    stored = await ordered(bot := a_shop())
    async with open_branch(bot, stored, 0) as branch:
        assert await data_of(branch) == {}
    async with open_branch(bot, stored, at_question(stored, "Size?", TEXTS)) as branch:
        assert list((await data_of(branch)).values()) == ['[1,"Sara"]']


async def test_each_branch_is_its_own(autojump_clock: MockClock) -> None:
    """Several of one bot may be open, even while the bot itself runs."""
    stored = await ordered(bot := a_shop())
    notch = at_question(stored, "Size?", TEXTS)
    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        async with open_branch(bot, stored, notch) as one, open_branch(bot, stored, notch) as other:
            await one.act("press", {"label": "Large"})
            await other.act("press", {"label": "Small"})
            await one.act("say", {"text": "A"})
            await other.act("say", {"text": "B"})
            assert said(one)[1:2] == ["Sara: l to A."]
            assert said(other)[1:2] == ["Sara: s to B."]
        await ali.sees("Your name?")


async def test_the_end_of_a_journal_is_a_notch_as_well(autojump_clock: MockClock) -> None:
    """What comes then is for nobody, or begins anew."""
    bot = Bot()

    @bot.conversation(message(str), name="echo")
    async def echo(chat: Chat) -> None:
        await chat.send("Yes?")
        await chat.ask("More?")
        raise RuntimeError

    with library() as kept:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.says("hi")
            await sara.says("no")
            await world.waits(seconds=1)
            world.takes_alarm("conversation_crashed")
    [stored] = kept.all().values()
    async with open_branch(bot, stored, len(notch_starts(stored.records)) - 1) as branch:
        assert branch.ended
        assert not branch.failures
        await branch.act("say", {"text": "again"})
        assert said(branch) == ["Yes?", "More?"]


async def test_a_notch_that_is_none_is_refused(autojump_clock: MockClock) -> None:
    stored = await ordered(bot := a_shop())
    last = len(notch_starts(stored.records)) - 1
    with pytest.raises(ConfigError, match=f"the notches 0 to {last}, and not {last + 1}"):
        async with open_branch(bot, stored, last + 1):
            pass


async def test_code_that_parts_before_the_notch_is_refused(autojump_clock: MockClock) -> None:
    stored = await ordered(a_shop())
    other = Bot()

    @other.conversation(join(), name="order")
    async def order(chat: Chat) -> None:
        await chat.send("Something else")
        await chat.sleep(5)

    with pytest.raises(NondeterminismError):
        async with open_branch(other, stored, 5):
            pass


async def test_an_error_in_the_block_comes_out_as_it_is(autojump_clock: MockClock) -> None:
    stored = await ordered(bot := a_shop())
    with pytest.raises(ZeroDivisionError):
        async with open_branch(bot, stored, 1):
            raise ZeroDivisionError


async def test_children_and_a_group_go_on(autojump_clock: MockClock) -> None:
    bot = Bot()

    @bot.conversation(command("vote"), name="vote")
    async def vote(chat: Chat) -> None:
        votes: list[str] = []
        buttons = Buttons({"y": "Yes", "n": "No"})
        asked = await chat.send("Pizza?", buttons=buttons)

        async def hear() -> None:
            while True:
                press = await chat.receive(buttons.pressed(asked))
                votes.append(press.value)
                await chat.answer("Noted")

        async def remind() -> None:
            await chat.sleep(60)
            await chat.send(f"{len(votes)} so far")

        with chat.move_on_after(120):
            async with chat.open_nursery() as nursery:
                nursery.start_soon(hear)
                nursery.start_soon(remind)
        await chat.send(" ".join(votes))

    with library() as kept:
        async with drive(bot) as world:
            ali, sara = world.user("Ali", id=1), world.user("Sara", id=2)
            group = await world.group(ali, sara, name="us", id=-5)
            await ali.at(group).says("/vote")
            await sara.at(group).presses("Yes")
            await world.waits(seconds=90)
            await ali.at(group).presses("No")
            await world.waits(seconds=10)
    [stored] = [one for one in kept.all().values() if one.row.route == "vote"]
    first = next(n for n, at in enumerate(notch_starts(stored.records)) if stored.records[at][3] == "receive")
    async with open_branch(bot, stored, first) as branch:
        assert {person.name for person in branch.people} == {"Ali", "Sara"}
        await branch.act("press", {"label": "Yes"}, 1)
        await branch.act("press", {"label": "No"}, 2)
        await branch.waits(61)
        await branch.waits(60)

        assert said(branch) == ["3 so far", "y y n"]
        assert [line["text"] for line in branch.chat() if line["kind"] == "answer"][-1] == "Noted"


def test_the_library_keeps_what_ends() -> None:
    assert Library().all() == {}


async def test_a_room_goes_on_by_what_it_is_told(autojump_clock: MockClock) -> None:
    bot = Bot()

    @bot.room(signal(Wanted), name="kitchen")
    async def kitchen(room: Room[Wanted]) -> None:
        total = [room.event.what]
        with room.move_on_after(60):
            while True:
                total.append((await room.receive(signal(Wanted))).what)
        room.data[SEEN] = len(total)
        await room.to(7).send(" ".join(total))

    with library() as kept:
        async with drive(bot) as world:
            seven = world.user("Seven", chat_id=7)
            await seven.joins()
            await bot.to(kitchen).signal(Wanted("a"))
            await bot.to(kitchen).signal(Wanted("b"))
            await world.waits(minutes=2)
            await trio.lowlevel.checkpoint()
    stored = next(one for one in kept.all().values() if one.row.kind == "room")
    async with open_branch(bot, stored, 0) as branch:
        await branch.tells(Wanted("c"))
        await branch.waits(61)

        assert branch.ended
        assert [(one.what, one.text) for one in branch.left] == [("send", "a c")]
        assert list((await data_of(branch)).values()) == ["[1,2]"]


async def test_nothing_of_the_bot_runs_but_its_routes(autojump_clock: MockClock) -> None:
    """Neither what hears of errors and alarms, nor background tasks, nor jobs."""
    bot, ran = Bot(), list[str]()

    @bot.background
    async def follow() -> None:
        ran.append("background")

    @bot.on_alarm
    async def page(alarm: Alarm) -> None:
        ran.append("alarm")

    @bot.on_error
    async def report(failure: Failure) -> None:
        ran.append("error")

    @bot.every(timedelta(minutes=5), name="tidy")
    async def tidy(room: Room[Tick]) -> None:
        ran.append("job")

    @bot.conversation(join(), name="talk")
    async def talk(chat: Chat) -> None:
        await chat.ask("Well?")
        raise RuntimeError

    with library() as kept:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.sees("Well?")
            await world.waits(seconds=1)
    stored = next(one for one in kept.all().values() if one.row.route == "talk")
    ran.clear()
    async with open_branch(bot, stored, 1) as branch:
        await branch.waits(3600)
        await branch.act("say", {"text": "Fine"})

        assert [type(broke.error) for broke in branch.failures] == [RuntimeError]
        assert branch.left == []
    assert ran == []


async def test_a_second_person_makes_the_chat_a_group_in_a_branch_too(autojump_clock: MockClock) -> None:
    """The store has seen who acted before the notch; so what another says, unasked, gets no answer."""
    bot = Bot()

    @bot.conversation(command("order"), name="order")
    async def order(chat: Chat) -> None:
        await chat.choose("How many?", {3: "Three"})
        await chat.ask("More?")

    with library() as kept:
        async with drive(bot) as world:
            ali, sara = world.user("Ali", id=1), world.user("Sara", id=2)
            group = await world.group(ali, sara, name="us", id=-5)
            await ali.at(group).says("/order")
            await sara.at(group).presses("Three")
            await world.waits(seconds=1)
    (stored,) = kept.all().values()
    async with open_branch(bot, stored, 1) as branch:
        await branch.act("say", {"text": "hello"}, 2)
        assert not [line for line in branch.chat() if line["new"] and line.get("from_bot")]
