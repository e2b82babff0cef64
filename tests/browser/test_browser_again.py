"""Faults found under ``triobot dev`` in a real browser: find, mend, run again, and save the test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio
from chrome import Browser, Page
from test_browser_dev import developing, says, sees
from window import needs_browser

pytest.importorskip("watchfiles", reason="watchfiles is not installed (the extra dev)")
pytestmark = [needs_browser, pytest.mark.processes]

BOT = """\
from triobot import Bot, Chat

bot = Bot()


@bot.conversation
async def order(chat: Chat) -> None:
    n = int(await chat.ask("How many?"))
    price, old_price = 50, 100
    total = n * old_price
    await chat.send("They are fresh.")
    await chat.send("A good choice.")
    await chat.send(f"{n} cost {total}.")
    await chat.send("Thanks.")
"""
FRESH = '    await chat.send("They are fresh.")\n'
THEN = "[...document.querySelectorAll('.then-bubble.bot .then-text')].map((one) => one.textContent)"
KEPT = "test_order_1.py"


@pytest.mark.slow
async def test_a_wrong_variable_is_mended_run_again_and_kept(browser: Browser, tmp_path: Path) -> None:
    async with developing(browser, tmp_path, "echo", source=BOT) as page:
        await sees(page, "How many?")
        await says(page, "4")
        await sees(page, "Thanks.")
        await page.click("main [title^='Go through what happened']")
        await page.sees("total", within=".variables")
        mended = BOT.replace("n * old_price", "n * price").replace(FRESH, "")
        (tmp_path / "echo.py").write_text(mended)
        # The page reports the changed code by itself; the recorded messages stay.
        await page.sees("this conversation would go otherwise now", within=".travel-banner")
        assert await page.run(THEN) == [
            "How many?",
            "They are fresh.",
            "A good choice.",
            "4 cost 400.",
            "Thanks.",
        ]
        await keeps_again(page, "4 cost 400.200.")
        # One message is missing, and one has other words; the messages around them are unchanged.
        await page.sees("Not said now: They are fresh.", within=".branch")
        await page.has(".branch .missing", times=1)
        await page.has(".branch .row.differs", times=1)
        await page.has(".then-bubble.differs", times=2)
    assert "4 cost 200." in (tmp_path / "tests" / KEPT).read_text()
    assert (await run_by(tmp_path, mended), await run_by(tmp_path, BOT)) == (0, 1)


BRANCH = """\
from triobot import Bot, Chat

bot = Bot()


@bot.conversation
async def order(chat: Chat) -> None:
    n = int(await chat.ask("How many?"))
    if n < 3:
        await chat.send("Ten percent off.")
    else:
        await chat.send("The full price.")
    await chat.ask("Right?")
"""


@pytest.mark.slow
async def test_a_wrong_branch_is_found_by_the_lines_that_ran(browser: Browser, tmp_path: Path) -> None:
    """Three acts find the fault: open the time travel, go one turn back, show the turn's path."""
    mended = BRANCH.replace("n < 3", "n > 3")
    async with developing(browser, tmp_path, "echo", source=BRANCH) as page:
        await sees(page, "How many?")
        await says(page, "4")
        await sees(page, "Right?")
        await finds(page, TRAVEL, "Shift+ArrowLeft", "p")
        await page.has(".line.ran")
        ran = "[...document.querySelectorAll('.line.ran')].map((one) => one.textContent).join()"
        assert "full price" in await page.run(ran)
        (tmp_path / "echo.py").write_text(mended)
        await page.sees("this conversation would go otherwise now", within=".travel-banner")
        assert await page.run(THEN) == ["How many?", "The full price.", "Right?"]
        await keeps_again(page, "Ten percent off.")
    assert "Ten percent off." in (tmp_path / "tests" / KEPT).read_text()
    assert (await run_by(tmp_path, mended), await run_by(tmp_path, BRANCH)) == (0, 1)


TIME = """\
from triobot import Bot, Chat

bot = Bot()


@bot.conversation
async def order(chat: Chat) -> None:
    with chat.move_on_after(1.2) as block:
        await chat.send(f"{await chat.ask('Size?')}, on its way.")
    if block.cancelled_caught:
        await chat.send("Too slow.")
    await chat.ask("Anything else?")
"""


