"""Each widget asks what it says, comes back after a crash at every press, and ends with what ends it."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date, time
from typing import Final
from zoneinfo import ZoneInfo

import attrs
import pytest

from triobot import Bot, Chat, Command
from triobot.errors import ConfigError, LocalProtocolError
from triobot.filters import command
from triobot.testing import drive
from triobot.widgets import (
    GREGORIAN,
    JALALI,
    Menu,
    calendar,
    confirm,
    date_time,
    menu,
    multi_select,
    pager,
    rating,
)

Ask = Callable[[Chat], Awaitable[object]]

TOWNS: Final = {number: f"Town {number}" for number in range(20)}
TOPPINGS: Final = {"c": "Cheese", "o": "Olives", "h": "Ham"}
CARD: Final = Menu(
    "What would you like?",
    {"bread": "Bread"},
    [Menu("Drinks", {"tea": "Tea"}, [Menu("Cold", {"dough": "Dough"})]), Menu("Food", {"kebab": "Kebab"})],
)
BERLIN: Final = ZoneInfo("Europe/Berlin")


def bot_that(asks: Ask) -> Bot:
    """Make a bot that asks, and says what came of it."""
    bot = Bot()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    @bot.conversation
    async def ask(chat: Chat) -> None:
        with chat.move_on_after(3600) as limit:
            await chat.send(f"Got {await asks(chat)!r}")
        if limit.cancelled_caught:
            await chat.send("Too late.")

    return bot


async def ask_confirm(chat: Chat) -> object:
    return await confirm(chat, "Really?", yes="Do it", no="Don't")


async def ask_rating(chat: Chat) -> object:
    return await rating(chat, "How was it?", most=4)


async def ask_town(chat: Chat) -> object:
    return await pager(chat, "Where?", TOWNS)


async def ask_toppings(chat: Chat) -> object:
    return await multi_select(chat, "On top?", TOPPINGS, chosen=["h"], least=1, most=2)


async def ask_menu(chat: Chat) -> object:
    return await menu(chat, CARD)


async def ask_day(chat: Chat) -> object:
    first, last = date(2024, 1, 30), date(2024, 3, 2)
    return await calendar(chat, "Which day?", first=first, last=last, free=lambda day: day.weekday() < 5)


async def ask_jalali_day(chat: Chat) -> object:
    first, last = date(2024, 3, 18), date(2024, 4, 30)
    return await calendar(chat, "Which day?", first=first, last=last, system=JALALI)


def hours(day: date) -> Sequence[time]:
    return [] if day.day == 30 else [time(1, 30), time(2, 30), time(9)]


async def ask_time(chat: Chat) -> object:
    first, last = date(2024, 3, 30), date(2024, 4, 2)
    when = await date_time(chat, "When?", hours, first=first, last=last, tz=BERLIN)
    return when.isoformat()


CASES: Final[Mapping[str, tuple[Ask, Sequence[str], object]]] = {
    "confirm": (ask_confirm, ["Don't"], False),
    "rating": (ask_rating, ["3 ★"], 3),
    "pager": (ask_town, ["»", "»", "«", "Town 9"], 9),
    "multi_select": (
        ask_toppings,
        ["☑ Ham", "Done", "☐ Olives", "☐ Cheese", "☐ Ham", "Done"],
        ["c", "o"],
    ),
    "menu": (ask_menu, ["Food", "« Back", "Drinks", "Cold", "« Back", "Cold", "Dough"], "dough"),
    "calendar": (ask_day, ["»", "»", "«", "February 2024", "Mo", "29"], date(2024, 2, 29)),
    "calendar-jalali": (ask_jalali_day, ["»", "«", "»", "۱۲"], date(2024, 3, 31)),
    "date_time": (ask_time, ["»", "1", "«", "»", "2", "02:30"], "2024-04-02T02:30:00+02:00"),
}
each = pytest.mark.parametrize(("asks", "presses", "result"), CASES.values(), ids=CASES)


@pytest.mark.slow
@pytest.mark.parametrize("crashing", [False, True], ids=["undisturbed", "crashing"])
@each
async def test_it_gives_what_was_pressed(
    asks: Ask, presses: Sequence[str], result: object, crashing: bool, autojump_clock: object
) -> None:
    """Also if the process dies before each press, and after the last one."""
    async with drive(bot_that(asks)) as world:
        sara = world.user("Sara")
        await sara.joins()
        for label in presses:
            await world.waits(seconds=1)
            if crashing:
                await world.crashes()
            await sara.presses(label)
        if crashing:
            await world.crashes()
        await sara.sees(f"Got {result!r}")

        # One message for the question, whatever was pressed, and its buttons are gone.
        said = [seen for seen in await sara.history() if seen.from_bot]
        assert len(said) == 2
        assert [seen.buttons for seen in said] == [(), ()]


@each
async def test_a_block_around_it_ends_it(
    asks: Ask, presses: Sequence[str], result: object, autojump_clock: object
) -> None:
    async with drive(bot_that(asks)) as world:
        sara = world.user("Sara")
        await sara.joins()
        await world.waits(seconds=1)
        for label in presses[:-1]:
            await sara.presses(label)
            await world.waits(seconds=1)
        await world.crashes()
        await world.waits(hours=1)
        await sara.sees("Too late.")
        await sara.sees_buttons()


@each
async def test_an_interrupt_ends_it(
    asks: Ask, presses: Sequence[str], result: object, autojump_clock: object
) -> None:
    async with drive(bot_that(asks)) as world:
        sara = world.user("Sara")
        await sara.joins()
        await world.waits(seconds=1)
        for label in presses[:-1]:
            await sara.presses(label)
            await world.waits(seconds=1)
        await sara.says("/cancel")
        await sara.sees("Cancelled.")
        await sara.sees_buttons()


WEEK: Final = ("Mo", "Tu", "We", "Th", "Fr", "Sa", "Su")


async def test_a_month_is_shown_by_weeks_with_the_days_that_can_be_had(autojump_clock: object) -> None:
    async with drive(bot_that(ask_day)) as world:
        sara = world.user("Sara")
        await sara.joins()
        days = ["·"] * 29 + ["30", "31", *["·"] * 4]
        await sara.sees_buttons("January 2024", "»", *WEEK, *days)
        await sara.presses("»")
        weeks = [str(day) if (day - 1) % 7 not in (2, 3) else "·" for day in range(1, 30)]
        await sara.sees_buttons("«", "February 2024", "»", *WEEK, *["·"] * 3, *weeks, *["·"] * 3)
        await sara.presses("»")
        await sara.sees_buttons("«", "March 2024", *WEEK, *["·"] * 4, "1", *["·"] * 30)


async def test_the_calendar_of_iran_has_its_months_its_week_and_its_digits(autojump_clock: object) -> None:
    """Nowruz 1403 was on the 20th of March 2024, a Wednesday."""
    async with drive(bot_that(ask_jalali_day)) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("Which day?")
        await sara.presses("»")
        written = [JALALI.write(str(day)) for day in range(1, 32)]
        assert written[9] == "۱۰"
        week = ("ش", "ی", "د", "س", "چ", "پ", "ج")
        await sara.sees_buttons("«", "فروردین ۱۴۰۳", "»", *week, *["·"] * 4, *written)


async def test_the_calendar_of_iran_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "persiantools.jdatetime", None)
    with pytest.raises(ConfigError, match=r"pip install 'triobot-runtime\[jalali\]'"):
        JALALI.numbers(date(2024, 3, 20))


async def test_words_and_digits_are_the_authors(autojump_clock: object) -> None:
    async def ask(chat: Chat) -> object:
        german = attrs.evolve(GREGORIAN, weekdays=("Mo", "Di", "Mi", "Do", "Fr", "Sa", "So"), first_weekday=6)
        return await calendar(chat, "Wann?", first=date(2024, 9, 1), last=date(2024, 9, 2), system=german)

    async with drive(bot_that(ask)) as world:
        sara = world.user("Sara")
        await sara.joins()
        days = ["1", "2", *["·"] * 33]
        await sara.sees_buttons("September 2024", "So", "Mo", "Di", "Mi", "Do", "Fr", "Sa", *days)


async def test_a_time_that_a_day_has_not_is_not_offered(autojump_clock: object) -> None:
    """On the last Sunday of March the clocks of Berlin go from two to three."""
    async with drive(bot_that(ask_time)) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.presses("31")
        await sara.sees_buttons("01:30", "09:00", "«")
        await sara.presses("01:30")
        await sara.sees("Got '2024-03-31T01:30:00+01:00'")


async def test_too_few_and_too_many_are_told_on_the_button(autojump_clock: object) -> None:
    async with drive(bot_that(ask_toppings)) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.presses("☑ Ham")
        await sara.sees_buttons("☐ Cheese", "☐ Olives", "☐ Ham", "Done")
        await sara.presses("Done")
        await sara.sees_answer("≥ 1")
        await world.waits(seconds=1)
        for label in ("☐ Cheese", "☐ Olives", "☐ Ham"):
            await sara.presses(label)
            await world.waits(seconds=1)
        await sara.sees_answer("≤ 2")
        await sara.sees_buttons("☑ Cheese", "☑ Olives", "☐ Ham", "Done")


async def test_in_a_group_only_the_person_asked_can_press(autojump_clock: object) -> None:
    bot = Bot()

    @bot.conversation(command("ask"))
    async def ask(chat: Chat[Command]) -> None:
        assert chat.sender is not None
        shown = await chat.send("One moment.")
        town = await pager(chat, "Where?", TOWNS, into=shown, by=chat.sender.id)
        await chat.send(TOWNS[town])

    async with drive(bot) as world:
        sara, ali = world.user("Sara"), world.user("Ali")
        group = await world.group(sara, ali)
        await sara.at(group).says("/ask")
        await ali.at(group).presses("»")
        await ali.at(group).presses("Town 1")
        await sara.at(group).presses("Town 2")
        await sara.at(group).sees("Town 2")


async def no_day(chat: Chat) -> object:
    return await calendar(chat, "?", first=date(2024, 1, 1), last=date(2024, 1, 9), free=lambda day: False)


async def too_many_wanted(chat: Chat) -> object:
    return await multi_select(chat, "?", TOPPINGS, least=4)


async def no_rows(chat: Chat) -> object:
    return await pager(chat, "?", TOWNS, size=0)


async def no_stars(chat: Chat) -> object:
    return await rating(chat, "?", most=0)


async def no_towns(chat: Chat) -> object:
    return await pager(chat, "?", {})


async def no_card(chat: Chat) -> object:
    return await menu(chat, Menu[str]("?"))


@pytest.mark.parametrize("asks", [no_day, too_many_wanted, no_rows, no_stars, no_towns, no_card])
async def test_what_makes_no_question_is_refused(asks: Ask, autojump_clock: object) -> None:
    """Before the user could get stuck in it, or has even seen it."""

    async def ask(chat: Chat) -> object:
        try:
            return await asks(chat)
        except LocalProtocolError as error:
            return str(error)

    async with drive(bot_that(ask)) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees(
            re.compile("Got '(free: takes no day|least: must not|size: must|most: must|options: a|root:)")
        )
        assert not re.search(r"\?$", await world.transcript(), re.MULTILINE)


def test_two_menus_of_one_title_are_refused_where_they_are_declared() -> None:
    with pytest.raises(ConfigError, match="'Card' has two menus of the same title"):
        Menu("Card", {1: "One"}, [Menu("Two"), Menu("Two")])
