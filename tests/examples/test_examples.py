"""Each example does what it says, tried as its author would: with the test kit alone."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import PIL.Image
import pytest

from triobot import Audio, Contact, File, Image, Location, Media, Video, Voice
from triobot.testing import drive

Example = Callable[[str], ModuleType]


def picture() -> bytes:
    """A small PNG."""
    written = io.BytesIO()
    PIL.Image.new("RGB", (8, 6), (200, 60, 40)).save(written, "PNG")
    return written.getvalue()


async def test_echo_says_everything_back(example: Example, autojump_clock: object) -> None:
    async with drive(example("echo").bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("Hello, سلام!")
        await sara.sees("You said:")
        await sara.sees("Hello, سلام!")
        await sara.says(Location("35.7", "51.3", "home"))
        await sara.sees(Location)
        await sara.says(Contact("+989100000000", "Ali"))
        await sara.sees(Contact)
        await sara.says(Image.from_bytes(png := picture(), "red.png", "red"))
        echoed = await sara.sees(Image)

        assert echoed.text == "red"
        assert await sara.opens(echoed) == png


async def test_a_quiz_counts_right_answers(example: Example, autojump_clock: object) -> None:
    async with drive(example("quiz").bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("Which planet is the largest?")
        await sara.presses("Jupiter")
        await sara.sees_answer("Right!")
        await sara.sees("How many strings has a tar?")
        await sara.presses("Four")
        await sara.sees_answer("No: Six.")
        await sara.sees("Which one is not a fruit?")
        await sara.presses("Potato")
        await sara.sees("2 of 3 right.")


async def test_a_quiz_goes_on_when_a_question_is_not_answered(
    example: Example, autojump_clock: object
) -> None:
    """And takes the question's buttons away, so that a late press answers nothing."""
    quiz = example("quiz")
    async with drive(quiz.bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("Which planet is the largest?")
        await world.waits(seconds=quiz.EACH)
        await sara.sees("Time is up for this one.")
        await sara.sees("How many strings has a tar?")
        await sara.presses("Six")
        await sara.sees("Which one is not a fruit?")
        await world.waits(seconds=quiz.EACH)
        await sara.sees("1 of 3 right.")

        assert [seen.buttons for seen in await sara.history()] == [()] * 6


async def test_a_quiz_ends_with_its_last_minute(example: Example, autojump_clock: object) -> None:
    quiz = example("quiz")
    quiz.EACH = 2 * quiz.WHOLE
    async with drive(quiz.bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("Which planet is the largest?")
        await world.waits(seconds=quiz.WHOLE)
        await sara.sees("That was the last minute.")
        await sara.sees("0 of 3 right.")


async def test_a_quiz_can_be_stopped(example: Example, autojump_clock: object) -> None:
    async with drive(example("quiz").bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("Which planet is the largest?")
        await sara.says("/stop")
        await sara.sees("No more questions.")
        await sara.says("/stop")
        await sara.sees("There is no quiz to stop.")


async def test_a_pizza_is_paid_and_delivered(example: Example, autojump_clock: object) -> None:
    """From the first question to the picture; a wallet that is too low is topped up on the way."""
    pizza = example("pizza")
    async with drive(pizza.bot) as world:
        sara = world.user("Sara", wallet=100_000)
        await sara.joins()
        await sara.sees("Your name?")
        await sara.says("Sara")
        await sara.sees("Size?")
        await sara.presses("Large")
        await sara.sees("Where to?")
        await sara.says("at home")
        await sara.sees("Please share a location.")
        await sara.shares_location()
        await sara.sees("How do we find you?")
        await sara.submits({"floor": "3", "doorbell": "Ahmadi"})
        await sara.sees("A large pizza")
        await sara.pays()
        await sara.sees("Your wallet's balance is too low. Top it up and press the button again.")
        await sara.tops_up(irr=200_000)
        await sara.pays()
        ready = await sara.sees(Image)

        assert ready.text == "Thank you, Sara! Ready in 30 minutes."
        assert await sara.opens(ready) == Path(pizza.PICTURE).read_bytes()
        assert (await sara.wallet())["IRR"] == 50_000


async def test_a_declined_pizza_is_nobody_s_alarm(example: Example, autojump_clock: object) -> None:
    """The user is told, and may start again."""
    async with drive(example("pizza").bot) as world:
        sara = world.user("Sara", wallet=1_000_000)
        await sara.joins()
        await sara.says("Sara")
        await sara.sees("Size?")
        await sara.presses("Small")
        await sara.sees("Where to?")
        await sara.shares_location()
        await sara.sees("How do we find you?")
        await sara.submits({"floor": "3", "doorbell": "Ahmadi"})
        await sara.sees("A small pizza")
        await sara.pays(code=1002)
        await sara.sees("The payment was declined, and nothing was taken. You can start again any time.")
        assert {alarm.kind for alarm in world.alarms} == {"declined_by_code"}
        world.alarms.clear()
        await sara.says("Hello again")
        await sara.sees("Your name?")


async def test_a_pizza_can_be_cancelled_anywhere(example: Example, autojump_clock: object) -> None:
    async with drive(example("pizza").bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("Your name?")
        await sara.says("/cancel")
        await sara.sees("Cancelled.")
        await sara.says("/cancel")
        await sara.sees("There is nothing to cancel.")
        await sara.says("Hello again")
        await sara.sees("Your name?")


async def test_a_shop_pages_in_one_message(example: Example, autojump_clock: object) -> None:
    """Through pages, a search, a cart and a payment, to the same again."""
    async with drive(example("shop").bot) as world:
        sara = world.user("Sara", wallet=500_000)
        await sara.joins()
        first = await sara.sees("7 items, page 1; write to search. In the cart: 0")
        assert first.buttons == (("Apples, 10,000",), ("Bread, 20,000",), ("Cheese, 30,000",), ("»",))
        await sara.presses("Bread, 20,000")
        await sara.sees_answer("Bread is in the cart.")
        await sara.sees("7 items, page 1; write to search. In the cart: 1")
        await sara.says("gs")
        search = await sara.sees("2 items, page 1; write to search. In the cart: 1")
        assert search.buttons == (("Eggs, 50,000",), ("Figs, 60,000",), ("Pay 20,000",))
        await sara.presses("Eggs, 50,000")
        await sara.sees("2 items, page 1; write to search. In the cart: 2")
        await sara.presses("Pay 70,000")
        await sara.sees("2 items.")
        await sara.sees("Bread, Eggs")
        await sara.pays()
        await sara.sees("Thank you! On its way: Bread, Eggs.")
        await sara.presses("The same again")
        await sara.sees("Bread, Eggs")
        await sara.pays()
        await sara.sees("Thank you! On its way: Bread, Eggs.")

        assert (await sara.wallet())["IRR"] == 500_000 - 2 * 70_000
        assert {seen.id for seen in await sara.history() if seen.text == "2 items."} == {first.id}


async def test_a_double_click_in_a_shop_skips_no_page(example: Example, autojump_clock: object) -> None:
    async with drive(example("shop").bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("7 items, page 1; write to search. In the cart: 0")
        await sara.presses("»", times=2)
        await sara.sees("7 items, page 2; write to search. In the cart: 0")
        await sara.presses("Dates, 40,000")
        await sara.sees_answer("Dates is in the cart.")
        await sara.sees("7 items, page 2; write to search. In the cart: 1")
        await sara.says("/leave")
        await sara.sees("Come back any time.")


@pytest.mark.parametrize("kind", [Image, Video, Audio, Voice, File])
async def test_files_come_back_with_their_checksum(
    example: Example, kind: type[Media], autojump_clock: object
) -> None:
    sent = picture() if kind is Image else bytes(range(256)) * 100
    async with drive(example("files").bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("Send me a picture, a video, a song, a voice message or a file.")
        await sara.says(kind.from_bytes(sent, "../a name.bin", "mine"))
        back = await sara.sees(kind)
        checksum = await sara.sees("its SHA-256")

        assert back.text == f"{kind.kind}, {len(sent)} bytes"
        assert await sara.opens(back) == sent
        assert (await sara.opens(checksum)).decode() == hashlib.sha256(sent).hexdigest()


async def test_a_moderator_warns_and_tells_the_owner(example: Example, autojump_clock: object) -> None:
    """Of forbidden words only; over a kill; and only the owner changes what is forbidden."""
    async with drive(example("moderator").bot) as world:
        ali, sara = world.user("Ali"), world.user("Sara")
        group = await world.group(ali, sara)
        await ali.joins()
        await ali.says("/start")
        await ali.sees("Take me into your group, and write there: /forbid WORD WORD. I report to you here.")
        await ali.at(group).says("/forbid Spam ads")
        await ali.at(group).sees("Forbidden: ads, spam.")
        await sara.at(group).says("/forbid nothing")
        await sara.at(group).sees("That is for whoever forbade the first word.")
        await sara.at(group).says("Good morning")
        for count in range(1, 4):
            await sara.at(group).says("Buy SPAM now")
            await sara.at(group).sees(f"Sara, not these words, please. That is warning {count} of 3.")
            await world.crashes()
        await ali.sees(f"Sara was warned 3 times; in the group: /pardon {sara.id}")
        await ali.at(group).says(f"/pardon {sara.id}")
        await ali.at(group).sees("Forgiven.")
        await sara.at(group).says("spam")
        await sara.at(group).sees("Sara, not these words, please. That is warning 1 of 3.")


async def test_a_moderator_slows_a_flood(example: Example, autojump_clock: object) -> None:
    async with drive(example("moderator").bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        for _ in range(30):
            await ali.says("/start")
        await world.waits(seconds=5)
        said = [seen.text for seen in await ali.history() if seen.from_bot]
        assert said.count("Slowly, please: I read twenty messages a minute.") == 1
        assert len(said) <= 21
