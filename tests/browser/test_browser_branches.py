"""Branches under ``triobot dev``, in a real browser: other answers for a conversation, saved as a test."""

from __future__ import annotations

from pathlib import Path

import pytest
from chrome import Browser, Page
from test_browser_dev import developing
from test_browser_past import TRAVEL, fills, orders
from test_browser_travel import AXE, complaints
from window import needs_browser

from tests.samples import sample

pytest.importorskip("watchfiles", reason="watchfiles is not installed (the extra dev)")
pytestmark = [needs_browser, pytest.mark.processes]

BRANCH = ".branch"
LOOKS = (("dark", 390, 844), ("dark", 1280, 800), ("light", 1280, 800))
SETTLED = (
    "Promise.all(document.getAnimations().filter((one) => one.effect.getTiming().iterations < 9)"
    ".map((one) => one.finished)).then(() => undefined)"
)
SIZE = 4  # the notch at which Sara has pressed "Large"


async def goes_to(page: Page, notch: int) -> None:
    """Go from the first notch to `notch` by keys."""
    await page.run("document.querySelector('.travel input[type=range]').focus()")
    await page.press("Home")
    for _ in range(notch):
        await page.press("ArrowRight")
    await page.wait(
        "document.querySelector('.travel input[type=range]').getAttribute('aria-valuetext')"
        f".startsWith('Notch {notch} of ')"
    )


@pytest.mark.slow
async def test_an_order_goes_on_in_other_ways(browser: Browser, tmp_path: Path) -> None:
    """Branches with another answer, time, money and a step; the chat itself doesn't change."""
    async with developing(browser, tmp_path, "pizza") as page:
        await orders(page, "Sara")
        await page.type("Ahmadi", selector=".native-form input[name=doorbell]")
        await fills(page, "3", forms=1)
        await page.sees("Pay", within=".inline-button")
        await page.push("button", TRAVEL)
        await page.finds("slider", "Time line")

        # The branch starts before Sara's press: press another button.
        await goes_to(page, SIZE)
        await page.press("b")
        await page.finds("group", f"Branch at notch {SIZE}")
        await page.click(f"{BRANCH} .inline-button", "Small")
        await page.sees("Where to?", within=BRANCH)

        # A test is saved only after the test has passed.
        await page.push("button", f"Keep as a test: Branch at notch {SIZE}", exact=True)
        await page.sees("it passes, in", within=".kept-test")
        await page.sees("presses('Small')", within=".kept-test")
        await page.push("button", "Close", exact=True)

        # During the charge: Sara pays, and the kitchen's step asks for the result.
        await page.press("End")
        await page.push("button", "Answer differently", exact=True)
        await page.has(".branches [role=tab]", times=2)
        await page.click(f"{BRANCH} .inline-button", "Pay")
        await page.click(".sheet .primary")
        await page.sees("waits for you", within=BRANCH)
        await page.type("7", selector=f"{BRANCH} .asks input[name=value]")
        await page.push("button", "Return it", exact=True)
        await page.sees("Ready in 7 minutes", within=BRANCH)
        await page.push("button", "Throw away", exact=True)

        # In a third branch, ten minutes pass.
        await page.push("button", "Answer differently", exact=True)
        await page.has(".branches [role=tab]", times=2)
        await page.push("button", "+10 min", exact=True)
        await page.sees("Too slow, come back any time.", within=BRANCH)

        # The page asks before used branches are lost; the chat itself still waits for the payment.
        await page.push("button", "Back to now", exact=True)
        await page.click(".sheet .primary")
        await page.has(".travel:not([hidden])", times=0)
        await page.has(".thread .inline-button.pay", times=1)
        assert "Too slow" not in await page.run("document.body.innerText")


@pytest.mark.slow
async def test_what_crashed_is_run_again(browser: Browser, tmp_path: Path) -> None:
    """The mended code receives the same answer, and continues."""
    source = tmp_path / "pizza.py"
    async with developing(browser, tmp_path, "pizza", join=False) as page:
        good = source.read_text()
        asked = '    where = await chat.ask("Where to?", Location)\n'
        assert asked in good
        await page.run("void (window.world = load('world.js').world)")
        source.write_text(good.replace(asked, f"    print(name[99])\n{asked}"))
        await page.wait("window.world.bot?.starts === 2 && window.world.bot.phase === 'running'")
        await page.click(".join")
        await page.sees("Your name?")
        await page.type("Sara", selector=".compose")
        await page.press("Enter")
        await page.click(".inline-button", "Large")
        await page.sees("failed here.")
        await page.push("button", "Look at it")
        await page.finds("article", "IndexError")
        source.write_text(good)
        await page.wait("window.world.bot?.starts === 3 && window.world.bot.phase === 'running'")
        await page.push("button", "Run again from here", exact=True)
        await page.sees("Where to?", within=BRANCH)


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed (npm ci --prefix tests/browser)")
async def test_axe_finds_nothing_in_a_branch(browser: Browser, tmp_path: Path) -> None:
    """In both writing directions, in light and dark, on a phone: a step that asks, and a saved test."""
    async with developing(browser, tmp_path, "pizza") as page:
        await orders(page, "Sara")
        await page.type("Ahmadi", selector=".native-form input[name=doorbell]")
        await fills(page, "3", forms=1)
        await page.sees("Pay", within=".inline-button")
        for language in sample(("fa", "en"), every=2):
            await page.run(f"localStorage.setItem('triobot-language', '{language}')")
            await page.reload()
            await page.has(".thread .inline-button.pay")
            await page.run("location.hash = '#c/13601/1'")
            await page.has(".travel .line.lit")
            await page.has(".travel-head .primary")
            await page.press("b")
            await page.click(f"{BRANCH} .inline-button.pay")
            await page.click(".sheet .primary")
            await page.has(f"{BRANCH} .asks")
            for theme, wide, high in sample(LOOKS, every=2):
                await page.resize(wide, high)
                await page.run(f"void (document.documentElement.dataset.theme = '{theme}')")
                await page.run(SETTLED)
                assert await complaints(page) == []
            await page.click(f"{BRANCH} .branch-title .chip", nth=0)
            await page.has(".kept-test pre")
            assert await complaints(page, ".sheet") == []
            await page.press("Escape")
