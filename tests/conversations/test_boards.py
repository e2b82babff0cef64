"""Each tap on a board counts, as what stood on the screen when it was tapped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import date, datetime, time
from typing import Any, Final, cast
from zoneinfo import ZoneInfo

import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import ALI, CHAT, SARA, TEXTS, Town, open_town
from trio.testing import MockClock, wait_all_tasks_blocked

from triobot.conversations.chat import Chat
from triobot.conversations.questions.boards import TAPS
from triobot.conversations.questions.buttons import Buttons
from triobot.conversations.routes.filters import command, message
from triobot.conversations.routes.router import Router
from triobot.errors import BadRequestError, ConfigError, LocalProtocolError
from triobot.widgets import Menu, calendar, date_time, menu, multi_select, pager
from triobot.wire.operations import EditMessage, Operation
from triobot.wire.results import Sent

Ask = Callable[[Chat], Awaitable[object]]
BERLIN: Final = ZoneInfo("Europe/Berlin")
CARD: Final = Menu(
    "What?",
    {"bread": "Bread"},
    [
        Menu("Drinks", {"tea": "Tea"}, [Menu("More", {"dough": "Dough"})]),
        Menu("Food", {"kebab": "Kebab"}, [Menu("More", {"rice": "Rice"})]),
    ],
)


async def days(chat: Chat) -> object:
    return await multi_select(chat, "Days?", {n: f"d{n}" for n in range(6)}, least=1, most=5)


async def town_of(chat: Chat) -> object:
    return await pager(chat, "Where?", {n: f"Town {n}" for n in range(20)}, size=8)


async def dish(chat: Chat) -> object:
    return await menu(chat, CARD)


async def day_of(chat: Chat) -> object:
    return str(await calendar(chat, "Day?", first=date(2024, 1, 30), last=date(2024, 3, 2)))


async def moment(chat: Chat) -> object:
    def times(day: date) -> Sequence[time]:
        return [time(9), time(17)]

    when: datetime = await date_time(
        chat, "When?", times, first=date(2024, 1, 30), last=date(2024, 3, 2), tz=BERLIN
    )
    return f"{when:%d %H}"


TICKED: Final = {"☐ d0", "☑ d1", "☑ d2", "☐ d3", "☑ d4", "☑ d5", "Done"}
# All on the board that was shown first, and what is answered then or else shown.
TAPPED: Final[dict[str, tuple[Ask, Sequence[str], object]]] = {
    "six toggles": (days, ["☐ d0", "☐ d1", "☐ d2", "☐ d0", "☐ d4", "☐ d5"], TICKED),
    "done behind a toggle": (days, ["☐ d4", "Done"], [4]),
    "done behind another": (days, ["☐ d4", "☐ d3", "☐ d4", "Done"], [3]),
    "done too early": (days, ["Done", "☐ d3", "Done", "☐ d4"], [3]),
    "a page and an option of the one before": (town_of, ["»", "Town 3"], 3),
    "two pages": (town_of, ["»", "»"], {"«", *(f"Town {n}" for n in range(16, 20))}),
    "beyond the last page": (town_of, ["»"] * 5, {"«", *(f"Town {n}" for n in range(16, 20))}),
    "a menu beside the one that opens": (dish, ["Drinks", "Food"], {"More", "Kebab", "« Back"}),
    "an option above the menu that opens": (dish, ["Drinks", "Bread"], "bread"),
    "a day of the month before": (day_of, ["»", "»", "31"], "2024-01-31"),
    "beyond the last month": (day_of, ["»"] * 4 + ["30"], "2024-01-30"),
    "a heading": (day_of, ["January 2024", "Mo", "31"], "2024-01-31"),
    "another day": (moment, ["30", "31"], {"09:00", "17:00", "«"}),
    "a month, then a day": (moment, ["»", "30"], {"09:00", "17:00", "«"}),
}


def bot_that(asks: Ask) -> Router:
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    @bot.conversation
    async def ask(chat: Chat) -> None:
        await chat.send(f"Got {await asks(chat)!r}")

    return bot


def newest_labels(town: Town) -> set[str]:
    keyboard = town.edits()[-1].inline_keyboard
    return (
        set()
        if keyboard is None
        else {button.text for row in keyboard.rows for button in row if button.text != "·"}
    )


def check(town: Town, expected: object) -> None:
    if isinstance(expected, set):
        assert newest_labels(town) == expected
    else:
        assert town.sent()[-1] == f"Got {expected!r}"
        assert newest_labels(town) == set()
    assert [words for what, _, words in town.outbox.presses if words == TEXTS.expired] == []
    assert "crashed" not in town.counts


@pytest.mark.parametrize(("asks", "taps", "expected"), TAPPED.values(), ids=TAPPED)
async def test_each_tap_counts_before_an_edit_is_seen(
    asks: Ask, taps: Sequence[str], expected: object
) -> None:
    outbox = FakeOutbox()
    async with open_town(bot_that(asks), outbox=outbox) as town:
        await town.says("hi")
        held = outbox.hold(lambda op: isinstance(op, EditMessage))
        for label in taps:
            await town.presses(label)
        outbox.forget(held)
        held.release()
        await wait_all_tasks_blocked()
        check(town, expected)


@pytest.mark.parametrize("at", range(7))
@pytest.mark.parametrize(("asks", "taps", "expected"), TAPPED.values(), ids=TAPPED)
async def test_each_tap_counts_over_a_crash(
    asks: Ask, taps: Sequence[str], expected: object, at: int, autojump_clock: MockClock
) -> None:
    """Behind any of the taps, with none of their edits done."""
    outbox, store = FakeOutbox(), FakeStore()
    async with open_town(bot_that(asks), outbox=outbox, store=store) as town:
        await town.says("hi")
        held = outbox.hold(lambda op: isinstance(op, EditMessage))
        for label in taps[:at]:
            await town.presses(label)
        board = town.button
    outbox.forget(held)
    async with open_town(bot_that(asks), outbox=outbox, store=store) as town:
        for label in taps[at:]:
            message_id, data = board(label)
            await town.presses_data(data, message_id)
        await trio.sleep(1)
        check(town, expected)


async def test_a_board_of_before_is_no_other_s() -> None:
    """The same keys in the same message; the second click of a double click needs no word."""

    async def twice(chat: Chat) -> object:
        shown = await chat.send("One moment.")
        first = await multi_select(chat, "One?", {1: "one"}, into=shown)
        return first, await multi_select(chat, "Two?", {1: "one"}, into=shown)

    async with open_town(bot_that(twice)) as town:
        await town.says("hi")
        one, done, on = data_of(town, "☐ one"), data_of(town, "Done"), town.messages()[-1][0]
        for data in (done, done, one):
            await town.presses_data(data, on)
            await wait_all_tasks_blocked()
        assert town.edits()[-1].content == "Two?"
        assert newest_labels(town) == {"☐ one", "Done"}
        assert town.counts["expired"] == 2
        assert {words for what, _, words in town.outbox.presses if what == "refused"} == {""}


async def test_taps_wait_in_an_aside_too() -> None:
    """While another conversation asks something else."""
    bot = Router()

    @bot.aside(command("days"))
    async def aside(chat: Chat) -> None:
        await chat.send(f"Got {await days(chat)!r}")

    @bot.conversation
    async def other(chat: Chat) -> None:
        await chat.choose("Other?", {1: "One"})
        await chat.send("Other got it.")

    outbox = FakeOutbox()
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        await town.says("/days")
        held = outbox.hold(lambda op: isinstance(op, EditMessage))
        for label in ("☐ d0", "☐ d1", "One", "☐ d2", "Done"):
            await town.presses(label)
        outbox.forget(held)
        held.release()
        await wait_all_tasks_blocked()
        assert town.sent()[-2:] == ["Other got it.", "Got [0, 1, 2]"]


async def test_only_the_person_who_is_asked_taps() -> None:
    async def asks(chat: Chat) -> object:
        return await multi_select(chat, "Days?", {n: f"d{n}" for n in range(3)}, by=ALI.id)

    outbox = FakeOutbox()
    async with open_town(bot_that(asks), outbox=outbox) as town:
        await town.says("hi")
        held = outbox.hold(lambda op: isinstance(op, EditMessage))
        await town.presses("☐ d0", sender=SARA)
        await town.presses("☐ d1")
        await town.presses("☐ d2", sender=SARA)
        await town.presses("Done", sender=SARA)
        await town.presses("Done")
        outbox.forget(held)
        held.release()
        await wait_all_tasks_blocked()
        check(town, [1])
        assert town.counts["not_asked"] == 3


async def test_taps_without_end_take_no_room_without_end() -> None:
    outbox = FakeOutbox()
    async with open_town(bot_that(town_of), outbox=outbox) as town:
        await town.says("hi")
        held = outbox.hold(lambda op: isinstance(op, EditMessage))
        await town.presses("»", times=TAPS + 10)
        assert town.counts["not_asked"] == 9  # the first one is at work
        outbox.forget(held)
        held.release()
        await wait_all_tasks_blocked()
        assert len(town.edits()) == TAPS + 1


async def test_what_is_typed_meanwhile_is_told_to_be_unfit_once_it_rests() -> None:
    async with open_town(bot_that(days)) as town:
        await town.says("hi")
        await town.presses("☐ d1", wait=False)
        await town.says("what?")
        assert town.sent() == ["Days?", TEXTS.want_choice]
        await town.presses("Done")
        check(town, [1])


async def test_a_board_is_a_new_message_where_the_first_has_no_id() -> None:
    class NamelessAtFirst(FakeOutbox):
        def _usual(self, operation: Operation[object]) -> object:
            result = super()._usual(operation)
            return result if len(self.left) > 1 else Sent(operation.chat_id)  # type: ignore[attr-defined]

    async with open_town(bot_that(days), outbox=NamelessAtFirst()) as town:
        await town.says("hi")
        await town.presses_data(data_of(town, "☐ d1"), 7)
        await wait_all_tasks_blocked()
        assert town.sent() == ["Days?", "Days?"]
        await town.presses("☑ d1")
        await town.presses("☐ d2")
        await town.presses("Done")
        assert town.sent()[2:] == ["Got [2]"]


def data_of(town: Town, label: str) -> str:
    rows = cast("Any", town.operations()[-1]).inline_keyboard.rows
    return next(str(button.data) for row in rows for button in row if button.text == label)


@pytest.mark.parametrize("ends", ["cancel", "refused"])
async def test_its_buttons_go_however_it_ends(ends: str) -> None:
    outbox = FakeOutbox()
    async with open_town(bot_that(town_of), outbox=outbox) as town:
        await town.says("hi")
        if ends == "refused":
            outbox.fail(
                BadRequestError("editMessage", 400, "", None), lambda op: isinstance(op, EditMessage), times=1
            )
        await town.presses("»")
        if ends == "cancel":
            await town.says("/cancel")
        assert town.edits()[-1].inline_keyboard is None
        assert town.edits()[-1].content == "Where?"


async def test_a_board_is_for_its_block() -> None:
    bot = Router()
    errors: list[str] = []

    @bot.conversation
    async def ask(chat: Chat) -> None:
        board = chat.board()
        with pytest.raises(LocalProtocolError, match="inside of its block") as caught:
            await board.choose("?", {1: "One"})
        errors.append(str(caught.value))
        with chat.board() as board, pytest.raises(LocalProtocolError, match="at least one option"):
            await board.choose("?", Buttons[int]({}))
        with pytest.raises(LocalProtocolError, match="inside of its block"):
            await board.choose("?", {1: "One"})
        with pytest.raises(LocalProtocolError, match="of this chat"):
            chat.board(into=Sent(CHAT + 1, 1))  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="by="):
            chat.board(by=True)
        await chat.send("Done.")

    async with open_town(bot) as town:
        await town.says("hi")
        assert town.sent() == ["Done."]
    assert len(errors) == 1


async def test_a_tap_meets_a_parked_board() -> None:
    """It is kept for it, whichever turn it stood in."""

    def bot(*, broken: bool) -> Router:
        router = Router()

        async def asks(chat: Chat) -> None:
            if broken:
                await chat.sleep(1)
            chosen = await multi_select(chat, "Days?", {n: f"d{n}" for n in range(3)})
            await chat.send(f"Got {chosen!r}")

        router.conversation(message(), name="asks")(asks)
        return router

    outbox, store = FakeOutbox(), FakeStore()
    async with open_town(bot(broken=False), outbox=outbox, store=store) as town:
        await town.says("hi")
        await town.presses("☐ d1")
        await town.presses("☐ d2")
    async with open_town(bot(broken=True), outbox=outbox, store=store) as town:
        await town.presses("☐ d0")
        await town.presses("☐ d1")
        assert town.counts["kept_while_parked"] == 2
    async with open_town(bot(broken=False), outbox=outbox, store=store) as town:
        await wait_all_tasks_blocked()
        await town.presses("Done")
        assert town.sent()[-1] == "Got [0, 2]"
