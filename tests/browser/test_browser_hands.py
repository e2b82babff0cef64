"""The page without a mouse, without an emulator, and with unusual contents."""

from __future__ import annotations

import io
import itertools

import pytest
import trio
from chrome import Browser
from window import Window, needs_browser, window

from triobot.wire.content import Descriptor, Image, Voice
from triobot.wire.markup import CallbackButton, InlineKeyboard

pytestmark = [needs_browser, pytest.mark.processes]

PAIR = InlineKeyboard(((CallbackButton("One", "1"), CallbackButton("Two", "2")),))
FOCUSED = "document.activeElement.innerText.trim()"


async def settled(shown: Window) -> None:
    """Wait until the page has drawn all messages so far."""
    await shown.page.wait(f"document.querySelector('[data-id=\"{shown.sends('.')}\"]')")


@pytest.mark.slow
async def test_the_next_address_opens_in_the_same_tab(browser: Browser) -> None:
    """The addresses differ only after the #, and a browser loads no new page for that."""
    async with window(browser) as shown:
        page = shown.page
        await page.run("sessionStorage.setItem('triobot-control', 'an-old-one')")
        await page.reload()
        await page.sees("Open the address", within=".gate")
        await page.open(shown.platform.page_address)
        await page.has(".thread")
        assert await page.run("location.hash") == ""
        page.errors[:] = [error for error in page.errors if "403" not in error]


@pytest.mark.slow
async def test_a_broken_address_asks_for_another(browser: Browser) -> None:
    async with window(browser) as shown:
        page = shown.page
        await page.run("sessionStorage.clear()")
        await page.open("about:blank")
        await page.open(f"{shown.platform.page_url}/#%zz")
        await page.sees("Open the address", within=".gate")
        page.errors[:] = [error for error in page.errors if "403" not in error]


@pytest.mark.slow
async def test_a_keyboard_keeps_its_place(browser: Browser) -> None:
    """A focused element keeps the focus when the page is drawn again."""
    async with window(browser) as shown:
        page = shown.page
        message = shown.sends("choose", buttons=PAIR)
        await page.has(f"[data-id='{message}']")
        await page.run("document.querySelectorAll('.inline-button')[1].focus()")
        await page.press("Enter")
        await page.has(".inline-button.waiting")
        await settled(shown)
        assert await page.run(FOCUSED) == "Two"

        for place in (".chat-item", ".thread-header .icon-button:last-child"):
            await page.run(f"document.querySelector({place!r}).focus()")
            await settled(shown)
            assert await page.run(f"document.activeElement.matches({place!r})")

        await page.click(".rail .tab", "Requests")
        call = shown.exchange.traffic.begin("event", "text", 0)
        shown.exchange.traffic.end(call, 0.1, 200)
        shown.exchange.tell()
        await page.has(".call-head")
        await page.run("document.querySelector('.call-head').focus()")
        await page.press("Enter")
        await page.wait("document.activeElement.ariaExpanded === 'true'")


async def test_dialogs_and_menus_by_keyboard(browser: Browser) -> None:
    """Tab stays in a dialog; arrows move in a menu; Escape returns to the menu's button."""
    async with window(browser) as shown:
        page = shown.page
        await page.click(".list-heading .icon-button", nth=0)
        for _ in range(8):
            await page.press("Tab")
            assert await page.run("Boolean(document.activeElement.closest('.sheet'))")
        await page.press("Escape")

        await page.run("document.querySelector('.composer .icon-button').focus()")
        await page.press("Enter")
        first = await page.run(FOCUSED)
        await page.press("ArrowDown")
        second = await page.run(FOCUSED)
        await page.press("ArrowUp")
        assert await page.run(FOCUSED) == first != second
        await page.press("Escape")
        assert await page.run("document.querySelector('.menu') === null")
        assert await page.run("document.activeElement.matches('.composer .icon-button')")
        # A private chat has one person: no button to choose another.
        assert await page.run("document.querySelector('.persona').tagName") == "SPAN"


@pytest.mark.slow
async def test_a_pile_of_marks_does_not_hold_the_page_up(browser: Browser) -> None:
    async with window(browser) as shown:
        page = shown.page
        shown.sends("A\u0301 na\u0308ive and then a" + "\u0301" * 50_000)
        await page.sees("na\u0308ive", within=".bubble")
        await settled(shown)
        assert await page.run("document.querySelector('.bubble .text').textContent.length") < 100


@pytest.mark.slow
async def test_descriptors_that_make_no_sense(browser: Browser) -> None:
    """A bot may send any descriptor; the page leaves out unusable parts."""
    async with window(browser) as shown:
        known = await shown.exchange.upload("voice", "a.bin", io.BytesIO(b"x"))
        odd = {**dict(known.fields), "filename": ["a"], "width": "<b>", "screenshots": {"x": "y"}}
        shown.sends(Image(Descriptor.from_object(odd)))
        wrong = Descriptor.from_object({**dict(known.fields), "duration": "abc", "filesize": "many"})
        shown.sends(Voice(wrong))
        await settled(shown)
        assert "NaN" not in await shown.page.run("document.querySelector('.messages').innerText")


