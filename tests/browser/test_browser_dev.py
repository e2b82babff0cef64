"""``triobot dev`` in a real browser: the examples, with kills of the process and saves of the file."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from chrome import Browser, Page
from window import needs_browser

from tests.loopback import PATIENCE

pytest.importorskip("watchfiles", reason="watchfiles is not installed (the extra dev)")
pytestmark = [needs_browser, pytest.mark.processes]

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def developing(
    browser: Browser, folder: Path, example: str, *, join: bool = True, source: str | None = None
) -> AsyncGenerator[Page]:
    """Run ``triobot dev`` on a copy of an example, and open the printed address; at the end, send Ctrl-C.

    Args:
        source: a program to run instead of the example.
    """
    for name in (f"{example}.py", "pizza.jpg"):
        shutil.copy(ROOT / "examples" / name, folder)
    if source is not None:
        (folder / f"{example}.py").write_text(source)
    command = [sys.executable, "-m", "triobot", "dev", f"{example}.py:bot", "--port", "0"]
    with (folder / "log").open("wb") as log:
        popen = subprocess.Popen(
            command, cwd=folder, env={"PYTHONPATH": str(ROOT), "HOME": str(folder)}, stdout=log, stderr=log
        )
    try:
        with trio.fail_after(PATIENCE):
            while (found := re.search(r"http://\S+/#\S+", (folder / "log").read_text())) is None:
                assert popen.poll() is None, (folder / "log").read_text()
                await trio.sleep(0.05)
        async with browser.page(found[0]) as page:
            if join:
                await page.click(".join")
            yield page
            assert page.errors == []
        popen.send_signal(signal.SIGINT)
        assert await trio.to_thread.run_sync(partial(popen.wait, timeout=PATIENCE)) == 0
    finally:
        popen.kill()
        popen.wait()


async def says(page: Page, text: str) -> None:
    await page.type(text, selector=".compose")
    await page.press("Enter")


async def sees(page: Page, text: str) -> None:
    """Wait until the bot's newest message contains `text`."""
    await page.sees(text, within=".row.theirs:nth-last-child(1) .bubble")


@pytest.mark.slow
async def test_a_pizza_in_spite_of_everything(browser: Browser, tmp_path: Path) -> None:
    """Text, buttons, a location, a form, money; meanwhile a kill, a broken file, and the mended file."""
    source = tmp_path / "pizza.py"
    async with developing(browser, tmp_path, "pizza") as page:
        await sees(page, "Your name?")
        await says(page, "Sara")
        await sees(page, "Size?")

        await page.click(".rail .tab", "Mischief")
        await page.click(".kill")
        await page.sees("The bot was killed", within=".banner")
        await says(page, "/cancel")
        await page.click(".banner button", "Restart")
        # The restarted bot handles the message that was sent while no bot ran.
        await page.sees("ancel", within=".row.theirs:last-child")
        await page.wait("document.querySelector('.banner').hidden")

        good = source.read_text()
        source.write_text(good.replace("class Size(Enum):", "class Size(Enum)"))
        await page.sees("SyntaxError", within=".banner")
        source.write_text(good.replace("Your name?", "What is your name?"))
        await page.wait("document.querySelector('.banner').hidden")
        await says(page, "Hello")
        await sees(page, "What is your name?")

        await says(page, "Sara once more")
        await sees(page, "Size?")
        await page.click(".inline-button", "Large")
        await sees(page, "Where to?")
        await page.click(".composer .icon-button", nth=0)
        await page.click(".menu button", "Location")
        await page.click(".sheet .primary")
        await page.sees("How do we find you?")
        await page.type("three", selector=".native-form input[name=floor]")
        await page.type("Ahmadi", selector=".native-form input[name=doorbell]")
        await page.click(".submit")
        await page.sees("Floor: please enter a whole number.")
        # The second form has the typed values: only the wrong value must be changed.
        again = "[...document.querySelectorAll('.native-form')].at(-1).querySelector('input[name=%s]')"
        await page.has(".native-form", times=2)
        assert await page.run(f"{again % 'floor'}.value") == "three"
        assert await page.run(f"{again % 'doorbell'}.value") == "Ahmadi"
        await page.click(".native-form input[name=floor]", nth=-1)
        await page.run(f"{again % 'floor'}.select()")
        await page.type("3")
        await page.click(".submit")
        await page.click(".inline-button.pay", "Pay")
        await page.click(".payment [type=submit]")
        await page.sees("Thank you, Sara once more!", within=".bubble")
        await page.wait("document.querySelector('.picture img')?.naturalWidth > 0")
        await page.click(".rail .tab", "Wallet")
        await page.sees("9,750,000 rials", within=".balance")
        await page.sees("verified", within=".bill.captured")


async def test_a_shop_pages_and_is_paid(browser: Browser, tmp_path: Path) -> None:
    async with developing(browser, tmp_path, "shop") as page:
        await page.click(".rail .tab", "Bot")
        await page.sees("running", within=".phase-line")
        await page.sees("live conversations", within=".figure")
        await page.wait("document.querySelector('.figure b').textContent === '1'")
        await page.click(".inline-button", "Bread")
        await page.sees("Bread is in the cart.", within=".toast")
        await page.sees("In the cart: 1", within=".bubble")
        await page.click(".inline-button", "»")
        await page.sees("page 2", within=".bubble")
        assert await page.run("document.querySelectorAll('.row').length") == 1
        await says(page, "gs")
        await page.sees("2 items, page 1", within=".bubble")
        await page.click(".inline-button", "Pay 20,000")
        await page.click(".inline-button.pay")
        await page.click(".payment [type=submit]")
        await page.sees("On its way: Bread.", within=".bubble")
        await page.click(".inline-button", "The same again")
        await page.click(".inline-button.pay")
        await page.sees("20,000 rials", within=".sheet")