@pytest.mark.slow
async def test_a_timeout_that_is_too_short_is_found_where_it_fired(browser: Browser, tmp_path: Path) -> None:
    mended = TIME.replace("1.2", "120").replace("Too slow.", "Too late.")
    async with developing(browser, tmp_path, "echo", source=TIME) as page:
        await sees(page, "Anything else?")
        await says(page, "Large")
        await page.sees("Large", within=".row.mine .bubble")
        await finds(page, TRAVEL, "Home", "ArrowRight", "ArrowRight")
        await page.sees("The time was up", within=".notch-words")
        await page.sees("move_on_after(1.2)", within=".line.fired")
        await saves(tmp_path, page, mended)
        # A later visit shows the new code's words, too, and offers to give the answers to the new code.
        await page.press("Escape")
        await page.click(TRAVEL)
        await page.sees("it would say 1 of these messages otherwise", within=".travel-banner")
        await page.click(".travel-banner button")
        # The text answered another question then; now give the text to the open question.
        await page.push("button", "Give it all the same")
        await keeps(page, "Large, on its way.")
    assert (await run_by(tmp_path, mended), await run_by(tmp_path, TIME)) == (0, 1)


INTERRUPT = """\
from triobot import Bot, Chat
from triobot.filters import command, text

bot = Bot()


@bot.conversation(command("start"))
async def order(chat: Chat) -> None:
    name = await chat.ask("Your name?")
    await chat.ask(f"{name}, what size?")


@bot.interrupt(text("stop", "off", "Stopford"))
async def stop(chat: Chat) -> None:
    await chat.send("Stopped.")
"""


@pytest.mark.slow
async def test_an_interrupt_that_took_an_answer_is_found_from_it(browser: Browser, tmp_path: Path) -> None:
    mended = INTERRUPT.replace(', "Stopford"', "")
    async with developing(browser, tmp_path, "echo", source=INTERRUPT) as page:
        await says(page, "/start")
        await sees(page, "Your name?")
        await says(page, "Stopford")
        await sees(page, "Stopped.")
        # A person's message leads to the conversation that received the message.
        await page.click(".row.mine .where-sent")
        await page.sees("Stopped.", within=".line.lit")
        await goes_to(page, "order")
        await saves(tmp_path, page, mended)
        # The journal doesn't show which messages the mended interrupt would receive.
        await page.sees("Whether words or values are others now, Again shows.", within=".travel-banner")
        (tmp_path / "echo.py").write_text(mended.replace("bot = Bot()", "bot = Bot("))
        await page.sees("can’t be loaded", within=".travel-banner")
        await page.has(".travel-banner", times=1)
        await saves(tmp_path, page, mended)
        await page.click(".travel-banner button")
        await keeps(page, "Stopford, what size?")
    assert (await run_by(tmp_path, mended), await run_by(tmp_path, INTERRUPT)) == (0, 1)


PAID = """\
import attrs
from triobot import Bot, Chat, Paid
from triobot.filters import paid

bot = Bot()


@attrs.frozen
class Tea:
    size: str


@bot.conversation
async def order(chat: Chat) -> None:
    size = await chat.choose("Size?", {"Small": "Small", "Large": "Large"})
    await chat.charge(5_000, "Tea", item=Tea(size), late="refund")
    await chat.ask("Anything else?")


@bot.aside(paid(Tea))
async def deliver(chat: Chat[Paid[Tea]]) -> None:
    if chat.event.item.size == "large":
        await chat.send("Here is your tea.")
"""


