"""Look, mend, again, keep: a wrong variable under ``triobot dev``, in a real browser."""

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
    await chat.send(f"{n} cost {total}.")
    await chat.send("Thanks.")
"""
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
        (tmp_path / "echo.py").write_text(BOT.replace("n * old_price", "n * price"))
        # The page says by itself that the code is other code; what was sent stays.
        await page.sees("this conversation would go otherwise now", within=".travel-banner")
        assert await page.run(THEN) == ["How many?", "4 cost 400.", "Thanks."]
        await keeps_again(page, "4 cost 400.200.")
        await page.has(".branch .row.differs", times=1)
        await page.has(".then-bubble.differs", times=1)
    assert "4 cost 200." in (tmp_path / "tests" / KEPT).read_text()
    assert await run_by(tmp_path, BOT.replace("n * old_price", "n * price")) == 0
    assert await run_by(tmp_path, BOT) == 1


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
    """Three actions: the past, one turn back, and the path of that turn."""
    mended = BRANCH.replace("n < 3", "n > 3")
    async with developing(browser, tmp_path, "echo", source=BRANCH) as page:
        await sees(page, "How many?")
        await says(page, "4")
        await sees(page, "Right?")
        await page.click("main [title^='Go through what happened']")
        await page.sees("Right?", within=".then")
        await page.press("Home")
        for _ in range(2):
            await page.press("ArrowRight")
        await page.press("p")
        await page.has(".line.ran")
        ran = "[...document.querySelectorAll('.line.ran')].map((one) => one.textContent).join()"
        assert "full price" in await page.run(ran)
        (tmp_path / "echo.py").write_text(mended)
        await page.sees("this conversation would go otherwise now", within=".travel-banner")
        assert await page.run(THEN) == ["How many?", "The full price.", "Right?"]
        await keeps_again(page, "Ten percent off.")
    assert "Ten percent off." in (tmp_path / "tests" / KEPT).read_text()
    assert (await run_by(tmp_path, mended), await run_by(tmp_path, BRANCH)) == (0, 1)


async def keeps_again(page: Page, words: str) -> None:
    """Give the mended code the same answers, see what it says, and keep that as a test."""
    await page.click(".travel-banner button")
    await page.sees("All answers were given.")
    await page.sees(words, within=".branch")
    await page.push("button", "Keep as a test: The same answers for the new code")
    await page.sees(f"tests/{KEPT}", within=".kept-test .well")


async def run_by(folder: Path, source: str) -> int:
    """Run the bot's own tests as an author does, under this code."""
    (folder / "echo.py").write_text(source)
    command = [Path(sys.executable).with_name("pytest"), "-q", "-p", "no:cacheprovider"]
    done = await trio.run_process(command, cwd=folder, check=False, capture_stdout=True)
    return done.returncode
