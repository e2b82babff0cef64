"""The list of chats: the order, the search, and few drawings; and texts of any length."""

from __future__ import annotations

import io

import pytest
from chrome import Browser
from window import Window, needs_browser, window

from triobot.wire.content import Image

pytestmark = [needs_browser, pytest.mark.processes]

NAMES = "[...document.querySelectorAll('.chat-item b')].map((one) => one.textContent)"


def people(shown: Window, count: int) -> None:
    """Add `count` people; each joins and gets a greeting."""
    for number in range(count):
        user = shown.platform.world.add_user(f"Person {number}")
        shown.joins(user)
        shown.exchange.clock.advance(1_000)
        shown.sends(f"hello {number}", chat=user.chat_id)
    shown.exchange.tell()


@pytest.mark.slow
async def test_the_newest_is_first_and_keeps_the_focus(browser: Browser) -> None:
    """A focused chat keeps the focus when the chat moves in the list."""
    async with window(browser) as shown:
        page = shown.page
        shown.sends("to Sara")
        people(shown, 3)
        await page.sees("hello 2", within=".chat-item")
        await page.wait(f"String({NAMES}) === 'Person 2,Person 1,Person 0,Sara'")
        assert await page.run("document.querySelector('.chats input')") is None

        await page.run("document.querySelectorAll('.chat-item')[2].focus()")
        third = next(user for user in shown.platform.world.people if user.name == "Person 0")
        shown.exchange.clock.advance(1_000)
        shown.sends("once more", chat=third.chat_id)
        await page.wait(f"String({NAMES}) === 'Person 0,Person 2,Person 1,Sara'")
        assert await page.run("document.activeElement.querySelector('b')?.textContent") == "Person 0"


@pytest.mark.slow
async def test_a_thousand_are_found_by_typing_and_drawn_once(browser: Browser) -> None:
    async with window(browser) as shown:
        page, world = shown.page, shown.platform.world
        people(shown, 999)
        world.add_group("a team of Person 7")
        shown.exchange.tell()
        await page.has(".chat-item", times=1_001)

        await page.run(
            "window.touched = new Set(), new MutationObserver((all) => all.forEach(({target}) =>"
            " touched.add(target))).observe(document.querySelector('.chats'),"
            " {subtree: true, childList: true, characterData: true}), 1"
        )
        [last] = [user for user in world.people if user.name == "Person 500"]
        shown.sends("only this one", chat=last.chat_id)
        await page.sees("only this one", within=".chat-item")
        # Only the chat's own entry changes: position, text and badge.
        assert await page.run("window.touched.size") <= 5

        await page.push("searchbox", "Find a chat")
        await page.type("person 77")
        await page.has(".chat-item", times=11)
        await page.press("Enter")
        await page.finds("button", "Person 779 hello 779")
        await page.wait("document.querySelector('.chat-item.open b').textContent === 'Person 779'")
        await page.push("searchbox", "Find a chat")
        await page.type("7 and nobody")
        await page.sees("No chat has this in its name.", within=".chats")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "caption"])
async def test_of_a_text_of_a_megabyte_the_beginning_is_shown(browser: Browser, kind: str) -> None:
    """A button shows the rest, also after the message is drawn again."""
    whole = "".join(f"word {number} " for number in range(90_000))
    async with window(browser) as shown:
        page = shown.page
        if kind == "text":
            shown.sends(whole)
        else:
            stored = await shown.exchange.upload("image", "x.png", io.BytesIO(b"x"))
            shown.sends(Image(stored, whole))
        await page.sees("word 0 word 1", within=".bubble")
        size = "document.querySelector('.bubble').textContent.length"
        assert await page.run(size) < 5_000
        await page.push("button", f"Show all {len(whole):,} letters")
        assert whole.rstrip() in await page.run("document.querySelector('.bubble').textContent")
        await page.lacks(".show-all")
