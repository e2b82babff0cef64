"""The browser's test helper: cancellation, timeouts, and error messages with the page's text."""

from __future__ import annotations

import pytest
import trio
from chrome import Browser, PageError
from window import needs_browser

pytestmark = [needs_browser, pytest.mark.processes]

BLANK = "data:text/html,<title>x</title><button>Press me</button><p>Nothing else</p>"


@pytest.mark.slow
async def test_what_is_cancelled_here_is_cancelled_there(browser: Browser) -> None:
    """Afterwards the tab answers the next call."""
    async with browser.page(BLANK) as page:
        with trio.move_on_after(0.2) as limit:
            await page.click("button", "Not there")
        assert limit.cancelled_caught
        assert await page.run("1 + 1") == 2


@pytest.mark.slow
async def test_several_wait_at_once(browser: Browser) -> None:
    async with browser.page(BLANK) as page, browser.page(BLANK) as other, trio.open_nursery() as nursery:
        nursery.start_soon(page.has, "i")
        nursery.start_soon(other.wait, "window.pressed")
        await page.run("document.body.append(document.createElement('i')), 1")
        await other.run("document.querySelector('button').onclick = () => { window.pressed = 1; }, 1")
        await other.click("button", "Press")


@pytest.mark.slow
async def test_nobody_waits_for_ever(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a promise that never ends has a timeout."""
    async with browser.page(BLANK) as page:
        # The patch ends before the page closes, since closing may take longer.
        with monkeypatch.context() as hurried, pytest.raises(trio.TooSlowError):
            hurried.setattr("chrome.GIVEN_UP", 0.2)
            await page.run("new Promise(() => {})")


@pytest.mark.slow
async def test_a_failure_says_what_the_page_shows(browser: Browser) -> None:
    async with browser.page(BLANK) as page:
        await page.run("setTimeout(() => { window.late = 1; throw Error('oops'); }), 1")
        await page.wait("window.late")
        with pytest.raises(PageError) as caught:
            await page.wait("false", seconds=0.1)
        assert "Nothing else" in str(caught.value)
        assert "oops" in str(caught.value)
        assert len(page.errors) == 1
        with pytest.raises(PageError, match="nowhere is not defined"):
            await page.run("nowhere")


@pytest.mark.slow
async def test_no_other_machine_is_reached(browser: Browser) -> None:
    """Nor this machine by an unusual address, which needs no name resolution."""
    async with browser.page(BLANK) as page:
        with pytest.raises(PageError, match="ERR_NAME_NOT_RESOLVED"):
            await page.open("http://127.0.0.2:18080/")
