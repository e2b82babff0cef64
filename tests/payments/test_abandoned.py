"""What a button costs that nobody pays: a bounded number of questions, and a row of the books."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import attrs
import pytest
import trio
from cashier_rig import HOUR, MINUTE, PRICE, again, open_till, settles
from trio.testing import MockClock

from triobot import Bot, Chat, Key, Paid
from triobot.errors import ForbiddenError
from triobot.filters import paid, text
from triobot.testing import drive

PEOPLE = 4
MONTHS = 12
EATEN = Key("eaten", int, default=0)


@attrs.frozen
class Pizza:
    size: str


def shop(late: Any) -> Bot:
    bot = Bot()

    @bot.conversation(text())
    async def sell(chat: Chat) -> None:
        await chat.charge(PRICE, "Pizza", item=Pizza("large"), late=late)

    @bot.aside(paid(Pizza))
    async def give(chat: Chat[Paid[Pizza]]) -> None:
        chat.data[EATEN] += 1

    return bot


def rows_of(world: Any) -> Counter[str]:
    sql = world._process._rows.sql
    tables = sql.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return Counter({name: sql.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for (name,) in tables})


@pytest.mark.parametrize("late", ["deliver", "refund"])
async def test_a_year_of_people_who_look_and_leave(autojump_clock: MockClock, late: str) -> None:
    """Each month the same people see the price, and nobody pays: two rows a button are all that grows."""
    async with drive(shop(late), replay_check=False) as world:
        people = [world.user(f"person {number}") for number in range(PEOPLE)]
        for person in people:
            await person.joins()
        counts: list[Counter[str]] = []
        for _ in range(MONTHS):
            for person in people:
                await person.says("pizza")
                await person.sees_buttons("Pay")
            await world.waits(days=30)
            counts.append(rows_of(world))

        # What ended a short while ago is there for a while, and how much that is hangs on chance.
        grown = {name: counts[-1][name] - counts[1][name] for name in counts[-1]}
        each = PEOPLE * (MONTHS - 2)
        growing = {name: more for name, more in grown.items() if more > each / 2}
        assert growing == {"payments": each, "payment_moves": each}


@pytest.mark.parametrize("kind", ["button", "invoice"])
@pytest.mark.parametrize("late", ["handler", "nobody"])
async def test_nobody_pays(autojump_clock: MockClock, kind: Any, late: Any) -> None:
    """Twelve pairs of questions in its life at most, ever farther apart; then one line of history."""
    async with open_till() as till:
        ticket = await till.charges(kind=kind, late=late)
        asked: list[float] = []
        done = len(till.line.asked)
        for _ in range(25 * 60):
            if len(till.line.asked) > done:
                asked.append(trio.current_time() / MINUTE)
            done = len(till.line.asked)
            if trio.current_time() > 24 * HOUR and await till.state(ticket.id) in ("open", "check"):
                await till.ends(ticket, "given_up")
            await trio.sleep(MINUTE)
        await trio.sleep(2 * HOUR)
        pairs = [path for path in till.line.asked if "inquiry" in path]
        assert len(pairs) <= 12
        assert sum("verify" in path for path in till.line.asked) == len(pairs)
        day = [at for at in asked if at < 24 * 60]
        assert all(
            later - soon >= soon - before - 1
            for before, soon, later in zip(day, day[1:], day[2:], strict=False)
        )
        assert await till.state(ticket.id) == "lapsed"
        assert await till.facts(ticket.id) == ["life_over"]
        assert await till.alarms() == set()


@pytest.mark.parametrize("minutes", [1, 17, 19, 35, 70, 100, 150, 175, 23 * 60 + 30])
async def test_a_lost_callback_is_found_in_its_hour(autojump_clock: MockClock, minutes: int) -> None:
    """In the first three hours of a button, and in the last hour before nobody waits any more."""
    async with open_till() as till:
        till.aside = settles
        ticket = await till.charges(late="nobody")
        await trio.sleep(minutes * MINUTE)
        till.pays()
        if minutes > 23 * 60:
            await trio.sleep(24 * HOUR - trio.current_time())
            await till.ends(ticket, "given_up")
        await trio.sleep(HOUR)
        assert [one.id for one in till.delivered] == [ticket.id]
        assert await till.alarms() == set()


@pytest.mark.parametrize("hours", [4, 9, 17])
@pytest.mark.parametrize("how", ["callback", "pressed", "started"])
async def test_who_pays_an_old_button_is_served_at_once(
    autojump_clock: MockClock, hours: int, how: str
) -> None:
    """By the callback; or where that is lost, by another press or a start of the program."""
    async with open_till() as till:
        till.aside = settles
        ticket = await till.charges()
        await trio.sleep(hours * HOUR + 23 * MINUTE)
        event = till.pays()
        if how == "callback":
            await till.posts(event)
        elif how == "pressed":
            await trio.sleep(30 * MINUTE)
            await till.posts(till.pays())
        else:
            async with again(till):
                await trio.sleep(5)
        await trio.sleep(5)
        assert [one.id for one in till.delivered] == [ticket.id]
        assert till.wallet == 10**9 - PRICE
        assert await till.alarms() <= {"declined_by_code"}


async def test_who_tries_again_is_looked_after_as_at_first(autojump_clock: MockClock) -> None:
    """A wallet that was too low, and is filled: its next callback may be lost, too."""
    async with open_till() as till:
        till.aside = settles
        ticket = await till.charges()
        await trio.sleep(15 * HOUR)
        await till.posts(till.pays(code=1000))
        notice = await ticket.wait_notice()
        assert notice is not None and notice.outcome == "retry"
        await trio.sleep(90 * MINUTE)
        till.pays()
        await trio.sleep(HOUR)
        assert [one.id for one in till.delivered] == [ticket.id]


async def test_what_is_unclear_for_weeks_is_asked_about_ever_more_rarely(autojump_clock: MockClock) -> None:
    """The platform refuses to speak of this chat, for ever: the history must not grow as the time does."""
    async with open_till() as till:
        ticket = await till.charges()
        till.line.fault = refuses
        await trio.sleep(24 * HOUR)
        await till.ends(ticket, "given_up")
        counts = [0]
        for _ in range(4):
            await trio.sleep(8 * 24 * HOUR)
            counts.append(len(await till.facts(ticket.id)))
        first, *_, last = (later - soon for soon, later in pairwise(counts))
        assert last < first / 8


def refuses(operation: Any) -> None:
    raise ForbiddenError(operation.path, 403, "no such chat")