@pytest.mark.slow
async def test_a_chat_that_nobody_reads_costs_little(browser: Browser) -> None:
    """The page keeps some hundred messages of each chat without a pane."""
    async with window(browser) as shown:
        page, world = shown.page, shown.platform.world
        ali = world.add_user("Ali")
        shown.joins(ali)
        for index in range(1_500):
            shown.sends(f"number {index}", chat=ali.chat_id)
            if index % 300 == 299:
                shown.exchange.tell()
                await trio.sleep(0.05)
        await page.sees("number 1499", within=".chat-item")
        await page.click(".chat-item", "Ali")
        await page.sees("number 1499", within=".bubble")
        assert await page.run("document.querySelectorAll('.row').length") <= 600
        await page.run("document.querySelector('.older').click()")
        await page.wait("document.querySelectorAll('.row').length > 300")
        shown.exchange.act(ali, lambda acting: acting.say("read"))
        await page.sees("read", within=".bubble")


@pytest.mark.slow
async def test_what_did_not_leave_is_not_lost(browser: Browser) -> None:
    """Without an emulator, the page shows its own error text, and keeps the typed text."""
    async with window(browser) as shown:
        page = shown.page
        async with page.refused("**/say"):
            await page.type("Is anybody there?", selector=".compose")
            await page.press("Enter")
            await page.sees("The emulator can't be reached", within=".toast")
            assert await page.run("document.querySelector('.compose').value") == "Is anybody there?"
        await page.press("Enter")
        await page.sees("Is anybody there?", within=".mine .bubble")
        page.errors[:] = [error for error in page.errors if "ERR_CONNECTION_REFUSED" not in error]


@pytest.mark.slow
async def test_panels_keep_the_focus(browser: Browser) -> None:
    async with window(browser) as shown:
        page = shown.page
        await page.click(".rail .tab", "Mischief")
        await page.click(".fault-error500")
        await page.sees("500", within=".planned")
        assert await page.run("document.activeElement.matches('.fault-error500')")
        await page.click(".rail .tab", "Wallet")
        await page.click(".balance .chip", "+100,000")
        await page.sees("1,100,000", within=".balance")
        assert "+100,000" in await page.run(FOCUSED)


@pytest.mark.slow
async def test_a_bot_in_a_loop_does_not_fill_the_memory(browser: Browser) -> None:
    """Not even while a person reads further up."""
    async with window(browser) as shown:
        page = shown.page
        for index in range(60):
            shown.sends(f"early {index}")
        await page.sees("early 59", within=".bubble")
        # Wait until the page is at the chat's end: only then a scroll leaves the end.
        await page.wait(
            "((one) => one.scrollTop > 0 && one.scrollHeight - one.scrollTop - one.clientHeight < 5)"
            "(document.querySelector('.scroller'))"
        )
        await page.run("document.querySelector('.scroller').scrollTop = 0")
        await page.wait("!document.querySelector('.jump').hidden")
        for index in range(1_500):
            shown.sends(f"number {index}")
            if index % 300 == 299:
                shown.exchange.tell()
                await trio.sleep(0.05)
        await page.sees("number 1499", within=".chat-item")
        await page.wait("document.querySelectorAll('.row').length <= 900")


@pytest.mark.slow
async def test_what_is_said_at_once_stands_side_by_side(browser: Browser) -> None:
    async with window(browser) as shown:
        page = shown.page
        await page.run(
            "Promise.resolve(load('sheet.js')).then(({toast}) => { for (const one of ['a', 'b', 'c', 'd'])"
            " toast(`${one} `.repeat(90), {place: document.querySelector('.thread')}); })"
        )
        boxes = await page.run(
            "[...document.querySelectorAll('.toast')].map((one) => one.getBoundingClientRect())"
            ".map(({top, bottom}) => [top, bottom])"
        )
        assert len(boxes) == 3  # the newest three are shown
        for (_, above), (below, _) in itertools.pairwise(boxes):
            assert above <= below
        assert boxes[0][0] > 0


@pytest.mark.slow
async def test_today_becomes_yesterday(browser: Browser) -> None:
    """After the clock is advanced, only the last day is today; a join stands below its day's heading."""
    async with window(browser, joined=False) as shown:
        page = shown.page
        days = "[...document.querySelectorAll('.messages .day')].map((one) => one.innerText)"
        await page.click(".join")
        await page.sees("joined", within=".messages")
        shown.sends("now")
        await page.sees("now", within=".bubble")
        assert (await page.run(days))[0] == "Today"
        shown.exchange.pass_time(86_400_000)
        shown.sends("later")
        await page.sees("later", within=".bubble")
        first, _, last = await page.run(days)
        assert last == "Today"
        assert first != "Today"