@pytest.mark.slow
async def test_what_was_paid_and_not_delivered_is_found_from_the_payment(
    browser: Browser, tmp_path: Path
) -> None:
    mended = PAID.replace(".size ==", ".size.lower() ==")
    async with developing(browser, tmp_path, "echo", source=PAID) as page:
        await sees(page, "Size?")
        await page.click(".inline-button", "Large")
        await page.click(".inline-button.pay")
        await page.click(".payment [type=submit]")
        await page.sees("Anything else?", within=".bubble")
        await finds(page, ".thread .line:has-text(' paid ')")
        await goes_to(page, "deliver")
        await page.sees("if chat.event.item.size", within=".line.lit")
        await page.sees("Tea(size='Large')", within=".variables")
        await goes_to(page, "order")
        await saves(tmp_path, page, mended)
        await page.click(".travel-banner button")
        await keeps(page, "Here is your tea.")
        # A press or a payment, which removes buttons, isn't shown as a difference.
        await page.has(".branch .row.differs", times=1)
        await page.sees("Here is your tea.", within=".branch .row.differs")
        await page.has(".then-bubble.differs", times=0)
    assert (await run_by(tmp_path, mended), await run_by(tmp_path, PAID)) == (0, 1)


STEP = """\
import trio
from triobot import Bot, Chat

bot = Bot()


async def price_of(what: str) -> int:
    await trio.lowlevel.checkpoint()
    return {"tea": 5}[what]


@bot.conversation
async def order(chat: Chat) -> None:
    price = await chat.step(price_of, await chat.ask("What?"))
    await chat.ask(f"It costs {price}. Well?")
"""


@pytest.mark.slow
async def test_a_crash_in_a_step_is_run_again_once_mended(browser: Browser, tmp_path: Path) -> None:
    mended = STEP.replace('{"tea": 5}[what]', '{"tea": 5}.get(what, 7)')
    async with developing(browser, tmp_path, "echo", source=STEP) as page:
        await sees(page, "What?")
        await says(page, "coffee")
        await page.sees("failed here.", within=".standing")
        await finds(page, ".standing button", ".crash-frames li:last-child button")
        await page.sees("KeyError: 'coffee'", within=".crash-card")
        # The frames and variables of the step: a journal doesn't contain these.
        await page.sees("in price_of", within=".crash-step")
        await page.sees("what = 'coffee'", within=".crash-step")
        await page.sees('return {"tea": 5}[what]', within=".line.lit")
        await saves(tmp_path, page, mended)
        await page.click(".travel-banner button")
        await page.push("button", "Run it really")
        await page.push("button", "Run it", exact=True)
        await keeps(page, "It costs 7. Well?")
    assert (await run_by(tmp_path, mended), await run_by(tmp_path, STEP)) == (0, 1)


TRAVEL = "main [title^='Go through what happened']"


async def finds(page: Page, *acts: str) -> None:
    """Go from the chat to the cause in at most four acts: each is a key, or a selector to click."""
    assert len(acts) <= 4
    for act in acts:
        if act.replace("+", "").isalnum():
            await page.press(act)
        else:
            await page.click(act)
            await page.has(".travel .notch-words")


async def goes_to(page: Page, route: str) -> None:
    """Choose another conversation of the chat by the name of its route."""
    all_of_it = "[...document.querySelectorAll('.switcher option')].map((one) => one.textContent.trim())"
    await page.has(".switcher")
    await page.choose("Which conversation?", next(one for one in await page.run(all_of_it) if route in one))
    await page.has(".switcher")
    await page.has(".travel .notch-words")


async def saves(folder: Path, page: Page, source: str) -> None:
    (folder / "echo.py").write_text(source)
    await page.has(".travel-banner button")


async def keeps_again(page: Page, words: str) -> None:
    """Give the same answers to the mended code, wait for `words`, and save the branch as a test."""
    await page.click(".travel-banner button")
    await keeps(page, words)


async def keeps(page: Page, words: str) -> None:
    """Wait for `words` in the branch, and save the branch as a test."""
    await page.sees("All answers were given.")
    await page.sees(words, within=".branch")
    await page.push("button", "Keep as a test: The same answers for the new code")
    await page.sees(f"tests/{KEPT}", within=".kept-test .well")


async def run_by(folder: Path, source: str) -> int:
    """Run the bot's tests under `source`, as an author would; return the exit code."""
    (folder / "echo.py").write_text(source)
    command = [Path(sys.executable).with_name("pytest"), "-q", "-p", "no:cacheprovider"]
    done = await trio.run_process(command, cwd=folder, check=False, capture_stdout=True)
    return done.returncode
